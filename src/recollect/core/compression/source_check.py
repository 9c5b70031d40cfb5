"""Checks whether a sentence is supported by what was said, so that a model's inventions never enter memory.

Every number, address and name of a sentence must occur in the sources, and at least half of its other content words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language import analyser, speech

MIN_COVERED_SHARE: Final = 0.5  # share of a sentence's content words that its sources must have
MAX_SOURCE_SENTENCES: Final = 4  # sentences that together may support one sentence
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"')\]]+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
# The first word of a sentence has a capital in any case. These words are no names.
_OPENER_WORD_LIST: Final = """
    additionally after all also although another any around as at because before besides both by despite during each
    earlier either eventually every few finally first following for from further here however if in instead last later
    many meanwhile moreover most much neither next no nobody none nothing now on once one only other others otherwise
    overall people perhaps prior second several since so some someone something soon still such then there therefore
    third though thus today together tomorrow two under unless until upon when whenever where whether while with within
    without yes yesterday yet
"""
_OPENERS: Final = frozenset(_OPENER_WORD_LIST.split())
_FIRST_PERSON: Final = re.compile(
    r"\b(?:I|I'm|I've|I'd|I'll|my|me|mine)\b|(?<!\w)(?:أنا|انا|عندي|لدي)(?!\w)", re.IGNORECASE
)
_OPENER_ENDINGS: Final = ("ly", "ing", "ed", "ward", "wards")
# Words with which a summary reports what was said. They need no source.
_REPORTING_WORD_LIST: Final = """
    user assistant person people says said say asks asked ask tells told wants wanted want needs need prefers prefer
    discussed discuss discussion mentions mentioned conversation talk talked about plans planned plan decided decide
    decision agreed requests requested request suggests suggested explains explained explain answers answered provided
    provides provide recommended recommends confirmed confirms noted notes currently previously later earlier also both
    then initially finally included includes including such during after before new now no not lives works has had is
    was likes uses used using called named المستخدم المساعد قال يقول سأل يسأل طلب يريد يفضل قرر ذكر ناقش شرح اقترح أوضح
"""
_REPORTING_WORDS: Final = frozenset(analyser.words(_REPORTING_WORD_LIST))


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that may support a sentence: a message, or a statement of the brief so far.

    `ids` are the messages it stands for. `speaker` is empty if several people may have said it.
    """

    ids: tuple[str, ...]
    text: str
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class _SourceSentence:
    source: SourceText
    words: frozenset[str]
    is_negated: bool
    is_first_person: bool


class SourceIndex:
    """An index of the sentences of source texts, by their words."""

    def __init__(self, sources: Sequence[SourceText], *, names: Sequence[str] = ()) -> None:
        """Index the sources. `names` are the speakers' names, which may occur in any sentence."""
        self._sentences = [
            _SourceSentence(
                source,
                frozenset(analyser.words(text)),
                speech.is_negated(text),
                _FIRST_PERSON.search(text) is not None,
            )
            for source in sources
            for text in split_sentences(source.text)
        ]
        self._addresses = {address for source in sources for address in _find_addresses(source.text)}
        self._numbers = {number for source in sources for number in _find_numbers(_to_ascii_digits(source.text))}
        self._speakers = {source.speaker.casefold(): source.speaker for source in sources if source.speaker}
        self._free_words = set(analyser.words(" ".join(names))) | _REPORTING_WORDS
        self._indexes_by_word: Mapping[str, list[int]] = self._index_words()

    def _index_words(self) -> dict[str, list[int]]:
        indexes: dict[str, list[int]] = {}
        for index, sentence in enumerate(self._sentences):
            for word in sentence.words:
                indexes.setdefault(word, []).append(index)
        return indexes

    def find_support(self, sentence: str) -> tuple[str, ...]:
        """Return the ids of the messages that support a sentence; none if it is not supported."""
        if not self._has_all_names(sentence):
            return ()
        words = set(analyser.words(sentence)) - self._free_words
        chosen = self._choose_sources(words, speech.is_negated(sentence), self._find_subject(sentence))
        covered = set().union(*(source.words for source in chosen)) & words if chosen else set()
        if not chosen or len(covered) < max(1.0, MIN_COVERED_SHARE * len(words)):
            return ()
        return tuple(dict.fromkeys(message_id for sentence in chosen for message_id in sentence.source.ids))

    def _find_subject(self, sentence: str) -> str:
        """Return the speaker that a sentence begins with, in lower case; "" if it begins with none."""
        start = sentence.casefold().removeprefix("the ")
        return next((name for name in self._speakers if start.startswith(f"{name} ")), "")

    def _has_all_names(self, sentence: str) -> bool:
        """Return whether every number, address and name of a sentence occurs in the sources."""
        if not self._addresses.issuperset(_find_addresses(sentence)):
            return False
        text = _ADDRESS.sub(" ", sentence)
        if any(number not in self._numbers for number in _NUMBER.findall(_to_ascii_digits(text))):
            return False
        return not any(self._is_new(name, first=not index) for index, name in enumerate(_find_capitalised(text)))

    def _is_new(self, name: str, *, first: bool) -> bool:
        """Return whether the sources lack this name. The first word of a sentence may be an ordinary word."""
        if first and (name.lower() in _OPENERS or name.lower().endswith(_OPENER_ENDINGS)):
            return False
        words = set(analyser.words(name)) - self._free_words
        return bool(words) and not words <= self._indexes_by_word.keys()

    def _choose_sources(self, words: set[str], is_negated: bool, subject: str) -> list[_SourceSentence]:
        """Return a few source sentences that cover as many of the words as possible, chosen greedily."""
        chosen: list[_SourceSentence] = []
        uncovered = set(words)
        while uncovered and len(chosen) < MAX_SOURCE_SENTENCES:
            counts: dict[int, int] = {}
            for word in uncovered:
                for index in self._indexes_by_word.get(word, ()):
                    counts[index] = counts.get(index, 0) + 1
            candidates = [
                index for index in counts if self._may_support(self._sentences[index], is_negated, subject, not chosen)
            ]
            if not candidates:
                break
            best = self._sentences[max(candidates, key=lambda index: (counts[index], -index))]
            chosen.append(best)
            uncovered -= best.words
        return chosen

    def _may_support(self, sentence: _SourceSentence, is_negated: bool, subject: str, first: bool) -> bool:
        """Return whether a source sentence may support a claim about `subject`.

        The first source must be negated exactly if the claim is. First-person words of one speaker support no claim
        about another.
        """
        if first and sentence.is_negated != is_negated:
            return False
        speaker = sentence.source.speaker
        return not (subject and sentence.is_first_person and speaker and speaker.casefold() != subject)


# Arabic-Indic and Persian digits.
_DIGITS: Final = str.maketrans({chr(start + digit): str(digit) for start in (0x0660, 0x06F0) for digit in range(10)})


def _to_ascii_digits(text: str) -> str:
    return text.translate(_DIGITS)


def _find_numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text, and the parts of dates: for "2026-03-04" also "2026", "03" and "04"."""
    for number in _NUMBER.findall(text):
        yield number
        if "-" in number or "/" in number:
            yield from re.split("[-/]", number)


def _find_addresses(text: str) -> Iterator[str]:
    return (address.rstrip(".,;:!?").casefold() for address in _ADDRESS.findall(text))


def _find_capitalised(sentence: str) -> list[str]:
    """Return the first word, or "" if it has no capital, followed by all other capitalised words."""
    first, *others = _WORD.findall(sentence) or [""]
    return [first if first[:1].isupper() else "", *(word for word in others if word[0].isupper())]


def split_sentences(text: str) -> list[str]:
    """Split a text at line breaks, after closing punctuation that a space follows, and after Chinese full stops."""
    pieces = re.split(r"(?<=[.!?؟])\s+|(?<=[。！？])|\n+", text)
    return [piece.strip() for piece in pieces if piece.strip()]
