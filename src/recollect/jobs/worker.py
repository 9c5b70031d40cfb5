"""The level-triggered worker: it looks at what is missing, does it, and looks again.

Nothing is queued, so nothing can be lost: a crash repeats work. A lease on each conversation keeps two processes from
doing the same thing at once; the work is idempotent all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from recollect.core.errors import RecollectError
from recollect.core.models import Done, Principal
from recollect.core.protocols import Clock
from recollect.runtime.error_log import log_unexpected
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)
GATHER = 0.2  # seconds
OTHERS = 0.05  # seconds between looks at what another process holds
TRIED = 4  # pages of a slow track that a sweep tries until one of them gets done
ROUNDS = 100  # of a quick track in one sweep, while it gets on; then slow ones have their turn
EVERY = 2**62  # more keys than there can be
FAILED = 5.0  # seconds before what failed is tried again


@dataclass(frozen=True, slots=True)
class Work:
    """A conversation whose derived rows are missing above `after` and up to `through`, of `last` messages."""

    principal: Principal
    conversation: str
    key: int
    after: int
    through: int
    last: int
    generation: int
    words_version: int
    is_over: Callable[[], bool] = lambda: False  # whether to end where something is done,
    is_stopped: Callable[[], bool] = lambda: False  # and whether to end at once, and lose what is begun

    @property
    def made_of(self) -> tuple[int, int]:
        """Which conversation the rows are made of: one of the same name may have taken its place meanwhile."""
        return self.key, self.generation


class Interrupted(RecollectError):
    """Raised by a chore that was told to stop; what it has not done is still due."""

    def __init__(self, done: int = 0) -> None:
        """Of what it should do, so much is done and kept."""
        super().__init__("interrupted", "The work was told to stop.", retryable=True)
        self.done = done


class Chore(Protocol):
    """One kind of derived work. `do` may be interrupted anywhere and repeated; it returns how much it did."""

    name: str

    async def do(self, work: Work) -> int: ...


@dataclass(frozen=True, slots=True)
class Track:
    """Chores that share a cursor in each conversation. What is slow or may fail has a track of its own.

    `slice` messages of a conversation are worked on under one lease, in `side_by_side` conversations at once. A track
    that is not `whole` does only that much in one sweep, so that others need not wait until it is through.
    """

    name: str
    chores: Sequence[Chore]
    slice: int = 500
    side_by_side: int = 16
    whole: bool = True


class Upkeep(Protocol):
    """Work that belongs to the store as a whole."""

    name: str

    async def tend(self) -> int: ...


class Worker:
    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        *,
        holder: str,
        tracks: Sequence[Track],
        upkeep: Sequence[Upkeep],
        lease: Callable[[], timedelta],
        prepare: Callable[[Principal], Awaitable[object]],
    ) -> None:
        """Before the work on somebody's conversation all is `prepare`d for that person."""
        self._prepare = prepare
        self._store, self._clock, self._holder = store, clock, holder
        self._tracks, self._upkeep = tracks, upkeep
        self._lease = lease
        self._wake = asyncio.Event()
        self._sweeping = asyncio.Lock()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._noticed = False
        self._ended: dict[str, int] = {}  # the conversation at which the last sweep of a track ended

    def notify(self) -> None:
        """Something was added here: do not wait for the next look. Called from any thread, often, so it is cheap."""
        if not self._noticed and self._loop is not None:
            self._noticed = True
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake.set)

    @property
    def is_busy(self) -> bool:
        return self._sweeping.locked()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()

    async def run(self, poll: Callable[[], float], *, before: Callable[[], Awaitable[object]]) -> None:
        """Sweep until stopped; between sweeps wait for a notice or the next look at what others did."""
        self._loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            self._noticed = False
            self._wake.clear()
            delay = poll()
            try:
                await before()
                done = await self.sweep()
                if done.failed:
                    delay = max(delay, FAILED)
                elif any(done.counts.values()):
                    continue  # there may be more
            except Exception as error:  # noqa: BLE001 - the worker goes on
                if is_ending(error):
                    return  # by the end of the program, which nobody told us of
                if isinstance(error, RecollectError):
                    log.warning("the worker cannot reach its store: %s", error.code)
                else:
                    log_unexpected(log, "a sweep", error)
            await _pause(self._wake, delay)
            await _pause(self._stop, min(GATHER, delay))  # a burst of messages makes one sweep

    async def drain(self, timeout: float | None = None) -> Done:
        """Sweep until nothing is missing, or only what fails, or time is up.

        What another process is working on is waited for, but not longer than its lease lasts.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        patience = time.monotonic() + self._lease().total_seconds()
        total: Counter[str] = Counter()
        while True:
            done = await self.sweep(deadline)
            total.update(done.counts)
            worked = any(done.counts.values())
            if self._stop.is_set() or _is_past(deadline):
                return Done(dict(total), done.failed, done.complete and not worked)
            if not worked and (done.complete or done.failed or _is_past(patience)):
                return Done(dict(total), done.failed, done.complete)
            if not worked:
                await _pause(self._stop, OTHERS)

    async def sweep(self, deadline: float | None = None) -> Done:
        """One look at everything."""
        counts: Counter[str] = Counter()
        failed: dict[str, str] = {}
        complete = True
        if not await self._turn(deadline):
            return Done({}, {}, complete=False)
        try:
            for upkeep in self._upkeep:
                counts[upkeep.name] += await upkeep.tend()
            for track in self._tracks:
                for _ in range(ROUNDS if track.whole else 1):  # what is quick is done before what is slow begins
                    worked, all_done = await self._round(track, deadline, counts, failed)
                    complete = complete and all_done
                    if not worked:
                        break
        finally:
            self._sweeping.release()
        return Done(dict(counts), failed, complete and not failed)

    async def _turn(self, deadline: float | None) -> bool:
        """Wait until nobody else sweeps, but not beyond the deadline."""
        if deadline is None or not self._sweeping.locked():
            return await self._sweeping.acquire()
        try:
            return await asyncio.wait_for(self._sweeping.acquire(), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False

    async def _round(
        self, track: Track, deadline: float | None, counts: Counter[str], failed: dict[str, str]
    ) -> tuple[bool, bool]:
        """A slice for every conversation with work, or for a few where that is slow. Whether any of it was done, and
        whether all of it. Where there was nothing to do after all, a slow track looks on too."""

        def is_over() -> bool:
            return self._stop.is_set() or _is_past(deadline)

        worked, all_done, failures = False, True, 0
        async for works in self._missing(track, is_over):
            if is_over():
                return False, False
            # Side by side, so that their small writes share commits.
            before = counts.total()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._attend(track, work, counts, failed)) for work in works]
            done = [task.result() for task in tasks]
            reached = all(work.through == work.last for work in works)
            worked, all_done = worked or any(done), all_done and all(done) and (track.whole or reached)
            failures += not all(done)
            if not track.whole and (counts.total() > before or failures == TRIED):
                return worked, False  # there may be more
        return worked, all_done

    async def _missing(self, track: Track, is_over: Callable[[], bool]) -> AsyncIterator[list[Work]]:
        """Conversations with work, page by page. What is not a whole track begins where the last sweep ended, and comes
        round, so that conversations whose work fails do not keep it from the others."""
        start = 0 if track.whole else self._ended.get(track.name, 0)
        for after, last in ((start, EVERY), (0, start)):
            async for rows in self._pages(track, after, last):
                self._ended[track.name] = rows[-1]["key"]
                yield [self._work(row, track, is_over) for row in rows]

    async def _pages(self, track: Track, after: int, last: int) -> AsyncIterator[list[Row]]:
        """Rows of conversations with keys above `after` and up to `last`."""
        while after < last and (rows := await self._store.due(track.name, after=after, limit=track.side_by_side)):
            after = rows[-1]["key"]
            if wanted := [row for row in rows if row["key"] <= last]:
                yield wanted

    def _work(self, row: Row, track: Track, is_over: Callable[[], bool]) -> Work:
        return Work(
            Principal(row["person"]),
            row["name"],
            key=row["key"],
            after=row["cursor"],
            through=min(row["last_seq"], row["cursor"] + track.slice),
            last=row["last_seq"],
            generation=row["generation"],
            words_version=row["words_version"],
            is_over=is_over,
            is_stopped=self._stop.is_set,
        )

    async def _attend(self, track: Track, work: Work, counts: Counter[str], failed: dict[str, str]) -> bool:
        """All chores of one conversation under its lease. False if another process has it or a chore failed."""
        name = f"{track.name}:{work.key}"
        now = self._clock.now()
        if not await self._store.take_lease(name, holder=self._holder, now=now, until=now + self._lease()):
            return False
        ok = True
        try:
            await self._prepare(work.principal)
            for chore in track.chores:
                ok = await self._try(chore, work, counts, failed) and ok
        except BaseException:
            await self._store.release_lease(name, holder=self._holder)
            raise
        if ok:
            await self._store.finish_work(
                track.name,
                name,
                holder=self._holder,
                key=work.key,
                after=work.after,
                through=work.through,
                generation=work.generation,
            )
        else:
            await self._store.release_lease(name, holder=self._holder)
        return ok

    async def _try(self, chore: Chore, work: Work, counts: Counter[str], failed: dict[str, str]) -> bool:
        try:
            done = await chore.do(work)
        except Interrupted as error:
            counts[chore.name] += error.done
            return False
        except RecollectError as error:
            if self._stop.is_set():
                return False  # interrupted, not failed
            if is_ending(error):
                raise
            log.warning("%s failed: %s", chore.name, error.code)
            failed[chore.name] = error.code
            return False
        except Exception as error:
            if is_ending(error):
                raise
            log_unexpected(log, chore.name, error)
            failed[chore.name] = "unexpected"
            return False
        counts[chore.name] += done  # after the await: others count meanwhile
        return True


def is_ending(error: BaseException) -> bool:
    """Whether the error only says that the program is ending: its threads can begin nothing any more."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_ending, error.exceptions))
    if isinstance(error, RecollectError):
        return error.code == "store_closed"
    return isinstance(error, RuntimeError) and str(error).startswith("cannot schedule new futures")


async def _pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not longer than this."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline
