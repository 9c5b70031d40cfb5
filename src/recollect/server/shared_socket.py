"""Spreads connections evenly over the processes that share one listening socket.

Without this, the process that wakes first accepts all waiting connections and keeps them while they are open: one core
works and the others idle. So each process accepts one connection at a time, or up to 8 under load, then stops accepting
for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

import uvloop

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.002  # after each turn; the process accepts no connections meanwhile
TURNS_PER_EXTRA_CONNECTION: Final = 4  # after so many turns in a row that hit their limit, it grows by one
MAX_CONNECTIONS_PER_TURN: Final = 8
ERROR_PAUSE_SECONDS: Final = 1.0  # after an error, mostly because no file descriptors are left

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class SharedListener:
    """Accepts connections from a shared socket. Has the methods of an asyncio server that uvicorn calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, protocols: ProtocolFactory) -> None:
        self._loop, self._listening, self._protocols = loop, listening, protocols
        self._full_turns = 0  # turns in a row that hit their limit
        self._is_open = True
        self._connecting: set[asyncio.Task[Any]] = set()
        self._listening.setblocking(False)
        self._resume_accepting()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """Return the listening socket, or nothing when closed."""
        return (self._listening,) if self._is_open else ()

    def close(self) -> None:
        """Stop accepting connections. Open ones stay open."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        """Wait until accepted connections are handed to their protocol."""
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _resume_accepting(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listening, self._take_turn)

    def _take_turn(self) -> None:
        """Accept a connection, or several if many are waiting, then pause so that other processes have their turn."""
        limit = min(MAX_CONNECTIONS_PER_TURN, 1 + self._full_turns // TURNS_PER_EXTRA_CONNECTION)
        accepted, pause = 0, PAUSE_SECONDS
        try:
            while accepted < limit:
                connection, _ = self._listening.accept()
                connection.setblocking(False)
                accepted += 1
                self._connect(connection)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass  # another process was quicker, or the client has gone
        except OSError as error:  # mostly: no file descriptors left
            log.error("cannot accept connections (%s); retrying in %g s", error.strerror, ERROR_PAUSE_SECONDS)
            pause = ERROR_PAUSE_SECONDS
        self._full_turns = self._full_turns + 1 if accepted == limit else 0
        if accepted or pause > PAUSE_SECONDS:
            self._loop.remove_reader(self._listening)
            self._loop.call_later(pause, self._resume_accepting)

    def _connect(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._protocols, connection))
        self._connecting.add(task)
        task.add_done_callback(self._on_connected)

    def _on_connected(self, task: asyncio.Task[Any]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("setting up a connection failed: %s", type(task.exception()).__name__)


class SharedSocketLoop(uvloop.Loop):
    """An event loop whose servers share their listening socket with other processes."""

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        """Return a `SharedListener` for a plain socket; anything else is served as usual."""
        listening = options.get("sock")
        if listening is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, *args, **options)
        listening.listen(options.get("backlog", 100))
        return SharedListener(self, listening, protocol_factory)
