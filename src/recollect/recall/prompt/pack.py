"""Choosing what goes into a token budget: passages, so that a long message does not eat what others need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from sys import getsizeof
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.core.language import passages
from recollect.core.models import Message
from recollect.recall.prompt import fence

ROOM: Final = 32 * 1024 * 1024  # bytes of messages that one scope keeps
FRAME: Final = 800  # bytes of a message beside its text
SHORT: Final = 2000  # messages of a scope that is kept whole,
SHORT_BYTES: Final = 8 * 1024 * 1024  # if they have no more bytes
LONG: Final = 1000  # words of a message that is not read before it is asked for
MOST: Final = 100_000  # tokens up to which it is known how many a text has at least
NEAR: Final = 0.5  # how much the nearness of a passage counts against that of the message's best one,
LEXICAL: Final = 0.2  # the same for the question's words,
CODE: Final = 0.1  # and what it is worth to be code when code is asked for


class Piece(NamedTuple):
    """A passage of a message."""

    text: str
    kind: str
    line: str  # as a prompt tells it
    least: int  # tokens that the text surely has

    @classmethod
    def of(cls, message: Message, text: str, kind: str) -> Piece:
        return cls(text, kind, fence.line(message, text), least_tokens(text, MOST))


@dataclass(slots=True, eq=False)  # a prompt makes hundreds, and frozen ones take twice as long
class Item:
    """A passage that may enter the prompt. Never changed."""

    index: int  # of its message in the scope
    place: int  # among the passages of the message
    message: Message
    piece: Piece
    score: float


def pieces_of(message: Message) -> tuple[Piece, ...]:
    content = message.content
    return tuple(Piece.of(message, content[start:stop], kind) for start, stop, kind, _ in passages.split(content))


class Said:
    """Messages of a scope by their index, and their passages: the same ones are found again and again.

    Kept with their scope alone, which is read anew when anything in it was erased. The first ones go first.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._messages: dict[int, Message] = {}
        self._pieces: dict[int, tuple[Piece, ...]] = {}
        self._ahead: int | None = None  # down to which index messages were read that nobody had asked for
        self.nbytes = 0

    def get(self, index: int) -> Message | None:
        return self._messages.get(index)

    def keep(self, index: int, message: Message) -> None:
        if message.damaged or index in self._messages:  # what is damaged may be repaired
            return
        self._messages[index] = message
        self.nbytes += _size(message)
        while self.nbytes > self._room:
            first = next(iter(self._messages))
            self.nbytes -= _size(self._messages.pop(first))
            self._pieces.pop(first, None)

    def ahead(self, words: Sequence[float] | NDArray[np.float32], most: int) -> list[int]:
        """Messages of a scope, by the words they have, that will be asked for some day; the newest first, without long
        ones. Few are read as quickly as one, so each reading brings some of them, until a short scope is there."""
        if most <= 0 or len(words) > SHORT or self.nbytes > SHORT_BYTES:
            return []
        last = len(words) if self._ahead is None else self._ahead
        wanted = (index for index in range(last - 1, -1, -1) if index not in self._messages and words[index] <= LONG)
        found = list(islice(wanted, most))
        self._ahead = found[-1] if found else 0
        return found

    def keep_ahead(self, index: int, message: Message) -> None:
        """One that nobody has asked for yet, if there is room."""
        if self.nbytes <= SHORT_BYTES:
            self.keep(index, message)

    def pieces(self, index: int, message: Message) -> tuple[Piece, ...]:
        found = self._pieces.get(index)
        if found is None:
            found = pieces_of(message)
            if index in self._messages:
                self._pieces[index] = found
        return found


def _size(message: Message) -> int:
    """Bytes, about: the text may be there three times, as a whole, as its passages and as they are told."""
    return FRAME + 3 * getsizeof(message.content)


def passage_items(
    index: int,
    message: Message,
    pieces: Sequence[Piece],
    score: float,
    near: Sequence[float],
    lexical: Sequence[float],
    *,
    code: bool,
) -> list[Item]:
    """The passages of a message. The best one has the message's score, the others less.

    `near` and `lexical` say for each passage how it compares; lexical is 1 for the best of all messages.
    """
    worth = [
        NEAR * _at(near, place) + LEXICAL * _at(lexical, place) + CODE * (code and piece.kind == "code")
        for place, piece in enumerate(pieces)
    ]
    best = max(worth, default=0.0)
    return [Item(index, place, message, piece, score + worth[place] - best) for place, piece in enumerate(pieces)]


def _at(values: Sequence[float], place: int) -> float:
    return values[place] if place < len(values) else 0.0


def least_tokens(text: str, most: int) -> int:
    """How many tokens a text has at least, to be known before they are counted; `most` and one more will do.

    No token reaches from one word into the next, unless that begins with a slash.
    """
    slashes = text.count("/")
    return len(text.split(None, most + slashes)) - slashes


def exceeds(text: str, tokens: int) -> bool:
    """Whether a text surely has more tokens."""
    return tokens < 1 or least_tokens(text, tokens) > tokens


def pack(
    items: Sequence[Item], budget: int, cost: Callable[[Item], int], take: Callable[[Item], None]
) -> tuple[list[Item], list[Item]]:
    """Take the items that fit, best first, and return them and the others. One that does not fit is passed over."""
    taken: list[Item] = []
    left_out: list[Item] = []
    for item in sorted(items, key=attrgetter("score"), reverse=True):
        if 1 <= budget >= item.piece.least and (tokens := cost(item)) <= budget:
            take(item)
            taken.append(item)
            budget -= tokens
        else:
            left_out.append(item)
    return taken, left_out
