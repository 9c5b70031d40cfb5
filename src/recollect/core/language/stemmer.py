"""Removes English word endings by Martin Porter's algorithm of 1980, with its author's later corrections.

It is written here and not taken from a library. Index and query must agree for as long as a database lives, and another
release of a library may cut other endings. The browser needs the very same words, too.
"""

from __future__ import annotations

import re
from typing import Final

_MIN_CHARACTERS: Final = 3

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
    """Return the stem of a lower-case ASCII word. Words with digits stay as they are."""
    if len(word) < _MIN_CHARACTERS or not word.isalpha():
        return word
    word = _strip_plural(word)
    word = _strip_past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_ending(word, _STEP_2)
    word = _replace_ending(word, _STEP_3)
    word = _drop_ending(word)
    return _drop_final_letter(word)


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(base):
            return _restore_base(base)
    return word


def _restore_base(base: str) -> str:
    """Return the base of a verb after "ed" or "ing" was cut: hopp → hop, hop → hope, siz → size."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "aeioulsz" and _shape(base)[-1] == "c":
        return base[:-1]
    return base + "e" if _measure(base) == 1 and _ends_cvc(base) else base


def _replace_ending(word: str, table: tuple[tuple[str, str], ...]) -> str:
    for ending, new in table:
        if word.endswith(ending):
            base = word[: -len(ending)]
            return base + new if _measure(base) > 0 else word
    return word


def _drop_ending(word: str) -> str:
    match = _STEP_4.match(word)
    return match[1] if match and _measure(match[1]) > 1 else word


def _drop_final_letter(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_cvc(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """Return a word as a pattern of vowels (v) and consonants (c)."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Count how often a consonant follows a vowel. Porter calls this the measure."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_cvc(word: str) -> bool:
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
