"""The one analyser: from text to the words that both databases index and every query asks for.

The databases split on spaces and do nothing else, so the same words are found on both. A change here that
changes the words must raise VERSION: the index of older words is then made anew by the worker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Final

VERSION: Final = 1
WORD_LIMIT: Final = 64  # characters; longer runs (keys, base64) are cut, in index and query alike

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII: Final = re.compile("[a-z0-9]+")
_RUNS: Final = re.compile(rf"([{_CJK}]+)|((?:(?![{_CJK}_])\w)+)")
_MARKS: Final = re.compile("[\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200c\u200d\u00ad]")  # tatweel, tashkeel, joiners
_ARABIC: Final = str.maketrans(
    {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ؤ": "و", "ئ": "ي"}
    | {chr(0x0660 + digit): str(digit) for digit in range(10)}
    | {chr(0x06F0 + digit): str(digit) for digit in range(10)}
)


def words(text: str) -> list[str]:
    """The words of a text in their order, normalised. Runs of CJK become overlapping pairs."""
    if text.isascii():  # most text, and every add passes here: the same words, found faster
        return [word[:WORD_LIMIT] for word in _ASCII.findall(text.lower())]
    text = unicodedata.normalize("NFKC", text)
    text = _MARKS.sub("", text).translate(_ARABIC)
    return list(_words(text.casefold()))


def _words(text: str) -> Iterator[str]:
    for match in _RUNS.finditer(text):
        run, word = match.groups()
        if word is not None:
            yield word[:WORD_LIMIT]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[i : i + 2] for i in range(len(run) - 1))


@lru_cache(maxsize=1024)
def person_scope(person: str) -> str:
    """A word in every index row of one person. The sign keeps it apart from words that people type."""
    return "@p" + sha256(person.encode()).hexdigest()[:24]


def conversation_scope(key: int) -> str:
    return f"@c{key}"
