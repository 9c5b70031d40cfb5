"""Sends exports: everything a person has, written to a private file first. Limits how many there are at once.

An export may take hours to send. It is cut off when the caller's key is no longer good, or when the client reads so
slowly that it keeps others from theirs. Its length is said before, so a client sees that what it has is not all.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, BinaryIO, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.admin.access import Grant
from recollect.core.errors import Denied
from recollect.memory import AsyncMemory
from recollect.runtime.interruption import Interruption
from recollect.server.connections import CUT_OFF_KEY
from recollect.server.guard import Refusal

log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 16  # read from an export at a time
MAX_EXPORTS: Final = 4  # at once, in one process
MAX_EXPORTS_PER_PERSON: Final = 1
MIN_EXPORT_SECONDS: Final = 60.0  # that any client has to read its export
MIN_BYTES_PER_SECOND: Final = 32 * 1024  # that it must read beyond that

WatchGrant = Callable[[], AbstractContextManager[Interruption]]  # `Caller.watch`


class ExportSlots:
    """Limits how many exports this process writes and sends at once: each is a file of everything a person has."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()  # by person

    def claim(self, person: str) -> Callable[[], None]:
        """Count one more export of a person. Return what takes it back. Refuse it if there are too many already."""
        if self._running[person] >= MAX_EXPORTS_PER_PERSON or self._running.total() >= MAX_EXPORTS:
            detail = f"{self._running.total()} exports are being written already; wait until one ends."
            raise Refusal(429, "too_many_exports", detail, {"Retry-After": "5"})
        self._running[person] += 1
        return partial(self._release, person)

    def _release(self, person: str) -> None:
        self._running[person] -= 1
        if not self._running[person]:
            del self._running[person]


class _ExportResponse(StreamingResponse):
    """A stream of a file. Whatever happens, the file is closed and the slot released when it ends."""

    def __init__(self, file: BinaryIO, watch_grant: WatchGrant, release: Callable[[], None]) -> None:
        self._size = os.fstat(file.fileno()).st_size
        blocks = iter(partial(file.read, READ_BYTES), b"")
        headers = {
            "Content-Disposition": 'attachment; filename="recollect.ndjson"',
            "Content-Length": str(self._size),
        }
        super().__init__(blocks, media_type="application/x-ndjson", headers=headers)
        self._file, self._watch_grant, self._release = file, watch_grant, release
        self._state: dict[str, Any] = {}  # of the request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._state = scope.get("state", {})
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
            self._release()

    async def stream_response(self, send: Send) -> None:
        """Send the file, or cut the connection: when the grant is no longer good, or when the time is up."""
        try:
            with self._watch_grant() as watch:
                async with watch, asyncio.timeout(seconds_to_read(self._size)):
                    await super().stream_response(send)
        except Denied as error:
            self._cut_off(error.code)
        except TimeoutError:
            self._cut_off("export_too_slow")

    def _cut_off(self, code: str) -> None:
        grant: Grant | None = self._state.get("grant")
        extra = {"code": code, "request": self._state.get("request_id"), "key": grant.key if grant else None}
        log.warning("an export was cut off", extra=extra)
        self._state.get(CUT_OFF_KEY, lambda: None)()  # another server than ours sees that bytes are missing


def seconds_to_read(size: int) -> float:
    """Return how long a client may take to read an export of `size` bytes."""
    return MIN_EXPORT_SECONDS + size / MIN_BYTES_PER_SECOND


async def export_response(memory: AsyncMemory, slots: ExportSlots, watch_grant: WatchGrant) -> StreamingResponse:
    """Stream everything that the person has. The private file is deleted before it is sent, and closed after it.

    Raise Denied if the grant is no longer good when the file is written.
    """
    release = slots.claim(memory.principal.person)
    try:
        with watch_grant() as watch, memory.private_folder() as folder:
            target = folder / "export.ndjson"
            await memory.export(target)  # not interrupted: a thread writes it, which would go on
            watch.check()
            file = await asyncio.to_thread(target.open, "rb")
    except BaseException:
        release()
        raise
    return _ExportResponse(file, watch_grant, release)
