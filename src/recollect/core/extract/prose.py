"""Splits a message into the sentences that its writer wrote: no code, quotations, logs or pasted text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_READ_CHARS: Final = 20_000  # more is hardly typed at once
MAX_SENTENCES: Final = 400
MAX_SENTENCE_CHARS: Final = 1_000  # a longer piece is no sentence and is left out
MAX_LIST_ITEMS: Final = 24  # under one heading


class Sentence(NamedTuple):
    """One sentence. `items` are the lines of the list that it introduces."""

    text: str
    items: tuple[str, ...] = ()


def split_prose(text: str) -> list[Sentence]:
    """Return the writer's own sentences in their order, each once."""
    sentences: list[Sentence] = []
    items: list[str] = []
    for line in _own_lines(text[:MAX_READ_CHARS]):
        mark = _LIST_MARK.match(line)
        if sentences and mark and sentences[-1].text.endswith((":", "：")) and len(items) < MAX_LIST_ITEMS:
            items.append(_clean(line[mark.end() :]))
            continue
        if items:
            sentences[-1] = sentences[-1]._replace(items=tuple(items))
            items = []
        body = _clean(line[mark.end() :] if mark else line)
        sentences += [Sentence(piece) for piece in _split_line(body) if len(piece) <= MAX_SENTENCE_CHARS]
    if items:
        sentences[-1] = sentences[-1]._replace(items=tuple(items))
    return list(dict.fromkeys(sentences))[:MAX_SENTENCES]


def _own_lines(text: str) -> Iterator[str]:
    """Yield the lines in the writer's own words. Everything after the introduction of pasted text is left out."""
    fence = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")) and (not fence or stripped.startswith(fence)):
            fence = "" if fence else stripped[:3]
            continue
        if fence or not stripped or _NOT_PROSE.match(stripped):
            continue
        if _PASTE_INTRODUCTION.search(stripped[-120:]) or _EMAIL_HEADER.match(stripped):
            yield stripped.partition(":")[0]
            return
        yield stripped


_LIST_MARK: Final = re.compile(r"\s*(?:[-*+•–]|\(?[0-9٠-٩]{1,3}[.)\-]|[a-hA-H][.)])\s+(?=\S)")
# Quotes, tables, commands, logs, stack traces and code.
_NOT_PROSE: Final = re.compile(
    r">|\||[$#%] ?[a-z./~]|>>>|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d|\[?(?:INFO|DEBUG|WARN"
    r"(?:ING)?|ERROR|TRACE|FATAL)\b[\]: ]"
    r"|Traceback |File \"|at [\w.$<>]{1,80}\(|[\w.]{1,60}(?:Error|Exception)\b:|[{}\[\]<]"
    r"|\"\w{1,40}\" ?:|(?:diff|@@|\+\+\+|---) "
    r"|(?:import|from|def|class|const|let|var|function|public|private|return|SELECT|INSERT|UPDATE"
    r"|CREATE) .{0,80}[;{(:=]$"
)
_EMAIL_HEADER: Final = re.compile(r"(?:From|Subject|Sent|To|Von|Betreff|De|Objet|من|الموضوع): \S")
# A line that introduces pasted text: "Translate this:".
_PASTE_INTRODUCTION: Final = re.compile(
    r"\b(?:here(?:'s| is| are)|below is|following|this is|summari[sz]e|translate|proofread"
    r"|re-?write|paraphrase|correct|edit"
    r"|improve|revise|shorten|explain|analy[sz]e|classify|extract)\b[^:]{0,80}:$"
    r"|(?:ترجم|لخص|صحح|أعد صياغة|اعد صياغة|هذا نص|إليك نص|راجع)[^:]{0,80}:$",
    re.IGNORECASE,
)
_QUOTATION: Final = re.compile(r"[\"“«]([^\"“”«»]{1,600})[\"”»]")
# Words that show that a quotation is speech and no title.
_SPEECH: Final = re.compile(r"\b(?:I|I'm|I've|my|me|we|our|you|your)\b|[\u0620-\u064a]", re.IGNORECASE)
_CLEANED_CHARACTERS: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": None, "*": None, "\u200b": None, "\ufeff": None}
)
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?؟…۔])[\"'”’)\]]{0,3}\s|(?<=[。！？])|\s(?=[\U0001f300-\U0001faff])|(?<=[\U0001f300-\U0001faff])\s"
)
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|approx|Nr|Sr|Jr|Eng)|(?:^|[A-Z][\w.]{0,15} )[A-HJ-Z]|(?:^|\s)(?:د|م|أ|ا))\.$"
)
_INLINE_LIST: Final = re.compile(r": ?1[.)] ")
_LIST_NUMBER: Final = re.compile(r"(?:^|[\s:])\d{1,2}\.$")
# Abbreviations that end no sentence if a small letter follows.
_SOFT_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|a\.m|p\.m|U\.S|etc)\.$")


def _clean(line: str) -> str:
    """Return a line without marks of layout and without longer quotations."""
    text = _QUOTATION.sub(_keep_title, line.translate(_CLEANED_CHARACTERS)[:MAX_READ_CHARS])
    return " ".join(text.replace("__", "").lstrip("# ").split())


def _keep_title(quotation: re.Match[str]) -> str:
    """Return a quotation if it is a title or very short; else a mark of omission."""
    words = len(quotation[1].split())
    return quotation[0] if words < 3 or (words < 9 and not _SPEECH.search(quotation[1])) else " “…” "


def _split_line(line: str) -> Iterator[str]:
    """Yield the sentences of a line."""
    start = 0
    has_list = _INLINE_LIST.search(line) is not None
    for end in _SENTENCE_END.finditer(line):
        piece = line[start : end.start()]
        if has_list and _LIST_NUMBER.search(piece[-4:]):
            continue
        if _ABBREVIATION.search(piece[-20:]) or (
            _SOFT_ABBREVIATION.search(piece[-8:]) and line[end.end() : end.end() + 1].islower()
        ):
            continue
        if piece.strip():
            yield piece.strip()
        start = end.start()
        while start < len(line) and line[start] in " \"'”’)]":
            start += 1
    if line[start:].strip():
        yield line[start:].strip()
