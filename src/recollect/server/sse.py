"""Server-sent events. A comment now and then keeps an idle connection alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse

from recollect.chat.chats import Event, Run
from recollect.server.guard import Refused
from recollect.server.request import Asker, encoded

ALIVE: Final = 15.0  # seconds of silence after which a comment is sent
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def check_room(asker: Asker) -> None:
    """One person cannot take all the streams there are."""
    most = asker.request.app.state.rules_streams
    person = asker.memory.principal.person
    if asker.parts.chats.running(person) + asker.parts.completions.running(person) >= most:
        raise Refused(429, "too_many_streams", f"{most} answers are being written already.", {"Retry-After": "5"})


def of_run(run: Run) -> StreamingResponse:
    return StreamingResponse(_events(run), media_type="text/event-stream", headers=HEADERS)


async def _events(run: Run) -> AsyncIterator[bytes]:
    events = run.events()
    waiting: asyncio.Task[Event] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait([waiting], timeout=ALIVE)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield b"event: " + event.name.encode() + b"\ndata: " + encoded(event.data) + b"\n\n"
    finally:
        if waiting is not None:
            waiting.cancel()
