"""Sends exports: everything a person has, written to a private file first. Limits how many there are at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.memory import AsyncMemory
from recollect.server.guard import Refusal

READ_BYTES: Final = 1 << 16  # read from an export at a time
MAX_EXPORTS: Final = 4  # at once, in one process
MAX_EXPORTS_PER_PERSON: Final = 1


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

    def __init__(self, file: BinaryIO, release: Callable[[], None]) -> None:
        blocks = iter(partial(file.read, READ_BYTES), b"")
        headers = {"Content-Disposition": 'attachment; filename="recollect.ndjson"'}
        super().__init__(blocks, media_type="application/x-ndjson", headers=headers)
        self._file, self._release = file, release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
            self._release()


async def export_response(memory: AsyncMemory, slots: ExportSlots) -> StreamingResponse:
    """Stream everything that the person has. The private file is deleted before it is sent, and closed after it."""
    release = slots.claim(memory.principal.person)
    try:
        with memory.private_folder() as folder:
            target = folder / "export.ndjson"
            await memory.export(target)
            file = await asyncio.to_thread(target.open, "rb")
    except BaseException:
        release()
        raise
    return _ExportResponse(file, release)
