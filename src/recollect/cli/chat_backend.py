"""The memory that a chat in the terminal talks to: on a database of its own, or at a server (`remote_memory`).

The main thread asks, because Ctrl-C interrupts only that. Another thread writes the answer and passes its events on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from recollect.chat.chats import Chats
from recollect.chat.run import ChatEvent, ChatRequest, ChatRun
from recollect.core import assistant
from recollect.core.compression.brief import Brief
from recollect.core.message import Message
from recollect.core.models import Context, Conversation, Recalled, Receipt
from recollect.core.topics import Topic
from recollect.settings import Settings
from recollect.sync import Memory

WAKE_SECONDS: Final = 0.25  # on some systems a signal is only seen between two waits
CLOSE_SECONDS: Final = 2.0  # a running answer has so long to end when the chat closes


class MemoryAccess(Protocol):
    """A memory as commands use it, on a database or at a server. The methods are those of `Memory`."""

    def conversation(self, conversation: str) -> Conversation: ...

    def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]: ...

    def find_message(self, conversation: str, message: str) -> Message | None: ...

    def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        before: int | None = None,
    ) -> Context: ...

    def recall(self, query: str, *, conversation: str | None = None, limit: int = 10) -> Recalled: ...

    def brief(self, conversation: str) -> Brief | None: ...

    def topics(self, conversation: str) -> list[Topic]: ...

    def settings(self) -> Settings: ...

    def erase(self, *, conversation: str | None = None, message: str | None = None) -> Receipt: ...

    def close(self) -> None: ...


class ChatBackend(MemoryAccess, Protocol):
    """A memory that also answers."""

    def ask(self, request: ChatRequest) -> AnswerStream:
        """Start an answer and return its events."""
        ...

    def model(self) -> str | None:
        """Return the model that answers if the request names none; None if no model is configured."""
        ...

    def models(self) -> list[str]:
        """Return the names of all models, the built-in assistant first."""
        ...


class AnswerStream:
    """The events of one answer. Iterating waits for them, and raises if the answer could not begin or broke off."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._queue: SimpleQueue[ChatEvent | Exception | str] = SimpleQueue()
        self.is_stopping = False

    # Called by the thread that writes

    def add(self, event: ChatEvent) -> None:
        """Pass an event on."""
        self._queue.put(event)

    def fail(self, error: Exception) -> None:
        """Make the reader raise this error."""
        self._queue.put(error)

    def end(self) -> None:
        """Say that no more events come."""
        self._queue.put("end")

    # Called by the thread that reads

    def interrupt(self) -> None:
        """Ask the answer to stop. A signal handler may call this at any moment, also while the reader waits."""
        self._queue.put("stop")

    def __iter__(self) -> Iterator[ChatEvent]:
        while True:
            try:
                item = self._queue.get(timeout=WAKE_SECONDS)
            except Empty:
                continue
            if isinstance(item, ChatEvent):
                yield item
            elif isinstance(item, Exception):
                raise item
            elif item == "end":
                return
            else:
                self._stop_or_leave()

    def _stop_or_leave(self) -> None:
        """Stop the answer; at the second interrupt leave without waiting for its end."""
        if self.is_stopping:
            raise KeyboardInterrupt
        self.is_stopping = True
        self._stop()


class LocalMemory(Memory):
    """A memory on a database that also answers. Its worker does the derived work while the person types."""

    def __init__(self, location: str | os.PathLike[str], **principal: Any) -> None:
        super().__init__(location, **principal, worker=True)
        self._chats = Chats(self._engine)

    def warm_up(self) -> None:
        """Load models and caches in the background, while the person types the first question."""
        self._start(self._engine.warm_up())

    def ask(self, request: ChatRequest) -> AnswerStream:
        """Start an answer and return its events."""
        runs: list[ChatRun] = []  # empty until the answer has begun

        def stop() -> None:
            for run in runs:
                self._loop.call_soon_threadsafe(run.stop)

        stream = AnswerStream(stop)
        self._start(self._write(request, stream, runs))
        return stream

    async def _write(self, request: ChatRequest, stream: AnswerStream, runs: list[ChatRun]) -> None:
        try:
            run = await self._chats.start(self._engine, request)
            runs.append(run)
            if stream.is_stopping:  # the person interrupted before the answer began
                run.stop()
            async for event in run.events():
                stream.add(event)
        except Exception as error:  # noqa: BLE001 - the border of a task: the reader of the stream raises it again
            stream.fail(error)
        finally:
            stream.end()

    def models(self) -> list[str]:
        """Return the names of all models, the built-in assistant first."""
        upstream = self._engine.upstream
        listed = [] if upstream is None else self._wait(upstream.models())
        return [assistant.NAME, *(str(model["id"]) for model in listed)]

    def model(self) -> str | None:
        """Return the configured model; None if there is none."""
        return None if self._engine.upstream is None else self._engine.upstream.default

    def close(self) -> None:
        """Give a running answer CLOSE_SECONDS to end, then close the memory."""
        if not self._loop.is_closed():
            self._wait(self._chats.close(CLOSE_SECONDS))
        super().close()

    def _start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
