"""Interrupts what a task waits for, from outside of the task, and raises a chosen error there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType


class Interruption:
    """Interrupts what is awaited inside `async with interruption:` when it ends, and raises its error there.

    Used again and again during one answer. After its end, entering raises the error too.
    """

    def __init__(self, make_error: Callable[[], Exception], on_end: Callable[[], None] = lambda: None) -> None:
        self.has_ended = False
        self._make_error, self._on_end = make_error, on_end
        self._inside: asyncio.Timeout | None = None

    def end(self) -> None:
        """Interrupt what is inside, now or when it comes. `on_end` is called first, and only once."""
        if self.has_ended:
            return
        self.has_ended = True
        self._on_end()
        if self._inside is not None:
            self._inside.reschedule(asyncio.get_running_loop().time())

    def check(self) -> None:
        """Raise the error if it has ended."""
        if self.has_ended:
            raise self._make_error()

    async def __aenter__(self) -> None:
        self.check()
        self._inside = await asyncio.timeout(None).__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        inside, self._inside = self._inside, None
        try:
            if inside is not None:
                await inside.__aexit__(kind, error, trace)
        except TimeoutError:  # raised if it was interrupted, and not for a TimeoutError from inside
            raise self._make_error() from None
