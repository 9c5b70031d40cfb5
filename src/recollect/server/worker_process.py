"""Derived work beside the server: `recollect worker` in a process of its own, which gives way to those that answer.

Embedding, folding and summarising take the processor for as long as there is work. In the process of a server they
would hold up every answer; beside it, at a lower priority, they take what is left.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

log = logging.getLogger(__name__)

NICE: Final = 10
AGAIN: Final = 2.0  # seconds before one that ended is started again,
LONGEST: Final = 60.0  # and twice as long each time, up to this
LOOK: Final = 0.2
PATIENCE: Final = 3.0  # seconds to end in


class WorkerBeside:
    """Started, watched, and ended with the server, however that ends: it stops when its input does."""

    def __init__(self, db: str, person: str, preset: str | None) -> None:
        self._command = [sys.executable, "-m", "recollect", "worker", "--until-eof", "--person", person]
        if preset is not None:
            self._command += ["--preset", preset]
        self._environment = os.environ | {"RECOLLECT_DB": db}  # not among the arguments, which everybody can see
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="recollect-worker-beside", daemon=True)

    def __enter__(self) -> Self:
        self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            if process.poll() is None:
                process.kill()
                process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the server, which ends it
        )
        if hasattr(os, "setpriority"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)

    def _watch(self) -> None:
        wait = AGAIN
        while not self._ending.is_set():
            process = self._process
            if process is not None and process.poll() is not None:
                log.warning("the worker ended with %s; it is started again", process.returncode)
                if self._ending.wait(wait):
                    return
                wait = min(2 * wait, LONGEST)
                self._start()
            self._ending.wait(LOOK)
