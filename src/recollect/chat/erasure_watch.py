"""Ends answers whose question is erased while they are being written.

That such an answer is not stored is up to the store, which looks for the question in the transaction of the answer.
This here only ends the writing, so that nobody waits for it or reads on: at once if the erase was here, else after
`POLL_SECONDS`. One query serves all answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from recollect.admin.server_state import SharedServerState
from recollect.core.errors import RecollectError, question_erased
from recollect.core.message import Anchor
from recollect.memory import AsyncMemory
from recollect.runtime.interruption import Interruption

POLL_SECONDS: Final = 0.5  # between looks for questions that other processes erased


class ErasureWatch:
    """Watches the answers that are being written in this process."""

    def __init__(self) -> None:
        self._answers: dict[Interruption, Anchor] = {}
        self._erased_here: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(
        self, memory: AsyncMemory, anchor: Anchor | None, on_erased: Callable[[], None] = lambda: None
    ) -> Iterator[Interruption]:
        """Watch an answer while the block runs. Yield what interrupts it with Conflict if its question is erased.

        `on_erased` is called then. An answer without an anchor is not stored, and never ends early.
        """
        answer = Interruption(question_erased, on_erased)
        if anchor is None:
            yield answer
            return
        self._answers[answer] = anchor
        self._start(memory)
        try:
            yield answer
        finally:
            del self._answers[answer]
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
            answers = {answer: anchor for answer, anchor in self._answers.items() if not answer.has_ended}
            with suppress(RecollectError):  # the next look finds them
                erased = await shared.find_erased([*dict.fromkeys(answers.values())]) if answers else set()
                for answer in [answer for answer, anchor in answers.items() if anchor in erased]:
                    answer.end()
