"""Waits for a model or an embedder that is not ours: it may hang, or end itself in an unusual way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

CHECK_SECONDS: Final = 0.1  # between two calls of `check`
CLEANUP_SECONDS: Final = 1.0  # a cancelled call has so long to end


async def wait_for_answer(answer: Awaitable[Any], timeout: float, check: Callable[[], None] | None) -> Any:
    """Return the answer. Raise TimeoutError after `timeout` seconds; `check` is called meanwhile and may raise, too."""
    task = asyncio.ensure_future(_contain_exits(answer))
    try:
        async with asyncio.timeout(timeout):
            while not (await asyncio.wait([task], timeout=CHECK_SECONDS))[0]:
                if check is not None:
                    check()
        return task.result()
    finally:
        await _end(task)


async def _contain_exits(answer: Awaitable[Any]) -> Any:
    """Turn an answer's own cancellation or exit into RuntimeError, so that it cannot end the worker."""
    task = asyncio.current_task()
    try:
        return await answer
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from error
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError("it wanted to end the program") from error


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel the task if it still runs, and give it a moment to clean up."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CLEANUP_SECONDS)
    if task.done() and not task.cancelled():
        task.exception()  # marks it as retrieved: the caller already has this error or another one
