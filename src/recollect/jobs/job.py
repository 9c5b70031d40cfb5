"""The protocol of derived work: what is due, do it, mark it done, and what a rebuild rewinds.

Every kind of derived work is a `Job` in a file of its own, and `memory/plan.py` lists them. The worker knows only this
protocol. A unit of work may be a slice of a conversation (derive from `ConversationJob`, which keeps a cursor in each
conversation) or anything else that has a key: a person's day, a bank, the whole store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from recollect.core.errors import RecollectError
from recollect.core.models import Principal
from recollect.storage.jobs import Cursor, Lease, Rewind
from recollect.storage.store import SqlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One unit of derived work. Its key is unique within the job, orders the units and names the lease."""

    key: int
    principal: Principal  # the person whose rows are worked on

    @property
    def is_last(self) -> bool:
        """Say whether nothing of this key is left when the unit is done."""
        return True


WorkType = TypeVar("WorkType", bound=Work, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWork(Work):
    """Messages above `after` and up to `through` of a conversation that has `last` messages."""

    conversation: str
    after: int
    through: int
    last: int
    generation: int
    words_version: int

    @property
    def is_last(self) -> bool:
        return self.through == self.last

    @property
    def made_of(self) -> tuple[int, int]:
        """Return key and generation: another conversation may take the same name while the work is done."""
        return self.key, self.generation


class StopSignal(NamedTuple):
    """Two ways to end early: after what is in progress (`should_end`), or at once, losing it (`must_stop`)."""

    should_end: Callable[[], bool] = lambda: False
    must_stop: Callable[[], bool] = lambda: False

    def check(self, done: int = 0) -> None:
        """Raise `Interrupted` if the work should end. `done` says how much of it is finished and stored."""
        if self.must_stop() or self.should_end():
            raise Interrupted(done)


class Interrupted(RecollectError):
    """Raised by a job that was told to stop or came too late. What it has not done is still due."""

    def __init__(self, done: int = 0) -> None:
        """Note how much was finished and stored before the stop."""
        super().__init__("interrupted", "The work was told to stop.", retryable=True)
        self.done = done


class TurnOver(Exception):
    """Raised by a step whose unit takes more than one turn. What it did is stored; the rest is still due."""


class Step(Protocol[WorkType]):
    """A part of a job. It does something with a unit of work and returns how much it did.

    It may be interrupted anywhere and repeated. `drain` counts it and reports its failure under its `name`.
    """

    name: str

    async def do(self, work: WorkType, stop: StopSignal) -> int: ...


class Pace(NamedTuple):
    """The pace of a job: how much of it is done in one turn. Then other people, and other jobs, get theirs.

    A job with a bound of bytes must move its cursor with every unit that succeeds.
    """

    messages: int = 500  # of one conversation, under one lease
    parallel: int = 16  # units at once
    max_bytes: int | None = None  # of text in one unit, if it has more than one message


class Job(Protocol):
    """A kind of derived work."""

    name: str
    pace: Pace

    @property
    def steps(self) -> Sequence[Step[Any]]:
        """Return what is done with each unit, in order. Steps of one job share its mark of what is done."""
        ...

    @property
    def rewind(self) -> Rewind:
        """Return what a rebuild runs, so that everything this job made is made again."""
        ...

    async def due(self, *, after: int, limit: int) -> Sequence[Work]:
        """Return up to `limit` units with keys above `after`, in the order of their keys."""
        ...

    async def begin(self, work: Any) -> Any:
        """Return the part of a unit that is done in this turn. Called under its lease."""
        ...

    async def finish(self, work: Any, lease: Lease) -> None:
        """Mark a unit as done and release its lease."""
        ...


class ConversationJob:
    """A job with a cursor in each conversation: everything up to it is done. Subclasses are their own only step."""

    name: str
    cursor: Cursor
    pace: Pace = Pace()

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @property
    def steps(self) -> Sequence[Step[ConversationWork]]:
        """Return the job itself, which has a method `do`."""
        return (self,)

    @property
    def rewind(self) -> Rewind:
        """Return what a rebuild runs for this cursor."""
        return self.cursor.rewind

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Do the work, idempotently. Return how much was done."""
        raise NotImplementedError

    async def due(self, *, after: int, limit: int) -> list[ConversationWork]:
        """Return slices of conversations with messages above the cursor."""
        rows = await self._store.jobs.due(self.cursor, after=after, limit=limit)
        return [
            ConversationWork(
                key=row["key"],
                principal=Principal(row["person"]),
                conversation=row["name"],
                after=row["cursor"],
                through=min(row["last_seq"], row["cursor"] + self.pace.messages),
                last=row["last_seq"],
                generation=row["generation"],
                words_version=row["words_version"],
            )
            for row in rows
        ]

    async def begin(self, work: ConversationWork) -> ConversationWork:
        """Return as much of a slice as the pace allows in bytes, and at least one message."""
        if self.pace.max_bytes is None:
            return work
        through = await self._store.jobs.slice_end(
            key=work.key, after=work.after, through=work.through, max_bytes=self.pace.max_bytes
        )
        return replace(work, through=through)

    async def finish(self, work: ConversationWork, lease: Lease) -> None:
        """Move the cursor to the end of the slice, unless it moved meanwhile, and release the lease."""
        await self._store.jobs.finish(
            self.cursor, lease, key=work.key, after=work.after, through=work.through, generation=work.generation
        )


class Maintenance(Protocol):
    """Something that the worker looks after at the start of each sweep: clean-up, and what makes other work due.

    `tend` returns how much it did. What is done on every sweep returns 0, or a drain would never end.
    """

    name: str

    async def tend(self) -> int: ...
