"""Embedders that hang, give up, or are interrupted: the worker and whoever closes a memory get on all the same."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from recollect import Memory
from recollect.testing import FakeEmbedder
from support.tables import stored_vectors
from support.waiting import NEVER_SECONDS, run_to_end

Open = Callable[..., Memory]


def fill(memory: Memory, count: int = 6) -> None:
    memory.add_many("trip", [{"role": "user", "content": f"message {n}"} for n in range(count)])


class Silent(FakeEmbedder):
    """Does not answer; when it is not waited for any more, it may need a moment, and an error may be its last word."""

    def __init__(self, dimensions: int, *, needs: float = 0, error: Exception | None = None) -> None:
        super().__init__(dimensions)
        self._needs, self._error = needs, error
        self.asked, self.ended = threading.Event(), threading.Event()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.set()
        try:
            await asyncio.sleep(NEVER_SECONDS)
        except asyncio.CancelledError:
            await asyncio.sleep(self._needs)
            self.ended.set()
            if self._error is not None:
                raise self._error from None
            raise
        raise AssertionError("nobody waits that long")


def test_closing_does_not_wait_for_an_embedder_that_does_not_answer(open_memory: Open) -> None:
    embedder = Silent(16)
    memory = open_memory(embedder=embedder, worker=True)
    fill(memory)
    assert embedder.asked.wait(300)
    run_to_end(memory.close)
    assert embedder.ended.is_set()


def test_an_embedder_that_is_not_waited_for_cleans_up_and_its_errors_are_no_ones(
    open_memory: Open, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Silent(16, needs=0.1, error=ValueError("of the embedder"))
    memory = open_memory(embedder=embedder, worker=True)
    fill(memory)
    assert embedder.asked.wait(300)
    memory.close()
    gc.collect()
    assert embedder.ended.is_set()
    assert "never retrieved" not in caplog.text
    assert "destroyed" not in caplog.text


@pytest.mark.parametrize("way_out", [asyncio.CancelledError, SystemExit])
def test_an_embedder_that_gives_up_in_its_own_way_does_not_end_the_worker(
    open_memory: Open, way_out: type[BaseException]
) -> None:
    class Strange(FakeEmbedder):
        strange = True

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if self.strange:
                raise way_out
            return await super().embed(texts)

    embedder = Strange(16)
    memory = open_memory(embedder=embedder)
    fill(memory, 2)
    assert memory.drain().failed == {"vectors": "embedder_failed"}
    embedder.strange = False
    assert memory.drain().complete
    assert memory.stats()["embedded"] == 2


@pytest.mark.slow
def test_what_is_begun_when_the_time_of_a_drain_is_up_is_finished_and_kept(location: str, open_memory: Open) -> None:
    class Slow(FakeEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            while time.monotonic() < time_is_up:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.05)
            return await super().embed(texts)

    slow = Slow(16)
    memory = open_memory(embedder=slow)
    memory.add("trip", "user", "hello")
    memory.stats()  # opens the database, which takes a while on a busy machine
    timeout = 2.0
    time_is_up = time.monotonic() + timeout + 0.2
    assert not memory.drain(timeout=timeout).complete
    assert len(slow.calls) == len(stored_vectors(location)) == 1


def test_a_program_that_ends_meanwhile_is_no_failure(open_memory: Open, caplog: pytest.LogCaptureFixture) -> None:
    asked = threading.Event()

    class Late(FakeEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            asked.set()
            executor = ThreadPoolExecutor()
            executor.shutdown()
            executor.submit(print)  # what asyncio.to_thread meets while the interpreter ends
            raise AssertionError("nothing can be begun any more")

    with open_memory(embedder=Late(16), worker=True) as memory:
        fill(memory)
        assert asked.wait(300)
    assert not caplog.records
