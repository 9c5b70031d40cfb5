"""Decides when a file is rewritten: one rewrite serves all who wait for it, and long ones are kept apart.

An erase rewrites the whole file while others wait for the lock. Erases that wait share the next rewrite. After one that
took long there is a pause, in which only the erases wait, so that writers seldom meet a rewrite.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

import apsw

from recollect.storage.driver import PurgeResult

Purge = Callable[[apsw.Connection], PurgeResult]

SHORT_SECONDS: Final = 0.1  # a rewrite up to here needs no pause: nobody minds waiting for it
PAUSE_FACTOR: Final = 30  # so that rewrites take less than a twentieth of the time: the p95 of an add meets none
MAX_WAIT_SECONDS: Final = 45.0  # an erase is answered within a minute; in a longer pause it is left pending


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
        """Wait until the next rewrite may begin.

        Return False if that takes longer than `MAX_WAIT_SECONDS`, or if `close` was called meanwhile.
        """
        pause = self.pause_left
        return pause <= MAX_WAIT_SECONDS and not self._closed.wait(pause)

    @contextmanager
    def rewriting(self) -> Iterator[None]:
        """Measure the rewrite in this context, and begin the pause after it."""
        start = self._monotonic()
        try:
            yield
        finally:
            self.note(self._monotonic() - start)

    def note(self, seconds: float) -> None:
        """Note that a rewrite took so long, and begin the pause after it."""
        self._next_start = self._monotonic() + (PAUSE_FACTOR * seconds if seconds > SHORT_SECONDS else 0.0)

    def close(self) -> None:
        """End the waiting: nothing is rewritten any more."""
        self._closed.set()


class SharedPurges:
    """Runs purges one at a time. Callers who come before one begins share it: it removes their rows too."""

    def __init__(self, purge: Purge, run_aside: Callable[[Purge], Future[PurgeResult]]) -> None:
        """Take what removes the bytes, and what runs that on a connection and a thread of its own."""
        self.pace = RewritePace()
        self._purge, self._run_aside = purge, run_aside
        self._lock, self._running = threading.Lock(), threading.Lock()
        self._waiting: Future[PurgeResult] | None = None  # one that has not begun

    def request(self, *, may_wait: bool) -> Future[PurgeResult]:
        """Return the result of the next purge. It is pending at once if it would have to wait and may not."""
        if not may_wait and (self._running.locked() or self.pace.pause_left):
            postponed: Future[PurgeResult] = Future()
            postponed.set_result(PurgeResult(pending=True))
            return postponed
        with self._lock:
            if self._waiting is None or self._waiting.done():
                self._waiting = self._run_aside(self._run_in_turn)
            return self._waiting

    def _run_in_turn(self, connection: apsw.Connection) -> PurgeResult:
        with self._running:
            if not self.pace.wait():
                return PurgeResult(pending=True)
            with self._lock:
                self._waiting = None  # who comes from now on needs the next one
            return self._purge(connection)
