"""Waiting for a model or an embedder of somebody else: it may be far away, hang, or give up in a way of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

LOOK: Final = 0.1  # seconds between looks whether an answer is still wanted
CLEAN_UP: Final = 1.0  # seconds that one which is not waited for any more has to come to an end


async def awaited(answer: Awaitable[Any], patience: float, check: Callable[[], None] | None) -> Any:
    """The answer, unless patience (seconds) or the wish for it ends first: `check` may raise."""
    task = asyncio.ensure_future(_contained(answer))
    try:
        async with asyncio.timeout(patience):
            while not (await asyncio.wait([task], timeout=LOOK))[0]:
                if check is not None:
                    check()
        return task.result()
    finally:
        await _ended(task)


async def _contained(answer: Awaitable[Any]) -> Any:
    """One that gives up in a way of its own must not take the worker with it."""
    own = asyncio.current_task()
    try:
        return await answer
    except asyncio.CancelledError as error:
        if own is not None and own.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from error
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError("it wanted to end the program") from error


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancelled if it still runs, and given a moment to clean up."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CLEAN_UP)
    if task.done() and not task.cancelled():
        task.exception()  # seen: whoever waits has another one, or this one
