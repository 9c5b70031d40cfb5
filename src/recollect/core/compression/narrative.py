"""The statements of a narrative, the length that it may have, and its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core.models import Record

# Minimum and maximum words of a brief's narrative, for the versions 1 to 4, and for every later version.
_WORDS_BY_VERSION: Final = ((100, 150), (200, 250), (300, 350), (400, 450), (500, 750))


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
    """Limits of a narrative's length. `measure` counts the unit of both limits in a text: words or tokens."""

    minimum: int  # aimed at; a narrative may be shorter if there is not enough to summarise
    maximum: int  # never exceeded
    measure: Callable[[str], int]


def count_words(text: str) -> int:
    """Return the number of words, separated by white space."""
    return len(text.split())


def length_for_version(version: int) -> Length:
    """Return the length in words of a brief's narrative. It grows with the version, which counts from 1."""
    minimum, maximum = _WORDS_BY_VERSION[min(max(version, 1), len(_WORDS_BY_VERSION)) - 1]
    return Length(minimum, maximum, count_words)


def render_narrative(statements: Sequence[Statement]) -> str:
    """Return the statements as one text, in their order."""
    return " ".join(statement.text for statement in statements)
