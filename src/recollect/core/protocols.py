"""The interfaces that callers implement: clock, tokenizer, embedder, model.

Objects are passed in; there are no registries and no factories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol


class Clock(Protocol):
    """Gives the current time."""

    def now(self) -> datetime:
        """Return the current moment, with a zone."""
        ...


class Tokenizer(Protocol):
    """Counts tokens. `exact` is False when the count is an estimate."""

    name: str
    exact: bool

    def count(self, text: str) -> int:
        """Return the number of tokens in a text."""
        ...


class PromptTokenizer(Tokenizer, Protocol):
    """Counts the tokens of a prompt's parts. Texts that share most of their lines are counted cheaply, line by line."""

    def count_message(self, message: Mapping[str, Any]) -> int:
        """Return the tokens of a message in the form that an API takes."""
        ...

    def count_line(self, line: str) -> int:
        """Return the tokens of a line with its line break."""
        ...

    def count_lines(self, lines: Sequence[str]) -> int:
        """Return the tokens of the lines joined to one text."""
        ...

    def count_added(self, line: str, later: str) -> int:
        """Return the tokens that a line with its line break adds before a text."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of two different `name`s are never compared."""

    name: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in their order."""
        ...


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
        """Return the text of the answer. With `schema`, the provider is asked for JSON of that shape."""
        ...
