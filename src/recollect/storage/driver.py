"""What the store needs of a database. Two drivers keep this promise; nothing else knows which one runs.

A job is a plain function of one transaction. It runs on a driver's own thread and never meets an `await`, so no
transaction is ever open while a model or an embedder thinks. A write job is acknowledged (its future resolves) only
after it is durable. It may run twice if the database asks for it, so it must have no effect outside the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from recollect.core.models import Finding

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
Row = dict[str, Any]
Params = Mapping[str, Any]


class Transaction(Protocol):
    """Runs named queries, all on one snapshot."""

    def all(self, query: str, **params: Any) -> list[Row]: ...

    def one(self, query: str, **params: Any) -> Row | None: ...

    def run(self, query: str, **params: Any) -> int:
        """Execute and return how many rows it changed."""
        ...

    def many(self, query: str, rows: Sequence[Params]) -> None:
        """Execute once for each row of parameters."""
        ...


Job = Callable[[Transaction], T]


def generations_in(epoch: str) -> int:
    """What a restore adds to the generation of each conversation: sums of many of them still are 64-bit integers."""
    return (int(epoch[:8], 16) >> 2) + 1


class Run(Protocol):
    """Runs a job in a transaction of its own."""

    def __call__(self, job: Job[T], /) -> Awaitable[T]: ...


class NamedRun(Protocol):
    """The same, for what is read again and again under a name; see `Driver.read`."""

    def __call__(self, job: Job[T], name: Hashable = None, /) -> Awaitable[T]: ...


Handler = Callable[[Transaction, Sequence[I]], Sequence[T]]  # one result for each item


@dataclass(frozen=True, slots=True)
class Purged:
    """What became of erased bytes: the files that hold the database, and whether someone still keeps old pages."""

    files: tuple[str, ...] = ()
    pending: bool = False
    kept_elsewhere: tuple[str, ...] = ()


class Driver(Protocol):
    dialect: str
    inline: bool  # whether short reads run on the thread that asks

    def open(self, now: int) -> None:
        """Connect, and bring the schema up to date (`now` in microseconds dates the migrations)."""
        ...

    def read_inline(self) -> None:
        """From now on short reads run on the thread that asks, where this database can do that."""
        ...

    def read(self, job: Job[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        """A `short` one reads few rows by their keys. If it has a name, the answer may be the one that was given under
        this name before, as long as nobody has written anything since."""
        ...

    def forget(self) -> None:
        """Answers that were kept under names go."""
        ...

    def write(self, job: Job[T]) -> Future[T]: ...

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        """Like a write job, but items that wait at the same time may be handled by one call of the handler."""
        ...

    def purge(self) -> Future[Purged]:
        """Make sure that deleted rows are gone from the files too, as far as this database can."""
        ...

    def tidy(self) -> Future[None]:
        """Small upkeep between jobs, such as moving the write-ahead log into the database."""
        ...

    def examine(self) -> Future[list[Finding]]:
        """Look for damage, and say which database runs."""
        ...

    def backup(self, target: str) -> Future[None]:
        """Write a consistent copy of everything to a new SQLite file, while others go on writing."""
        ...

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[None]:
        """Replace everything by what a backup holds, in one step that either happens or does not.

        With it comes the new `epoch`, a random hexadecimal number. No conversation has a generation any more that it
        had before, so whoever was at work on what is replaced finds that it is gone, even where keys come again. With
        `save_to`, a backup of exactly what is replaced is written first.
        """
        ...

    def close(self) -> None: ...
