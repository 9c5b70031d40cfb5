"""Runs `recollect worker` as a process beside the server, for derived work.

Embedding, compressing and folding use the processor as long as there is work. Inside a server process they would delay
every answer. In a process of their own, at a lower priority, they use the time that is left.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Self

log = logging.getLogger(__name__)

NICENESS: Final = 10  # added to the server's own; higher values give way
RESTART_SECONDS: Final = 2.0  # before a worker that ended is started again; doubles each time
MAX_RESTART_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2
EXIT_GRACE_SECONDS: Final = 3.0  # for the worker to end before it is killed


class LogOptions(NamedTuple):
    """Holds how the worker logs: as the server does."""

    as_json: bool = False
    level: str = "info"


class WorkerProcess:
    """A worker that is started, watched and ended with the server.

    It ends when its stdin is closed, so it also ends if the server is killed.
    """

    def __init__(self, db: str, person: str, preset: str | None, logs: LogOptions) -> None:
        self._command = [sys.executable, "-m", "recollect", "worker", "--until-eof", "--person", person]
        if preset is not None:
            self._command += ["--preset", preset]
        self._command += ["--log-level", logs.level, *(["--json-logs"] if logs.as_json else [])]
        # The database may be a URL with a password. Every user of the machine can read a process's arguments.
        self._environment = os.environ | {"RECOLLECT_DB": db}
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
                process.wait(EXIT_GRACE_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # Ctrl-C reaches the server only, which then ends the worker
        )
        if hasattr(os, "setpriority"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    def _watch(self) -> None:
        wait = RESTART_SECONDS
        while not self._ending.is_set():
            process = self._process
            if process is not None and process.poll() is not None:
                log.warning("the worker ended with %s; it is started again", process.returncode)
                if self._ending.wait(wait):
                    return
                wait = min(2 * wait, MAX_RESTART_SECONDS)
                self._start()
            self._ending.wait(POLL_SECONDS)
