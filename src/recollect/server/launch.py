"""Starts the server: checks its address, starts one process or several, and the worker beside them."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

import recollect
from recollect.admin.access import Access, other_secret_error
from recollect.admin.compose import has_database
from recollect.core.errors import InvalidInput, RecollectError
from recollect.memory import AsyncMemory
from recollect.runtime.log_lines import set_up_logs
from recollect.server import spans, telemetry
from recollect.server.app import ServerOptions, is_loopback, make_app
from recollect.server.connections import PROTOCOL
from recollect.server.worker_process import LogOptions, WorkerProcess

log = logging.getLogger(__name__)

LISTEN_BACKLOG: Final = 2048  # connections that wait to be accepted
GC_THRESHOLDS: Final = (50_000, 20, 20)  # collect seldom: each collection walks all objects of a large memory
SHARED_SOCKET_LOOP: Final = "recollect.server.shared_socket:SharedSocketLoop"
HEALTH_TIMEOUT_SECONDS: Final = 30  # a process silent for so long is replaced; a busy machine starts slowly
REQUEST_GRACE_SECONDS: Final = 3  # for requests to end after SIGTERM; then answers get theirs
ORPHAN_GRACE_SECONDS: Final = 10.0  # for a process whose parent is gone to end by itself


class ReadyCallback(Protocol):
    """Called when the server listens. `keys` says whether it asks for keys."""

    def __call__(self, address: str, *, keys: bool) -> None: ...


class _OrderlyServer(uvicorn.Server):
    """A server whose process exits with 0 after SIGTERM, once everything has ended: as several processes do."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server. SIGTERM is not noted, so it is not raised again when all is done."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


def serve(options: ServerOptions, *, workers: int, ready: ReadyCallback) -> None:
    """Run the server in `workers` processes until SIGTERM or Ctrl-C.

    What is refused (a setting, an address, a missing key) is refused before a database is created.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait by spinning, on cores that others need
    if Path(recollect.__file__).parents[1] != Path.cwd():
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # the processes started here import nothing from this folder
    listening, has_keys = asyncio.run(check_and_bind(options))
    config = uvicorn.Config(
        partial(_make_process_app, replace(options, runs_worker=False, processes=workers)),
        factory=True,
        host=options.host,
        port=options.port,
        http=PROTOCOL,
        ws="none",
        log_config=None,
        access_log=False,  # uvicorn's lines have queries in them; the guard logs requests instead
        server_header=False,
        timeout_graceful_shutdown=REQUEST_GRACE_SECONDS,
        workers=workers,
        timeout_worker_healthcheck=HEALTH_TIMEOUT_SECONDS,
        loop="auto" if workers == 1 or sys.platform == "win32" else SHARED_SOCKET_LOOP,
        lifespan="on",
    )
    set_up_logs(as_json=options.json_logs, level=options.log_level)
    listening.listen(LISTEN_BACKLOG)  # from now on connections wait until the first process is ready
    host = f"[{options.host}]" if ":" in options.host else options.host
    ready(f"http://{host}:{listening.getsockname()[1]}", keys=has_keys)
    logs = LogOptions(options.json_logs, options.log_level)
    with WorkerProcess(options.db, options.person, options.settings, logs):
        if workers == 1:
            _OrderlyServer(config).run([listening])
            return
        with tempfile.TemporaryDirectory(prefix="recollect-figures-") as folder:
            os.environ[telemetry.MULTIPROCESS_VARIABLE] = folder
            Multiprocess(config, sockets=[listening]).run()


def _make_process_app(options: ServerOptions) -> FastAPI:
    """Build the application in a server process, after setting up garbage collection, logs and spans there."""
    gc.set_threshold(*GC_THRESHOLDS)
    set_up_logs(as_json=options.json_logs, level=options.log_level)
    _end_with_parent()
    spans.set_up()
    return make_app(options)


def bind_socket(options: ServerOptions) -> socket.socket:
    """Return a socket that is bound to the server's address. Raise RecollectError if the address cannot be had."""
    bound = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((options.host, options.port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise RecollectError(
                "port_in_use",
                f"Another program listens on port {options.port} of {options.host} already. Choose another port with "
                "--port; 0 takes a free one.",
            ) from None
        reason = error.strerror or str(error)
        raise RecollectError(
            "cannot_listen", f"Cannot listen on port {options.port} of {options.host}: {reason}."
        ) from None
    bound.set_inheritable(True)
    return bound


async def check_and_bind(options: ServerOptions) -> tuple[socket.socket, bool]:
    """Return a socket that is bound to the server's address, and whether requests need keys.

    Raise what the server is refused for. Settings and address come first, before a database is created.
    """
    memory = AsyncMemory(options.db, person=options.person, settings=options.settings, worker=False)
    try:
        if not is_loopback(options.host) and not has_database(options.db):
            raise _keys_needed(options)
        bound = bind_socket(options)
        try:
            return bound, await _check_keys(options, memory)
        except BaseException:
            bound.close()
            raise
    finally:
        await memory.close()


async def _check_keys(options: ServerOptions, memory: AsyncMemory) -> bool:
    """Open the database, so that its errors show at once, and return whether requests need keys.

    An address that other machines can reach is refused while they need none. A server whose secret is not the one that
    the keys were made with is refused too: it would refuse every key.
    """
    await memory.open()
    access = Access(memory)
    requires_keys = await access.requires_keys()
    if await access.accepts_no_key():
        raise other_secret_error()
    if not is_loopback(options.host) and not requires_keys:
        raise _keys_needed(options)
    return requires_keys


def _keys_needed(options: ServerOptions) -> InvalidInput:
    return InvalidInput(
        "keys_needed",
        f"Other machines can reach {options.host}, and there are no keys yet. "
        "Create one first: recollect keys create PERSON",
    )


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: it would hold the port, and nobody could stop it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return  # the server is one process

    def wait_and_end() -> None:
        parent.join()
        log.warning("the process that started this one is gone, so it ends too")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHAN_GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=wait_and_end, name="recollect-parent", daemon=True).start()
