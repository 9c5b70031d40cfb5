"""The maintenance of the store, beside derived work: unfinished erasures, leases of dead processes, clean-up."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from recollect.core.protocols import Clock
from recollect.jobs.leases import is_gone
from recollect.storage.store import SqlStore

TIDY_INTERVAL: Final = timedelta(seconds=30)


class FinishErasures:
    """Removes the bytes of erased rows that were left in the file at the time."""

    name = "erasures"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def tend(self) -> int:
        """Purge the files if erasures are pending. Return how many are finished.

        An erase that is under way counts as pending. The worker does not wait for it: messages want to be indexed.
        """
        pending = await self._store.pending_erasures()
        if not pending or (await self._store.purge(may_wait=False)).pending:
            return 0
        await self._store.finish_erasures(pending)
        return len(pending)


class FreeLeases:
    """Releases leases of killed processes of this machine, so that others need not wait until they run out."""

    name = "leases"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def tend(self) -> int:
        """Release them. Return 0: see `Maintenance`."""
        gone = [holder for holder in await self._store.jobs.lease_holders() if is_gone(holder)]
        if gone:
            await self._store.jobs.free_leases(gone)
        return 0


class TidyStore:
    """Keeps the write-ahead log short and deletes expired sessions, idempotency keys and stop marks."""

    name = "tidied"

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._last: datetime | None = None

    async def tend(self) -> int:
        """Tidy, if the last time is `TIDY_INTERVAL` ago. Return 0: see `Maintenance`."""
        now = self._clock.now()
        if self._last is None or abs(now - self._last) >= TIDY_INTERVAL:
            self._last = now
            await self._store.maintain()
            await self._store.server_state.delete_expired(now=now)
        return 0
