"""Cuts text into the word pieces that all-MiniLM-L6-v2 was trained on (BERT, uncased).

Owns cleaning, lowering, splitting and the greedy search for pieces; knows nothing of windows and vectors. The ids are
those of the `tokenizers` package with the model's own tokenizer.json. There is one deliberate exception: text that
looks like a special token, such as "[SEP]", is read as ordinary text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from recollect.providers.minilm.characters import ACCENT, BLANK, IDEOGRAPH, INVISIBLE, PUNCTUATION

_MAX_WORD_CHARACTERS: Final = 100  # a longer word is unknown as a whole
_CACHED_WORDS: Final = 32_768
_CACHED_CHARACTERS: Final = 16_384


class WordPiece:
    """Turns text into ids, without the marks for beginning and end. Safe to use from many threads."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._first = ids
        self._later = {piece[2:]: number for piece, number in ids.items() if piece.startswith("##")}
        self._longest = max(map(len, ids))
        self._unknown = (ids["[UNK]"],)
        self.start, self.end = ids["[CLS]"], ids["[SEP]"]
        self._pieces = lru_cache(_CACHED_WORDS)(self._search)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text's word pieces."""
        pieces = self._pieces
        return [number for word in split_words(text) for number in pieces(word)]

    def forget(self) -> None:
        """Drop the cached pieces of words."""
        self._pieces.cache_clear()

    def _search(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word: the longest one that fits, again and again.

        A word with an unknown part is unknown as a whole.
        """
        if len(word) > _MAX_WORD_CHARACTERS:
            return self._unknown
        pieces: list[int] = []
        start = 0
        candidates = self._first
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (number := candidates.get(word[start:end])) is not None:
                    pieces.append(number)
                    start, candidates = end, self._later
                    break
            else:
                return self._unknown
        return tuple(pieces)


def split_words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without accents. Punctuation and ideographs are single words."""
    if text.isascii():
        return text.translate(_ASCII).split()
    decomposed = unicodedata.normalize("NFD", text.translate(_CLEANED))
    return decomposed.translate(_LOWERED).split()


def _clean(character: str) -> str:
    """Map a character before decomposition: to nothing, a blank, an ideograph between blanks, or itself."""
    code = ord(character)
    if code in BLANK:
        return " "
    if code in INVISIBLE or 0xD800 <= code <= 0xDFFF:  # half of a surrogate pair is not a character
        return ""
    return f" {character} " if code in IDEOGRAPH else character


def _lower(character: str) -> str:
    """Map a character after decomposition: drop accents, lower letters, put blanks around punctuation."""
    code = ord(character)
    if code in ACCENT:
        return ""
    return f" {character} " if code in PUNCTUATION else character.lower()


class _CharacterMap(dict[int, str]):
    """A table for `str.translate` that is filled when a character is first met. Bounded, because Unicode is large."""

    def __init__(self, map_character: Callable[[str], str]) -> None:
        super().__init__()
        self._map_character = map_character

    def __missing__(self, code: int) -> str:
        if len(self) >= _CACHED_CHARACTERS:
            self.clear()
        return self.setdefault(code, self._map_character(chr(code)))


_CLEANED, _LOWERED = _CharacterMap(_clean), _CharacterMap(_lower)
_ASCII: Final = {code: "".join(map(_lower, _clean(chr(code)))) for code in range(128)}
