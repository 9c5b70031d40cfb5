"""Briefs and races: triggers at once, what arrives or goes meanwhile, leases, and closing."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from recollect.storage.briefs import CURSOR
from recollect.storage.jobs import Lease
from recollect.testing import FakeClock
from support.summaries import (
    FlakyModel,
    Open,
    SlowModel,
    brief_as_json,
    brief_of,
    eager_settings,
    hang,
    long_turns,
    new_sentences,
    on_sqlite,
    prompt_layout,
    reply,
    run_at_once,
    user_turns,
    wait_until,
)
from support.tables import ask
from support.waiting import GIVE_UP_SECONDS, NEVER_SECONDS, run_to_end

# R5: races.


def test_twenty_triggers_at_once_make_one_call(open_memory: Open) -> None:
    """R5, with two memories on the database, both with a worker."""
    model = SlowModel()
    memories = [open_memory(settings=eager_settings(), model=model, worker=True) for _ in range(2)]
    memories[0].add_many("trip", long_turns(3, count=1))
    assert model.asked.wait(300)
    waiting = threading.Thread(target=lambda: (wait_until(lambda: False, 0.3), model.may_answer.set()))
    waiting.start()
    results = run_at_once(*(partial(memories[n % 2].compress, "trip") for n in range(20)))
    waiting.join()
    assert not [one for one in results if isinstance(one, BaseException)]
    assert all(one is None or one.version == 1 for one in results)
    assert len(model.calls) == 1
    assert all(memory.drain(timeout=30).complete for memory in memories)
    assert len(model.calls) == 1
    assert [one["version"] for one in memories[1].brief_versions("trip")] == [1]


def test_what_arrives_while_the_model_thinks_stays_uncompressed_and_present(open_memory: Open) -> None:
    """R5: the cursor covers what the model read, and only rises."""
    model = SlowModel()
    memory = open_memory(settings=eager_settings(), model=model, worker=True)
    memory.add_many("trip", long_turns(3, count=1))
    assert model.asked.wait(300)
    memory.add("trip", "user", "The password of the cellar is walnut.")
    during = memory.context("trip", "hello")
    assert "walnut" in during.text
    assert memory.brief("trip") is None
    cursors = []
    model.may_answer.set()
    assert wait_until(lambda: memory.brief("trip") is not None)
    cursors.append(brief_of(memory).through_seq)
    assert cursors == [4]
    assert "walnut" not in prompt_layout(model.calls[0])
    assert "walnut" in memory.context("trip", "hello").text
    for n in range(5, 12):
        memory.add_many("trip", long_turns(1, first=n, count=1))
        memory.drain(timeout=30)
        cursors.append(brief_of(memory).through_seq)
        context = memory.context("trip", "hello")
        assert all(m.content in context.text for m in memory.history("trip") if m.seq > cursors[-1])
    assert cursors == sorted(cursors)
    assert len(set(cursors)) > 2


def test_forced_folds_beside_each_other_never_ask_at_once(open_memory: Open) -> None:
    """R5: one that waited for another and one that comes later are still one after the other."""
    model = SlowModel()
    memory = open_memory(settings=eager_settings(), model=model)
    memory.add_many("trip", long_turns(3, count=1))
    results: list[Any] = []

    def fold(force: bool) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: results.extend(run_at_once(lambda: memory.compress("trip", force=force)))
        )
        thread.start()
        return thread

    threads = [fold(False)]
    assert model.asked.wait(300)
    threads += [fold(True) for _ in range(3)]
    memory.add_many("trip", long_turns(2, first=5, count=1))
    model.may_answer.set()
    threads += [fold(True) for _ in range(3)]
    for thread in threads:
        thread.join(300)
    assert not [one for one in results if isinstance(one, BaseException)]
    assert model.most_at_once == 1
    versions = memory.brief_versions("trip")
    assert [one["version"] for one in versions] == list(range(1, len(versions) + 1))
    assert len(model.calls) == len(versions)


def test_an_erase_while_the_model_thinks_is_no_error_and_leaves_nothing_behind(open_memory: Open) -> None:
    model = SlowModel(lambda call: reply(" ".join(new_sentences(prompt_layout(call)))))
    memory = open_memory(settings=eager_settings(), model=model)
    memory.add_many("trip", user_turns("My shoe size is 44.", "I like tea.", "I like cake.", "Good night."))
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(run_at_once(lambda: memory.compress("trip"))))
    thread.start()
    assert model.asked.wait(300)
    memory.erase(message="s0")
    model.may_answer.set()
    thread.join(300)
    assert not isinstance(results[0], BaseException), results
    memory.drain()
    brief = brief_of(memory)
    assert "tea" in brief_as_json(brief)
    assert "44" not in brief_as_json(brief)


@pytest.mark.parametrize("scope", [{"conversation": "trip"}, {"person": "local"}, {"day": "2026-01-01"}])
def test_a_brief_that_is_being_written_is_not_stored_once_its_messages_are_erased(
    scope: dict[str, str], open_memory: Open, location: str
) -> None:
    model = SlowModel(lambda call: reply(" ".join(new_sentences(prompt_layout(call)))))
    memory = open_memory(settings=eager_settings(), model=model)
    memory.add_many("trip", user_turns("My shoe size is 44.", "I like tea.", "I like cake.", "Good night."))
    thread = threading.Thread(target=lambda: run_at_once(lambda: memory.compress("trip")))
    thread.start()
    assert model.asked.wait(300)
    memory.erase(**scope)
    model.may_answer.set()
    thread.join(300)
    assert memory.drain().complete
    assert ask(location, "SELECT count(*) FROM briefs") == ask(location, "SELECT count(*) FROM brief_entries") == [(0,)]


def test_a_fold_waits_for_another_holders_lease_until_it_expires(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory(settings=eager_settings())
    memory.add_many("trip", long_turns(3, count=1))
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(CURSOR, after=0, limit=10))
    until = clock.now() + timedelta(seconds=60)
    assert memory._wait(store.jobs.take_lease(Lease(f"brief:{row['key']}", "other"), now=clock.now(), until=until))
    assert not memory.drain(timeout=0.2).complete
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(memory.compress("trip")))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    assert memory.brief("trip") is None
    clock.advance(timedelta(seconds=61))
    thread.join(300)
    assert results[0].version == 1
    assert memory.drain().complete


def test_a_fold_goes_on_when_the_other_holder_lets_go(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory(settings=eager_settings())
    memory.add_many("trip", long_turns(3, count=1))
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(CURSOR, after=0, limit=10))
    name, until = f"brief:{row['key']}", clock.now() + timedelta(seconds=60)
    assert memory._wait(store.jobs.take_lease(Lease(name, "other"), now=clock.now(), until=until))
    release = threading.Timer(0.3, lambda: memory._wait(store.jobs.release_lease(Lease(name, "other"))))
    release.start()
    brief = memory.compress("trip")
    release.join()
    assert brief is not None
    assert brief.version == 1


def test_the_lease_of_a_killed_process_is_not_waited_for(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory(settings=eager_settings())
    memory.add_many("trip", long_turns(3, count=1))
    store = memory._engine._store
    (row,) = memory._wait(store.jobs.due(CURSOR, after=0, limit=10))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(300)
    gone, until = f"{platform.node()}/{ended.pid}/x", clock.now() + timedelta(seconds=60)
    assert memory._wait(store.jobs.take_lease(Lease(f"brief:{row['key']}", gone), now=clock.now(), until=until))
    assert memory.compress("trip") is not None  # the clock stands still


# Closing.


@on_sqlite
@pytest.mark.parametrize("failure", ["hang", "stubborn"])
def test_closing_does_not_wait_for_a_model_that_hangs(open_memory: Open, failure: str) -> None:
    asked_for = threading.Event()

    async def think() -> str:
        asked_for.set()
        for _ in range(2 if failure == "stubborn" else 1):
            try:
                await asyncio.sleep(NEVER_SECONDS)
            except asyncio.CancelledError:
                if failure == "hang":
                    raise
        return ""

    memory = open_memory(settings=eager_settings(), model=FlakyModel(think), worker=True)
    memory.add_many("trip", long_turns(3, count=1))
    assert asked_for.wait(GIVE_UP_SECONDS)
    run_to_end(memory.close)
    again = open_memory(settings=eager_settings())
    assert len(again.history("trip")) == 6
    again.drain()
    assert brief_of(again).version == 1


@on_sqlite
def test_closing_ends_a_fold_that_somebody_waits_for(open_memory: Open) -> None:
    """Nobody may wait for ever for an answer that cannot come any more."""
    model = FlakyModel(hang)
    memory = open_memory(settings=eager_settings(provider_timeout_seconds=NEVER_SECONDS), model=model)
    memory.add_many("trip", long_turns(3, count=1))
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.extend(run_at_once(lambda: memory.compress("trip"))), daemon=True)
    thread.start()
    assert wait_until(lambda: model.calls == 1)
    run_to_end(memory.close)
    thread.join(GIVE_UP_SECONDS)
    assert not thread.is_alive()


# Giving way.


def _kept_waiting(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, *, max_yield_seconds: float = NEVER_SECONDS
) -> tuple[Any, list[bool]]:
    """A memory with folds due, whose worker believes that the processor is needed elsewhere."""
    memory = open_memory(settings=eager_settings())
    busy = [True]
    monkeypatch.setattr("recollect.brief.job.MAX_YIELD_SECONDS", max_yield_seconds)
    monkeypatch.setattr(memory._engine._work.briefs, "_must_wait", lambda: busy[0])
    memory.add_many("trip", long_turns(12, count=1))
    return memory, busy


def test_a_fold_of_the_worker_waits_for_words_and_vectors(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, busy = _kept_waiting(open_memory, monkeypatch)
    draining = threading.Thread(target=memory.drain)
    draining.start()
    assert not wait_until(lambda: memory.brief("trip") is not None, 0.4)
    assert run_to_end(lambda: memory.compress("trip")) is not None  # who asks does not wait, nor for the one that does
    assert draining.is_alive()
    busy[0] = False
    draining.join(GIVE_UP_SECONDS)
    assert not draining.is_alive()


def test_a_fold_waits_only_for_a_while(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, _ = _kept_waiting(open_memory, monkeypatch, max_yield_seconds=0.05)
    assert run_to_end(memory.drain).complete
    assert memory.brief("trip") is not None


def test_a_memory_can_be_closed_while_a_fold_waits(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, _ = _kept_waiting(open_memory, monkeypatch)
    ended: list[object] = []
    draining = threading.Thread(target=lambda: ended.append(run_at_once(memory.drain)))
    draining.start()
    assert not wait_until(lambda: memory.brief("trip") is not None, 0.2)
    run_to_end(memory.close)
    draining.join(GIVE_UP_SECONDS)
    assert ended


def test_only_the_built_in_parts_take_turns(open_memory: Open) -> None:
    """A model or an embedder somewhere else needs no processor of ours."""
    memory = open_memory(settings=eager_settings())  # has an embedder of its own
    assert not memory._engine._work.briefs._must_wait()
