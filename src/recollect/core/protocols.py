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


class PromptTokenizer(Tokenizer, Protocol):
    """Counts what a prompt is made of: messages, and texts that share most of their lines."""

    def count_message(self, message: Mapping[str, Any]) -> int:
        """The tokens of a message as an API takes it."""
        ...

    def count_line(self, line: str) -> int:
        """The tokens of a line with its end."""
        ...

    def count_lines(self, lines: Sequence[str]) -> int:
        """The tokens of the lines as one text."""
        ...


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
