"""Reads what a message does in a chat: tells something, asks for something, greets, thanks. And in which language.

There are rules for English and Arabic. In other languages only signs are read: a question mark asks, everything else
tells. Where the rules cannot decide, a message both tells and asks.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from recollect.core.language import arabic_speech_acts, english_speech_acts, sentences
from recollect.core.language.memory_requests import is_for_everything, is_to_forget
from recollect.core.language.speech_acts import ASKS, MAX_FRAGMENT_WORDS, NOTHING, TELLS, UNSURE, SpeechAct

Language = Literal["en", "ar"]

MAX_READ_CHARACTERS: Final = 2000  # of a longer message; what it is for is said by then
_ARABIC_LETTER: Final = re.compile(r"[\u0621-\u064a\u066e-\u06d3]")
_LATIN_LETTER: Final = re.compile(r"[A-Za-z\u00c0-\u024f]")
_PERSIAN_OR_URDU_LETTER: Final = re.compile("[پژٹڈڑںےہکی]")
_WORD: Final = re.compile(r"\w")


def read_utterance(text: str) -> SpeechAct:
    """Return what a message does, all its sentences taken together."""
    act = NOTHING
    parts = sentences.split(text[:MAX_READ_CHARACTERS])
    for sentence in parts:
        part = _read_sentence(sentence)
        is_fragment = part == UNSURE and len(sentence.split()) <= MAX_FRAGMENT_WORDS
        act |= TELLS if is_fragment and len(parts) > 1 else part  # a few words beside others are no search
    return act


def tells_something(text: str) -> bool:
    """Return whether a message holds something to remember, and not only questions, requests or formulas."""
    return read_utterance(text).tells


def detect_language(text: str) -> Language:
    """Return "ar" for a text that is mostly Arabic; "en" for any other."""
    text = text[:MAX_READ_CHARACTERS]
    if _PERSIAN_OR_URDU_LETTER.search(text):
        return "en"
    return "ar" if len(_ARABIC_LETTER.findall(text)) > len(_LATIN_LETTER.findall(text)) else "en"


def _read_sentence(sentence: str) -> SpeechAct:
    if is_for_everything(sentence) or is_to_forget(sentence):
        return ASKS
    if detect_language(sentence) == "ar":
        return arabic_speech_acts.read(sentence)
    if _LATIN_LETTER.search(sentence):
        return english_speech_acts.read(sentence)
    if sentences.is_question(sentence):
        return ASKS
    return TELLS if _WORD.search(sentence) else NOTHING
