"""How often a file is rewritten: rewrites that take long are kept apart, so that writers seldom wait for one.

An erase rewrites the whole file while others wait for the lock. Erases that wait share the next rewrite. After one that
took long there is a pause, in which only the erases wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

SHORT_SECONDS: Final = 0.1  # a rewrite up to here needs no pause: nobody minds waiting for it
PAUSE_FACTOR: Final = 30  # so that rewrites take less than a twentieth of the time: the p95 of an add meets none
MAX_PAUSE_SECONDS: Final = 45.0  # an erase is to be done within a minute


class RewritePace:
    """Keeps the pauses between rewrites. One rewrite runs at a time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._next_start = monotonic()
        self._closed = threading.Event()

    @property
    def pause_left(self) -> float:
        """Return for how many seconds no rewrite may begin."""
        return max(0.0, self._next_start - self._monotonic())

    def wait(self) -> bool:
        """Wait until the next rewrite may begin. Return False if `close` was called meanwhile."""
        return not self._closed.wait(self.pause_left)

    def note(self, seconds: float) -> None:
        """Note that a rewrite took so long, and begin the pause after it."""
        pause = min(MAX_PAUSE_SECONDS, PAUSE_FACTOR * seconds) if seconds > SHORT_SECONDS else 0.0
        self._next_start = self._monotonic() + pause

    def close(self) -> None:
        """End the waiting: nothing is rewritten any more."""
        self._closed.set()
