"""The statements of a narrative, the length that it may have, and its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from recollect.core.models import Record

_BULLET: Final = "- "
_BULLET_MARK: Final = re.compile(r"^[ \t]{0,8}(?:[-*•–]|\d{1,3}[.)])[ \t]{1,8}")
# Minimum and maximum words of a brief's narrative, for the versions 1 to 4, and for every later version.
_WORDS_BY_VERSION: Final = ((100, 150), (200, 250), (300, 350), (400, 450), (500, 750))

NarrativeForm = Literal["prose", "bullets"]


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """One sentence or a few, which can be understood without the others of its narrative."""

    text: str
    sources: tuple[str, ...]  # ids of the messages that it is taken from
    at: datetime  # time of the first source
    weight: float  # importance; the next compression compares it with the weights of new statements


# Cached shorter forms of one narrative. The key is (tokenizer name, time zone, maximum tokens).
ShorterNarratives = dict[tuple[str, str, int], Sequence[Statement]]


@dataclass(frozen=True, slots=True)
class Length:
    """Limits of a narrative's length. `measure` counts the unit of both limits in a text: words or tokens.

    `form` is the form in which the whole is measured: marks of bullets count too.
    """

    minimum: int  # aimed at; a narrative may be shorter if there is not enough to summarise
    maximum: int  # never exceeded
    measure: Callable[[str], int]
    form: NarrativeForm = "prose"

    def measure_all(self, statements: Sequence[Statement]) -> int:
        """Return the length of a narrative of these statements."""
        return self.measure(render_narrative(statements, self.form))

    def measure_next(self, text: str) -> int:
        """Return the length that one more statement adds."""
        return self.measure(f"{_BULLET}{text}\n" if self.form == "bullets" else f" {text}")

    def at_most(self, maximum: int) -> Length:
        """Return the length with a lower maximum, if this one's is higher."""
        return replace(self, minimum=min(self.minimum, maximum), maximum=min(self.maximum, maximum))


def count_words(text: str) -> int:
    """Return the number of words, separated by white space."""
    return len(text.split())


def length_for_version(version: int) -> Length:
    """Return the length in words of a brief's narrative. It grows with the version, which counts from 1."""
    minimum, maximum = _WORDS_BY_VERSION[min(max(version, 1), len(_WORDS_BY_VERSION)) - 1]
    return Length(minimum, maximum, count_words)


def render_narrative(statements: Sequence[Statement], form: NarrativeForm = "prose") -> str:
    """Return the statements as one text, in their order: one after another, or as bullets with a line for each."""
    if form == "bullets":
        return "\n".join(_BULLET + " ".join(statement.text.split()) for statement in statements)
    return " ".join(statement.text for statement in statements)


def split_bullets(text: str) -> list[str]:
    """Return the lines of a text without their marks. A model may mark them with a dash, a star, a dot or a number."""
    lines = (_BULLET_MARK.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if line]
