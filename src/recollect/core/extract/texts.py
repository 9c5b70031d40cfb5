"""What of a message is the writer's own prose: not code, quotations, logs or pasted text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

READ: Final = 20_000  # characters of own words; nobody types more at once
MOST: Final = 400  # sentences
SENTENCE: Final = 1_000  # characters; what is longer is no sentence
ITEMS: Final = 24  # of a list under a heading


class Sentence(NamedTuple):
    """One sentence; `items` are the lines of the list that it introduces."""

    text: str
    items: tuple[str, ...] = ()


def sentences(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    items: list[str] = []
    for line in own_lines(text[:READ]):
        item = _ITEM.match(line)
        if found and item and found[-1].text.endswith((":", "：")) and len(items) < ITEMS:
            items.append(_plain(line[item.end() :]))
            continue
        if items:
            found[-1] = found[-1]._replace(items=tuple(items))
            items = []
        body = _plain(line[item.end() :] if item else line)
        found += [Sentence(piece) for piece in _split(body) if len(piece) <= SENTENCE]
    if items:
        found[-1] = found[-1]._replace(items=tuple(items))
    return list(dict.fromkeys(found))[:MOST]


def own_lines(text: str) -> Iterator[str]:
    """Lines in the writer's own words."""
    fence = ""
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("```", "~~~")) and (not fence or bare.startswith(fence)):
            fence = "" if fence else bare[:3]
            continue
        if fence or not bare or _FOREIGN.match(bare):
            continue
        if _PASTED.search(bare[-120:]) or _HEADER.match(bare):
            yield bare.partition(":")[0]
            return
        yield bare


_ITEM: Final = re.compile(r"\s*(?:[-*+•–]|\(?[0-9٠-٩]{1,3}[.)\-]|[a-hA-H][.)])\s+(?=\S)")
_FOREIGN: Final = re.compile(
    r">|\||[$#%] ?[a-z./~]|>>>|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d|\[?(?:INFO|DEBUG|WARN"
    r"(?:ING)?|ERROR|TRACE|FATAL)\b[\]: ]"
    r"|Traceback |File \"|at [\w.$<>]{1,80}\(|[\w.]{1,60}(?:Error|Exception)\b:|[{}\[\]<]"
    r"|\"\w{1,40}\" ?:|(?:diff|@@|\+\+\+|---) "
    r"|(?:import|from|def|class|const|let|var|function|public|private|return|SELECT|INSERT|UPDATE"
    r"|CREATE) .{0,80}[;{(:=]$"
)
_HEADER: Final = re.compile(r"(?:From|Subject|Sent|To|Von|Betreff|De|Objet|من|الموضوع): \S")
_PASTED: Final = re.compile(
    r"\b(?:here(?:'s| is| are)|below is|following|this is|summari[sz]e|translate|proofread"
    r"|re-?write|paraphrase|correct|edit"
    r"|improve|revise|shorten|explain|analy[sz]e|classify|extract)\b[^:]{0,80}:$"
    r"|(?:ترجم|لخص|صحح|أعد صياغة|اعد صياغة|هذا نص|إليك نص|راجع)[^:]{0,80}:$",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"[\"“«]([^\"“”«»]{1,600})[\"”»]")
_SPOKEN: Final = re.compile(r"\b(?:I|I'm|I've|my|me|we|our|you|your)\b|[\u0620-\u064a]", re.IGNORECASE)
_SIGNS: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": None, "*": None, "\u200b": None, "\ufeff": None})
_END: Final = re.compile(
    r"(?<=[.!?؟…۔])[\"'”’)\]]{0,3}\s|(?<=[。！？])|\s(?=[\U0001f300-\U0001faff])|(?<=[\U0001f300-\U0001faff])\s"
)
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|approx|Nr|Sr|Jr|Eng)|(?:^|[A-Z][\w.]{0,15} )[A-HJ-Z]|(?:^|\s)(?:د|م|أ|ا))\.$"
)
_NUMBERED: Final = re.compile(r": ?1[.)] ")  # a list within a line
_NUMBER: Final = re.compile(r"(?:^|[\s:])\d{1,2}\.$")
_SHORT: Final = re.compile(r"\b(?:e\.g|i\.e|a\.m|p\.m|U\.S|etc)\.$")


def _plain(line: str) -> str:
    """Without marks of layout, and without what is quoted at length."""
    return " ".join(_QUOTED.sub(_title, line.translate(_SIGNS)[:READ]).replace("__", "").lstrip("# ").split())


def _title(quoted: re.Match[str]) -> str:
    """A title stays; what someone says goes."""
    words = len(quoted[1].split())
    return quoted[0] if words < 3 or (words < 9 and not _SPOKEN.search(quoted[1])) else " “…” "


def _split(line: str) -> Iterator[str]:
    start = 0
    numbered = _NUMBERED.search(line) is not None
    for end in _END.finditer(line):
        piece = line[start : end.start()]
        if numbered and _NUMBER.search(piece[-4:]):
            continue
        if _ABBREVIATION.search(piece[-20:]) or (
            _SHORT.search(piece[-8:]) and line[end.end() : end.end() + 1].islower()
        ):
            continue
        if piece.strip():
            yield piece.strip()
        start = end.start()
        while start < len(line) and line[start] in " \"'”’)]":
            start += 1
    if line[start:].strip():
        yield line[start:].strip()
