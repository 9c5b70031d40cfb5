"""Deterministic stand-ins for what lives outside: clock, model, embedder. For our tests and for yours."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("FakeClock needs a start with a zone")
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, step: timedelta) -> datetime:
        self._now += step
        return self._now


@dataclass(frozen=True)
class ModelCall:
    """What a fake model was asked."""

    messages: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any] | None
    max_tokens: int | None


Reply = str | Exception


class FakeModel:
    """Answers from a list, or by a function of the call; exceptions in it are raised. Remembers `calls`.

    When the list runs out, the last reply repeats. With no replies at all it answers "ok".
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
    """Hashes words into unit vectors: texts that share words are near each other, on every machine alike."""

    def __init__(self, dimensions: int = 384) -> None:
        self.name = f"fake-embedder-{dimensions}"
        self.dimensions = dimensions
        self.calls: list[tuple[str, ...]] = []
        self.failure: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(tuple(texts))
        if self.failure is not None:
            raise self.failure
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.casefold().split() or [""]:
            digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
            for start in range(0, 16, 4):
                place = int.from_bytes(digest[start : start + 4]) % self.dimensions
                vector[place] += 1.0 if digest[16 + start] & 1 else -1.0
        length = math.sqrt(sum(x * x for x in vector))
        return [x / length for x in vector] if length else [1.0] + [0.0] * (self.dimensions - 1)
