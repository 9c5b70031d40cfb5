"""One answer while it is being written: the request, its events so far, and how it is stopped.

Knows neither memory nor model. `chat/chats.py` writes the answer and publishes its events here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from recollect.core.errors import RecollectError
from recollect.core.models import JsonObject, Record

MemoryMode = Literal["on", "read", "off"]


@dataclass(frozen=True, slots=True)
class ChatRequest(Record):
    """A question to be answered, with the options of its caller.

    `memory` is "on", "read" (memory is used, nothing is stored) or "off" (memory is neither used nor written).
    `retry` answers the last stored question again. `history` holds earlier turns that the caller keeps itself,
    because they are not stored.
    """

    conversation: str
    content: str = ""
    model: str | None = None
    id: str | None = None
    system_prompt: str | None = None
    budget: int | None = None
    retry: bool = False
    memory: MemoryMode = "on"
    history: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ChatEvent(Record):
    """An event of an answer. The order is: one `sources`, any number of `delta`, at most one `error`, one `done`."""

    name: str
    data: JsonObject


class ChatRun:
    """One answer that is being written. Any number of listeners read all of its events, from the first one on."""

    def __init__(self, started: datetime, id: str | None = None) -> None:
        self.started, self.id = started, id  # the id of the question, if the caller chose it
        self.stopped = self.erased = False  # erased: stopped, because the question was erased
        self.listeners = 0  # responses that send its events now
        self.task: asyncio.Task[None] | None = None  # writes and stores the answer
        self.writing: asyncio.Task[None] | None = None  # the part of it that `stop` cancels
        self._events: list[ChatEvent] = []
        self._changed = asyncio.Event()
        self._ended = False

    def publish(self, name: str, data: JsonObject) -> None:
        """Add an event and wake all listeners."""
        self._events.append(ChatEvent(name, data))
        self._wake()

    def end(self) -> None:
        """End the run: listeners return when they have read all events."""
        self._ended = True
        self._wake()

    def fail(self, error: BaseException) -> None:
        """End a run that could not be started, with an error event for those who listen already."""
        if not isinstance(error, RecollectError):
            error = RecollectError("unexpected", "The answer could not be started.")
        self.publish("error", error_to_json(error))
        self.end()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def events(self) -> AsyncIterator[ChatEvent]:
        """Yield all events from the first one on, and wait for further ones until the run ends."""
        position = 0
        while True:
            changed = self._changed
            while position < len(self._events):
                yield self._events[position]
                position += 1
            if self._ended:
                return
            if changed is self._changed:
                await changed.wait()

    def stop(self) -> None:
        """Stop writing the answer. What was written so far is stored. A complete answer is left alone."""
        if self._ended or (self.writing is not None and self.writing.done()):
            return  # the answer is complete and is being stored
        self.stopped = True
        if self.writing is not None:
            self.writing.cancel()

    def end_erased(self) -> None:
        """Stop writing the answer to a question that was erased. Nothing of it is stored."""
        self.stop()
        self.erased = self.stopped


def refused_events(error: RecollectError) -> tuple[ChatEvent, ChatEvent]:
    """Return the last events for a listener who may not hear the rest of an answer."""
    data = error_to_json(error)
    done = {"message": None, "model": None, "finish_reason": "error", "usage": None, "ms": None, "stopped": False}
    return ChatEvent("error", data), ChatEvent("done", done | {"error": data})


def error_to_json(error: RecollectError) -> JsonObject:
    """Return the data of an `error` event."""
    return {"code": error.code, "message": error.full_message, "retryable": error.retryable}
