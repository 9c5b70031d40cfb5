"""The socket that processes share: each accepts one connection at a time, then others have their turn."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recollect.server import shared_socket
from recollect.server.shared_socket import (
    ERROR_PAUSE_SECONDS,
    MAX_CONNECTIONS_PER_TURN,
    PAUSE_SECONDS,
    SharedListener,
    SharedSocketLoop,
)


class ManualLoop:
    """An event loop whose reader and timers are run by the test."""

    def __init__(self) -> None:
        self.ready: Callable[[], None] | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.accepted: list[socket.socket] = []

    def add_reader(self, _: Any, call: Callable[[], None]) -> None:
        self.ready = call

    def remove_reader(self, _: Any) -> None:
        self.ready = None

    def call_later(self, wait: float, call: Callable[[], None]) -> None:
        self.later.append((wait, call))

    def connect_accepted_socket(self, _: Any, connection: socket.socket) -> socket.socket:
        self.accepted.append(connection)
        return connection

    def create_task(self, _: Any) -> Any:
        return asyncio.Future(loop=_ENDED)

    def turn(self) -> int:
        """Report the socket as readable, and return how many connections are accepted."""
        before = len(self.accepted)
        assert self.ready is not None
        self.ready()
        return len(self.accepted) - before

    def step(self) -> float:
        """Run the planned call, and return the seconds it was planned for."""
        wait, call = self.later.pop()
        call()
        return wait


_ENDED = asyncio.new_event_loop()
_ENDED.close()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        yield server


def _connect(listening: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listening.getsockname()) for _ in range(count)]


def test_a_process_that_accepted_a_connection_leaves_the_next_to_others(listening: socket.socket) -> None:
    first, second = ManualLoop(), ManualLoop()
    for loop in (first, second):
        SharedListener(loop, listening, lambda: asyncio.Protocol())
    waiting = _connect(listening, 3)
    assert (first.turn(), first.ready) == (1, None)
    assert (second.turn(), second.ready) == (1, None)
    assert first.step() == PAUSE_SECONDS
    assert first.turn() == 1
    assert second.step() == PAUSE_SECONDS
    assert second.turn() == 0
    assert second.ready is not None  # it accepted none, so it goes on listening
    for one in (*waiting, *first.accepted, *second.accepted):
        one.close()


def test_many_waiting_connections_are_accepted_several_at_a_time(listening: socket.socket) -> None:
    loop = ManualLoop()
    SharedListener(loop, listening, lambda: asyncio.Protocol())
    waiting = _connect(listening, 200)
    turns = []
    while len(loop.accepted) < 200:
        turns.append(loop.turn())
        loop.step()
    assert turns[:5] == [1, 1, 1, 1, 2]
    assert max(turns) == MAX_CONNECTIONS_PER_TURN
    assert len(turns) < 45
    assert loop.turn() == 0
    waiting += _connect(listening, 2)
    assert loop.turn() == 1  # few are waiting again
    for one in (*waiting, *loop.accepted):
        one.close()


def test_without_file_descriptors_it_waits_and_then_goes_on(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def accept(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    loop = ManualLoop()
    listener = SharedListener(loop, listening, lambda: asyncio.Protocol())
    waiting = _connect(listening, 1)
    monkeypatch.setattr(listener, "_listening", Full())
    assert (loop.turn(), loop.ready) == (0, None)
    assert "Too many open files" in caplog.text
    monkeypatch.undo()
    assert loop.step() == ERROR_PAUSE_SECONDS
    assert loop.turn() == 1
    listener.close()
    loop.step()
    assert (loop.ready, listener.sockets) == (None, ())
    for one in (*waiting, *loop.accepted):
        one.close()


def test_two_real_loops_share_connections_that_come_at_once(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_socket, "MAX_CONNECTIONS_PER_TURN", 1)
    monkeypatch.setattr(shared_socket, "PAUSE_SECONDS", 0.02)  # so that a thread may be kept waiting for half a second
    entered: list[int] = [0, 0]
    loops = [SharedSocketLoop(), SharedSocketLoop()]

    def serve(place: int) -> None:
        class Counting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                entered[place] += 1
                transport.close()

        async def wait() -> None:
            server = await loops[place].create_server(Counting, sock=listening, backlog=512)
            listen.wait(300)
            await over[place].wait()
            server.close()
            await server.wait_closed()

        loops[place].run_until_complete(wait())
        loops[place].close()

    over, listen = [asyncio.Event(), asyncio.Event()], threading.Barrier(3)
    threads = [threading.Thread(target=serve, args=(place,), daemon=True) for place in (0, 1)]
    for thread in threads:
        thread.start()
    listen.wait(300)
    waiting = _connect(listening, 100)
    ends = time.monotonic() + 300
    while sum(entered) < 100 and time.monotonic() < ends:
        time.sleep(0.01)
    for loop, event, thread in zip(loops, over, threads, strict=True):
        loop.call_soon_threadsafe(event.set)
        thread.join(300)
    for one in waiting:
        one.close()
    assert sum(entered) == 100
    assert min(entered) >= 20
