"""The level-triggered worker: it looks at what is missing, does it, and looks again.

Nothing is queued, so nothing can be lost: a crash repeats work. A lease on each unit of work keeps two processes from
doing the same thing at once; the work is idempotent all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from recollect.core.errors import RecollectError
from recollect.core.models import Done, Principal
from recollect.jobs.job import Interrupted, Job, Maintenance, Step, StopSignal, TurnOver, Work
from recollect.jobs.leases import LeaseKeeper
from recollect.jobs.turns import Turns
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)
BURST_SECONDS: Final = 0.2  # messages that arrive within it make one sweep
OTHERS_POLL_SECONDS: Final = 0.05  # between looks at what another process holds
MAX_FAILED_PAGES: Final = 4  # a job ends its part of a sweep after so many pages with failures
RETRY_SECONDS: Final = 5.0  # before work that failed is tried again


@dataclass(slots=True)
class _Tally:
    """The counts and failures of a sweep, by the names of steps."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    unfinished: int = 0  # units of which a part was done, which may count nothing

    @property
    def progress(self) -> int:
        """Return a number that grows with everything that is done."""
        return self.counts.total() + self.unfinished


class Sweep(NamedTuple):
    """Counts what a sweep did, and notes whether it did anything: a part of a unit counts nothing yet."""

    done: Done
    worked: bool


class Worker:
    """Sweeps over its jobs: in the background (`run`), or until nothing is missing (`drain`)."""

    def __init__(
        self,
        leases: LeaseKeeper,
        *,
        jobs: Sequence[Job],
        maintenance: Sequence[Maintenance],
        prepare: Callable[[Principal], Awaitable[object]],
    ) -> None:
        """`prepare` is called before the work on something of a person, for example to read that person's settings."""
        self._leases, self._prepare = leases, prepare
        self._jobs, self._maintenance = jobs, maintenance
        self._wake = asyncio.Event()
        self._sweeping = asyncio.Lock()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._noticed = False
        self._turns = {job.name: Turns(job) for job in jobs}

    def notify(self) -> None:
        """Make the worker look now. Called from any thread after every message, so it is cheap."""
        if not self._noticed and self._loop is not None:
            self._noticed = True
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake.set)

    @property
    def is_busy(self) -> bool:
        """Say whether a sweep is under way."""
        return self._sweeping.locked()

    def stop(self) -> None:
        """End the current sweep and `run`, as soon as jobs can be interrupted."""
        self._stop.set()
        self._wake.set()

    async def run(self, poll_seconds: Callable[[], float], *, before: Callable[[], Awaitable[object]]) -> None:
        """Sweep until stopped. Between sweeps wait for a notice, or for the next look at what other processes added.

        `before` is awaited before each sweep.
        """
        self._loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            self._noticed = False
            self._wake.clear()
            delay = poll_seconds()
            try:
                await before()
                done, worked = await self.sweep()
                if done.failed:
                    delay = max(delay, RETRY_SECONDS)
                elif worked:
                    continue  # there may be more
            except Exception as error:  # noqa: BLE001 - the worker goes on
                if is_ending(error):
                    return
                if isinstance(error, RecollectError):
                    log.warning("the worker cannot reach its store: %s", error.code)
                else:
                    log_unexpected(log, "a sweep", error)
            await _pause(self._wake, delay)
            await _pause(self._stop, min(BURST_SECONDS, delay))

    async def drain(self, timeout: float | None = None) -> Done:
        """Sweep until nothing is missing, or only what fails, or until `timeout` seconds are over.

        Work that another process holds is waited for, but not longer than a lease lasts.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        lease_end = time.monotonic() + self._leases.duration.total_seconds()
        total: Counter[str] = Counter()
        while True:
            done, worked = await self.sweep(deadline)
            total.update(done.counts)
            if self._stop.is_set() or _is_past(deadline):
                return Done(dict(total), done.failed, done.complete and not worked)
            if not worked and (done.complete or done.failed or _is_past(lease_end)):
                return Done(dict(total), done.failed, done.complete)
            if not worked:
                await _pause(self._stop, OTHERS_POLL_SECONDS)

    async def sweep(self, deadline: float | None = None) -> Sweep:
        """Let each job do a page of what is due. `deadline` is in seconds of the monotonic clock."""
        if not await self._begin_sweep(deadline):
            return Sweep(Done({}, {}, complete=False), worked=False)
        tally, complete = _Tally(), True
        try:
            for task in self._maintenance:
                tally.counts[task.name] += await task.tend()
            for job in self._jobs:
                complete = await self._do_page(job, deadline, tally) and complete
        finally:
            self._sweeping.release()
        done = Done(dict(tally.counts), tally.failed, complete and not tally.failed)
        return Sweep(done, worked=tally.progress > 0)

    async def _begin_sweep(self, deadline: float | None) -> bool:
        """Wait until no other sweep of this worker runs. Return False if the deadline comes first."""
        if deadline is None or not self._sweeping.locked():
            return await self._sweeping.acquire()
        try:
            return await asyncio.wait_for(self._sweeping.acquire(), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False

    async def _do_page(self, job: Job, deadline: float | None, tally: _Tally) -> bool:
        """Do a page of the units of a job that are due. Return whether nothing is due any more.

        Where a page turned out to need nothing, the next one is looked at too.
        """

        def should_end() -> bool:
            return self._stop.is_set() or _is_past(deadline)

        stop = StopSignal(should_end, self._stop.is_set)
        all_done, failed_pages = True, 0
        async for works in self._turns[job.name].pages():
            if should_end():
                return False
            progress_before = tally.progress
            successes = await _run_all([self._attend(job, work, stop, tally) for work in works])
            all_done = all_done and all(successes) and all(work.is_last for work in works)
            failed_pages += not all(successes)
            if tally.progress > progress_before or failed_pages == MAX_FAILED_PAGES:
                return False  # there may be more
        return all_done

    async def _attend(self, job: Job, work: Work, stop: StopSignal, tally: _Tally) -> bool:
        """Do all steps of one unit under its lease. Return False if another process has it or a step failed."""
        lease = self._leases.named(f"{job.name}:{work.key}")
        if not await self._leases.take(lease):
            return False
        succeeded = True
        try:
            await self._prepare(work.principal)
            work = await job.begin(work)
            for step in job.steps:
                succeeded = await self._try(step, work, stop, tally) and succeeded
        except BaseException:
            await self._leases.release(lease)
            raise
        if succeeded:
            await job.finish(work, lease)
            tally.unfinished += job.pace.max_bytes is not None and not work.is_last
        else:
            await self._leases.release(lease)
        return succeeded

    async def _try(self, step: Step[Any], work: Work, stop: StopSignal, tally: _Tally) -> bool:
        """Do one step. Note what it did or why it failed; return whether it succeeded."""
        try:
            done = await step.do(work, stop)
        except TurnOver:
            tally.unfinished += 1
            return True
        except Interrupted as error:
            tally.counts[step.name] += error.done
            return False
        except RecollectError as error:
            if self._stop.is_set():
                return False  # interrupted, not failed
            if is_ending(error):
                raise
            log.warning("%s failed: %s", step.name, error.code)
            tally.failed[step.name] = error.code
            return False
        except Exception as error:
            if is_ending(error):
                raise
            log_unexpected(log, step.name, error)
            tally.failed[step.name] = "unexpected"
            return False
        tally.counts[step.name] += done  # after the await: other steps count meanwhile
        return True


async def _run_all(works: Sequence[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Run works side by side, so that their small writes share commits. Return their results.

    If only errors of ours end them, such as a database that is gone, raise one of these in place of the group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        _, others = errors.split(RecollectError)
        if others is None:
            raise _first_of(errors) from errors
        raise
    return [task.result() for task in tasks]


def _first_of(error: BaseException) -> BaseException:
    """Return the first error in a group, which may hold groups."""
    return _first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def is_ending(error: BaseException) -> bool:
    """Say whether an error only means that the program is ending and its threads can begin nothing any more."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_ending, error.exceptions))
    if isinstance(error, RecollectError):
        return error.code == "store_closed"
    return isinstance(error, RuntimeError) and str(error).startswith("cannot schedule new futures")


async def _pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most this long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline
