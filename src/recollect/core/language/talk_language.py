"""Decides in which language labels and answers are written: that of the talk, English or Arabic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recollect.core.language import analyser
from recollect.core.language.utterances import Language, detect_language

CLEAR_SHARE: Final = 0.8  # of the letters; with less the talk is mixed
MAX_READ_TEXTS: Final = 40  # the newest of a talk
MAX_READ_CHARACTERS: Final = 400  # of each text
MIN_ENGLISH_WORDS: Final = 3  # fewer may be a name or "ok" in a talk of any language
_ARABIC_LETTER: Final = re.compile("[\u0621-\u064a]")
_OTHER_LETTER: Final = re.compile(r"[^\W\d_\u0621-\u064a]")
_ARABIC_MARK: Final = re.compile("[؟،؛]")


def clear_language(text: str) -> Language | None:
    """Return the language of a text, or None if it shows none: it has no letters, or only a name or a short word."""
    text = text[:MAX_READ_CHARACTERS]
    if detect_language(text) == "ar":
        return "ar"
    if not _OTHER_LETTER.search(text):
        return None
    words = analyser.raw_words(text)
    if len(words) >= MIN_ENGLISH_WORDS or not analyser.STOP_WORDS.isdisjoint(words):
        return "en"
    return "ar" if _ARABIC_MARK.search(text) else None


def talk_language(texts: Sequence[str]) -> Language:
    """Return the language of a talk, whose texts come oldest first. In a mixed talk the newest clear text decides."""
    texts = [text[:MAX_READ_CHARACTERS] for text in texts[-MAX_READ_TEXTS:]]
    arabic = sum(len(_ARABIC_LETTER.findall(text)) for text in texts)
    other = sum(len(_OTHER_LETTER.findall(text)) for text in texts)
    if arabic >= CLEAR_SHARE * (arabic + other) > 0:
        return detect_language(" ".join(texts))  # Persian and Urdu have Arabic letters too
    if other >= CLEAR_SHARE * (arabic + other):
        return "en"
    return next((language for text in reversed(texts) if (language := clear_language(text))), "en")


def answer_language(message: str, talk: Sequence[str] = ()) -> Language:
    """Return the language in which to answer a message: its own, or that of the talk before it if it shows none."""
    return clear_language(message) or talk_language([*talk, message])
