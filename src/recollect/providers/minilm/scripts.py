"""Says which part of a text each half of the embedder can read, by the script of its letters.

MiniLM reads Latin letters. The Arabic table reads Arabic letters. For any other script MiniLM has single letters at
most: its vectors of unrelated Russian or Japanese sentences are as near as those of equal ones.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from recollect.providers.minilm.arabic_words import normalise, split_words

_ARABIC_LETTERS: Final = "\u0620-\u063f\u0641-\u064a\u066e-\u066f\u0671-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06ff" + (
    "\u0750-\u077f\u08a0-\u08c9\ufb50-\ufdff\ufe70-\ufefc"
)
_ARABIC: Final = re.compile(f"[{_ARABIC_LETTERS}]")
# With vowel signs, tatweel and joiners, which MiniLM must not see either.
_ARABIC_RUN: Final = re.compile(f"[{_ARABIC_LETTERS}\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200c\u200d]+")
# The blocks of all scripts but Latin and Arabic. Marks and digits in them count as letters.
_FOREIGN_BLOCKS: Final = (
    "\u0370-\u05ff\u0700-\u074f\u0780-\u089f\u0900-\u1cff\u1f00-\u1fff\u2c00-\u2c5f\u2c80-\u2dff\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u318f\u31a0-\u31ff\u3400-\ua6ff\ua800-\uab2f\uab70-\ud7ff\uf900-\ufaff\ufb13-\ufb4f\uff66-\uffdc"
    "\U00010000-\U0001efff\U00020000-\U0003ffff"
)
_FOREIGN: Final = re.compile(f"[{_FOREIGN_BLOCKS}]")
_SPECIAL: Final = re.compile(f"[{_ARABIC_LETTERS}{_FOREIGN_BLOCKS}]")
_LATIN_WORD: Final = re.compile(r"[^\W\d_]+")


class ScriptParts(NamedTuple):
    """A text by script: the words for the Arabic table, and the rest for MiniLM."""

    arabic: list[str]
    rest: str | None  # None if MiniLM has nothing to read in it
    rest_words: int = 0  # words of the rest; counted only beside Arabic

    @property
    def is_readable(self) -> bool:
        """Say whether any half of the embedder can read the text."""
        return bool(self.arabic) or self.rest is not None


def split_scripts(text: str) -> ScriptParts:
    """Return the parts of a text. A text is not readable if most of its letters are of other scripts."""
    if text.isascii() or _SPECIAL.search(text) is None:
        return ScriptParts([], text)
    foreign, arabic = len(_FOREIGN.findall(text)), len(_ARABIC.findall(text))
    if foreign and 2 * foreign > sum(map(str.isalpha, text)):
        return ScriptParts([], None)
    if not arabic:
        return ScriptParts([], text)
    words = split_words(normalise(text))
    rest = _ARABIC_RUN.sub(" ", text)
    rest_words = len(_LATIN_WORD.findall(rest))
    return ScriptParts(words, rest if rest_words else None, rest_words)
