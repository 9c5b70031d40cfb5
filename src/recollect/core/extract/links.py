"""Finds links and named sources anywhere in a message, in any language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import URL
from recollect.core.extract.rules import RuleMatch

MAX_LINKS_PER_MESSAGE: Final = 64
MAX_READ_CHARS: Final = 1_000_000
_MAX_SEARCHED_CHARS: Final = 100_000  # by the slower patterns
_MAX_SOURCE_LISTS: Final = 8

_URL_WITH_SCHEME: Final = re.compile(r"(?<![\w@])(?:https?|ftp)://[^\s<>\"'`|\\^{}«»“”،؛]{3,500}", re.IGNORECASE)
_URL_WITHOUT_SCHEME: Final = re.compile(
    r"(?<![\w@./-])(?:www\.[a-z0-9-]{1,60}\.[a-z]{2,12}(?:[\w./?=&%#~:+-]{0,200})"
    r"|(?:[a-z0-9-]{1,40}\.){1,3}(?:com|org|net|edu|gov|io|dev|info|om|ae|sa|eu|de|uk|fr"
    r"|int)/[\w./?=&%#~:+-]{1,200})",
    re.IGNORECASE,
)
# A line such as "Sources: …".
_SOURCE_LIST: Final = re.compile(
    r"(?:^|[\n.] ?)(?:(?:important|key|main|primary|my|our|the|additional) ){0,2}(?:sources?"
    r"|references?|links?|urls?) ?: ?([^\n]{3,400})"
    r"|(?:^|[\n.] ?)(?:المصادر|مصادر|المراجع|الروابط)(?: المهمة| الرئيسية| الأساسية)? ?: ?([^\n]{3,400})",
    re.IGNORECASE,
)
_SOURCE_NAME: Final = re.compile(r"(?:[\w-]{1,40}\.)+[a-z]{2,12}(?:/[\w./?=&%#~:+-]{0,200})?|[a-z]+\d+", re.IGNORECASE)
_TRAILING_PUNCTUATION: Final = ".,;:!?…)]}'*_،؛؟"


def find_links(text: str) -> Iterator[RuleMatch]:
    """Yield the links and named sources of a message in their order, each once."""
    seen: set[str] = set()
    for link in islice(_find_all(text[:MAX_READ_CHARS]), MAX_LINKS_PER_MESSAGE * 4):
        if link not in seen and len(link) > 3 and len(seen) < MAX_LINKS_PER_MESSAGE:
            seen.add(link)
            yield RuleMatch(URL, "source", link, link)


def _find_all(text: str) -> Iterator[str]:
    links: list[tuple[int, str]] = []  # with their positions
    if "://" in text:
        matches = islice(_URL_WITH_SCHEME.finditer(text), MAX_LINKS_PER_MESSAGE)
        links += [(match.start(), _strip_punctuation(match[0])) for match in matches]
    if ("." in text and "/" in text) or "www." in text:
        matches = islice(_URL_WITHOUT_SCHEME.finditer(text[:_MAX_SEARCHED_CHARS]), MAX_LINKS_PER_MESSAGE)
        links += [(match.start(), _strip_punctuation(match[0])) for match in matches]
    for source_list in islice(_SOURCE_LIST.finditer(text[:_MAX_SEARCHED_CHARS]), _MAX_SOURCE_LISTS):
        group = 1 if source_list[1] else 2
        if "://" not in source_list[group]:
            for item in re.split(r"[,،;] ?| and | و ?", source_list[group])[:MAX_LINKS_PER_MESSAGE]:
                if _SOURCE_NAME.fullmatch(name := _strip_punctuation(item.strip())):
                    links.append((source_list.start(group), name))
    yield from (link for _, link in sorted(links, key=lambda link: link[0]))


def _strip_punctuation(url: str) -> str:
    """Return a URL without the sentence's punctuation at its end. A closing bracket stays if it is opened inside."""
    while url and url[-1] in _TRAILING_PUNCTUATION:
        if url[-1] == ")" and url.count("(") >= url.count(")"):
            break
        url = url[:-1]
    return url
