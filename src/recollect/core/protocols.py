"""The interfaces that callers implement: clock, tokenizer, embedder, model.

Objects are passed in; there are no registries and no factories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable


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


@runtime_checkable
class ExtendingEmbedder(Protocol):
    """An embedder that keeps most vectors of an earlier one. Stores embed only the other texts again."""

    extends: str  # the name of the earlier one; the dimensions are the same

    def keeps_vector(self, text: str) -> bool:
        """Say whether the text has the vector that the earlier embedder gave it."""
        ...


@runtime_checkable
class SelectiveEmbedder(Protocol):
    """An embedder that knows which texts it cannot read. It gives them the zero vector, which is near nothing."""

    def reads(self, text: str) -> bool:
        """Say whether the vector of this text has a meaning."""
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
