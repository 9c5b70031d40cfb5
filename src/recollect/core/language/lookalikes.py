"""Patterns for words that look like given words, whatever characters they are written with.

A word may be written with letters of other scripts ("ѕystem"), in other styles ("ｓｙｓｔｅｍ"), with accents, and with
characters between its letters that nobody sees. A model reads all of these as the word, and so does a person.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from recollect.core.language.lookalike_characters import LETTERS

_FIRST_MATHEMATICAL: Final = 0x1D400  # 13 alphabets of capital and small letters follow
_MATHEMATICAL_ALPHABETS: Final = 26
_OTHER_ALPHABETS: Final = (0xFF21, 0xFF41, 0x24B6, 0x24D0, 0x1F130, 0x1F150, 0x1F170)  # fullwidth, circled, squared
# Characters that show nothing. Some have a meaning in ordinary text, so they are ignored here and never removed there.
INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # above and below letters
)
UNSEEN: Final = INVISIBLE + _MARKS  # what may stand between the letters of a word
BLANKS: Final = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
# Signs that look like others, as the inside of a class. Those that other scripts use as their own are left out.
LESS_THAN: Final = "<˂ᐸᚲ‹≮❮〈⟨〈﹤＜\U0001d236"
SLASHES: Final = "/⁄∕╱⟋⧸Ⳇ／\U0001d23a"
BRACKETS: Final = "\\[﹇［"
DASHES: Final = "\\-˗‐‑‒⁃−➖﹘﹣－"
COLONS: Final = ":ː˸∶ꓽ꞉︓︰﹕"
WIDE_COLON: Final = "："  # ordinary in Chinese and Japanese


def to_pattern(word: str) -> str:
    """Return the source of a pattern for a word of small Latin letters and blanks, and for all that look like it."""
    unseen = f"[{UNSEEN}]*+"
    blank = f"[{BLANKS}{UNSEEN}]++"
    return "".join(blank if letter == " " else _to_class(letter) + unseen for letter in word)


def _to_class(letter: str) -> str:
    number = ord(letter) - ord("a")
    firsts = (*range(_FIRST_MATHEMATICAL, _FIRST_MATHEMATICAL + 26 * _MATHEMATICAL_ALPHABETS, 26), *_OTHER_ALPHABETS)
    styles = "".join(chr(first + number) for first in firsts)
    signs = f"[{letter}{letter.upper()}{re.escape(LETTERS[letter])}{styles}]"
    return f"(?:{signs}|rn)" if letter == "m" else signs


_INVISIBLE_RUN: Final = re.compile(f"[{INVISIBLE}]+")


def strip_invisible(text: str) -> str:
    """Return a text without the characters that show nothing, in its compatible form (NFKC)."""
    return unicodedata.normalize("NFKC", _INVISIBLE_RUN.sub("", text))
