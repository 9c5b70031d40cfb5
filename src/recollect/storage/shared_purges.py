"""Decides when a file is rewritten: one rewrite serves all who wait for it, and long ones are kept apart.

An erase rewrites the whole file while others wait for the lock. Erases that wait share the next rewrite. After one that
took long there is a pause, in which only the erases wait, so that writers seldom meet a rewrite. The pause is a lease
in the database, so all processes keep it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

import apsw

from recollect.storage.driver import PurgeResult
from recollect.storage.queries import Query

Purge = Callable[[apsw.Connection], PurgeResult]

SHORT_SECONDS: Final = 0.1  # a rewrite up to here needs no pause: nobody minds waiting for it
PAUSE_FACTOR: Final = 45  # rewrites take a fortieth of the time, so the p95 of an add meets none
MAX_WAIT_SECONDS: Final = 45.0  # an erase is answered within a minute; in a longer pause it is left pending
CLAIM_SECONDS: Final = 40.0  # a rewrite is taken for abandoned after that
POLL_SECONDS: Final = 0.25  # between looks at a pause, which another process may end
_LEASE: Final = "rewrite"


class RewritePace:
    """Keeps the pauses between rewrites of a file."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self._queries = queries
        self._holder = secrets.token_hex(8)

    def claim(self, connection: apsw.Connection) -> float:
        """Claim the next rewrite. Return 0, or the seconds for which none may begin: then it is not claimed."""
        now = _now()
        taken = self._run(connection, "take_lease", holder=self._holder, now=now, until=now + _micros(CLAIM_SECONDS))
        if taken:
            return 0.0
        row = connection.execute(self._queries["lease_end"].sql, {"name": _LEASE}).fetchone()
        return max(POLL_SECONDS, (row[0] - now) / 1_000_000) if row else POLL_SECONDS

    @contextmanager
    def rewriting(self, connection: apsw.Connection) -> Iterator[None]:
        """Measure the claimed rewrite in this context, and begin the pause after it."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.end(connection, time.monotonic() - start)

    def end(self, connection: apsw.Connection, seconds: float) -> None:
        """Note that the claimed rewrite took so long, and begin the pause after it."""
        if seconds <= SHORT_SECONDS:
            self._run(connection, "release_lease", holder=self._holder)
        else:
            pause = {"now": _now(), "until": _now() + _micros(PAUSE_FACTOR * seconds)}
            self._run(connection, "take_lease", holder=self._holder, **pause)
        self._holder = secrets.token_hex(8)  # the next rewrite of this process waits for the pause, too

    def _run(self, connection: apsw.Connection, query: str, **params: object) -> bool:
        connection.execute(self._queries[query].sql, {"name": _LEASE, **params})
        return connection.changes() > 0


class SharedPurges:
    """Runs purges one at a time. Callers who come before one begins share it: it removes their rows too."""

    def __init__(
        self, purge: Purge, run_aside: Callable[[Purge], Future[PurgeResult]], queries: Mapping[str, Query]
    ) -> None:
        """Take what removes the bytes, and what runs that on a connection and a thread of its own."""
        self.pace = RewritePace(queries)
        self._purge, self._run_aside = purge, run_aside
        self._lock, self._running = threading.Lock(), threading.Lock()
        self._waiting: Future[PurgeResult] | None = None  # one that has not begun
        self._closed = threading.Event()

    def request(self, *, may_wait: bool) -> Future[PurgeResult]:
        """Return the result of the next purge. It is pending at once if it would have to wait and may not."""
        if not may_wait:
            return self._run_aside(self._run_if_free)
        with self._lock:
            if self._waiting is None or self._waiting.done():
                self._waiting = self._run_aside(self._run_in_turn)
            return self._waiting

    def close(self) -> None:
        """End the waiting: nothing is rewritten any more."""
        self._closed.set()

    def _run_if_free(self, connection: apsw.Connection) -> PurgeResult:
        if not self._running.acquire(blocking=False):
            return PurgeResult(pending=True)
        try:
            return PurgeResult(pending=True) if self.pace.claim(connection) else self._purge(connection)
        finally:
            self._running.release()

    def _run_in_turn(self, connection: apsw.Connection) -> PurgeResult:
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        with self._running:
            while pause := self.pace.claim(connection):
                is_too_long = time.monotonic() + pause > deadline
                if is_too_long or self._closed.wait(min(pause, POLL_SECONDS)):
                    return PurgeResult(pending=True)
            with self._lock:
                self._waiting = None  # who comes from now on needs the next one
            return self._purge(connection)


def _now() -> int:
    """Return the system's time in microseconds: leases of all processes are compared by it."""
    return time.time_ns() // 1000


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
