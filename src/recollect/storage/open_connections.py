"""The open connections of the PostgreSQL driver, and how they end if the server does not answer any more.

A thread that waits for a server cannot be told to stop. When its socket is shut down, from any other thread, the wait
ends with an error. That is done only while a memory is being closed: at other times a statement may take as long as it
needs.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from recollect.core.errors import StoreUnavailable
from recollect.runtime.forks import keep_in_children
from recollect.storage.postgres_connection import Address, Connection, connect

CLOSE_GRACE_SECONDS: Final = 3.0  # for a call to end while the memory is being closed
_POLL_SECONDS: Final = 0.05


class OpenConnections:
    """Opens and closes connections to one address, and knows which of them are busy."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._busy: dict[Connection, float] = {}  # since when, in seconds of the monotonic clock
        self._watcher: threading.Thread | None = None
        self._closed = threading.Event()
        self._has_given_up = False

    @property
    def busy_count(self) -> int:
        """Return how many connections wait for the server or are in a transaction."""
        return len(self._busy)

    def connect(self) -> Connection:
        """Return a new connection. It can be cut from the moment on that the server has accepted it."""
        self._check()
        try:
            return connect(self._address, accept=self._add)
        except BaseException:
            with self._lock:
                for broken in [connection for connection in self._open if connection.closed]:
                    self._open.discard(broken)
                    self._busy.pop(broken, None)
            raise

    def drop(self, connection: Connection) -> None:
        """Close a connection."""
        with self._lock:
            self._open.discard(connection)
            self._busy.pop(connection, None)
        with suppress(psycopg.Error):
            connection.close()

    @contextmanager
    def using(self, connection: Connection) -> Iterator[None]:
        """Note that a connection is busy in the block."""
        self._check()
        with self._lock:
            self._busy[connection] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._busy.pop(connection, None)

    def hurry(self) -> None:
        """Give the server up when a call takes longer than the grace from now on: cut all calls, and begin no other."""
        with self._lock:
            if self._watcher is not None:
                return
            self._watcher = threading.Thread(
                target=self._watch, args=(time.monotonic(),), name="recollect-postgres-end", daemon=True
            )
        self._watcher.start()

    def close(self) -> None:
        """Close all connections. No thread may use them any more."""
        self._closed.set()
        for connection in tuple(self._open):
            self.drop(connection)

    def _add(self, connection: Connection) -> None:
        keep_in_children(connection)
        with self._lock:
            self._open.add(connection)
            self._busy[connection] = time.monotonic()  # until its first user is done with it
        if self._has_given_up:
            self.drop(connection)
            self._check()

    def _check(self) -> None:
        if self._has_given_up:
            message = "The database server did not answer while the memory was being closed."
            raise StoreUnavailable("store_unreachable", message)

    def _watch(self, start: float) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            limit = time.monotonic() - CLOSE_GRACE_SECONDS
            with self._lock:
                is_stuck = any(max(since, start) < limit for since in self._busy.values())
                self._has_given_up = self._has_given_up or is_stuck
                while self._has_given_up and self._busy:  # under the lock, so that nobody closes one meanwhile
                    _shut_down(self._busy.popitem()[0])


def _shut_down(connection: Connection) -> None:
    """Shut down the socket of a connection that another thread uses. The thread's wait ends; the thread closes it."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)
