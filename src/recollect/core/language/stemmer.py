"""English word endings, after Martin Porter's algorithm of 1980, as its author later corrected it.

It is written here, not taken from a library, because index and query must agree for as long as a database lives:
another release of a library may cut other endings, and the browser needs the very same words.
"""

from __future__ import annotations

import re
from typing import Final

_SHORTEST: Final = 3

_STEP_2: Final = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP_3: Final = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4: Final = re.compile(
    "(.*?)(ement|ment|ent|al|ance|ence|er|ic|able|ible|ant|(?<=[st])ion|ou|ism|ate|iti|ous|ive|ize)$"
)


def stem(word: str) -> str:
    """The stem of a lower-case ASCII word; words with digits stay as they are."""
    if len(word) < _SHORTEST or not word.isalpha():
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    word = _drop(word)
    return _tidy(word)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(base):
            return _mend(base)
    return word


def _mend(base: str) -> str:
    """hopp → hop, hop → hope, siz → size."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "aeioulsz" and _shape(base)[-1] == "c":
        return base[:-1]
    return base + "e" if _measure(base) == 1 and _ends_cvc(base) else base


def _replace(word: str, table: tuple[tuple[str, str], ...]) -> str:
    for ending, new in table:
        if word.endswith(ending):
            base = word[: -len(ending)]
            return base + new if _measure(base) > 0 else word
    return word


def _drop(word: str) -> str:
    found = _STEP_4.match(word)
    return found[1] if found and _measure(found[1]) > 1 else word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_cvc(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """The word as vowels (v) and consonants (c)."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How many times a consonant follows a vowel."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_cvc(word: str) -> bool:
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
