"""An interruption ends what is awaited inside it with its own error, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from recollect.core.errors import Denied
from recollect.runtime.interruption import Interruption


def _ended() -> Denied:
    return Denied("access_ended", "The key is no longer good.")


async def _wait_inside(interruption: Interruption, is_inside: asyncio.Event, at_end: Callable[[], None]) -> None:
    async with interruption:
        is_inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            at_end()


async def _start(interruption: Interruption, at_end: Callable[[], None] = lambda: None) -> asyncio.Task[None]:
    """Return a task that waits inside of the interruption by now."""
    is_inside = asyncio.Event()
    task = asyncio.create_task(_wait_inside(interruption, is_inside, at_end))
    await is_inside.wait()
    return task


def test_what_is_awaited_inside_ends_with_the_error_and_the_task_is_not_cancelled() -> None:
    async def run() -> None:
        ends: list[str] = []
        interruption = Interruption(_ended, lambda: ends.append("end"))
        # Whoever ends it does so once more while the task cleans up.
        task = await _start(interruption, interruption.end)
        interruption.end()
        with pytest.raises(Denied) as raised:
            await task
        assert raised.value.code == "access_ended"
        assert not task.cancelling()
        assert ends == ["end"]

    asyncio.run(run())


def test_nothing_is_begun_inside_after_the_end() -> None:
    async def run() -> None:
        interruption = Interruption(_ended)
        async with interruption:
            pass
        interruption.end()
        with pytest.raises(Denied):
            async with interruption:
                raise AssertionError("it was begun")

    asyncio.run(run())


def test_a_block_that_is_over_before_it_is_interrupted_keeps_its_result() -> None:
    async def run() -> None:
        interruption = Interruption(_ended)
        async with interruption:
            interruption.end()
        await asyncio.sleep(0)  # nothing is left that could interrupt the task

    asyncio.run(run())


def test_a_cancelled_task_stays_cancelled_even_if_it_is_interrupted_too() -> None:
    async def run() -> None:
        interruption = Interruption(_ended)
        task = await _start(interruption)
        task.cancel()
        interruption.end()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_a_timeout_from_inside_is_not_taken_for_an_interruption() -> None:
    async def run() -> None:
        with pytest.raises(TimeoutError, match="the model"):
            async with Interruption(_ended):
                raise TimeoutError("the model")

    asyncio.run(run())
