"""Whether a sentence is supported by what was said: memory never invents.

A sentence of a model rests on the messages that have its words. What it names (numbers, addresses, names) must stand
there; of its other telling words, most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language import analyser, speech

ENOUGH: Final = 0.5  # of the telling words of a sentence that its sources have
SOURCES: Final = 4  # messages that a sentence may rest on
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"')\]]+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_CAPITAL: Final = re.compile(r"[^\W\d_][\w'’-]*")
# A sentence begins with a capital whatever its first word is; these are no names.
_OPENER_WORDS: Final = """
    additionally after all also although another any around as at because before besides both by despite during each
    earlier either eventually every few finally first following for from further here however if in instead last later
    many meanwhile moreover most much neither next no nobody none nothing now on once one only other others otherwise
    overall people perhaps prior second several since so some someone something soon still such then there therefore
    third though thus today together tomorrow two under unless until upon when whenever where whether while with within
    without yes yesterday yet
"""
_OPENERS: Final = frozenset(_OPENER_WORDS.split())
_OF_ONESELF: Final = re.compile(
    r"\b(?:I|I'm|I've|I'd|I'll|my|me|mine)\b|(?<!\w)(?:أنا|انا|عندي|لدي)(?!\w)", re.IGNORECASE
)
_OPENING_ENDINGS: Final = ("ly", "ing", "ed", "ward", "wards")
# Words with which a summary tells what was said, and which nobody need have said.
_TELLING_WORDS: Final = """
    user assistant person people says said say asks asked ask tells told wants wanted want needs need prefers prefer
    discussed discuss discussion mentions mentioned conversation talk talked about plans planned plan decided decide
    decision agreed requests requested request suggests suggested explains explained explain answers answered provided
    provides provide recommended recommends confirmed confirms noted notes currently previously later earlier also both
    then initially finally included includes including such during after before new now no not lives works has had is
    was likes uses used using called named المستخدم المساعد قال يقول سأل يسأل طلب يريد يفضل قرر ذكر ناقش شرح اقترح أوضح
"""
_TELLING: Final = frozenset(analyser.words(_TELLING_WORDS))


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said: by whom, and in which messages."""

    ids: tuple[str, ...]
    text: str
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence of it."""

    said: Said
    words: frozenset[str]
    denies: bool
    of_oneself: bool


class Sources:
    """What a sentence may rest on, sentence by sentence."""

    def __init__(self, said: Sequence[Said], *, names: Sequence[str] = ()) -> None:
        """`names` are of speakers: they may be told anywhere."""
        self._units = [
            _Unit(one, frozenset(analyser.words(text)), speech.denies(text), _OF_ONESELF.search(text) is not None)
            for one in said
            for text in sentences(one.text)
        ]
        self._addresses = {address for one in said for address in _addresses(one.text)}
        self._numbers = {number for one in said for number in _numbers(_digits(one.text))}
        self._speakers = {one.speaker.casefold(): one.speaker for one in said if one.speaker}
        self._names = set(analyser.words(" ".join(names))) | _TELLING
        self._known: Mapping[str, list[int]] = self._places()

    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, unit in enumerate(self._units):
            for word in unit.words:
                found.setdefault(word, []).append(place)
        return found

    def support(self, sentence: str) -> tuple[str, ...]:
        """The ids of the messages a sentence rests on; none if it is not supported."""
        if not self._has_names(sentence):
            return ()
        wanted = set(analyser.words(sentence)) - self._names
        chosen = self._cover(wanted, speech.denies(sentence), self._subject(sentence))
        covered = set().union(*(unit.words for unit in chosen)) & wanted if chosen else set()
        if not chosen or len(covered) < max(1.0, ENOUGH * len(wanted)):
            return ()
        return tuple(dict.fromkeys(one for unit in chosen for one in unit.said.ids))

    def _subject(self, sentence: str) -> str:
        """Of whom a sentence tells, if it begins with a speaker."""
        start = sentence.casefold().removeprefix("the ")
        return next((name for name in self._speakers if start.startswith(f"{name} ")), "")

    def _has_names(self, sentence: str) -> bool:
        """Whether every number, address and name of a sentence was said."""
        if not self._addresses.issuperset(_addresses(sentence)):
            return False
        bare = _ADDRESS.sub(" ", sentence)
        if any(number not in self._numbers for number in _NUMBER.findall(_digits(bare))):
            return False
        return not any(self._is_new(name, first=not place) for place, name in enumerate(_capitals(bare)))

    def _is_new(self, name: str, *, first: bool) -> bool:
        """Whether nobody said this name. The first word of a sentence may be any word of language."""
        if first and (name.lower() in _OPENERS or name.lower().endswith(_OPENING_ENDINGS)):
            return False
        words = set(analyser.words(name)) - self._names
        return bool(words) and not words <= self._known.keys()

    def _cover(self, wanted: set[str], denies: bool, subject: str) -> list[_Unit]:
        """Few sentences that have as many of the words as possible, taken one by one.

        One that denies does not support what affirms, nor the other way round; and what somebody says of himself
        supports nothing about another.
        """
        chosen: list[_Unit] = []
        left = set(wanted)
        while left and len(chosen) < SOURCES:
            counts: dict[int, int] = {}
            for word in left:
                for place in self._known.get(word, ()):
                    counts[place] = counts.get(place, 0) + 1
            able = [place for place in counts if self._supports(self._units[place], denies, subject, not chosen)]
            if not able:
                break
            best = self._units[max(able, key=lambda place: (counts[place], -place))]
            chosen.append(best)
            left -= best.words
        return chosen

    def _supports(self, unit: _Unit, denies: bool, subject: str, first: bool) -> bool:
        if first and unit.denies != denies:
            return False
        return not (subject and unit.of_oneself and unit.said.speaker and unit.said.speaker.casefold() != subject)


_DIGITS: Final = str.maketrans({chr(start + digit): str(digit) for start in (0x0660, 0x06F0) for digit in range(10)})


def _digits(text: str) -> str:
    return text.translate(_DIGITS)


def _numbers(text: str) -> Iterator[str]:
    """The numbers of a text, whole and by their parts: of "2026-03-04" also "2026"."""
    for found in _NUMBER.findall(text):
        yield found
        if "-" in found or "/" in found:
            yield from re.split("[-/]", found)


def _addresses(text: str) -> Iterator[str]:
    return (address.rstrip(".,;:!?").casefold() for address in _ADDRESS.findall(text))


def _capitals(sentence: str) -> list[str]:
    """The first word, if it has a capital (else nothing in its place), and the others that have one."""
    first, *others = _CAPITAL.findall(sentence) or [""]
    return [first if first[:1].isupper() else "", *(word for word in others if word[0].isupper())]


def sentences(text: str) -> list[str]:
    """A narrative in sentences: at a sign that ends one and is followed by a blank, and at line breaks."""
    found = re.split(r"(?<=[.!?؟])\s+|(?<=[。！？])|\n+", text)
    return [one.strip() for one in found if one.strip()]
