"""Whether a sentence is supported by what was said: memory never invents.

A sentence of a model rests on the messages that have its words. What it names (numbers, addresses, names) must stand
there; of its other telling words, most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from recollect.core import analysis

ENOUGH: Final = 0.5  # of the telling words of a sentence that its sources have
SOURCES: Final = 4  # messages that a sentence may rest on
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"')\]]+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_NAME: Final = re.compile(r"(?<![.!?:«»\"“”\w] )(?<!^)(?<![\w'’-])[A-Z][\w'’-]*[a-z][\w'’-]*")
# Words with which a summary tells what was said, and which nobody need have said.
_TELLING: Final = frozenset(
    analysis.words(
        "user assistant person people says said say asks asked ask tells told wants wanted want needs need prefers prefer "
        "discussed discuss discussion mentions mentioned conversation talk talked about plans planned plan decided decide "
        "decision agreed requests requested request suggests suggested explains explained explain answers answered "
        "provided provides provide recommended recommends confirmed confirms noted notes currently previously later "
        "earlier also both then initially finally included includes including such during after before new now no not "
        "lives works has had is was likes uses used using called named المستخدم المساعد قال يقول سأل يسأل طلب يريد "
        "يفضل قرر ذكر ناقش شرح اقترح أوضح"
    )
)


class Sources:
    """Texts by the ids of their messages, as words."""

    def __init__(self, texts: Sequence[tuple[tuple[str, ...], str]], *, names: Sequence[str] = ()) -> None:
        """Each text with the ids it stands for. `names` are of speakers: they may be told anywhere."""
        self._ids = [ids for ids, _ in texts]
        self._words = [set(analysis.words(text)) for _, text in texts]
        self._whole = " ".join(text for _, text in texts).casefold()
        self._spoken = " ".join(_digits(text) for _, text in texts)
        self._numbers = set(_NUMBER.findall(self._spoken))
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
        for address in _ADDRESS.findall(sentence):
            if address.rstrip(".,;:!?").casefold() not in self._whole:
                return False
        for number in _NUMBER.findall(_digits(_ADDRESS.sub(" ", sentence))):
            if number not in self._numbers and number not in self._spoken:
                return False
        for name in _NAME.findall(sentence):
            words = set(analysis.words(name)) - self._names
            if words and not words <= self._known.keys():
                return False
        return True

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


def sentences(text: str) -> list[str]:
    """A narrative in sentences: at a sign that ends one and is followed by a blank, and at line breaks."""
    found = re.split(r"(?<=[.!?؟])\s+|(?<=[。！？])|\n+", text)
    return [one.strip() for one in found if one.strip()]
