"""Turns Arabic text into words, and a word into the forms under which the Arabic table may know it.

Pure: it knows letters and no vectors. The table was trained on these forms: a change here needs a new table.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator
from typing import Final

NGRAM_LENGTHS: Final = (3, 4, 5)
_MIN_STEM: Final = 3  # letters that must stay when something is stripped
_MAX_WORD: Final = 24  # letters; what is longer is no word of the language

_DROPPED: Final = [
    *range(0x0610, 0x061B),
    *range(0x064B, 0x0660),  # vowel signs
    0x0640,  # tatweel
    0x0670,
    *range(0x06D6, 0x06EE),
    *range(0x08D3, 0x0900),
    0x061C,
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
]
_LETTERS: Final = str.maketrans(
    {
        **dict.fromkeys("أإآٱ", "ا"),
        **dict.fromkeys("ىیېے", "ي"),
        **dict.fromkeys("ةۀہۃھە", "ه"),
        **dict.fromkeys("ؤۆۇ", "و"),
        "ئ": "ي",
        **dict.fromkeys("کڪ", "ك"),
        **{chr(0x0660 + digit): str(digit) for digit in range(10)},
        **{chr(0x06F0 + digit): str(digit) for digit in range(10)},
        **dict.fromkeys(map(chr, _DROPPED), ""),
    }
)
_WORD: Final = re.compile(r"[\u0620-\u064a\u066e-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06ff]+|[0-9]+")

_LONG_PREFIXES: Final = ("وال", "بال", "كال", "فال", "ولل", "لل", "ال")
_SHORT_PREFIXES: Final = ("و", "ف", "ب", "ل", "ك", "س")
_SUFFIXES: Final = (
    "كما", "هما", "تما",
    "ها", "هم", "هن", "كم", "كن", "نا", "ني", "ون", "ين", "ات", "ان", "وا", "تم", "يه", "ه", "ي", "ك", "ت", "ا",
)  # fmt: skip
_WEAK: Final = str.maketrans(dict.fromkeys("اويءه", ""))
_LEADING: Final = "يتنمس"


def normalise(text: str) -> str:
    """Return the text with one form for each letter, without vowel signs and invisible marks."""
    return unicodedata.normalize("NFKC", text).translate(_LETTERS)


def split_words(normalised: str) -> list[str]:
    """Return the Arabic words and the numbers of a normalised text."""
    return _WORD.findall(normalised)


def stem(word: str) -> str:
    """Return a word without article, preposition and one suffix. Three letters stay."""
    for prefix in _LONG_PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= _MIN_STEM:
            word = word[len(prefix) :]
            break
    else:
        if word[:1] == "و" and len(word) > _MIN_STEM:
            word = word[1:]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            return word[: -len(suffix)]
    return word


def list_forms(word: str) -> tuple[str, ...]:
    """Return the names of a word's rows: itself, its stem, its skeleton, and that without a leading letter."""
    base = stem(word)
    skeleton = base.translate(_WEAK)
    short = skeleton[1:] if len(skeleton) > 2 and skeleton[0] in _LEADING else skeleton
    return f"={word}", f"~{base}", f"-{skeleton}", f"+{short}"


def strip_letter(word: str) -> str | None:
    """Return an unknown word without one leading letter that may be a preposition or a conjunction."""
    return word[1:] if word.startswith(_SHORT_PREFIXES) and len(word) > _MIN_STEM else None


def list_ngrams(word: str, buckets: int) -> list[int]:
    """Return the buckets of a word's runs of three to five letters, ends marked."""
    return [zlib.crc32(gram.encode()) % buckets for gram in _ngrams(f"<{word[:_MAX_WORD]}>")]


def _ngrams(marked: str) -> Iterator[str]:
    for length in NGRAM_LENGTHS:
        for start in range(len(marked) - length + 1):
            yield marked[start : start + length]
