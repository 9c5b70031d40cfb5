"""A view is the memory of another person on the same store: it costs an object, and no connection or thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from recollect import AsyncMemory, InvalidInput, Memory, Principal, StoreUnavailable
from recollect.testing import FakeEmbedder

Open = Callable[..., Memory]
PEOPLE = 50


# Pools get threads when they are needed, up to these sizes, whoever asks.
POOLS = {"asyncio": min(32, (os.cpu_count() or 1) + 4), "recollect-postgres": 8}


def own_threads() -> Counter[str]:
    """Return how many threads there are of each kind. A pool counts as full."""
    kinds = Counter(thread.name.rstrip("0123456789").rstrip("_-") for thread in threading.enumerate())
    for kind, size in POOLS.items():
        assert kinds[kind] <= size
        kinds[kind] = size
    return kinds


def test_fifty_people_take_as_many_threads_as_one(open_memory: Open) -> None:
    memory = open_memory(worker=True)

    def threads_after(people: list[Memory]) -> Counter[str]:
        for own in people:
            own.add("trip", "user", "I like tea.")
            assert [hit.text for hit in own.recall("tea")] == ["I like tea."]
        memory.drain()
        return own_threads()

    assert threads_after([memory.of(f"person {number}") for number in range(PEOPLE)]) == threads_after([memory])


def test_people_in_views_never_meet(open_memory: Open) -> None:
    memory = open_memory()
    sara, omar = memory.of("sara", department="water", ministry="environment"), memory.of(Principal("omar"))
    sara.add("trip", "user", "I'm allergic to peanuts.")
    omar.add("trip", "user", "I love peanuts.")
    memory.drain()
    assert [hit.text for hit in sara.recall("peanuts")] == ["I'm allergic to peanuts."]
    assert [hit.text for hit in omar.recall("peanuts")] == ["I love peanuts."]
    assert [hit.text for hit in sara.of("omar").recall("peanuts")] == ["I love peanuts."]
    assert memory.conversations() == []
    assert sara._engine.principal == Principal("sara", "water", "environment")


def test_closing_a_view_leaves_the_memory_and_other_views_open(open_memory: Open) -> None:
    memory = open_memory()
    with memory.of("sara") as sara:
        sara.add("trip", "user", "first")
    sara.close()
    memory.add("trip", "user", "mine")
    assert [message.content for message in memory.of("sara").history("trip")] == ["first"]


def test_a_view_ends_with_the_memory_that_was_opened(open_memory: Open) -> None:
    memory = open_memory()
    sara = memory.of("sara")
    memory.close()
    uses: list[Callable[[], Any]] = [
        lambda: sara.add("trip", "user", "hello"),
        lambda: sara.history("trip"),
        lambda: sara.recall("hello"),
        lambda: memory.of("omar"),
        lambda: sara.of("omar"),
    ]
    for use in uses:
        with pytest.raises(StoreUnavailable) as caught:
            use()
        assert caught.value.code == "store_closed"
    sara.close()


def test_the_async_face_has_the_same_views(location: str) -> None:
    async def scenario() -> None:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder()) as memory:
            async with memory.of("sara") as sara:
                await sara.add("trip", "user", "hello")
            assert [message.content for message in await sara.history("trip")] == ["hello"]
        with pytest.raises(StoreUnavailable):
            await sara.history("trip")

    asyncio.run(scenario())


def test_a_view_of_nobody_is_refused(open_memory: Open) -> None:
    memory = open_memory()
    names: list[Any] = ["", " ", None, 7, "x" * 201, "nul\x00"]
    for name in names:
        with pytest.raises(InvalidInput) as caught:
            memory.of(name)
        assert caught.value.code == "invalid_person"
    with pytest.raises(InvalidInput, match="already"):
        memory.of(Principal("sara"), department="water")
