"""Starts victims, lets them go together, kills them, and reads what they acknowledged."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VICTIM = str(Path(__file__).with_name("victim.py"))
TIMEOUT_SECONDS = 120.0


class Nursery:
    """A process that forks the victims. It ends when this process ends."""

    def __init__(self) -> None:
        self._asked, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            number = theirs.fileno()
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # threads do not survive a fork
            self._process = subprocess.Popen(
                [sys.executable, VICTIM, str(number)], pass_fds=[number], stderr=subprocess.DEVNULL, env=environment
            )
        atexit.register(self.close)

    def start(self, mode: str, arguments: dict[str, Any], ends: Sequence[int]) -> int:
        """Start a victim with these files as standard input and output. Return its process id."""
        return self._ask({"mode": mode, "arguments": arguments}, ends)

    def bury(self, process: int) -> int:
        """Wait for the end of a victim. Until then no other process can get its id."""
        return self._ask({"bury": process})

    def _ask(self, request: dict[str, Any], ends: Sequence[int] = ()) -> int:
        data = json.dumps(request).encode() + b"\n"
        with self._lock:
            self._asked.sendall(data[socket.send_fds(self._asked, [data], ends) :])
            answer = b""
            while not answer.endswith(b"\n"):
                block = self._asked.recv(64)
                assert block, "the nursery has ended"
                answer += block
        return int(answer)

    def close(self) -> None:
        self._asked.close()
        self._process.wait(TIMEOUT_SECONDS)


_nursery: Nursery | None = None
_one_at_a_time = threading.Lock()


def nursery() -> Nursery:
    """Return the nursery of this process. Threads that ask at once get the same one."""
    global _nursery
    with _one_at_a_time:
        _nursery = _nursery or Nursery()
        return _nursery


class Victim:
    def __init__(self, mode: str, **arguments: Any) -> None:
        self.arguments = arguments
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        try:
            self._process = nursery().start(mode, arguments, (theirs_in, theirs_out))
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.input, self.output = os.fdopen(ours_in, "wb", 0), os.fdopen(ours_out, "rb", 0)
        self._said = b""

    def read(self) -> bool:
        """Read what it wrote. Return False when it ended."""
        block = os.read(self.output.fileno(), 65536)
        self._said += block
        return bool(block)

    def await_ready(self) -> None:
        while b"\n" not in self._said:
            assert self.read(), "it ended before it was ready"

    def go(self) -> None:
        self.input.write(b"go\n")

    def kill(self) -> None:
        """Kill it by its id, without a chance to clean up. Read everything that it had written."""
        os.kill(self._process, signal.SIGKILL)
        while self.read():
            pass

    def lines(self) -> list[list[str]]:
        """Return its lines after `ready`, each as a list of words. An unfinished last line was not acknowledged."""
        return [line.split(" ") for line in self._said.decode().split("\n")[1:-1]]

    def close(self) -> None:
        try:
            os.kill(self._process, signal.SIGKILL)
            nursery().bury(self._process)
        finally:
            self.input.close()
            self.output.close()


@contextmanager
def ready(victims: Sequence[Victim]) -> Iterator[None]:
    """Start victims that all wait for the signal to go. None outlives the block."""
    try:
        for victim in victims:
            victim.await_ready()
        yield
    finally:
        for victim in victims:
            victim.close()


def run_to_end(victims: Sequence[Victim], *, seconds: float = TIMEOUT_SECONDS) -> list[list[str]]:
    """Let all go at once, and wait for their end. Return their lines. A victim that meets an error fails the test."""
    with ready(victims):
        for victim in victims:
            victim.go()
        _read_until(victims, time.monotonic() + seconds)
        for victim in victims:
            assert victim.lines()[-1:] == [["done"]], f"it did not finish: {victim.lines()[-3:]}"
    return _checked(victims)


def kill_at(victims: Sequence[Victim], moments: Sequence[float]) -> list[list[str]]:
    """Let all go at once, and kill each after its number of seconds. Return their lines."""
    with ready(victims):
        for victim in victims:
            victim.go()
        start = time.monotonic()
        for moment, victim in sorted(zip(moments, victims, strict=True), key=lambda pair: pair[0]):
            _read_until(victims, start + moment)
            victim.kill()
    return _checked(victims)


def _read_until(victims: Sequence[Victim], deadline: float) -> None:
    """Read from all pipes until a moment or until all have ended, so that no victim waits for a full pipe."""
    with selectors.DefaultSelector() as selector:
        for victim in victims:
            selector.register(victim.output, selectors.EVENT_READ, victim)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if not key.data.read():
                    selector.unregister(key.fileobj)


def _checked(victims: Sequence[Victim]) -> list[list[str]]:
    lines = [line for victim in victims for line in victim.lines()]
    errors = [" ".join(line) for line in lines if line[0] == "error"]
    assert not errors, f"an error reached a caller: {errors[:3]}"
    return [line for line in lines if line != ["done"]]
