"""Builds a message's word index row: its words as numbers, in the order of the text, with a mark before each passage.

At its end stand the flags of the message (see `message_flags`), each as a mark of its own.

Recall reads these rows instead of text. A number is a hash of the word. So a row holds no text, needs no table of all
words (which would remember erased ones), and is the same on every machine. Two words of one person share a number
about once in a hundred thousand.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from recollect.core.language import analyser, message_flags, passages
from recollect.core.message import ROLES, is_recalled

_RULES_VERSION: Final = 3  # of what a row holds: since 2, system messages have no words; since 3, there are flags
VERSION: Final = (analyser.VERSION * 1000 + passages.VERSION) * 100 + _RULES_VERSION
PROSE_MARK: Final = 1  # the words of a passage of prose follow
CODE_MARK: Final = 2  # the words of a passage of code follow
FIRST_FLAG_MARK: Final = 3  # the mark of the first flag; those of the others follow
FIRST_WORD_NUMBER: Final = 16  # numbers below are kept for marks
CACHE_ENTRIES: Final = 1 << 16
ROLE_NUMBERS: Final = {role: position for position, role in enumerate(ROLES)}


def hash_word(word: str) -> int:
    """Return the number of an analysed word: four bytes, from `FIRST_WORD_NUMBER` on."""
    number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")
    return number if number >= FIRST_WORD_NUMBER else number + FIRST_WORD_NUMBER


class _NumberCache(dict[str, int]):
    """Numbers by the raw words of texts; 0 for words that the index leaves out. Emptied when it is full."""

    def __missing__(self, raw: str) -> int:
        if len(self) >= CACHE_ENTRIES:
            self.clear()
        word = analyser.to_index_word(raw)
        number = 0 if word is None else hash_word(word)
        if len(raw) <= analyser.MAX_WORD_CHARACTERS:
            self[raw] = number
        return number


_numbers: Final = _NumberCache()


def forget() -> None:
    """Drop the cached words. Some may come from messages that were erased."""
    _numbers.clear()


def encode_row(content: str, name: str | None, model_variant: str | None = None, *, role: str = "user") -> bytes:
    """Return the word index row of a message, as little-endian numbers of four bytes.

    The speaker's `name` stands before the first mark. The row of a message that is never recalled is empty.
    """
    numbers = array("I")
    if not is_recalled(role, model_variant):
        return _little_endian(numbers)
    if name is not None:
        _add_words(numbers, name)
    for passage in passages.split(content):
        numbers.append(CODE_MARK if passage.kind == "code" else PROSE_MARK)
        _add_words(numbers, content[passage.start : passage.stop])
    flags = message_flags.find_flags(content)
    numbers.extend(FIRST_FLAG_MARK + bit for bit in range(message_flags.FLAG_COUNT) if flags >> bit & 1)
    return _little_endian(numbers)


def _add_words(numbers: array[int], text: str) -> None:
    """Append the numbers of `analyser.words(text)`. Every add of a message passes here, so numbers are cached."""
    numbers.extend(filter(None, map(_numbers.__getitem__, analyser.raw_words(text))))
    numbers.extend(map(hash_word, analyser.compounds(text)))


def hash_words(words: Iterable[str]) -> list[int]:
    """Return the numbers of analysed words, in their order."""
    return [hash_word(word) for word in words]


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()
