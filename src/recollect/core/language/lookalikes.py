"""Patterns for words that look like given words, whatever characters they are written with.

A word may be written with letters of other scripts ("ѕystem"), in other styles ("ｓｙｓｔｅｍ"), with accents, and with
characters between its letters that nobody sees. A model reads all of these as the word, and so does a person.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from recollect.core.language.lookalike_characters import LETTERS, MARKS

_FIRST_MATHEMATICAL: Final = 0x1D400  # 13 alphabets of capital and small letters follow
_MATHEMATICAL_ALPHABETS: Final = 26
_OTHER_ALPHABETS: Final = (
    *(0xFF21, 0xFF41, 0x249C, 0x24B6, 0x24D0),  # fullwidth, parenthesised, circled
    *(0x1F110, 0x1F130, 0x1F150, 0x1F170, 0x1F1E6),  # parenthesised, squared, filled, regional
)
# Characters that show nothing. Some have a meaning in ordinary text, so they are ignored here and never removed there.
INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
UNSEEN: Final = INVISIBLE + MARKS  # what may stand between the letters of a word
BLANKS: Final = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
LINE_BREAKS: Final = "\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029"  # characters that may be shown as the end of a line
# Signs that look like others, as the inside of a class. Those that other scripts use as their own are left out.
LESS_THAN: Final = "<«˂ᐸᚲ‹≪≮⋖❬❮❰〈⟨⟪⧼⪡〈《﹤＜\U0001d236"
SLASHES: Final = "/\\\\⁄∕∖╱╲⟋⟍⧵⧷⧸⧹Ⳇ﹨／＼\U0001d23a"
BRACKETS: Final = "\\[﹇［"
QUOTING_BRACKETS: Final = "«‹⁅❬❮❰❲〈⟦⟨⟪⟬⟮⦋⦍⦏⦗⧼〈《「『【〔〖〘〚﹁﹃｢"  # ordinary around other words
DASHES: Final = "\\-˗‐‑‒⁃−➖﹘﹣－"
COLONS: Final = ":ː˸∶ꓽ꞉︓︰﹕"
ORDINARY_COLONS: Final = "：։׃؛܃܄ःઃ፡፥፦᛬᠃᠉⁚⁝"  # ordinary in other scripts


def to_pattern(word: str, *, also_between: str = "") -> str:
    """Return the source of a pattern for a word of small Latin letters and blanks, and for all that look like it.

    `also_between` has further characters, as the inside of a class, that may stand between the letters.
    """
    unseen = f"[{UNSEEN}{also_between}]*+"
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
