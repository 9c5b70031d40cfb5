"""What recall reads of a message: its words as numbers, in the order of the text, with a mark before each passage.

A number is a hash of the word, so an entry holds no text, needs no table of all words (which would remember erased
ones), and is the same on every machine. Two words of one person share a number about once in a hundred thousand.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from recollect.core.language import analyser, passages
from recollect.core.models import BUILT_IN, ROLES

VERSION: Final = analyser.VERSION * 1000 + passages.VERSION
PROSE: Final = 1  # marks: the words of a passage of this kind follow
CODE: Final = 2
RESERVED: Final = 16  # numbers below are marks, never words
REMEMBERED: Final = 1 << 16  # words whose numbers are kept
ROLE_NUMBERS: Final = {role: number for number, role in enumerate(ROLES)}


def number(word: str) -> int:
    """Four bytes for a word."""
    found = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")
    return found if found >= RESERVED else found + RESERVED


class _Numbers(dict[str, int]):
    """The numbers of words met lately, as texts spell them; 0 for those that the index leaves out."""

    def __missing__(self, raw: str) -> int:
        if len(self) >= REMEMBERED:
            self.clear()
        word = analyser.telling(raw)
        found = 0 if word is None else number(word)
        if len(raw) <= analyser.WORD_LIMIT:
            self[raw] = found
        return found


_numbers: Final = _Numbers()


def encode(content: str, name: str | None, model_variant: str | None = None) -> bytes:
    """The entry of a message. The speaker's words stand before the first mark. One that only quotes has none."""
    numbers = array("I")
    if model_variant == BUILT_IN:
        return _little_endian(numbers)
    if name is not None:
        _add_words(numbers, name)
    for passage in passages.split(content):
        numbers.append(CODE if passage.kind == "code" else PROSE)
        _add_words(numbers, content[passage.start : passage.stop])
    return _little_endian(numbers)


def _add_words(numbers: array[int], text: str) -> None:
    """Those of `analysis.words`. Every add comes here, so a word that comes again costs a look."""
    numbers.extend(filter(None, map(_numbers.__getitem__, analyser.raw_words(text))))
    numbers.extend(map(number, analyser.compounds(text)))


def query_numbers(words: Iterable[str]) -> list[int]:
    return [number(word) for word in words]


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()
