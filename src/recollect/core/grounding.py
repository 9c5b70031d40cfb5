"""Whether a sentence is supported by what was said: memory never invents.

A sentence of a model rests on the messages that have its words. What it names (numbers, addresses, names) must stand
there; of its other telling words, most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from recollect.core import analysis

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
_TELLING: Final = frozenset(analysis.words(_TELLING_WORDS))


class Sources:
    """Texts by the ids of their messages, as words."""

    def __init__(self, texts: Sequence[tuple[tuple[str, ...], str]], *, names: Sequence[str] = ()) -> None:
        """Each text with the ids it stands for. `names` are of speakers: they may be told anywhere."""
        self._ids = [ids for ids, _ in texts]
        self._words = [set(analysis.words(text)) for _, text in texts]
        self._addresses = {address for _, text in texts for address in _addresses(text)}
        self._numbers = {number for _, text in texts for number in _numbers(_digits(text))}
        self._names = set(analysis.words(" ".join(names))) | _TELLING
        self._known: Mapping[str, list[int]] = self._places()

    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, words in enumerate(self._words):
            for word in words:
                found.setdefault(word, []).append(place)
        return found

    def support(self, sentence: str) -> tuple[str, ...]:
        """The ids of the messages a sentence rests on; none if it is not supported."""
        if not self._has_names(sentence):
            return ()
        wanted = set(analysis.words(sentence)) - self._names
        chosen = self._cover(wanted)
        covered = set().union(*(self._words[place] for place in chosen)) & wanted if chosen else set()
        if not chosen or len(covered) < max(1.0, ENOUGH * len(wanted)):
            return ()
        return tuple(dict.fromkeys(one for place in chosen for one in self._ids[place]))

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
        words = set(analysis.words(name)) - self._names
        return bool(words) and not words <= self._known.keys()

    def _cover(self, wanted: set[str]) -> list[int]:
        """Few texts that have as many of the words as possible, taken one by one."""
        chosen: list[int] = []
        left = set(wanted)
        while left and len(chosen) < SOURCES:
            counts: dict[int, int] = {}
            for word in left:
                for place in self._known.get(word, ()):
                    counts[place] = counts.get(place, 0) + 1
            if not counts:
                break
            best = max(counts, key=lambda place: (counts[place], -place))
            chosen.append(best)
            left -= self._words[best]
        return chosen


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
