"""Cuts text into the word pieces that all-MiniLM-L6-v2 was trained on (BERT, uncased).

Owns: cleaning, lowering, splitting and the greedy search for pieces; knows nothing of windows and vectors.
The ids are those of the `tokenizers` package with the model's own tokenizer.json, with one exception made on
purpose: text that looks like a special token, such as "[SEP]", is the text it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from recollect.providers.minilm.characters import ACCENT, BLANK, IDEOGRAPH, INVISIBLE, PUNCTUATION

_LONGEST_WORD: Final = 100  # characters; a longer word is unknown as a whole
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
        """The ids of the text's pieces."""
        pieces = self._pieces
        return [number for word in split_words(text) for number in pieces(word)]

    def _search(self, word: str) -> tuple[int, ...]:
        """The longest piece that fits, again and again; a word with an unknown part is unknown as a whole."""
        if len(word) > _LONGEST_WORD:
            return self._unknown
        found: list[int] = []
        start = 0
        known = self._first
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (number := known.get(word[start:end])) is not None:
                    found.append(number)
                    start, known = end, self._later
                    break
            else:
                return self._unknown
        return tuple(found)


def split_words(text: str) -> list[str]:
    """The words of a text, lowered and without accents; punctuation and ideographs stand alone."""
    if text.isascii():
        return text.translate(_ASCII).split()
    decomposed = unicodedata.normalize("NFD", text.translate(_cleaned))
    return decomposed.translate(_folded).split()


def _clean(character: str) -> str:
    """A character before decomposition: dropped, a blank, an ideograph with room around it, or itself."""
    code = ord(character)
    if code in BLANK:
        return " "
    if code in INVISIBLE or 0xD800 <= code <= 0xDFFF:  # half of a surrogate pair is no character
        return ""
    return f" {character} " if code in IDEOGRAPH else character


def _fold(character: str) -> str:
    """A character after decomposition: dropped if it is an accent, else lowered, with room around punctuation."""
    code = ord(character)
    if code in ACCENT:
        return ""
    return f" {character} " if code in PUNCTUATION else character.lower()


class _Characters(dict[int, str]):
    """What becomes of each character, worked out when it is first met. Bounded, because Unicode is large."""

    def __init__(self, become: Callable[[str], str]) -> None:
        super().__init__()
        self._become = become

    def __missing__(self, code: int) -> str:
        if len(self) >= _CACHED_CHARACTERS:
            self.clear()
        return self.setdefault(code, self._become(chr(code)))


_cleaned, _folded = _Characters(_clean), _Characters(_fold)
_ASCII: Final = {code: "".join(map(_fold, _clean(chr(code)))) for code in range(128)}
