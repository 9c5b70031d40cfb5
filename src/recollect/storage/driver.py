"""The protocol of a database: what the store needs of it. Two drivers implement it; nothing else knows which one runs.

The store hands a driver plain functions of one transaction. They run on the driver's own thread and never meet an
`await`, so no transaction is open while a model or an embedder works. The future of a write resolves only when the
write is durable. A driver may run a function twice if the database asks for it, so the function must have no effect
outside the transaction.
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
        """Execute a query and return how many rows it changed."""
        ...

    def many(self, query: str, rows: Sequence[Params]) -> None:
        """Execute a query once for each row of parameters."""
        ...

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows, given by the names of their columns, into a table of `storage/tables.py`."""
        ...


TxFunction = Callable[[Transaction], T]


def generation_step(epoch: str) -> int:
    """Return what a restore adds to the generation of each conversation.

    Small enough that the sum over many conversations is still a 64-bit integer.
    """
    return (int(epoch[:8], 16) >> 2) + 1


class RunInTransaction(Protocol):
    """Runs a function in a transaction of its own."""

    def __call__(self, function: TxFunction[T], /) -> Awaitable[T]: ...


class RunNamedInTransaction(Protocol):
    """Runs a function in a transaction of its own. A result with a name may come from a cache; see `Driver.read`."""

    def __call__(self, function: TxFunction[T], name: Hashable = None, /) -> Awaitable[T]: ...


Handler = Callable[[Transaction, Sequence[I]], Sequence[T]]  # returns one result for each item


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The outcome of removing erased bytes from the database's files.

    `pending` says that bytes are left: old pages are still in use, or the file was rewritten a moment ago.
    `kept_elsewhere` names copies out of reach, such as backups.
    """

    files: tuple[str, ...] = ()
    pending: bool = False
    kept_elsewhere: tuple[str, ...] = ()


class Driver(Protocol):
    """A database that runs the named queries of one dialect."""

    dialect: str
    inline: bool  # whether short reads run on the caller's thread

    def has_schema(self) -> bool:
        """Say whether the database exists and has our tables. May be asked before `open`; changes nothing. Blocks."""
        ...

    def open(self, now: int) -> None:
        """Connect, and bring the schema up to date. `now`, in microseconds, dates the migrations."""
        ...

    def enable_inline_reads(self) -> None:
        """Run short reads on the caller's thread from now on, if this database can do that."""
        ...

    def read(self, function: TxFunction[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        """Run a function in a read transaction. A `short` one reads few rows by their keys.

        The result of a short read with a name may be cached under this name until anything is written.
        """
        ...

    def forget(self) -> None:
        """Drop the results that are cached under names."""
        ...

    def write(self, function: TxFunction[T]) -> Future[T]:
        """Run a function in a write transaction. The future resolves when it is durable."""
        ...

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        """Write an item. Items that wait at the same time may be handled by one call of the handler."""
        ...

    def purge(self, *, may_wait: bool = True) -> Future[PurgeResult]:
        """Remove deleted rows from the files too, as far as this database can.

        What must wait for its turn is left pending if the caller may not wait.
        """
        ...

    def find_in_files(self, files: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return which of these texts the database's own files still hold. Blocks: call it on a thread."""
        ...

    def read_start(self, path: str) -> bytes:
        """Return the first bytes of a file that may be this database, without releasing locks on it."""
        ...

    def maintain(self) -> Future[None]:
        """Do small maintenance of the files, such as moving the write-ahead log into the database."""
        ...

    def examine(self) -> Future[list[Finding]]:
        """Look for damage, and say which database runs."""
        ...

    def backup(self, target: str) -> Future[None]:
        """Write a consistent copy of everything to a new SQLite file, while others go on writing."""
        ...

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[dict[str, int]]:
        """Replace everything by what a backup holds, all at once or not at all, but for what `kept_state.py` keeps.

        Return how many rows of each table were left out because they were erased since the backup was made.

        `epoch` is a new random hexadecimal number that is stored with it. Every conversation gets a generation that no
        conversation had before. Work in progress on replaced rows notices this, even if keys are used again. With
        `save_to`, a backup of exactly what is replaced is written first.
        """
        ...

    def hurry(self) -> None:
        """Let no call hang from now on, because the memory is being closed.

        When one takes seconds, it fails, and so does everything after it.
        """
        ...

    def close(self) -> None:
        """Finish what is queued, then release the database."""
        ...
