"""Running the server: which address is allowed, one process or several, and what is told at the start."""

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

from recollect.core.errors import InvalidInput
from recollect.memory import AsyncMemory
from recollect.server import spans, telemetry
from recollect.server.app import Options, make_app
from recollect.server.worker_process import WorkerBeside

BACKLOG: Final = 2048
COLLECTED: Final = (50_000, 20, 20)  # objects until rings of them are looked for: a large memory is walked each time
SHARING: Final = "recollect.server.shared_socket:SharingLoop"
START: Final = (
    30  # seconds after which a process that does not say that it lives is replaced; a busy machine starts slowly
)
GRACE: Final = 3  # seconds that requests have to end after SIGTERM; then answers have theirs


class Ready(Protocol):
    def __call__(self, address: str, *, keys: bool) -> None: ...


def serve(options: Options, *, workers: int, ready: Ready) -> None:
    """Until it is told to stop."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait by spinning, on cores that others need
    keys = asyncio.run(check(options))
    config = uvicorn.Config(
        partial(_app, replace(options, works=False, processes=workers)),
        factory=True,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,  # its lines have queries in them; the guard writes our own
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        workers=workers,
        timeout_worker_healthcheck=START,
        loop="auto" if workers == 1 or sys.platform == "win32" else SHARING,
        lifespan="on",
    )
    telemetry.set_up_logs(lines=options.json_logs, level=options.log_level)
    socket = config.bind_socket()
    socket.listen(BACKLOG)  # whoever comes before the first process is ready waits, and is not refused
    host = f"[{options.host}]" if ":" in options.host else options.host
    ready(f"http://{host}:{socket.getsockname()[1]}", keys=keys)
    with WorkerBeside(options.db, options.person, options.settings):
        if workers == 1:
            uvicorn.Server(config).run([socket])
            return
        with tempfile.TemporaryDirectory(prefix="recollect-figures-") as folder:
            os.environ[telemetry.MULTIPLE] = folder
            Multiprocess(config, sockets=[socket]).run()


def _app(options: Options) -> FastAPI:
    gc.set_threshold(*COLLECTED)
    telemetry.set_up_logs(lines=options.json_logs, level=options.log_level)
    spans.set_up()
    return make_app(options)


async def check(options: Options) -> bool:
    """Opens the database once, so that what is wrong with it is told at once; and nobody is let in by mistake.

    Returns whether there are keys.
    """
    async with AsyncMemory(options.db, person=options.person, settings=options.settings, worker=False) as memory:
        has_keys = await memory.store.serving.has_keys()
    if not is_loopback(options.host) and not has_keys:
        raise InvalidInput(
            "keys_needed",
            f"{options.host} can be reached by others, and there are no keys. Make one: recollect keys create PERSON",
        )
    return has_keys


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
