"""The life of a memory: its parts, opening and closing. Memories of several people on one database share most parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recollect.admin.compose import compose
from recollect.admin.current_settings import SettingsBook
from recollect.admin.erase import erase
from recollect.admin.transfer import private_folder_beside
from recollect.core.errors import Conflict, InvalidInput, NotFound, StoreUnavailable
from recollect.core.models import Principal, Receipt
from recollect.core.protocols import Clock, Embedder, Model
from recollect.core.scope import PersonScope, Scope, StoreScope
from recollect.core.text import check_identity
from recollect.jobs.audit import AuditLog
from recollect.jobs.metrics import RecallMetrics
from recollect.jobs.prompt_sizes import PromptSizes
from recollect.memory.caches import Caches
from recollect.memory.plan import DerivedWork
from recollect.providers.chat import Upstream
from recollect.recall.embedding import Embedders
from recollect.recall.vector_job import EmbedMessages
from recollect.runtime.forks import HomeProcess
from recollect.settings import Settings
from recollect.storage.audit import LIBRARY
from recollect.storage.store import SqlStore

if TYPE_CHECKING:
    from recollect.recall.prompt.builder import PromptBuilder
    from recollect.recall.recaller import Recaller


class Shared:
    """The parts that exist once for a database, for all people: its state, the background task, the caches."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.state = "new"  # then open, then closed
        self.home: HomeProcess | None = None  # set when it is opened
        self.task: asyncio.Task[None] | None = None
        self.recaller: Recaller | None = None
        self.caches = Caches()


class Lifecycle:
    """The parts of a memory. The use cases of `AsyncMemory` are mixins on top of it."""

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
        """Prepare a memory on a path or URL. Nothing is opened until something is asked of it.

        `settings` are a `Settings` object or the name of a preset. `worker=False` leaves derived work to `drain()`.
        """
        self._principal = make_principal(person, department, ministry, clearances)
        self._components = compose(location, settings=settings, model=model, embedder=embedder, clock=clock)
        self._store, self._clock = self._components.store, self._components.clock
        self._book = SettingsBook(self._components)
        self._current = self._book.of(self._principal)
        self._embedders = Embedders(self._components.embedder, patience=2 * self._current.now.provider_timeout_seconds)
        self._metrics = RecallMetrics(self._store, self._clock)
        self._embedding = EmbedMessages(
            self._store, self._clock, self._embedders, lambda: self._current.now.backfill_chunks
        )
        self._audit, self._actor = AuditLog(self._store, self._clock), LIBRARY
        self._prompt_sizes = PromptSizes(self._store, self._clock)
        buffers = (self._metrics, self._audit, self._prompt_sizes)
        self._work = DerivedWork(self._components, self._book, self._current, self._embedding, *buffers)
        self._has_worker, self._is_view = worker, False
        self._shared = Shared()
        self._shared.caches.register("store", self._store.forget)
        self._shared.caches.register("question vectors", self._embedders.forget)
        self._shared.caches.register("brief job", self._work.briefs.forget)
        self._shared.caches.register("prompt sizes", self._prompt_sizes.forget)
        self._shared.caches.register("settings", self._book.forget, kinds=(PersonScope, StoreScope))

    def of(
        self,
        person: str | Principal,
        *,
        department: str | None = None,
        ministry: str | None = None,
        clearances: Sequence[str] = (),
        actor: str | None = None,
    ) -> Self:
        """Return the memory of another person on the same database: a view that shares everything with this one.

        To close a view changes nothing. It can be used until the memory that was opened is closed. `actor` is who acts
        on it, for the audit log, for example the id of a key.
        """
        if not isinstance(person, Principal):
            person = make_principal(person, department, ministry, clearances)
        elif department is not None or ministry is not None or clearances:
            raise InvalidInput("invalid_person", "A Principal has a department, a ministry and clearances already.")
        view = copy(self)
        view._is_view = True
        view._actor = self._actor if actor is None else check_identity(actor, "actor")
        view._principal = person
        view._current = self._book.of(person)
        return view

    @property
    def principal(self) -> Principal:
        """Return who asks."""
        return self._principal

    @property
    def store(self) -> SqlStore:
        """Return the store, for what else lives in the same database: keys, sessions, stop marks."""
        return self._store

    @property
    def clock(self) -> Clock:
        """Return the clock that dates messages."""
        return self._clock

    @property
    def key_secret(self) -> str | None:
        """Return the secret of RECOLLECT_KEY_SECRET that hashes of keys are keyed with, if it is set."""
        return self._components.key_secret

    @property
    def start_settings(self) -> Settings:
        """Return the settings as they are known before anything is opened. Good for those that never change."""
        return self._current.now

    @property
    def upstream(self) -> Upstream | None:
        """Return the chat model that the settings name, if any."""
        return self._components.upstream

    def private_folder(self) -> AbstractContextManager[Path]:
        """Return a context with a new folder for text that lies outside of the database for a moment."""
        return private_folder_beside(self._components.database)

    # Opening and closing

    async def open(self) -> Self:
        """Connect, and bring the schema up to date. Everything else calls it when it is first used."""
        self._check_process()
        async with self._shared.opening:
            if self._shared.state == "closed":
                raise self.closed_error()
            if self._shared.state == "new":
                self._shared.home = HomeProcess()
                try:
                    await self._store.open(self._clock.now())
                    await self._current.refresh()
                except BaseException:
                    await self._store.close()
                    self._shared.state = "closed"
                    raise
                self._shared.state = "open"
                if self._has_worker:
                    self._shared.task = asyncio.create_task(self._work.run(), name="recollect-worker")
        return self

    async def close(self) -> None:
        """Let running work come to a stop, then release the database.

        Closing a view of `of` does nothing, and so does closing in a forked child.
        """
        if self._is_view or (self._shared.home is not None and self._shared.home.is_elsewhere):
            return
        async with self._shared.opening:
            if self._shared.state == "open":
                self._store.hurry()  # work that waits for a database that hangs would never stop
                self._work.briefs.stop()
                self._work.stop()
                task = self._shared.task
                if task is not None and task.get_loop() is asyncio.get_running_loop():
                    await task  # the task of an earlier loop ended with that loop
                await self._work.briefs.ended()
                await self._flush_buffers()
                await self._store.close()
                for component in self._components.owned:
                    await component.close()
            self._shared.state = "closed"

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @staticmethod
    def closed_error() -> StoreUnavailable:
        """Return the error for a memory that is used after `close`."""
        return StoreUnavailable("store_closed", "This memory is closed.", retryable=False)

    async def _ready(self) -> None:
        """Open the memory if needed, and re-read settings that are older than a second."""
        self._check_process()
        if self._shared.state != "open":
            await self.open()
        await self._current.fresh()

    def _check_process(self) -> None:
        """Raise StoreUnavailable in a process that was forked after the memory was opened: nothing would answer."""
        if self._shared.home is not None:
            self._shared.home.check()

    async def _erase(self, scope: Scope) -> Receipt:
        """Erase a scope from the database, from memory and from the files of the database.

        Caches are dropped as soon as the rows are gone, and again at the end: a question that had read the rows before
        may have put words back meanwhile.
        """
        await self._flush_buffers()  # so that nothing of the person is written after the erase
        forget, now = partial(self._forget, scope), self._clock.now()
        try:
            receipt = await erase(self._store, self._principal, scope, now=now, when_deleted=forget, actor=self._actor)
        except (InvalidInput, NotFound, Conflict):
            raise  # nothing was erased, so caches stay as they are
        except BaseException:
            forget()  # the rows may be gone already
            raise
        forget()
        return receipt

    def when_forgotten(self, name: str, forget: Callable[[str | None], None]) -> None:
        """Call `forget` with the person, or with None for everybody, when something of them was erased here.

        It is for what other parts keep of people's words. The same name again replaces the earlier function.
        """
        self._shared.caches.register(name, forget)

    async def _flush_buffers(self) -> None:
        """Write the rows that were noted while questions were answered."""
        await self._metrics.flush()
        await self._audit.flush()
        await self._prompt_sizes.flush()

    def _forget(self, scope: Scope) -> None:
        """Drop everything that is kept in memory of a scope."""
        self._shared.caches.forget(self._principal, scope)

    @property
    def _recaller(self) -> Recaller:
        """Return the recaller. It is made when first needed, because it imports numpy."""
        if self._shared.recaller is None:
            from recollect.recall.recaller import Recaller

            recaller = Recaller(self._store, self._clock, self._embedders, self._book.now)
            self._shared.caches.register("recall", recaller.forget)
            self._shared.recaller = recaller
        return self._shared.recaller

    @property
    def _prompt_builder(self) -> PromptBuilder:
        from recollect.recall.prompt.builder import PromptBuilder

        return PromptBuilder(self._store, self._recaller, self._current.now)


def make_principal(
    person: str, department: str | None = None, ministry: str | None = None, clearances: Sequence[str] = ()
) -> Principal:
    """Check the names and return who asks."""
    return Principal(
        check_identity(person, "person"),
        None if department is None else check_identity(department, "department"),
        None if ministry is None else check_identity(ministry, "ministry"),
        tuple(check_identity(clearance, "clearance") for clearance in clearances),
    )
