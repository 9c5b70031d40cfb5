"""Starts the server: checks its address, starts one process or several, and the worker beside them."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from recollect.admin.access import Access
from recollect.core.errors import InvalidInput
from recollect.memory import AsyncMemory
from recollect.server import spans, telemetry
from recollect.server.app import ServerOptions, make_app
from recollect.server.connections import PROTOCOL
from recollect.server.worker_process import WorkerProcess

LISTEN_BACKLOG: Final = 2048  # connections that wait to be accepted
GC_THRESHOLDS: Final = (50_000, 20, 20)  # collect seldom: each collection walks all objects of a large memory
SHARED_SOCKET_LOOP: Final = "recollect.server.shared_socket:SharedSocketLoop"
HEALTH_TIMEOUT_SECONDS: Final = 30  # a process silent for so long is replaced; a busy machine starts slowly
REQUEST_GRACE_SECONDS: Final = 3  # for requests to end after SIGTERM; then answers get theirs


class ReadyCallback(Protocol):
    """Called when the server listens. `keys` says whether it asks for keys."""

    def __call__(self, address: str, *, keys: bool) -> None: ...


def serve(options: ServerOptions, *, workers: int, ready: ReadyCallback) -> None:
    """Run the server in `workers` processes until SIGTERM or Ctrl-C."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait by spinning, on cores that others need
    has_keys = asyncio.run(check_options(options))
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
    telemetry.set_up_logs(as_json=options.json_logs, level=options.log_level)
    socket = config.bind_socket()
    socket.listen(LISTEN_BACKLOG)  # from now on connections wait until the first process is ready
    host = f"[{options.host}]" if ":" in options.host else options.host
    ready(f"http://{host}:{socket.getsockname()[1]}", keys=has_keys)
    with WorkerProcess(options.db, options.person, options.settings):
        if workers == 1:
            uvicorn.Server(config).run([socket])
            return
        with tempfile.TemporaryDirectory(prefix="recollect-figures-") as folder:
            os.environ[telemetry.MULTIPROCESS_VARIABLE] = folder
            Multiprocess(config, sockets=[socket]).run()


def _make_process_app(options: ServerOptions) -> FastAPI:
    """Build the application in a server process, after setting up garbage collection, logs and spans there."""
    gc.set_threshold(*GC_THRESHOLDS)
    telemetry.set_up_logs(as_json=options.json_logs, level=options.log_level)
    spans.set_up()
    return make_app(options)


async def check_options(options: ServerOptions) -> bool:
    """Open the database once, so that its errors show at once, and return whether it has keys.

    An address that other machines can reach is refused while there are no keys.
    """
    async with AsyncMemory(options.db, person=options.person, settings=options.settings, worker=False) as memory:
        has_keys = await Access(memory).has_keys()
    if not is_loopback(options.host) and not has_keys:
        raise InvalidInput(
            "keys_needed",
            f"Other machines can reach {options.host}, and there are no keys yet. "
            "Create one first: recollect keys create PERSON",
        )
    return has_keys


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
