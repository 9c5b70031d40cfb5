"""Links and named sources, in any language, wherever in a message they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import URL
from recollect.core.extract.rules import Finding

MOST: Final = 64
READ: Final = 1_000_000  # characters

_SCHEME: Final = re.compile(r"(?<![\w@])(?:https?|ftp)://[^\s<>\"'`|\\^{}«»“”،؛]{3,500}", re.IGNORECASE)
_BARE: Final = re.compile(
    r"(?<![\w@./-])(?:www\.[a-z0-9-]{1,60}\.[a-z]{2,12}(?:[\w./?=&%#~:+-]{0,200})"
    r"|(?:[a-z0-9-]{1,40}\.){1,3}(?:com|org|net|edu|gov|io|dev|info|om|ae|sa|eu|de|uk|fr"
    r"|int)/[\w./?=&%#~:+-]{1,200})",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(
    r"(?:^|[\n.] ?)(?:(?:important|key|main|primary|my|our|the|additional) ){0,2}(?:sources?"
    r"|references?|links?|urls?) ?: ?([^\n]{3,400})"
    r"|(?:^|[\n.] ?)(?:المصادر|مصادر|المراجع|الروابط)(?: المهمة| الرئيسية| الأساسية)? ?: ?([^\n]{3,400})",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"(?:[\w-]{1,40}\.)+[a-z]{2,12}(?:/[\w./?=&%#~:+-]{0,200})?|[a-z]+\d+", re.IGNORECASE)
_TRAILING: Final = ".,;:!?…)]}'*_،؛؟"


def sources(text: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for found in islice(_found(text[:READ]), MOST * 4):
        if found not in seen and len(found) > 3 and len(seen) < MOST:
            seen.add(found)
            yield Finding(URL, "source", found, found)


def _found(text: str) -> Iterator[str]:
    spans: list[tuple[int, str]] = []
    if "://" in text:
        spans += [(match.start(), _trim(match[0])) for match in islice(_SCHEME.finditer(text), MOST)]
    if ("." in text and "/" in text) or "www." in text:
        spans += [(match.start(), _trim(match[0])) for match in islice(_BARE.finditer(text[:100_000]), MOST)]
    for listed in islice(_LISTED.finditer(text[:100_000]), 8):
        group = 1 if listed[1] else 2
        if "://" not in listed[group]:
            for item in re.split(r"[,،;] ?| and | و ?", listed[group])[:MOST]:
                if _NAMED.fullmatch(bare := _trim(item.strip())):
                    spans.append((listed.start(group), bare))
    yield from (url for _, url in sorted(spans, key=lambda span: span[0]))


def _trim(url: str) -> str:
    """Without the punctuation of the sentence; a bracket stays if it was opened inside."""
    while url and url[-1] in _TRAILING:
        if url[-1] == ")" and url.count("(") >= url.count(")"):
            break
        url = url[:-1]
    return url
