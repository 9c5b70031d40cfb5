"""Deterministic stand-ins for the clock, the model and the embedder. For our tests and for yours."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


class FakeClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("FakeClock needs a start with a zone")
        self._now = start

    def now(self) -> datetime:
        """Return the current moment of this clock."""
        return self._now

    def advance(self, step: timedelta) -> datetime:
        """Move the clock by `step` and return the new moment."""
        self._now += step
        return self._now


@dataclass(frozen=True)
class ModelCall:
    """The arguments of one call of a fake model."""

    messages: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any] | None
    max_tokens: int | None


Reply = str | Exception


class FakeModel:
    """A model that replies from a list, or by a function of the call. It keeps its `calls`.

    A reply that is an exception is raised. When the list runs out, the last reply repeats. An empty list replies "ok".
    """

    name = "fake-model"

    def __init__(self, replies: Sequence[Reply] | Callable[[ModelCall], Reply] = ("ok",)) -> None:
        self._replies = replies
        self.calls: list[ModelCall] = []

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> str:
        """Note the call and return the next reply."""
        call = ModelCall(tuple(messages), schema, max_tokens)
        self.calls.append(call)
        reply = self._reply(call)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _reply(self, call: ModelCall) -> Reply:
        if callable(self._replies):
            return self._replies(call)
        if not self._replies:
            return "ok"
        return self._replies[min(len(self.calls), len(self._replies)) - 1]


class FakeEmbedder:
    """An embedder that hashes words into unit vectors: texts that share words are near each other.

    The vectors are the same on every machine. It keeps its `calls`; if `failure` is set, calls raise it.
    """

    def __init__(self, dimensions: int = 384) -> None:
        self.name = f"fake-embedder-{dimensions}"
        self.dimensions = dimensions
        self.calls: list[tuple[str, ...]] = []
        self.failure: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Note the call and return one vector for each text."""
        self.calls.append(tuple(texts))
        if self.failure is not None:
            raise self.failure
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.casefold().split() or [""]:
            digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
            for start in range(0, 16, 4):
                index = int.from_bytes(digest[start : start + 4]) % self.dimensions
                vector[index] += 1.0 if digest[16 + start] & 1 else -1.0
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if length else [1.0] + [0.0] * (self.dimensions - 1)
