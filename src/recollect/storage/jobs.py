"""The state of derived work in the store: cursors, what a rebuild rewinds, and leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from recollect.core import times
from recollect.core.models import Principal
from recollect.core.scope import ConversationScope, PersonScope, Scope, StoreScope
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.rows import no_conversation


class RewindTarget(NamedTuple):
    """The owner of derived rows to be made again: a conversation, a person, or everybody (both None)."""

    person: str | None
    conversation: str | None

    @property
    def is_everybody(self) -> bool:
        """Say whether the rows of all people are made again."""
        return self.person is None

    @property
    def params(self) -> Row:
        """Return the target as parameters of a query."""
        return self._asdict()

    def run(self, tx: Transaction, own: str, *, everybody: str) -> int:
        """Execute the query for a person, or the one for everybody, and return how many rows it changed."""
        return tx.run(everybody) if self.is_everybody else tx.run(own, **self.params)

    def all(self, tx: Transaction, own: str, *, everybody: str) -> list[Row]:
        """Return the rows of the query for a person, or of the one for everybody."""
        return tx.all(everybody) if self.is_everybody else tx.all(own, **self.params)


Rewind = Callable[[Transaction, RewindTarget], None]
_TARGETS: Final[Mapping[type[Scope], Callable[[Principal, Scope], RewindTarget]]] = {
    PersonScope: lambda principal, scope: RewindTarget(principal.person, None),
    ConversationScope: lambda principal, scope: RewindTarget(principal.person, scope.to_dict()["conversation"]),
    StoreScope: lambda principal, scope: RewindTarget(None, None),
}
REBUILT: Final = frozenset(_TARGETS)  # kinds of scopes that can be rebuilt


@dataclass(frozen=True, slots=True)
class Cursor:
    """A kind of derived work that is done up to some message of each conversation.

    `due` is the query that lists conversations with messages above the cursor, `move` the one that moves it. `move` is
    None where the cursor moves in the same transaction as the rows that the job stores. `values` are further parameters
    of `due`.
    """

    due: str
    move: str | None
    rewind: Rewind
    values: Mapping[str, int] = field(default_factory=dict)


class Lease(NamedTuple):
    """The right of one process to do one unit of work, for a while."""

    name: str
    holder: str


class JobStore:
    """The cursors and leases of the store."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction) -> None:
        self._read, self._write = read, write

    async def due(self, cursor: Cursor, *, after: int, limit: int) -> list[Row]:
        """Return up to `limit` conversations with keys above `after` that have messages above the cursor."""
        return await self._read(lambda tx: tx.all(cursor.due, after=after, limit=limit, **cursor.values))

    async def slice_end(self, *, key: int, after: int, through: int, max_bytes: int) -> int:
        """Return the last seq up to `through` such that the texts above `after` have at most so many bytes together.

        One message is always within. Texts in the archive are estimated by their tokens.
        """
        params = {"key": key, "after": after, "through": through, "bytes": max_bytes}
        row = await self._read(lambda tx: tx.one("slice_end", **params))
        return through if row is None or row["too_far"] is None else row["too_far"] - 1

    async def finish(
        self, cursor: Cursor, lease: Lease, *, key: int, after: int, through: int, generation: int
    ) -> bool:
        """Move the cursor from `after` to `through`, unless another process moved it, and release the lease."""

        def move_cursor(tx: Transaction) -> bool:
            tx.run("release_lease", name=lease.name, holder=lease.holder)
            params = {"key": key, "after": after, "through": through, "generation": generation}
            return cursor.move is not None and bool(tx.run(cursor.move, **params))

        return await self._write(move_cursor)

    async def rewind(self, principal: Principal, scope: Scope, rewinds: Sequence[Rewind]) -> None:
        """Delete the derived rows of a scope and move cursors back, so that the worker makes them again."""
        target = _TARGETS[type(scope)](principal, scope)

        def rewind_all(tx: Transaction) -> None:
            if target.conversation is not None and tx.one("get_conversation", **target.params) is None:
                raise no_conversation(target.conversation)
            target.run(tx, "begin_generation", everybody="begin_generation_everywhere")
            for rewind in rewinds:
                rewind(tx, target)

        await self._write(rewind_all)

    async def take_lease(self, lease: Lease, *, now: datetime, until: datetime) -> bool:
        """Take a lease that is free or has run out, or extend one's own. Return whether it is held now."""
        moments = {"now": times.to_micros(now), "until": times.to_micros(until)}
        return bool(await self._write(lambda tx: tx.run("take_lease", **lease._asdict(), **moments)))

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease, if its holder still has it."""
        await self._write(lambda tx: tx.run("release_lease", **lease._asdict()))

    async def lease_holders(self) -> list[str]:
        """Return everyone who holds a lease, or held one that has run out."""
        rows = await self._read(lambda tx: tx.all("lease_holders"))
        return [row["holder"] for row in rows]

    async def free_leases(self, holders: Sequence[str]) -> None:
        """Release all leases of these holders."""
        await self._write(lambda tx: tx.many("free_leases", [{"holder": holder} for holder in holders]))
