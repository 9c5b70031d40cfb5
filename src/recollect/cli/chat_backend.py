"""Whom a chat in the terminal talks to: a memory, here or at a server, that also answers.

Everything is asked on the main thread, which Ctrl-C interrupts. Answers are written on another one and come over as
events.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from recollect.chat.chats import Ask, Chats, Event, Run
from recollect.core import assistant
from recollect.core.compression.brief import Brief
from recollect.core.models import Context, Conversation, Message, Recalled, Receipt
from recollect.core.topics import Topic
from recollect.settings import Settings
from recollect.sync import Memory

LOOK: Final = 0.25  # seconds after which a wait looks up, where a signal alone does not end it
PATIENCE: Final = 2.0  # seconds that an answer has to end when everything does


class Memories(Protocol):
    """What commands ask of a memory, wherever it is. The names are those of `Memory`."""

    def conversation(self, conversation: str) -> Conversation: ...

    def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]: ...

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


class Talk(Memories, Protocol):
    """A memory that answers."""

    def ask(self, ask: Ask) -> Heard: ...

    def model(self) -> str | None:
        """The one that answers if none is named; None if none is set."""
        ...

    def models(self) -> list[str]:
        """All that can be named, the built-in assistant first."""
        ...


class Heard:
    """The events of one answer. Iterating waits for them; what could not begin or broke off raises."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._told: SimpleQueue[Event | Exception | str] = SimpleQueue()
        self.is_stopping = False

    # From the thread that writes

    def tell(self, event: Event) -> None:
        self._told.put(event)

    def fail(self, error: Exception) -> None:
        self._told.put(error)

    def end(self) -> None:
        self._told.put("end")

    # From the one that listens

    def interrupt(self) -> None:
        """For a signal handler: it may come at any moment, also in the middle of a wait."""
        self._told.put("stop")

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                told = self._told.get(timeout=LOOK)
            except Empty:
                continue
            if isinstance(told, Event):
                yield told
            elif isinstance(told, Exception):
                raise told
            elif told == "end":
                return
            else:
                self._stop_or_leave()

    def _stop_or_leave(self) -> None:
        """Who interrupts again does not want to wait for the end."""
        if self.is_stopping:
            raise KeyboardInterrupt
        self.is_stopping = True
        self._stop()


class Here(Memory):
    """On a database of one's own, with a worker, so that memory catches up by itself."""

    def __init__(self, location: str | os.PathLike[str], **principal: Any) -> None:
        super().__init__(location, **principal, worker=True)
        self._chats = Chats(self._engine)

    def warm_up(self) -> None:
        """While the first question is typed."""
        self._start(self._engine.warm_up())

    def ask(self, ask: Ask) -> Heard:
        begun: list[Run] = []

        def stop() -> None:
            for run in begun:
                self._loop.call_soon_threadsafe(run.stop)

        heard = Heard(stop)
        self._start(self._write(ask, heard, begun))
        return heard

    async def _write(self, ask: Ask, heard: Heard, begun: list[Run]) -> None:
        try:
            run = await self._chats.start(self._engine, ask)
            begun.append(run)
            if heard.is_stopping:  # since before it began
                run.stop()
            async for event in run.events():
                heard.tell(event)
        except Exception as error:  # noqa: BLE001 - the border of a task: raised again where somebody listens
            heard.fail(error)
        finally:
            heard.end()

    def models(self) -> list[str]:
        upstream = self._engine.upstream
        listed = [] if upstream is None else self._wait(upstream.models())
        return [assistant.NAME, *(str(one["id"]) for one in listed)]

    def model(self) -> str | None:
        return None if self._engine.upstream is None else self._engine.upstream.default

    def close(self) -> None:
        if not self._loop.is_closed():
            self._wait(self._chats.close(PATIENCE))
        super().close()

    def _start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
