"""Places Arabic text in MiniLM's space: the sum of the rows of its words, made to length 1.

The table was trained so that a sentence lies where MiniLM puts its English translation. `tools/build_arabic.py` makes
the file. Owns its format and the vectors of words; knows nothing of other scripts.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from recollect.providers.minilm.arabic_words import list_forms, list_ngrams, strip_letter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

NGRAM_WEIGHT: Final = 1.5  # of the mean of a word's letter runs, beside a weight of 1 for each form
MIDDLE_CODE: Final = 7.5  # the codes 0 to 15 stand for -7.5 to 7.5
_CACHED_WORDS: Final = 8_192  # whose vectors are kept: 12 MiB


class ArabicTable:
    """The rows of words, word forms and letter runs, as 4-bit numbers. Safe to use from many threads."""

    def __init__(self, names: Sequence[str], codes: NDArray[np.uint8], scales: Floats, bias: Floats) -> None:
        """Take the rows: first one for each name, then one for each bucket of letter runs; two numbers in a byte."""
        self._rows = {name: row for row, name in enumerate(names)}
        self._buckets = len(codes) - len(names)
        self._codes, self._scales, self._bias = codes, scales, bias
        self._vector = lru_cache(_CACHED_WORDS)(self._sum_rows)

    @classmethod
    def read(cls, data: bytes) -> ArabicTable:
        """Read the table from the bytes of its file."""
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            names = arrays["names"].tobytes().decode().split("\n")
            return cls(names, arrays["codes"], arrays["scales"].astype(np.float32), arrays["bias"])

    def encode(self, words: Sequence[str]) -> Floats:
        """Return the vector of length 1 of some words; the zero vector if there are none."""
        if not words:
            return np.zeros_like(self._bias)
        total = self._bias.copy()
        for word in words:
            total += self._vector(word)
        return total / np.linalg.norm(total)

    def knows(self, word: str) -> bool:
        """Say whether the table has the word or its stem, and not only its letters."""
        return any(form in self._rows for form in list_forms(word)[:2])

    def forget(self) -> None:
        """Drop the cached vectors of words."""
        self._vector.cache_clear()

    def _sum_rows(self, word: str) -> Floats:
        forms = find_rows(word, self._rows)
        ngrams = [len(self._rows) + bucket for bucket in list_ngrams(word, self._buckets)]
        rows = forms + ngrams
        weights = np.array([1.0] * len(forms) + [NGRAM_WEIGHT / len(ngrams)] * len(ngrams), np.float32)
        codes = self._codes[rows]
        numbers = np.stack((codes & 15, codes >> 4), axis=2).reshape(len(rows), -1).astype(np.float32) - MIDDLE_CODE
        total: Floats = (weights * self._scales[rows]) @ numbers
        return total


def find_rows(word: str, rows: dict[str, int]) -> list[int]:
    """Return the rows of a word's forms. A word of which no form is known is looked up without its first letter."""
    found = [rows[form] for form in list_forms(word) if form in rows]
    if not found and (shorter := strip_letter(word)) is not None:
        found = [rows[form] for form in list_forms(shorter) if form in rows]
    return found
