"""The worker finds missing work, does it once, and goes on where another left off."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from recollect import (
    AsyncMemory,
    InvalidInput,
    Memory,
    NotFound,
    ProviderUnavailable,
    StoreUnavailable,
    count_tokens_for_messages,
)
from recollect.core import word_index
from recollect.core.language import analyser
from recollect.core.models import Principal
from recollect.core.scope import PersonScope
from recollect.jobs.job import ConversationJob, ConversationWork, Job, Pace, StopSignal, Work
from recollect.jobs.leases import LeaseKeeper
from recollect.jobs.worker import Worker
from recollect.storage.jobs import Lease
from recollect.storage.message_index import CURSOR as INDEX
from recollect.testing import FakeClock, FakeEmbedder
from support.postgres import guest_role
from support.serving import wait_for
from support.tables import stored_entries

Open = Callable[..., Memory]


def test_drain_counts_the_tokens_of_every_message_once(memory: Memory) -> None:
    memory.add("trip", "user", "I'm allergic to peanuts.", name="Sara")
    memory.add("trip", "assistant", "", tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}])
    assert memory.stats()["due"] == 1
    done = memory.drain()
    assert done.counts["tokens"] == 2
    assert done.complete and not done.failed
    messages = [
        {"role": "user", "content": "I'm allergic to peanuts.", "name": "Sara"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    ]
    stats = memory.stats()
    assert stats["tokens"] == count_tokens_for_messages(messages)
    assert (stats["counted"], stats["due"], stats["estimated"]) == (2, 0, 0)
    assert not any(memory.drain().counts.values())


def test_the_worker_in_the_process_does_the_work_by_itself(open_memory: Open) -> None:
    memory = open_memory(worker=True)
    memory.add("trip", "user", "hello")
    done = threading.Event()

    def watch() -> None:
        for _ in range(1200):
            if memory.stats()["counted"] == 1:
                done.set()
                return
            done.wait(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    watcher.join()
    assert done.is_set()


def test_a_conversation_under_another_workers_lease_is_left_alone_until_it_expires(
    open_memory: Open, clock: FakeClock
) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(INDEX, after=0, limit=10))
    name = f"index:{row['key']}"
    until = clock.now() + timedelta(seconds=60)
    assert memory._wait(store.jobs.take_lease(Lease(name, "other"), now=clock.now(), until=until))
    assert not memory._wait(store.jobs.take_lease(Lease(name, "third"), now=clock.now(), until=until))
    done = memory.drain(timeout=0.2)
    assert not done.complete
    assert memory.stats()["counted"] == 0
    clock.advance(timedelta(seconds=61))
    assert memory.drain().complete
    assert memory.stats()["counted"] == 1


def test_a_lease_ends_with_the_process_that_held_it(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory()
    store = memory._engine._store
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    running = f"{platform.node()}/{process.pid}/x"
    elsewhere = f"another host/{process.pid}/x"
    for name, holder in (("running", running), ("elsewhere", elsewhere), ("other", "of an older version")):
        memory.add(name, "user", "hello")
        (row,) = memory._wait(store.jobs.due(INDEX, after=0, limit=10))[-1:]
        until = clock.now() + timedelta(hours=1)
        assert memory._wait(store.jobs.take_lease(Lease(f"index:{row['key']}", holder), now=clock.now(), until=until))
    memory.drain(timeout=0.2)
    assert memory.stats()["counted"] == 0
    process.kill()
    process.communicate()
    for _ in range(100):  # a busy machine may not get there in one go
        memory.drain(timeout=0.5)
        if memory.stats()["counted"]:
            break
    assert memory.stats()["counted"] == 1
    assert set(memory._wait(store.jobs.lease_holders())) == {elsewhere, "of an older version"}


def test_many_workers_at_once_do_each_conversation_once(open_memory: Open) -> None:
    memories = [open_memory() for _ in range(4)]
    for n in range(12):
        memories[0].add(f"c{n}", "user", f"hello {n}")
    results: list[Any] = []
    threads = [threading.Thread(target=lambda m=m: results.append(m.drain())) for m in memories]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done.counts.get("tokens", 0) for done in results) == 12
    assert memories[0].drain().complete
    assert memories[0].stats()["counted"] == 12


def test_a_message_that_arrives_during_the_work_is_done_next(open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "first")
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(INDEX, after=0, limit=10))
    memory.add("trip", "user", "second")
    assert memory._wait(
        store.jobs.finish(INDEX, Lease("l", "h"), key=row["key"], after=0, through=row["last_seq"], generation=0)
    )
    assert memory.stats()["due"] == 1
    assert memory.drain().counts["tokens"] == 1
    assert memory.stats()["due"] == 0


def test_a_rebuild_in_the_middle_of_the_work_is_not_lost(open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "first")
    memory.drain()
    memory.add("trip", "user", "second")
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(INDEX, after=0, limit=10))
    memory._wait(store.jobs.rewind(Principal("local"), PersonScope("local"), memory._engine._work.rewinds))
    assert not memory._wait(
        store.jobs.finish(
            INDEX,
            Lease("l", "h"),
            key=row["key"],
            after=row["cursor"],
            through=row["last_seq"],
            generation=row["generation"],
        )
    )
    assert memory.drain().counts["tokens"] == 2


def test_rebuild_makes_the_same_rows_again(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    for memory in (sara, omar):
        memory.add_many("trip", [{"role": "user", "content": f"hello {n} there"} for n in range(20)])
        memory.add("other", "user", "something else")
        memory.drain()
    before = sara.stats()
    done = sara.rebuild(conversation="trip")
    assert (done.counts["words"], done.counts["tokens"]) == (20, 20)
    assert sara.rebuild().counts["tokens"] == 21
    assert sara.rebuild(everyone=True).counts["tokens"] == 42
    assert sara.stats() | {"bytes": 0} == before | {"bytes": 0}
    assert all(finding.state == "ok" for finding in sara.check())
    with pytest.raises(NotFound):
        sara.rebuild(conversation="nowhere")


def test_with_a_new_analyser_all_words_are_made_again(
    location: str, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_memory()
    first.add("trip", "user", "hello there")
    first.drain()
    first.close()
    monkeypatch.setattr(word_index, "VERSION", word_index.VERSION + 1)
    monkeypatch.setattr(analyser, "raw_words", lambda text: ["changed"])
    second = open_memory()
    assert "bm25" in second.recall("anything")[0].why  # by the new words, though the old ones are still stored
    assert stored_entries(location) != {("trip", 1): word_index.encode_row("hello there", None)}
    assert second.drain().counts["words"] == 1
    assert stored_entries(location) == {("trip", 1): word_index.encode_row("hello there", None)}
    assert "bm25" in second.recall("anything")[0].why
    assert not second.drain().counts.get("words")


def test_a_failing_job_is_named_and_tried_again(open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    engine = memory._engine
    job = _Flaky(engine._store)
    worker = _worker_of(engine, job)
    done = memory._wait(worker.drain())
    assert (done.failed, done.complete) == ({"flaky": "provider_timeout"}, False)
    job.well = True
    done = memory._wait(worker.drain())
    assert (done.counts["flaky"], done.failed, done.complete) == (1, {}, True)


def _worker_of(engine: AsyncMemory, *jobs: Job) -> Worker:
    leases = LeaseKeeper(engine._store.jobs, engine._clock, "h", lambda: timedelta(seconds=9))
    return Worker(leases, jobs=jobs, maintenance=[], prepare=engine._book.prepare)


class _Flaky(ConversationJob):
    name = "flaky"
    cursor = INDEX
    well = False

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        if not self.well:
            raise ProviderUnavailable("provider_timeout", "no answer")
        return 1


def test_an_unexpected_failure_of_one_conversation_does_not_stop_the_others(open_memory: Open) -> None:
    memory = open_memory()
    for n in range(40):
        memory.add(f"c{n}", "user", "hello")
    engine = memory._engine
    job = _Bug(engine._store)
    worker = _worker_of(engine, job)
    done = memory._wait(worker.drain())
    assert (done.counts["bug"], done.failed, done.complete) == (39, {"bug": "unexpected"}, False)


class _Bug(ConversationJob):
    name = "bug"
    cursor = INDEX

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        if work.conversation == "c7":
            raise ValueError("a bug")
        return 1


class _ReviewDays:
    """A job whose units are a person's days, not conversations: it keeps its own record of what is done."""

    name = "day_reviews"
    pace = Pace(parallel=2)
    rewind = staticmethod(lambda tx, target: None)

    def __init__(self, days: int) -> None:
        self.missing = list(range(1, days + 1))
        self.done: list[tuple[str, int]] = []

    @property
    def steps(self) -> list[_ReviewDays]:
        return [self]

    async def due(self, *, after: int, limit: int) -> list[Work]:
        keys = [key for key in self.missing if key > after][:limit]
        return [Work(key=key, principal=Principal("sara")) for key in keys]

    async def begin(self, work: Work) -> Work:
        return work

    async def do(self, work: Work, stop: StopSignal) -> int:
        self.done.append((work.principal.person, work.key))
        return 1

    async def finish(self, work: Work, lease: Lease) -> None:
        self.missing.remove(work.key)


def test_a_job_may_have_units_other_than_conversations(open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    job = _ReviewDays(7)
    done = memory._wait(_worker_of(memory._engine, job).drain())
    assert (done.counts, done.complete) == ({"day_reviews": 7}, True)
    assert sorted(job.done) == [("sara", day) for day in range(1, 8)]


def test_drain_waits_for_what_another_process_is_working_on(open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    store, clock = memory._engine._store, memory._engine._clock
    (row,) = memory._wait(store.jobs.due(INDEX, after=0, limit=10))
    name, until = f"index:{row['key']}", clock.now() + timedelta(seconds=60)
    assert memory._wait(store.jobs.take_lease(Lease(name, "other"), now=clock.now(), until=until))
    release = threading.Timer(0.3, lambda: memory._wait(store.jobs.release_lease(Lease(name, "other"))))
    release.start()
    assert memory.drain(timeout=60).complete
    release.join()
    assert memory.stats()["counted"] == 1


@pytest.mark.parametrize("timeout", ["1", -1, float("nan"), True])
def test_an_invalid_timeout_is_refused(memory: Memory, timeout: Any) -> None:
    with pytest.raises(InvalidInput):
        memory.drain(timeout=timeout)


def test_the_check_reports_an_embedder_that_does_not_answer_and_its_work_stays_due(open_memory: Open) -> None:
    embedder = FakeEmbedder(16)
    memory = open_memory(embedder=embedder)
    memory.add("trip", "user", "hello")
    assert [finding.state for finding in memory.check() if finding.name == "embedder"] == ["ok"]
    embedder.failure = ProviderUnavailable("provider_unreachable", "nobody answers")
    memory.drain()
    assert memory.stats()["due"] == 1
    (found,) = [finding for finding in memory.check() if finding.name == "embedder"]
    assert (found.state, "provider_unreachable" in found.detail) == ("warning", True)


def test_drain_stops_when_its_time_is_up(memory: Memory) -> None:
    for n in range(30):
        memory.add(f"c{n}", "user", "hello")
    done = memory.drain(timeout=0)
    assert not done.complete
    assert memory.drain(timeout=60).complete
    assert memory.stats()["counted"] == 30


def test_the_async_face_does_the_same_work(location: str) -> None:
    async def scenario() -> None:
        async with AsyncMemory(location, embedder=FakeEmbedder()) as memory:
            stored = await asyncio.gather(*(memory.add("trip", "user", f"hello {n}") for n in range(20)))
            assert sorted(m.seq for m in stored) == list(range(1, 21))
            assert (await memory.drain()).complete
            assert len(await memory.history("trip")) == 20

    asyncio.run(scenario())


def test_work_until_ends_when_it_is_stopped(location: str) -> None:
    async def scenario() -> None:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder()) as memory:
            await memory.add("trip", "user", "hello")
            stop = asyncio.Event()
            task = asyncio.create_task(memory.work_until(stop))
            for _ in range(3000):
                if (await memory.stats())["counted"]:
                    break
                await asyncio.sleep(0.02)
            stop.set()
            await asyncio.wait_for(task, 60)
            assert (await memory.stats())["counted"] == 1

    asyncio.run(scenario())


class LockingOut(FakeEmbedder):
    """Embeds once, and then lets the database refuse its user and end all its connections."""

    def __init__(self, server: psycopg.Connection, role: str) -> None:
        super().__init__()
        self._server, self._role = server, role

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self._server.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(self._role)))
        self._server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = %s", (self._role,)
        )
        return await super().embed(texts)


@contextmanager
def locked_out_later(pg: str) -> Iterator[tuple[str, FakeEmbedder]]:
    """Yield an address with messages to embed, and an embedder after whose first call the database is gone."""
    with guest_role(pg) as location, psycopg.connect(pg, autocommit=True) as server:
        with Memory(location, worker=False, embedder=FakeEmbedder()) as memory:
            for number in range(6):
                memory.add(f"trip {number}", "user", "I like tea, and trains.")
        yield location, LockingOut(server, str(psycopg.conninfo.conninfo_to_dict(location)["user"]))


def test_a_database_that_is_gone_ends_the_work_with_one_error_of_ours(pg: str) -> None:
    async def drain(location: str, embedder: FakeEmbedder) -> None:
        async with AsyncMemory(location, worker=False, embedder=embedder) as memory:
            await memory._work.indexing.drain()  # `rebuild` drains this one beside others

    with locked_out_later(pg) as (location, embedder), pytest.raises(StoreUnavailable) as caught:
        asyncio.run(drain(location, embedder))
    assert caught.value.code == "store_denied"


def test_a_database_that_is_gone_is_a_warning_to_the_worker(pg: str, caplog: pytest.LogCaptureFixture) -> None:
    with locked_out_later(pg) as (location, embedder), Memory(location, worker=True, embedder=embedder):
        wait_for(lambda: "the worker cannot reach its store: store_denied" in caplog.text)
    assert "unexpectedly" not in caplog.text and "Traceback" not in caplog.text
