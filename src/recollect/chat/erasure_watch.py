"""Ends answers whose question is erased while they are being written.

That such an answer is not stored is up to the store, which looks for the question in the transaction of the answer.
This here only ends the writing, so that nobody waits for it or reads on: at once if the erase was here, else after
`POLL_SECONDS`. One query serves all answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from recollect.admin.server_state import SharedServerState
from recollect.core.errors import RecollectError, question_erased
from recollect.core.message import Anchor
from recollect.memory import AsyncMemory

POLL_SECONDS: Final = 0.5  # between looks for questions that other processes erased


class WatchedAnswer:
    """One answer that is being written, for as long as it is watched."""

    def __init__(self, anchor: Anchor | None, on_erased: Callable[[], None]) -> None:
        self.anchor, self.is_erased = anchor, False
        self._on_erased = on_erased
        self._waiting: asyncio.Timeout | None = None

    def end(self) -> None:
        """Note that the question was erased, and interrupt what the answer waits for."""
        self.is_erased = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self._on_erased()

    @asynccontextmanager
    async def unless_erased(self) -> AsyncIterator[None]:
        """Run the block, which waits for the model. Interrupt it and raise Conflict if the question is erased."""
        if self.is_erased:
            raise question_erased()
        try:
            async with asyncio.timeout(None) as self._waiting:
                yield
        except TimeoutError:
            if self.is_erased:
                raise question_erased() from None
            raise
        finally:
            self._waiting = None


class ErasureWatch:
    """Watches the answers that are being written in this process."""

    def __init__(self) -> None:
        self._answers: set[WatchedAnswer] = set()
        self._erased_here: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(
        self, memory: AsyncMemory, anchor: Anchor | None, on_erased: Callable[[], None] = lambda: None
    ) -> Iterator[WatchedAnswer]:
        """Watch an answer while the block runs. One without an anchor is not stored, and never ends early.

        `on_erased` is called when its question is found to be erased.
        """
        answer = WatchedAnswer(anchor, on_erased)
        if anchor is None:
            yield answer
            return
        self._answers.add(answer)
        self._start(memory)
        try:
            yield answer
        finally:
            self._answers.discard(answer)
            if not self._answers:
                self._wake()  # the task ends

    def _start(self, memory: AsyncMemory) -> None:
        if self._task is None or self._task.done():
            self._erased_here = asyncio.Event()
            memory.when_forgotten(f"answers {id(self)}", lambda _: self._wake())
            self._task = asyncio.create_task(self._look(SharedServerState(memory)), name="recollect-erasures")

    def _wake(self) -> None:
        if self._erased_here is not None:
            self._erased_here.set()

    async def _look(self, shared: SharedServerState) -> None:
        """Look for erased questions after every erase here, and now and then, until nothing is being written."""
        assert self._erased_here is not None  # noqa: S101 - set before this task was made
        while self._answers:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._erased_here.wait()
            self._erased_here.clear()
            answers = {answer: answer.anchor for answer in self._answers if answer.anchor and not answer.is_erased}
            with suppress(RecollectError):  # the next look finds them
                erased = await shared.find_erased([*dict.fromkeys(answers.values())]) if answers else set()
                for answer in [answer for answer, anchor in answers.items() if anchor in erased]:
                    answer.end()
