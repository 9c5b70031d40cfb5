"""Cuts what people write into sentences, in any script, and shortens one that is too long.

Sentences are read for a summary, not kept by position: markup goes, code becomes a short mention, and spaces that a
transcript puts around signs are closed again. No word is added but "code".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

HEAD: Final = 48_000  # characters of a message that are read from its start; nobody tells more of one message
TAIL: Final = 16_000  # and from its end
LONG: Final = 400  # characters without an end of a sentence; cut at a pause, or at a space

_FENCE: Final = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,32})[^\n]*\n(?:.*?^ {0,3}\1[`~]*[ \t]*$|.*)", re.M | re.S
)
_LEAD_IN: Final = re.compile(r":\s*\n\[(?=[^\]\n]{0,40}code\])")
_IMAGE: Final = re.compile(r"!\[([^\]\n]{0,200})\]\([^)\s]{1,2000}\)")
_LINK: Final = re.compile(r"\[([^\]\n]{1,200})\]\([^)\s]{1,2000}\)")
_URL: Final = re.compile(r"\bhttps?://(?:www\.)?([\w.-]{1,253})[^\s)>\]\"']*")
_LINE_MARK: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+•‣–][ \t]+|[0-9]{1,3}[.)][ \t]+|\|[ \t]?)", re.M)
_EMPHASIS: Final = re.compile(r"\*\*|__|~~|`|(?<!\w)[*_](?=\w)|(?<=[\w.,!?])[*_](?!\w)")
_RULE: Final = re.compile(r"^[ \t]*[-=_*|:+ \t]{3,}$", re.M)
# Transcripts write "that 's" and "No , I haven ' t .".
_SPACED: Final = re.compile(r"(?<=[^\W\d_]) ?(['’]) ?(s|t|m|d|ve|re|ll)\b(?!['’])", re.I)
_GAP: Final = re.compile(r" +(?=[,;:!?%](?:\s|$)|\.(?:\s|$)|n't\b)")
# Sounds of thinking and words said twice. "um" is a word in other languages, and "had had" and "no, no" mean something.
_HALTING: Final = re.compile(
    r"(?<![\w'-])(?:(?:um+|uh+|uhm+|erm+|hmm+|mm+)(?![\w'-])[,.]?\s*"
    r"|(i|you|he|she|it|we|they|the|a|an|to|of|in|on|for|with|and|or|but|so|if|is|are|was|my|your|this|i'm|it's)\s(?=\1\s))",
    re.I,
)
_ENGLISH: Final = re.compile(r"\b(?:the|and|you|it|of|this|that|have|it's|i'm|yeah)\b", re.I)

_ABBREVIATIONS: Final = (
    r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bMrs)(?<!\bProf)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)(?<!\bapprox)(?<!\bNo)"
)
_END: Final = re.compile(
    r"(?<![.!?…؟۔।])(?:(?<!\b[A-Z])" + _ABBREVIATIONS + r"\.(?!\s[0-9])(?!\w)|[.!?…؟۔।](?<!\.)|\.{2,})"
    r"[.!?…؟۔।]*+[\"'”’»)\]]*+(?=\s|$)|[。！？｡]++[」』”’）】]*+|\n+"
)
_PAUSE: Final = re.compile(r"(?<=[,;:—–])\s|(?<=[、，；：،؛])|\s[–—-]\s")
_SPACE: Final = re.compile(r"\s+")
# What follows such a word turns round or narrows what was said before it: there is no border in front of it.
_TURNING: Final = re.compile(
    r"\W*(?:but|though|although|unless|except|however|if|until|without|not|no|never|or|only|yet|because|when|while|than"
    r"|لكن|إلا|الا|بدون|إذا|但|但是|可是|除非|如果|aber|sondern|außer|wenn|mais|sauf|si|pero|salvo)\b",
    re.I,
)
_LEAST_KEPT: Final = 0.5  # of what fits: a shorter start is not worth its clean border
ELLIPSIS: Final = " …"


def sentences(text: str) -> list[str]:
    """The sentences of a message, cleaned, without empty ones."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    return [piece for found in _split(_clean(text)) for piece in _pieces(found)]


def tidy(text: str) -> str:
    """On one line, with the spaces people would write."""
    text = _SPACE.sub(" ", text).strip()
    if "'" in text or "’" in text:
        text = _SPACED.sub(lambda found: found[1] + found[2].lower(), text)
    text = _GAP.sub("", text)
    return _HALTING.sub("", text).strip() if _HALTING.search(text) and _ENGLISH.search(text) else text


def shorten(text: str, fits: Callable[[str], bool]) -> str:
    """As much of the start as fits with a sign that something is missing; nothing if nothing does."""
    if fits(text):
        return text
    borders = [found.start() for found in _SPACE.finditer(text)] or list(range(1, len(text)))
    low, high = 0, len(borders)
    while low < high:
        middle = (low + high) // 2
        if fits(_bare(text[: borders[middle]]) + ELLIPSIS):
            low = middle + 1
        else:
            high = middle
    while low and not fits(_bare(text[: borders[low - 1]]) + ELLIPSIS):
        low -= 1
    if not low:
        return _characters(text[: borders[0]] if borders else text, fits)
    end = borders[low - 1]
    return _bare(text[: _pause(text, end)]) + ELLIPSIS


def _characters(word: str, fits: Callable[[str], bool]) -> str:
    size = len(word)
    while size and not fits(word[:size] + ELLIPSIS):
        size //= 2
    return word[:size] + ELLIPSIS if size else ""


def _pause(text: str, end: int) -> int:
    """The last pause before `end` behind which nothing turns the meaning, else `end`."""
    for found in reversed(list(_PAUSE.finditer(text, int(end * _LEAST_KEPT), end))):
        if not _TURNING.match(text, found.end()):
            return found.start()
    return end


def _bare(text: str) -> str:
    return text.rstrip(" ,;:—–-、，；：،؛")


def _clean(text: str) -> str:
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(lambda found: f"[{found[2]} code]" if found[2] else "[code]", text)
        text = _LEAD_IN.sub(": [", text)
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)) if "](" in text else text
    text = _URL.sub(lambda found: found[1].rstrip("."), text) if "://" in text else text
    return _EMPHASIS.sub("", _LINE_MARK.sub("", _RULE.sub("", text)))


def _split(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        yield text[start : end.end()]
        start = end.end()
    yield text[start:]


def _pieces(text: str) -> Iterator[str]:
    """The sentence, or its parts if it goes on and on."""
    text = tidy(text)
    while len(text) > LONG:
        end = _pause(text, LONG)
        if end == LONG:
            end = max(text.rfind(" ", LONG // 2, LONG), 0) or LONG
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text
