"""Keeps the messages of a scope that were read lately, and their passages as a prompt quotes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from sys import getsizeof
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.core.language import passages
from recollect.core.message import Message
from recollect.recall.prompt import fence

CACHE_BYTES: Final = 32 * 1024 * 1024  # memory for the messages that one scope keeps
MESSAGE_OVERHEAD_BYTES: Final = 800  # memory of a message beside its text
MAX_PRELOADED_MESSAGES: Final = 2000  # a larger scope is not read ahead
MAX_PRELOADED_BYTES: Final = 8 * 1024 * 1024  # nothing is read ahead when the kept messages take more
MAX_PRELOADED_WORDS: Final = 1000  # a longer message is read when it is needed
MAX_MIN_TOKENS: Final = 100_000  # a longer text is known to have this many tokens, not how many more


class QuotablePassage(NamedTuple):
    """A passage of a message, ready to be quoted."""

    text: str
    kind: str  # prose, code; "message" for a whole message
    line: str  # as the fence shows it
    min_tokens: int  # the text has no fewer tokens

    @classmethod
    def of(cls, message: Message, text: str, kind: str) -> QuotablePassage:
        """Return a passage of a message, given its text."""
        return cls(text, kind, fence.render_quote(message, text), min_tokens(text, MAX_MIN_TOKENS))


def split_message(message: Message) -> tuple[QuotablePassage, ...]:
    """Split a message into its passages."""
    content = message.content
    return tuple(
        QuotablePassage.of(message, content[start:stop], kind) for start, stop, kind, _ in passages.split(content)
    )


def min_tokens(text: str, limit: int) -> int:
    """Return a number of tokens that a text has at least, without counting tokens. Look no further than `limit` + 1.

    No token reaches from one word into the next, unless the next begins with a slash.
    """
    slashes = text.count("/")
    return len(text.split(None, limit + slashes)) - slashes


def surely_exceeds(text: str, tokens: int) -> bool:
    """Return whether a text has more tokens than these for sure. False means that they must be counted."""
    return tokens < 1 or min_tokens(text, tokens) > tokens


class MessageTexts:
    """Messages of a scope by their index, and their passages. Questions find the same ones again and again.

    They live and die with their scope index, which is read anew when anything in it was erased. When the cache is
    full, the messages that were kept first go first.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._messages: dict[int, Message] = {}
        self._passages: dict[int, tuple[QuotablePassage, ...]] = {}
        self._read_ahead_to: int | None = None  # the lowest index that was read ahead
        self.nbytes = 0

    def get(self, index: int) -> Message | None:
        """Return a message if it is kept."""
        return self._messages.get(index)

    def keep(self, index: int, message: Message) -> None:
        """Keep a message. A damaged one is not kept: it may be repaired."""
        if message.damaged or index in self._messages:
            return
        self._messages[index] = message
        self.nbytes += _size(message)
        while self.nbytes > self._max_bytes:
            first = next(iter(self._messages))
            self.nbytes -= _size(self._messages.pop(first))
            self._passages.pop(first, None)

    def choose_ahead(self, word_counts: Sequence[float] | NDArray[np.float32], limit: int) -> list[int]:
        """Return up to `limit` messages to read ahead, newest first, without long ones.

        `word_counts` has the words of each message in the scope. Reading a few messages takes no longer than reading
        one. So each read brings some more, until a short scope is kept whole.
        """
        if limit <= 0 or len(word_counts) > MAX_PRELOADED_MESSAGES or self.nbytes > MAX_PRELOADED_BYTES:
            return []
        stop = len(word_counts) if self._read_ahead_to is None else self._read_ahead_to
        unread = (
            index
            for index in range(stop - 1, -1, -1)
            if index not in self._messages and word_counts[index] <= MAX_PRELOADED_WORDS
        )
        chosen = list(islice(unread, limit))
        self._read_ahead_to = chosen[-1] if chosen else 0
        return chosen

    def keep_ahead(self, index: int, message: Message) -> None:
        """Keep a message that was read ahead, if the kept messages are not too large already."""
        if self.nbytes <= MAX_PRELOADED_BYTES:
            self.keep(index, message)

    def passages(self, index: int, message: Message) -> tuple[QuotablePassage, ...]:
        """Return the passages of a message. They are kept if the message is."""
        found = self._passages.get(index)
        if found is None:
            found = split_message(message)
            if index in self._messages:
                self._passages[index] = found
        return found


def _size(message: Message) -> int:
    """Return the bytes of a message, about. Its text may be there as a whole, as passages, and as their quotes."""
    return MESSAGE_OVERHEAD_BYTES + 3 * getsizeof(message.content)
