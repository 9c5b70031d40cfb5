"""Choosing what goes into a token budget: passages, so that a long message does not eat what others need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Final

from recollect.core import passages
from recollect.core.models import Message

NEAR: Final = 0.5  # how much the nearness of a passage counts against that of the message's best one,
LEXICAL: Final = 0.2  # the same for the question's words,
CODE: Final = 0.1  # and what it is worth to be code when code is asked for


@dataclass(frozen=True, slots=True)
class Item:
    """A passage that may enter the prompt."""

    index: int  # of its message in the scope
    place: int  # among the passages of the message
    message: Message
    text: str
    kind: str
    score: float


def passage_items(
    index: int, message: Message, score: float, near: Sequence[float], lexical: Sequence[float], *, code: bool
) -> list[Item]:
    """The passages of a message. The best one has the message's score, the others less.

    `near` and `lexical` say for each passage how it compares; lexical is 1 for the best of all messages.
    """
    spans = _spans(message.content)
    worth = [
        NEAR * _at(near, place) + LEXICAL * _at(lexical, place) + CODE * (code and span.kind == "code")
        for place, span in enumerate(spans)
    ]
    best = max(worth, default=0.0)
    return [
        Item(
            index,
            place,
            message,
            message.content[span.start : span.stop],
            span.kind,
            score + worth[place] - best,
        )
        for place, span in enumerate(spans)
    ]


@lru_cache(maxsize=1024)
def _spans(content: str) -> list[passages.Passage]:
    """Cutting a long message takes a millisecond, and the same ones are found again and again."""
    return passages.split(content)


def _at(values: Sequence[float], place: int) -> float:
    return values[place] if place < len(values) else 0.0


def exceeds(text: str, tokens: int) -> bool:
    """Whether a text surely has more tokens, to be known before they are counted.

    No token reaches from one word into the next, unless that begins with a slash.
    """
    most = tokens + text.count("/")
    return tokens < 1 or len(text.split(None, most)) > most


def pack(
    items: Sequence[Item], budget: int, cost: Callable[[Item], int], take: Callable[[Item], None]
) -> tuple[list[Item], list[Item]]:
    """Take the items that fit, best first, and return them and the others. One that does not fit is passed over."""
    taken: list[Item] = []
    left_out: list[Item] = []
    for item in sorted(items, key=attrgetter("score"), reverse=True):
        if not exceeds(item.text, budget) and (tokens := cost(item)) <= budget:
            take(item)
            taken.append(item)
            budget -= tokens
        else:
            left_out.append(item)
    return taken, left_out
