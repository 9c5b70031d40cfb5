"""Cuts excerpts out of texts that are too long: the stretch that concerns the question, else beginning and end."""

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
_MAX_COMPARED_WORDS: Final = 50_000  # words of a text that are compared with those of the question
_MAX_TRIMMED_CHARACTERS: Final = 24  # a longer word is cut in the middle
_REST_OF_WORD: Final = re.compile(rf"\S{{0,{_MAX_TRIMMED_CHARACTERS}}}\s+")
_CHARACTERS_PER_TOKEN: Final = 4  # about
_MAX_CHARACTERS_PER_TOKEN: Final = 12  # more are not tried
_SURELY_LONG: Final = 200  # characters per token; a longer text is not counted whole

WordPosition = tuple[int, str]  # index of the first character, and the word as recall compares it


class QueryTerms:
    """The words of a question, and where they occur in texts. A text is searched once, however often it is cut."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._found: dict[str, list[WordPosition]] = {}

    def find_in(self, text: str) -> list[WordPosition]:
        """Return the positions of the question's words in a text, in order."""
        if text not in self._found:
            self._found[text] = self._search(text)
        return self._found[text]

    def _search(self, text: str) -> list[WordPosition]:
        """Search by the beginnings of words, then compare whole words as recall does."""
        words, beginnings = self._patterns
        if not words:
            return []
        return [
            (match.start(), word)
            for match in islice(beginnings.finditer(text), _MAX_COMPARED_WORDS)
            for word in words.intersection(analyser.words(match[0]))
        ]

    @cached_property
    def _patterns(self) -> tuple[set[str], re.Pattern[str]]:
        """Return the question's words as recall compares them, and a pattern for words that begin like them."""
        words = set(analyser.words(self._question))
        compared = [word for word in _WORD.findall(self._question) if words.intersection(analyser.words(word))]
        beginnings = {re.escape(beginning) for word in compared for beginning in _beginnings(word)}
        return words, re.compile(rf"(?:{'|'.join(sorted(beginnings))})\w{{0,30}}", re.IGNORECASE)


def make_excerpt(text: str, max_tokens: int, tokenizer: Tokenizer, terms: QueryTerms | None = None) -> str:
    """Return the longest excerpt of a text within so many tokens. With `terms`, it surrounds most of them."""
    if max_tokens <= 0:
        return ""
    if len(text) <= max_tokens * _SURELY_LONG and tokenizer.count(text) <= max_tokens:
        return text
    centre = None if terms is None else _find_centre(terms.find_in(text), max_tokens * _CHARACTERS_PER_TOKEN)
    low, high = 0, min(len(text), max_tokens * _MAX_CHARACTERS_PER_TOKEN)
    while low < high:  # search for the most characters that fit
        middle = (low + high + 1) // 2
        if tokenizer.count(_cut(text, middle, centre)) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return _cut(text, low, centre) if low else ""


def _cut(text: str, characters: int, centre: int | None) -> str:
    if centre is None:
        head = (characters + 1) * 2 // 3
        return text[: _word_end(text, head)] + ELLIPSIS + text[_word_start(text, len(text) - (characters - head)) :]
    start = max(0, min(centre - characters // 2, len(text) - characters))
    stop = start + characters
    before, after = "[…] " if start else "", ELLIPSIS.rstrip() if stop < len(text) else ""
    return f"{before}{text[_word_start(text, start) : _word_end(text, stop)]}{after}"


def _word_start(text: str, index: int) -> int:
    """Return the start of the next word, if `index` is within a word that ends soon; else `index`."""
    rest = _REST_OF_WORD.match(text, index) if index > 0 and not text[index - 1].isspace() else None
    return rest.end() if rest else index


def _word_end(text: str, index: int) -> int:
    """Return the end of the previous word, if `index` is within a word that began shortly before; else `index`."""
    if index >= len(text) or text[index].isspace():
        return index
    blank = max(text.rfind(sign, max(0, index - _MAX_TRIMMED_CHARACTERS), index) for sign in " \n")
    return blank if blank >= 0 else index


def _find_centre(positions: Sequence[WordPosition], window: int) -> int | None:
    """Return the middle of the window with most different words of the question; None if the text has none of them."""
    best, centre, first = 0, None, 0
    counts: dict[str, int] = {}  # of each word within the window
    for start, word in positions:
        counts[word] = counts.get(word, 0) + 1
        while start - positions[first][0] > window:
            outside = positions[first][1]
            counts[outside] -= 1
            if not counts[outside]:
                del counts[outside]
            first += 1
        if len(counts) > best:
            best, centre = len(counts), (start + positions[first][0]) // 2
    return centre


def _beginnings(word: str) -> list[str]:
    """Return how forms of a word begin: with most of its letters. Without spaces between words: pairs of characters."""
    if analyser.is_unspaced(word):
        return [word[index : index + 2] for index in range(max(1, len(word) - 1))]
    return [word[: max(3, len(word) - 3)]]
