"""Pieces of texts that are too long for their place: what bears on the question, else the beginning and the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Final

from recollect.core.language import analyser
from recollect.core.protocols import Tokenizer

ELLIPSIS: Final = " […] "
_WORD: Final = re.compile(r"\w+")
_COMPARED: Final = 50_000  # words that are compared with the question's
_WORD_LENGTH: Final = 24
_CUT_WORD: Final = re.compile(rf"\S{{0,{_WORD_LENGTH}}}\s+")
_EACH: Final = 4  # characters of a token, about


class Asked:
    """Where words of a question stand in texts. A text is read once, however often it is cut."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._known: dict[str, list[tuple[int, str]]] = {}

    def places(self, text: str) -> list[tuple[int, str]]:
        if text not in self._known:
            self._known[text] = self._read(text)
        return self._known[text]

    def _read(self, text: str) -> list[tuple[int, str]]:
        """Words are looked for by how they begin, and compared as recall compares."""
        asked, begun = self._words
        if not asked:
            return []
        return [
            (match.start(), word)
            for match in islice(begun.finditer(text), _COMPARED)
            for word in asked.intersection(analyser.words(match[0]))
        ]

    @cached_property
    def _words(self) -> tuple[set[str], re.Pattern[str]]:
        """The words as recall compares them, and what finds their beginnings."""
        asked = set(analyser.words(self._question))
        telling = [word for word in _WORD.findall(self._question) if asked.intersection(analyser.words(word))]
        begun = {re.escape(piece) for word in telling for piece in _beginnings(word)}
        return asked, re.compile(rf"(?:{'|'.join(sorted(begun))})\w{{0,30}}", re.IGNORECASE)


def excerpt(text: str, tokens: int, tokenizer: Tokenizer, asked: Asked | None = None) -> str:
    """As much of a text as so many tokens hold."""
    if tokens <= 0:
        return ""
    if len(text) <= tokens * 200 and tokenizer.count(text) <= tokens:
        return text
    centre = None if asked is None else _centre(asked.places(text), tokens * _EACH)
    low, high = 0, min(len(text), tokens * 12)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        if tokenizer.count(_piece(text, middle, centre)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return _piece(text, low, centre) if low else ""


def _piece(text: str, characters: int, centre: int | None) -> str:
    if centre is None:
        head = (characters + 1) * 2 // 3
        return text[: _word_end(text, head)] + ELLIPSIS + text[_word_start(text, len(text) - (characters - head)) :]
    start = max(0, min(centre - characters // 2, len(text) - characters))
    stop = start + characters
    before, after = "[…] " if start else "", ELLIPSIS.rstrip() if stop < len(text) else ""
    return f"{before}{text[_word_start(text, start) : _word_end(text, stop)]}{after}"


def _word_start(text: str, place: int) -> int:
    """Where the next word begins, if one is cut here and ends soon."""
    begun = _CUT_WORD.match(text, place) if place > 0 and not text[place - 1].isspace() else None
    return begun.end() if begun else place


def _word_end(text: str, place: int) -> int:
    """Where the last word ended, if one is cut here and began a moment ago."""
    if place >= len(text) or text[place].isspace():
        return place
    blank = max(text.rfind(sign, max(0, place - _WORD_LENGTH), place) for sign in " \n")
    return blank if blank >= 0 else place


def _centre(places: Sequence[tuple[int, str]], window: int) -> int | None:
    """The middle of the stretch that has most different words of the question; None if none stands in the text."""
    best, centre, first = 0, None, 0
    within: dict[str, int] = {}
    for at, word in places:
        within[word] = within.get(word, 0) + 1
        while at - places[first][0] > window:
            old = places[first][1]
            within[old] -= 1
            if not within[old]:
                del within[old]
            first += 1
        if len(within) > best:
            best, centre = len(within), (at + places[first][0]) // 2
    return centre


def _beginnings(word: str) -> list[str]:
    """Of a word with spaces around it most of its letters; of a script without spaces every pair of characters."""
    if analyser.is_unspaced(word):
        return [word[place : place + 2] for place in range(max(1, len(word) - 1))]
    return [word[: max(3, len(word) - 3)]]
