"""What is plugged in from outside. Objects are passed in; there are no registries or factories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The current moment, with a zone."""
        ...


class Tokenizer(Protocol):
    """Counts tokens. `exact` is False when the count is an estimate."""

    name: str
    exact: bool

    def count(self, text: str) -> int: ...


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of two different `name`s are never compared."""

    name: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class Model(Protocol):
    """Answers chat messages with text."""

    name: str

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> str:
        """The answer's text. With `schema`, the provider is asked for JSON of that shape."""
        ...
