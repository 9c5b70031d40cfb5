"""Estimates token counts without a rank table, for installations whose table or tiktoken cannot be used."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from typing import Final

# Tokens per character from each code point on. Measured on prose of each script with both encodings; the higher
# figure counts (nearly always that of cl100k_base), rounded up.
_TOKENS_PER_CHARACTER: Final = (
    (0x0080, 1.0),  # Latin with accents
    (0x0370, 1.2),  # Greek
    (0x0400, 1.0),  # Cyrillic
    (0x0530, 1.5),  # Armenian, Hebrew
    (0x0600, 1.0),  # Arabic
    (0x0700, 2.0),  # Syriac, Indic, Thai, Georgian and the other alphabets and syllabaries
    (0x2000, 1.5),  # punctuation and signs
    (0x2100, 2.0),  # arrows, box drawing, dingbats
    (0x3000, 1.5),  # kana, Han
    (0xA000, 3.0),
    (0xAC00, 2.0),  # Hangul
    (0xD7B0, 3.0),  # presentation forms, private use
    (0x1F000, 3.0),  # emoji
    (0x1FB00, 4.0),  # rare Han and every later code point
)
_RANGE_STARTS: Final = tuple(start for start, _ in _TOKENS_PER_CHARACTER)

_ASCII_PIECES: Final = re.compile(
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)|(?P<digits>[0-9]+)|(?P<space> (?=\S))|(?P<blank>(\s)(?:\5)*)|[\x00-\x7f]"
)


class EstimateTokenizer:
    """A tokenizer that estimates by script, on the high side: budgets computed with it hold, but waste some room."""

    name = "estimate"
    exact = False

    def count(self, text: str) -> int:
        """Return an estimate of the tokens of `text`."""
        ascii_tokens = sum(_tokens_of_ascii_piece(piece) for piece in _ASCII_PIECES.finditer(text))
        other_tokens = sum(
            times * _TOKENS_PER_CHARACTER[bisect_right(_RANGE_STARTS, ord(char)) - 1][1]
            for char, times in Counter(text).items()
            if char >= "\x80"
        )
        return ascii_tokens + math.ceil(other_tokens)


def _tokens_of_ascii_piece(piece: re.Match[str]) -> int:
    length = piece.end() - piece.start()
    match piece.lastgroup:
        case "word":  # a run of more than 12 letters is rarely a word: hashes, base64
            return -(-length // 4) if length <= 12 else -(-length // 2)
        case "digits":
            return -(-length // 3)
        case "space":
            return 0
        case "blank":
            return 1 + length // 16
        case _:
            return 1
