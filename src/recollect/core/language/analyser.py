"""Turns text into the words that recall compares, the same for messages and queries, on every database.

A change that yields other words must raise VERSION: the worker then rebuilds the word index of older messages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from recollect.core.language import arabic_stemmer
from recollect.core.language.stemmer import stem

VERSION: Final = 3
CACHE_ENTRIES: Final = 1 << 16
MAX_WORD_CHARACTERS: Final = 64  # longer runs (keys, base64) are cut, in index and query alike

# Scripts that put no spaces between words: they are indexed by overlapping pairs of characters.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]")
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"  # with vowel signs, which Python does not count as letters
_ARABIC_LETTERS: Final = "\u0620-\u064a"
_ARABIC_SCRIPT: Final = (
    rf"{_ARABIC_LETTERS}\u066e-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08c9"  # with Persian and Urdu
)
# Arabic letters are a word apart from Latin letters and digits beside them: «والAPI» has the word "api".
_RUN: Final = re.compile(
    rf"([{_UNSPACED}]+)|([{_ARABIC_SCRIPT}]+|(?:[{_INDIC}]|(?![{_UNSPACED}{_ARABIC_SCRIPT}])[^\W_])+)"
)
_ASCII_RUN: Final = re.compile("[a-z0-9]+")
_PLAIN_ARABIC_RUN: Final = re.compile(rf"[{_ARABIC_LETTERS}]+|[a-z0-9]+")
# Text of these characters alone needs no Unicode normalisation: it has neither compatibility forms nor loose hamzas.
_PLAIN_ARABIC: Final = re.compile(
    "[\x00-\x7f\u060c\u061b\u061f\u0621-\u0652\u0660-\u066c\u06a9\u06cc«»\u200b-\u200f\u2013\u2014\u2018-\u201e"
    "\u2600-\u27bf\U0001f300-\U0001faff]*"
)
# Every add passes here. A pattern that begins with a rare character is found several times as fast as one that begins
# with the common characters before it. So these patterns begin with the rare one and use a lookbehind.
_APOSTROPHE: Final = re.compile(r"['’ʼ](?<=\w.)(?=\w)")
# Names that programs use: snake_case, v1.2.3, main.py, PROJ-123, camelCase. They are indexed whole and by their parts.
_JOINED: Final = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+|[A-Za-z]+-[0-9]+)")
_CAMEL: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]*)+")
_JOINT: Final = re.compile(r"[_.-](?<=[A-Za-z0-9].)(?=[A-Za-z0-9])")  # quick test: a text without one has no _JOINED
_HUMP: Final = re.compile(r"[A-Z](?<=[a-z0-9].)")  # quick test: a text without one has no _CAMEL
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_MARK: Final = re.compile("[\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200c\u200d\u00ad]")  # tatweel, tashkeel, joiners
_ARABIC: Final = re.compile(rf"[{_ARABIC_LETTERS}]+")
_ONE_FORM: Final = str.maketrans(
    arabic_stemmer.LETTER_FORMS
    | {chr(0x0660 + digit): str(digit) for digit in range(10)}
    | {chr(0x06F0 + digit): str(digit) for digit in range(10)}
)

_STOP_TEXT: Final = """
    a about am an and are as at be been being but by can could d did do does doing for from had has have having
    he her hers him his how i id if ill im in into is isnt it its ive just ll m me my of on or our ours re s she
    should so t than that thats the their them then there these they this those to ve was we were what whats
    when where which who whom why will with would you your yours dont didnt doesnt
"""
STOP_WORDS: Final = frozenset(_STOP_TEXT.split()) | arabic_stemmer.list_stop_words()


def words(text: str) -> list[str]:
    """Return the words of a text in their order, normalised and stemmed, and after them its compounds whole.

    Stop words are left out: they are nearly half of a conversation and no question asks for them.
    """
    return [*(word for word in map(to_index_word, raw_words(text)) if word is not None), *compounds(text)]


def to_index_word(raw: str) -> str | None:
    """Return the form in which a raw word is indexed, or None for a stop word."""
    return None if raw in STOP_WORDS else _stemmed(raw[:MAX_WORD_CHARACTERS])


def query_words(text: str) -> list[str]:
    """Return the words that a question asks for, each once, in their order."""
    return list(dict.fromkeys(words(text)))


def compounds(text: str) -> list[str]:
    """Return the names that programs use, such as `main.py` or `camelCase`, whole and in lower case."""
    return [whole.lower()[:MAX_WORD_CHARACTERS] for whole in _compounds(text)]


def _compounds(text: str) -> Iterator[str]:
    if _JOINT.search(text):
        yield from _JOINED.findall(text)
    if _HUMP.search(text):
        yield from _CAMEL.findall(text)


def raw_words(text: str) -> list[str]:
    """Return all words of a text in their order, stop words too. They are normalised, but not stemmed or cut."""
    text = _HUMP.sub(r" \g<0>", _APOSTROPHE.sub("", text))
    if text.isascii():  # most text; this finds the same words faster
        return _ASCII_RUN.findall(text.lower())
    is_plain = _PLAIN_ARABIC.fullmatch(text) is not None
    if not is_plain:
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))
    text = arabic_stemmer.HAMZA_BEFORE_WAW.sub("و", _MARK.sub("", text)).translate(_ONE_FORM).casefold()
    return _PLAIN_ARABIC_RUN.findall(text) if is_plain else list(_runs(text))


def is_unspaced(text: str) -> bool:
    """Return whether a text has characters of a script that puts no spaces between words."""
    return bool(_UNSPACED_RUN.search(text))


def _runs(text: str) -> Iterator[str]:
    for match in _RUN.finditer(text):
        run, word = match.groups()
        if word is not None:
            yield word
        elif len(run) == 1:
            yield run
        else:
            yield from (run[i : i + 2] for i in range(len(run) - 1))


@lru_cache(maxsize=CACHE_ENTRIES)
def _stemmed(word: str) -> str:
    if word.isascii():
        return stem(word)
    return arabic_stemmer.stem(word) if _ARABIC.fullmatch(word) else word


def forget() -> None:
    """Drop the cached words. Some may come from messages that were erased."""
    _stemmed.cache_clear()
