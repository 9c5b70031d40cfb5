"""Leases: how one process keeps the others from doing the same work at the same time.

The name of a holder tells other processes of the same machine whether the holder still runs.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

from recollect.core.errors import RecollectError
from recollect.core.protocols import Clock
from recollect.runtime.ids import new_id
from recollect.storage.jobs import JobStore, Lease

RENEWALS_PER_LEASE: Final = 3
_HOLDER: Final = re.compile(r"(?P<host>.*)/(?P<process>[0-9]{1,18})/[^/]*", re.DOTALL)


def new_holder(now: datetime) -> str:
    """Return a name for this process as a holder of leases."""
    return f"{platform.node()}/{os.getpid()}/{new_id(now)}"


def is_gone(holder: str) -> bool:
    """Say whether the holder is a process of this machine that has ended. In doubt it has not: leases run out.

    If this is wrong (two containers with one name on one file), work is done twice, which does no harm.
    """
    match = _HOLDER.fullmatch(holder)
    if match is None or match["host"] != platform.node() or os.name != "posix":
        return False  # on other systems, asking whether a process runs may end it
    try:
        os.kill(int(match["process"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


class LeaseKeeper:
    """Takes leases for one holder, and renews them for as long as the work takes."""

    def __init__(self, store: JobStore, clock: Clock, holder: str, duration: Callable[[], timedelta]) -> None:
        self._store, self._clock, self._holder, self._duration = store, clock, holder, duration

    def named(self, name: str) -> Lease:
        """Return the lease of this name for this holder, taken or not."""
        return Lease(name, self._holder)

    @property
    def duration(self) -> timedelta:
        """Return how long a lease lasts from now on."""
        return self._duration()

    async def take(self, lease: Lease) -> bool:
        """Take or renew a lease. Return whether it is ours now."""
        now = self._clock.now()
        return await self._store.take_lease(lease, now=now, until=now + self._duration())

    async def release(self, lease: Lease) -> None:
        """Let go of a lease, if it is ours."""
        await self._store.release_lease(lease)

    @asynccontextmanager
    async def kept(self, lease: Lease) -> AsyncIterator[None]:
        """Renew a lease that was taken until the block ends, then release it."""
        ended = asyncio.Event()
        renewal = asyncio.create_task(self._renew(lease, ended))
        try:
            yield
        finally:
            ended.set()
            await renewal  # or a renewal that is on its way would outlive the release
            await self.release(lease)

    async def _renew(self, lease: Lease, ended: asyncio.Event) -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._duration().total_seconds() / RENEWALS_PER_LEASE)
                return
            with suppress(RecollectError):  # the next renewal may succeed; what is saved is checked in any case
                await self.take(lease)
