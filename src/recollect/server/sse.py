"""Sends the events of a chat as server-sent events, and limits how many answers one person has at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse

from recollect.chat.run import ChatEvent, ChatRun, refused_events
from recollect.core.errors import Denied
from recollect.runtime.interruption import Interruption
from recollect.server.guard import Refusal
from recollect.server.json_body import encode_json
from recollect.server.request import Caller

KEEP_ALIVE_SECONDS: Final = 15.0  # after so long without an event, a comment keeps the connection open
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def check_stream_limit(caller: Caller) -> None:
    """Refuse the request if the person has as many running answers as the operator allows."""
    limit = caller.parts.max_streams
    person = caller.memory.principal.person
    if caller.parts.chats.count_running(person) + caller.parts.completions.count_running(person) >= limit:
        detail = f"{limit} answers are being written already; wait until one ends."
        raise Refusal(429, "too_many_streams", detail, {"Retry-After": "5"})


def stream_response(caller: Caller, run: ChatRun) -> StreamingResponse:
    """Build a response that streams the events of a run until it ends, or until the caller's key is no longer good."""
    return StreamingResponse(_encode_events(caller, run), media_type="text/event-stream", headers=HEADERS)


async def _encode_events(caller: Caller, run: ChatRun) -> AsyncIterator[bytes]:
    """Yield the events of a run. An answer that nobody else listens to is stopped if the caller may not have it."""
    run.listeners += 1
    try:
        with caller.watch() as watch:
            async for block in _encode_while_admitted(run, watch):
                yield block
    except Denied as error:
        if run.listeners == 1:
            run.stop()  # what is written so far is stored, as the person's own
        for event in refused_events(error):
            yield _encode_event(event)
    finally:
        run.listeners -= 1


async def _encode_while_admitted(run: ChatRun, watch: Interruption) -> AsyncIterator[bytes]:
    events = run.events()
    next_event: asyncio.Task[ChatEvent] | None = None
    try:
        while True:
            next_event = next_event or asyncio.ensure_future(anext(events))
            async with watch:
                done, _ = await asyncio.wait([next_event], timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                event = next_event.result()
            except StopAsyncIteration:
                return
            next_event = None
            yield _encode_event(event)
    finally:
        if next_event is not None:
            next_event.cancel()


def _encode_event(event: ChatEvent) -> bytes:
    return b"event: " + event.name.encode() + b"\ndata: " + encode_json(event.data) + b"\n\n"
