"""People take turns at the worker: one with much to do does not keep another with little waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from recollect import AsyncMemory, Memory, Principal
from recollect.jobs import turns
from recollect.jobs.job import Pace, Work
from recollect.jobs.turns import Turns
from recollect.recall.vector_job import TURN_PASSAGES, embedded_texts
from recollect.testing import FakeEmbedder
from support.tables import ask, stored_vectors

Open = Callable[..., Memory]
SMALL = "Tea, please."
LONG_MESSAGES = 5
MANY_CONVERSATIONS = 80


def long_text(number: int) -> str:
    """Return a text of several turns, with no passage twice."""
    return "\n\n".join(f"Paragraph {line} of text {number}. " + f"word{number}x{line} " * 40 for line in range(200))


class BusyEmbedder(FakeEmbedder):
    """An embedder during whose first call something happens."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__(8)
        self._meanwhile = meanwhile

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = await super().embed(texts)
        if len(self.calls) == 1:
            await self._meanwhile()
        return vectors

    def calls_before(self, text: str) -> list[tuple[str, ...]]:
        """Return the calls before the one with this text."""
        (index,) = [index for index, call in enumerate(self.calls) if text in call]
        return self.calls[:index]


def embed_beside(location: str, fill: Callable[[AsyncMemory], Awaitable[object]]) -> BusyEmbedder:
    """Let one person fill a memory, drain it, and let another one come when the first call is under way."""

    async def scenario() -> BusyEmbedder:
        async def come() -> None:
            await memory.of("omar").add("trip", "user", SMALL)

        embedder = BusyEmbedder(come)
        async with AsyncMemory(location, worker=False, embedder=embedder) as memory:
            await fill(memory.of("sara"))
            assert (await memory.drain(briefs=False)).complete
        return embedder

    return asyncio.run(scenario())


@pytest.mark.slow
def test_a_short_message_does_not_wait_for_the_long_ones_of_another_person(location: str) -> None:
    texts = [long_text(number) for number in range(LONG_MESSAGES)]

    async def fill(sara: AsyncMemory) -> None:
        for number, text in enumerate(texts):
            await sara.add(f"c{number % 3}", "user", text)

    embedder = embed_beside(location, fill)
    passages = [passage for text in texts for passage in embedded_texts(text)]
    assert len(passages) > 6 * TURN_PASSAGES
    before = sum(map(len, embedder.calls_before(SMALL)))
    assert before <= 4 * TURN_PASSAGES  # the page that ran when it came, and one more
    embedded = Counter(text for call in embedder.calls for text in call)
    assert embedded == Counter([*passages, SMALL])  # every passage once: nothing is done again at the next turn
    sizes = {place: len(blob) // 12 for place, ((_, blob),) in stored_vectors(location).items()}
    assert sum(sizes.values()) == len(passages) + 1


def test_a_message_does_not_wait_for_the_many_conversations_of_another_person(location: str) -> None:
    async def fill(sara: AsyncMemory) -> None:
        for number in range(MANY_CONVERSATIONS):
            await sara.add(f"c{number}", "user", f"message {number}")

    embedder = embed_beside(location, fill)
    assert len(embedder.calls) == MANY_CONVERSATIONS + 1
    assert len(embedder.calls_before(SMALL)) <= 6


def test_a_long_message_is_found_by_meaning_when_its_last_passage_is_embedded(location: str, open_memory: Open) -> None:
    first, second = FakeEmbedder(8), FakeEmbedder(8)
    memory = open_memory(embedder=first)
    text = long_text(1)
    memory.add("trip", "user", text)
    memory._wait(memory._engine._work.indexing.sweep())
    done = tuple(first.calls)
    assert 0 < sum(map(len, done)) <= TURN_PASSAGES
    assert "dense" not in memory.recall("word1x190")[0].why
    memory.close()  # as a kill leaves it: another process goes on where this one stopped
    other = open_memory(embedder=second)
    assert other.drain().complete
    calls = [passage for call in (*done, *second.calls) for passage in call]
    assert Counter(calls) == Counter(embedded_texts(text))
    assert "dense" in other.recall("word1x190")[0].why


def test_a_process_that_comes_late_does_not_shorten_the_vectors_of_another(location: str, open_memory: Open) -> None:
    memory = open_memory(embedder=FakeEmbedder(8))
    memory.add("trip", "user", long_text(1))
    memory.drain()
    before = stored_vectors(location)
    ((key, generation),) = ask(location, "SELECT key, generation FROM conversations")
    store = memory._engine.store.vectors
    embedder = memory._wait(store.current_embedder())
    late: Any = {"embedder": embedder, "after": 0, "through": 0}
    assert memory._wait(store.save(Principal("local"), "trip", (key, generation), [(1, b"x" * 12)], **late))
    assert stored_vectors(location) == before


def test_a_turn_ends_before_it_has_too_many_bytes_and_has_one_message_at_least(
    location: str, open_memory: Open
) -> None:
    memory = open_memory()
    for size in (10, 10, 50, 10, 10):
        memory.add("trip", "user", "é" * (size // 2))
    ((key,),) = ask(location, "SELECT key FROM conversations")
    jobs = memory._engine.store.jobs

    def end(after: int, max_bytes: int, through: int = 5) -> int:
        return memory._wait(jobs.slice_end(key=key, after=after, through=through, max_bytes=max_bytes))

    assert [end(0, 20), end(0, 19), end(0, 9), end(0, 90), end(0, 89), end(0, 1000, 3)] == [2, 1, 1, 5, 4, 3]
    assert [end(2, 20), end(3, 20), end(4, 20), end(5, 20)] == [3, 5, 5, 5]


class FakeJob:
    """A job that only lists what is due."""

    name = "fake"
    steps: Sequence[Any] = ()
    rewind: Any = None

    def __init__(self, owners: Sequence[str], *, parallel: int = 2) -> None:
        self.pace = Pace(parallel=parallel)
        self.works = [Work(key=key, principal=Principal(owner)) for key, owner in enumerate(owners, 1)]
        self.rows_read = 0

    async def due(self, *, after: int, limit: int) -> list[Work]:
        works = [work for work in self.works if work.key > after][:limit]
        self.rows_read += len(works)
        return works

    async def begin(self, work: Any) -> Any: ...

    async def finish(self, work: Any, lease: Any) -> None: ...


def turns_of(job: FakeJob, *, count: int | None = None) -> list[Work]:
    """Return the units that get their turn, until all had one or until there were so many."""

    async def collect() -> list[Work]:
        served: list[Work] = []
        async for page in Turns(job).pages():
            served += page
            if count is not None and len(served) >= count:
                break
        return served

    return asyncio.run(collect())


def owners(works: Sequence[Work]) -> Iterator[str]:
    return (work.principal.person for work in works)


def test_people_take_turns_whatever_the_order_of_their_units() -> None:
    job = FakeJob(["a"] * 6 + ["b"] * 2 + ["c"] * 4, parallel=100)
    assert "".join(owners(turns_of(job))) == "abcabcacacaa"


@pytest.mark.parametrize("look", [3, 7, 1000])
def test_every_unit_gets_one_turn_in_a_sweep(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_LOOK_UNITS", look)
    job = FakeJob(["a"] * 20 + ["b"] + ["c"] * 9)
    assert sorted(work.key for work in turns_of(job)) == [work.key for work in job.works]


def test_units_that_stay_due_do_not_keep_the_others_of_their_person_from_their_turn() -> None:
    job = FakeJob(["a"] * 10)
    order = Turns(job)

    async def first_page() -> list[Work]:
        async for page in order.pages():  # a sweep that ends after one page, as it does when something was done
            return page
        return []

    served = [work.key for _ in range(5) for work in asyncio.run(first_page())]
    assert sorted(served) == list(range(1, 11))


def test_looking_costs_little_however_much_is_due() -> None:
    job = FakeJob(["a"] * 3000)
    served = turns_of(job, count=300)
    assert job.rows_read <= 110 * len(served)


def test_two_units_of_one_person_are_not_neighbours_while_others_wait() -> None:
    job = FakeJob(["a"] * 50 + ["b"] * 50, parallel=4)
    served = turns_of(job, count=20)
    assert all(one != other for one, other in pairwise(owners(served)))
