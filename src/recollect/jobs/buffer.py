"""Rows that are noted while a question is answered and written later, by the worker.

Losing a few of them costs little. A commit for each would slow down every question.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from recollect.core.errors import RecollectError
from recollect.core.protocols import Clock

log = logging.getLogger(__name__)

BufferedRow = TypeVar("BufferedRow")
MAX_BUFFERED_ROWS: Final = 10_000  # while they cannot be written, the oldest are dropped to save memory
DELETE_INTERVAL: Final = timedelta(hours=1)  # between deletions of old rows


class BufferedRows(Generic[BufferedRow]):
    """A buffer of rows. As maintenance of the worker it writes them and deletes stored ones above `retention`."""

    name: str
    retention: timedelta

    def __init__(
        self,
        clock: Clock,
        *,
        save: Callable[[Sequence[BufferedRow]], Awaitable[None]],
        delete_old: Callable[[datetime], Awaitable[int]],
    ) -> None:
        """`delete_old` deletes the stored rows from before a moment."""
        self._clock, self._save, self._delete_old = clock, save, delete_old
        self._rows: list[BufferedRow] = []
        self._deleted_at: datetime | None = None

    def _buffer(self, row: BufferedRow) -> None:
        self._rows.append(row)
        del self._rows[:-MAX_BUFFERED_ROWS]

    async def flush(self) -> None:
        """Write the buffered rows. If the store fails, keep the newest of them for the next time."""
        rows, self._rows = self._rows, []
        if rows:
            try:
                await self._save(rows)
            except RecollectError as error:
                log.warning("%s cannot be written: %s", self.name, error.code)
                self._rows = (rows + self._rows)[-MAX_BUFFERED_ROWS:]

    async def tend(self) -> int:
        """Write the buffered rows and, every `DELETE_INTERVAL`, delete old ones. Return 0: see `Maintenance`."""
        await self.flush()
        now = self._clock.now()
        if self._deleted_at is None or abs(now - self._deleted_at) >= DELETE_INTERVAL:
            self._deleted_at = now
            await self._delete_old(now - self.retention)
        return 0
