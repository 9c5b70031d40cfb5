"""What a narrative is made of, and how long it may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core.models import Record

_LADDER: Final = ((100, 150), (200, 250), (300, 350), (400, 450), (500, 750))


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """One statement of a narrative, complete in itself."""

    text: str
    sources: tuple[str, ...]  # the messages it rests on
    at: datetime  # of the first of them
    weight: float  # how much it matters, so that a later fold can compare


Shorter = dict[tuple[str, str, int], Sequence[Statement]]  # narratives by tokenizer, zone and tokens they may have


@dataclass(frozen=True, slots=True)
class Length:
    """How long a narrative should and may be, by any measure of text (words, tokens)."""

    least: int
    most: int
    measure: Callable[[str], int]


def words(text: str) -> int:
    return len(text.split())


def ladder(version: int) -> Length:
    """The words of a brief's narrative, which grow with its version (counted from 1)."""
    least, most = _LADDER[min(max(version, 1), len(_LADDER)) - 1]
    return Length(least, most, words)


def narrative(statements: Sequence[Statement]) -> str:
    return " ".join(statement.text for statement in statements)
