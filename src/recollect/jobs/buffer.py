"""Rows that are noted while somebody waits for an answer and written later, by the worker.

Losing a few of them costs little; a commit for each would cost every question.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from recollect.core.errors import RecollectError
from recollect.core.protocols import Clock

log = logging.getLogger(__name__)

R = TypeVar("R")
BUFFER: Final = 10_000  # rows; if nobody writes them, the oldest are lost, not the process's memory
FORGET_EVERY: Final = timedelta(hours=1)


class Buffered(Generic[R]):
    """An upkeep of the worker, which also forgets rows that are older than they are `kept`."""

    name: str
    kept: timedelta

    def __init__(
        self,
        clock: Clock,
        *,
        save: Callable[[Sequence[R]], Awaitable[None]],
        forget: Callable[[datetime], Awaitable[int]],
    ) -> None:
        self._clock, self._save, self._forget = clock, save, forget
        self._rows: list[R] = []
        self._forgot: datetime | None = None

    def _hold(self, row: R) -> None:
        self._rows.append(row)
        del self._rows[:-BUFFER]

    async def flush(self) -> None:
        """Write what is noted; what cannot be written is kept for the next time, as far as there is room."""
        rows, self._rows = self._rows, []
        if rows:
            try:
                await self._save(rows)
            except RecollectError as error:
                log.warning("%s cannot be written: %s", self.name, error.code)
                self._rows = (rows + self._rows)[-BUFFER:]

    async def tend(self) -> int:
        """Never counts as work done: a drain would not end."""
        await self.flush()
        now = self._clock.now()
        if self._forgot is None or abs(now - self._forgot) >= FORGET_EVERY:
            self._forgot = now
            await self._forget(now - self.kept)
        return 0
