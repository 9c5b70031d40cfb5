"""The one analyser: from text to the words that recall compares, the same on every database and for every query.

A change here that changes the words must raise VERSION: the words of older messages are then made anew by the worker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from recollect.core.language.stemmer import stem

VERSION: Final = 2
WORD_LIMIT: Final = 64  # characters; longer runs (keys, base64) are cut, in index and query alike

# Scripts that put no spaces between words: they are indexed by overlapping pairs of characters.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]")
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"  # with their vowel signs, which are no letters to Python
_RUN: Final = re.compile(rf"([{_UNSPACED}]+)|((?:[{_INDIC}]|(?![{_UNSPACED}])[^\W_])+)")
_ASCII_RUN: Final = re.compile("[a-z0-9]+")
# Every add passes here. A pattern that begins with a rare character is looked for several times as fast as one that
# begins with what stands before it.
_APOSTROPHE: Final = re.compile(r"['’ʼ](?<=\w.)(?=\w)")
# Names that programs use: snake_case, v1.2.3, main.py, PROJ-123, camelCase. Found as a whole and by their parts.
_JOINED: Final = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+|[A-Za-z]+-[0-9]+)")
_CAMEL: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]*)+")
_JOINT: Final = re.compile(r"[_.-](?<=[A-Za-z0-9].)(?=[A-Za-z0-9])")  # without one, nothing is joined,
_HUMP: Final = re.compile(r"[A-Z](?<=[a-z0-9].)")  # and without one, nothing is camelCase
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_MARK: Final = re.compile("[\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200c\u200d\u00ad]")  # tatweel, tashkeel, joiners
_ARABIC: Final = re.compile("[\u0620-\u064a]+")
_LETTERS: Final = str.maketrans(
    {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ؤ": "و", "ئ": "ي"}
    | {chr(0x0660 + digit): str(digit) for digit in range(10)}
    | {chr(0x06F0 + digit): str(digit) for digit in range(10)}
)
_ARTICLES: Final = ("وال", "فال", "بال", "كال", "ال", "لل")
_ENDINGS: Final = ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي")
_SHORTEST_ROOT: Final = 3

_STOP_TEXT: Final = """
    a about am an and are as at be been being but by can could d did do does doing for from had has have having
    he her hers him his how i id if ill im in into is isnt it its ive just ll m me my of on or our ours re s she
    should so t than that thats the their them then there these they this those to ve was we were what whats
    when where which who whom why will with would you your yours dont didnt doesnt في من علي الي عن مع هذا هذه
    ذلك التي الذي ما هل كم متي اين كيف لماذا ان او ثم لا لم لن كان كانت هو هي انا انت نحن ماذا قد لقد كل
"""
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())


def words(text: str) -> list[str]:
    """The telling words of a text in their order, normalised and stemmed; names of programs also as a whole.

    Words that carry no meaning of their own are nearly half of a talk and never asked for: they are left out.
    """
    return [*(word for word in map(telling, raw_words(text)) if word is not None), *compounds(text)]


def telling(raw: str) -> str | None:
    """The word that stands in the index for one of a text, if any does."""
    return None if raw in STOP_WORDS else _stemmed(raw[:WORD_LIMIT])


def query_words(text: str) -> list[str]:
    """The words a question asks for, each once."""
    return list(dict.fromkeys(words(text)))


def compounds(text: str) -> list[str]:
    """The names of programs in a text, as they stand in the index."""
    return [whole.lower()[:WORD_LIMIT] for whole in _compounds(text)]


def _compounds(text: str) -> Iterator[str]:
    if _JOINT.search(text):
        yield from _JOINED.findall(text)
    if _HUMP.search(text):
        yield from _CAMEL.findall(text)


def raw_words(text: str) -> list[str]:
    """All words of a text in their order, normalised, each at its full length."""
    text = _HUMP.sub(r" \g<0>", _APOSTROPHE.sub("", text))
    if text.isascii():  # most text: the same words, found faster
        return _ASCII_RUN.findall(text.lower())
    text = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    text = _MARK.sub("", unicodedata.normalize("NFC", text)).translate(_LETTERS)
    return list(_runs(text.casefold()))


def is_unspaced(text: str) -> bool:
    """Whether a text is in a script that puts no spaces between words."""
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


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str) -> str:
    if word.isascii():
        return stem(word)
    return _arabic_stem(word) if _ARABIC.fullmatch(word) else word


def forget() -> None:
    """Drop the words that are held so that they need not be stemmed again: some may be of what was erased."""
    _stemmed.cache_clear()


def _arabic_stem(word: str) -> str:
    """Without the conjunction, the article and the commonest endings, where a root remains."""
    if word.startswith("و") and len(word) > _SHORTEST_ROOT + 1 and not word.startswith("وال"):
        word = word[1:]
    for article in _ARTICLES:
        if word.startswith(article) and len(word) >= len(article) + _SHORTEST_ROOT - 1:
            word = word[len(article) :]
            break
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + _SHORTEST_ROOT:
            word = word[: -len(ending)]
    return word
