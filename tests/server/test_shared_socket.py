"""The door that processes share: one connection at a time, then others have their turn."""

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
from recollect.server.shared_socket import CROWD, EXHAUSTED, STEP, Door, SharingLoop


class Loop:
    """Does what it is told by the test, when the test says so."""

    def __init__(self) -> None:
        self.ready: Callable[[], None] | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.entered: list[socket.socket] = []

    def add_reader(self, _: Any, call: Callable[[], None]) -> None:
        self.ready = call

    def remove_reader(self, _: Any) -> None:
        self.ready = None

    def call_later(self, wait: float, call: Callable[[], None]) -> None:
        self.later.append((wait, call))

    def connect_accepted_socket(self, _: Any, connection: socket.socket) -> socket.socket:
        self.entered.append(connection)
        return connection

    def create_task(self, _: Any) -> Any:
        return asyncio.Future(loop=_ENDED)

    def turn(self) -> int:
        """Somebody waits: how many are let in."""
        before = len(self.entered)
        assert self.ready is not None
        self.ready()
        return len(self.entered) - before

    def step(self) -> float:
        """The time passes for which it stood back."""
        wait, call = self.later.pop()
        call()
        return wait


_ENDED = asyncio.new_event_loop()
_ENDED.close()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as made:
        yield made


def _come(listening: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listening.getsockname()) for _ in range(count)]


def test_who_lets_one_in_stands_back_and_leaves_the_next_to_others(listening: socket.socket) -> None:
    first, second = Loop(), Loop()
    for loop in (first, second):
        Door(loop, listening, lambda: asyncio.Protocol())
    waiting = _come(listening, 3)
    assert (first.turn(), first.ready) == (1, None)
    assert (second.turn(), second.ready) == (1, None)
    assert first.step() == STEP
    assert first.turn() == 1
    assert second.step() == STEP
    assert second.turn() == 0
    assert second.ready is not None  # who found nobody goes on waiting
    for one in (*waiting, *first.entered, *second.entered):
        one.close()


def test_a_crowd_is_let_in_by_more_at_once(listening: socket.socket) -> None:
    loop = Loop()
    Door(loop, listening, lambda: asyncio.Protocol())
    waiting = _come(listening, 200)
    turns = []
    while len(loop.entered) < 200:
        turns.append(loop.turn())
        loop.step()
    assert turns[:5] == [1, 1, 1, 1, 2]
    assert max(turns) == CROWD
    assert len(turns) < 45
    assert loop.turn() == 0
    waiting += _come(listening, 2)
    assert loop.turn() == 1  # the crowd is over
    for one in (*waiting, *loop.entered):
        one.close()


def test_without_files_left_it_waits_and_then_goes_on(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def accept(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    loop = Loop()
    made = Door(loop, listening, lambda: asyncio.Protocol())
    waiting = _come(listening, 1)
    monkeypatch.setattr(made, "_listening", Full())
    assert (loop.turn(), loop.ready) == (0, None)
    assert "Too many open files" in caplog.text
    monkeypatch.undo()
    assert loop.step() == EXHAUSTED
    assert loop.turn() == 1
    made.close()
    loop.step()
    assert (loop.ready, made.sockets) == (None, ())
    for one in (*waiting, *loop.entered):
        one.close()


def test_two_real_loops_share_what_comes_at_once(listening: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_socket, "CROWD", 1)
    entered: list[int] = [0, 0]
    loops = [SharingLoop(), SharingLoop()]

    def serve(place: int) -> None:
        class Counting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                entered[place] += 1
                transport.close()

        async def wait() -> None:
            server = await loops[place].create_server(Counting, sock=listening, backlog=512)
            listen.wait(20)
            await over[place].wait()
            server.close()
            await server.wait_closed()

        loops[place].run_until_complete(wait())
        loops[place].close()

    over, listen = [asyncio.Event(), asyncio.Event()], threading.Barrier(3)
    threads = [threading.Thread(target=serve, args=(place,), daemon=True) for place in (0, 1)]
    for thread in threads:
        thread.start()
    listen.wait(20)
    waiting = _come(listening, 100)
    ends = time.monotonic() + 20
    while sum(entered) < 100 and time.monotonic() < ends:
        time.sleep(0.01)
    for loop, event, thread in zip(loops, over, threads, strict=True):
        loop.call_soon_threadsafe(event.set)
        thread.join(20)
    for one in waiting:
        one.close()
    assert sum(entered) == 100
    assert min(entered) >= 20
