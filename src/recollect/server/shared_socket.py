"""The door that several processes share: each takes one connection at a time and steps back, so that others come too.

Left to themselves, the first process that wakes takes everybody who waits, and keeps them as long as they stay
connected: one core is busy and the others look on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

import uvloop

log = logging.getLogger(__name__)

STEP: Final = 0.002  # seconds for which who took a connection leaves the door to others
PATIENCE: Final = 4  # turns in a row that found somebody; who comes in such a crowd is let in by more at once
CROWD: Final = 8  # connections in one turn at most
EXHAUSTED: Final = 1.0  # seconds to wait when there are too many open files

Protocols = Callable[[], asyncio.BaseProtocol]


class Door:
    """Lets in who waits at a listening socket. A server as event loops make them, as far as uvicorn uses one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, protocols: Protocols) -> None:
        self._loop, self._listening, self._protocols = loop, listening, protocols
        self._turns = 0  # in a row that found somebody
        self._is_open = True
        self._entering: set[asyncio.Task[Any]] = set()
        self._listening.setblocking(False)
        self._watch()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return (self._listening,) if self._is_open else ()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._entering, return_exceptions=True)

    def _watch(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listening, self._take_turn)

    def _take_turn(self) -> None:
        most = min(CROWD, 1 + self._turns // PATIENCE)
        came, wait = 0, STEP
        try:
            while came < most:
                connection, _ = self._listening.accept()
                connection.setblocking(False)
                came += 1
                self._let_in(connection)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass  # another process was quicker, or whoever waited has gone
        except OSError as error:  # no files left, mostly
            log.error("no connection can be taken: %s", error.strerror)
            wait = EXHAUSTED
        self._turns = self._turns + 1 if came == most else 0
        if came or wait > STEP:
            self._loop.remove_reader(self._listening)
            self._loop.call_later(wait, self._watch)

    def _let_in(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._protocols, connection))
        self._entering.add(task)
        task.add_done_callback(self._has_entered)

    def _has_entered(self, task: asyncio.Task[Any]) -> None:
        self._entering.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a connection was lost as it came: %s", type(task.exception()).__name__)


class SharingLoop(uvloop.Loop):
    """An event loop whose servers share their socket with those of other processes."""

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        listening = options.get("sock")
        if listening is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, *args, **options)
        listening.listen(options.get("backlog", 100))
        return Door(self, listening, protocol_factory)
