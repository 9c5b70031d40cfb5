"""What all use cases stand on: the parts that memories on one database share, opened and closed, and who asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recollect.admin.compose import compose
from recollect.admin.current_settings import SettingsBook
from recollect.core.errors import StoreUnavailable
from recollect.core.models import Principal
from recollect.core.protocols import Clock, Embedder, Model
from recollect.core.text import identity
from recollect.jobs.audit import AuditLog
from recollect.jobs.metrics import RecallMetrics
from recollect.memory.plan import Background
from recollect.providers.chat import Upstream
from recollect.recall.embedding import Embedders, EmbedMessages
from recollect.settings import Settings
from recollect.storage.audit import LIBRARY
from recollect.storage.store import SqlStore

if TYPE_CHECKING:
    from recollect.recall.prompt.inputs import Prompting
    from recollect.recall.recaller import Recaller


class Shared:
    """What there is once for a database, whoever asks: connections, caches, the worker."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.state = "new"
        self.task: asyncio.Task[None] | None = None
        self.recaller: Recaller | None = None


class Opened:
    """The parts of a memory, and how they are opened and closed."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        person: str = "local",
        department: str | None = None,
        ministry: str | None = None,
        clearances: Sequence[str] = (),
        settings: Settings | str | None = None,
        model: Model | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        worker: bool = True,
    ) -> None:
        self._principal = principal(person, department, ministry, clearances)
        self._parts = compose(location, settings=settings, model=model, embedder=embedder, clock=clock)
        self._store, self._clock = self._parts.store, self._parts.clock
        self._book = SettingsBook(self._parts)
        self._current = self._book.of(self._principal)
        self._embedders = Embedders(self._parts.embedder, patience=2 * self._current.now.provider_timeout_seconds)
        self._metrics = RecallMetrics(self._store, self._clock)
        self._embedding = EmbedMessages(
            self._store, self._clock, self._embedders, lambda: self._current.now.backfill_chunks
        )
        self._audit, self._actor = AuditLog(self._store, self._clock), LIBRARY
        self._background = Background(
            self._parts, self._book, self._current, self._embedding, self._metrics, self._audit
        )
        self._has_worker = worker
        self._shared = Shared()

    def of(self, person: Principal, *, actor: str | None = None) -> Self:
        """The memory of somebody else on the same database. Parts, caches and worker are shared: close only one.

        `actor` is who acts on it, for the audit log: the id of a key, say.
        """
        other = copy(self)
        other._actor = self._actor if actor is None else identity(actor, "actor")
        other._principal = person
        other._current = self._book.of(person)
        return other

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self._principal

    @property
    def store(self) -> SqlStore:
        """For what else stands on the same database: keys, sessions, chats."""
        return self._store

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def start_settings(self) -> Settings:
        """Those that nobody changes at run time can be read before anything is open."""
        return self._current.now

    @property
    def upstream(self) -> Upstream | None:
        """The chat model that the settings name, if any."""
        return self._parts.upstream

    # Opening and closing

    async def open(self) -> Self:
        """Connect and bring the schema up to date. Called by whatever is used first."""
        async with self._shared.opening:
            if self._shared.state == "closed":
                raise self.closed_error()
            if self._shared.state == "new":
                try:
                    await self._store.open(self._clock.now())
                    await self._current.refresh()
                except BaseException:
                    await self._store.close()
                    self._shared.state = "closed"
                    raise
                self._shared.state = "open"
                if self._has_worker:
                    self._shared.task = asyncio.create_task(self._background.run(), name="recollect-worker")
        return self

    async def close(self) -> None:
        """Let running work come to a stop, then let go of the database."""
        async with self._shared.opening:
            if self._shared.state == "open":
                self._background.compressing.stop()
                self._background.stop()
                task = self._shared.task
                if task is not None and task.get_loop() is asyncio.get_running_loop():
                    await task  # that of an earlier loop ended with it
                await self._background.compressing.ended()
                await self._metrics.flush()
                await self._audit.flush()
                await self._store.close()
                for part in self._parts.owned:
                    await part.close()
            self._shared.state = "closed"

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @staticmethod
    def closed_error() -> StoreUnavailable:
        return StoreUnavailable("store_closed", "This memory is closed.", retryable=False)

    async def _ready(self) -> None:
        if self._shared.state != "open":
            await self.open()
        await self._current.fresh()

    @property
    def _recaller(self) -> Recaller:
        """Made when first asked for: it brings numpy."""
        if self._shared.recaller is None:
            from recollect.recall.recaller import Recaller

            self._shared.recaller = Recaller(self._store, self._clock, self._embedders, self._book.now)
        return self._shared.recaller

    @property
    def _prompting(self) -> Prompting:
        from recollect.recall.prompt.inputs import Prompting

        return Prompting(self._store, self._recaller, self._current.now)


def principal(
    person: str, department: str | None = None, ministry: str | None = None, clearances: Sequence[str] = ()
) -> Principal:
    """Who asks, checked."""
    return Principal(
        identity(person, "person"),
        None if department is None else identity(department, "department"),
        None if ministry is None else identity(ministry, "ministry"),
        tuple(identity(clearance, "clearance") for clearance in clearances),
    )
