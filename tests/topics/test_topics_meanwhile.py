"""What others do between two steps of the worker: restores, merges, pins. Who comes late sees it, and looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, count_tokens_for_messages
from recollect.testing import FakeClock
from support.tables import ask, wrong_counts
from support.talks import SMALL, Directions, Open, adds_up, chat, opened, say, states, topic_of


def before(part: object, name: str, act: Callable[[], object]) -> list[str]:
    """Let something happen when a method of the store is first called. What is returned says that it did."""
    original, happened = getattr(part, name), list[str]()

    async def call(*given: Any, **more: Any) -> Any:
        if not happened:
            happened.append(name)
            await asyncio.to_thread(act)
        return await original(*given, **more)

    setattr(part, name, call)
    return happened


def store_of(memory: Memory) -> Any:
    return memory._engine._store


def test_a_summary_that_was_written_during_a_restore_reaches_nobody(open_memory: Open, tmp_path: Path) -> None:
    """Keys of topics come again after a restore of an SQLite file: here one that is another person's by then."""
    alice, bob = (opened(open_memory, person=name, **SMALL) for name in ("alice", "bob"))
    chat(alice, 1)
    alice.drain()
    alice.backup(tmp_path / "before.backup")
    for n in range(4):
        say(alice, 2, f"my hidden diagnosis number {n} is this")
        alice.add("trip", "assistant", f"#2 what you say of diagnosis {n} is sad")

    def restore() -> None:
        bob.restore(tmp_path / "before.backup")
        say(bob, 3, "what is the weather in Oslo", to="bobs")
        bob.drain()

    happened = before(store_of(alice).topics, "tell", restore)
    alice.drain()
    assert happened
    (topic,) = bob.topics("bobs")
    assert topic.summary is None
    assert "diagnosis" not in bob.context("bobs", "what do you know of my health?").text
    assert len(alice.history("trip")) == 2


@pytest.mark.parametrize("step", ["save_placed", "tell"])
def test_after_a_restore_all_new_messages_get_their_topics(open_memory: Open, tmp_path: Path, step: str) -> None:
    memory, other = (opened(open_memory, **SMALL) for _ in range(2))
    chat(memory, 1, 2)
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    chat(memory, 2, 5)
    happened = before(store_of(memory).topics, step, lambda: other.restore(tmp_path / "before.backup"))
    memory.drain()
    assert happened
    assert [one.messages for one in memory.topics("trip")] == [4]
    chat(memory, 3, 2)
    assert memory.drain().complete
    assert sorted(states(memory)) == ["1", "3"]
    adds_up(memory)


def test_a_block_of_a_restored_store_is_not_exchanged_for_one_from_before(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory, other = (opened(open_memory, **SMALL) for _ in range(2))
    chat(memory, 1, 2)
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    chat(memory, 1, 4, first=50)

    def restore() -> None:
        other.restore(tmp_path / "before.backup")
        chat(other, 1, 4, first=70)
        other.drain()

    happened = before(store_of(memory).archive, "save_folded", restore)
    memory.drain()
    assert happened
    said = [one.content for one in memory.history("trip")]
    assert len(said) == 12
    assert not [one for one in said if "number 5" in one]
    adds_up(memory)
    assert wrong_counts(location) == []


@pytest.mark.parametrize("act", ["pin", "rename"])
def test_a_summary_that_was_interrupted_is_told_at_the_next_look(
    open_memory: Open, location: str, act: str, tmp_path: Path
) -> None:
    memory, other = (opened(open_memory, **SMALL) for _ in range(2))
    chat(memory, 9)
    chat(memory, 1, 4)
    memory.drain()
    topic = topic_of(memory, 1).id
    assert memory.topic(topic).summary
    acts = {"pin": lambda: other.pin_topic(topic), "rename": lambda: other.rename_topic(topic, "#1 is its name")}
    happened = before(store_of(memory).topics, "tell", acts[act])
    say(memory, 1, "the code word of the harbour is Marigold77")
    chat(memory, 1, 3, first=20)
    memory.drain()
    memory.drain()
    assert happened
    assert "Marigold77" in (memory.topic(topic).summary or "")
    ((folded, told),) = ask(location, "SELECT folded_seq, summary_seq FROM topics WHERE folded_seq > 0")
    assert folded == told


def test_what_is_merged_while_it_folds_is_folded_at_the_next_look(open_memory: Open) -> None:
    memory, other = (opened(open_memory, **SMALL) for _ in range(2))
    chat(memory, 9)
    chat(memory, 2, 2)
    chat(memory, 1, 2)
    memory.drain()
    into, part = topic_of(memory, 1).id, topic_of(memory, 2).id
    chat(memory, 1, 4, first=30)
    happened = before(store_of(memory).archive, "save_folded", lambda: other.merge_topics(into, part))
    memory.drain()
    memory.drain()
    assert happened
    whole = memory.topic(into)
    assert (whole.messages, whole.active_messages, whole.archived_messages) == (16, 2, 14)
    memory.archive_topic(into)
    memory.drain()
    assert memory.topic(into).active_messages == 0
    adds_up(memory)


def test_a_topic_that_is_pinned_at_the_last_moment_stays(open_memory: Open, clock: FakeClock) -> None:
    memory, other = (opened(open_memory, max_topics=1) for _ in range(2))
    chat(memory, 1, 2)
    chat(memory, 2)
    memory.drain()
    topic = topic_of(memory, 1).id
    clock.advance(timedelta(days=60))
    happened = before(store_of(memory).topics, "cool", lambda: other.pin_topic(topic))
    memory.drain()
    memory.drain()
    assert happened
    assert (memory.topic(topic).pinned, memory.topic(topic).state) == (True, "warm")


def test_centroids_are_made_anew_once_after_a_change_of_embedder(open_memory: Open) -> None:
    first = opened(open_memory)
    for marker in range(1, 9):
        chat(first, marker, 2)
    first.drain()
    first.close()
    memory = opened(open_memory, embedder=Directions(name="another"))
    counted: list[int] = []
    topics = store_of(memory).topics
    original = topics.vectors_of

    async def vectors_of(principal: Any, group: Any, embedder: int) -> Any:
        counted.append(group.root["key"])
        return await original(principal, group, embedder)

    topics.vectors_of = vectors_of
    for n in range(3):
        say(memory, 1, f"another word on this, number {n}")
        memory.drain()
    assert len(counted) == len(set(counted)) == 8
    adds_up(memory)


@pytest.mark.parametrize("how", ["restore", "erase"])
def test_vectors_are_stored_for_what_they_were_made_of_alone(
    open_memory: Open, location: str, tmp_path: Path, how: str
) -> None:
    """A conversation of the same name has taken its place: what is said there gets vectors and topics of its own."""
    memory, other = (opened(open_memory) for _ in range(2))
    say(memory, 7, "what was there first")
    memory.backup(tmp_path / "before.backup")
    chat(memory, 1, 6)

    def replace_it() -> None:
        if how == "restore":
            other.restore(tmp_path / "before.backup")
        else:
            other.erase(conversation="trip")
            say(other, 7, "a new beginning under the same name")

    happened = before(store_of(memory).vectors, "save", replace_it)
    memory.drain()
    for marker in (8, 9):
        chat(memory, marker)
    assert memory.drain().complete
    assert happened
    assert sorted(states(memory)) == ["7", "8", "9"]
    adds_up(memory)
    assert ask(location, "SELECT count(*) FROM vectors") == [(5,)]
    (vectors,) = (bytes(one) for (one,) in ask(location, "SELECT vectors FROM vectors WHERE seq = 1"))
    assert [at for at, value in enumerate(vectors[4:]) if value] == [7]


@pytest.mark.parametrize("step", ["words", "tokens"])
def test_words_and_tokens_are_stored_for_what_they_were_made_of_alone(
    open_memory: Open, tmp_path: Path, step: str
) -> None:
    memory, other = (opened(open_memory) for _ in range(2))
    say(memory, 1, "how it all began")
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    say(memory, 1, "all of zanzibar and its many islands and all that is said of them")

    def restore() -> None:
        other.restore(tmp_path / "before.backup")
        say(other, 1, "a giraffe")
        if step == "words":
            other.drain()

    if step == "words":
        happened = after_reading(store_of(memory), restore)
        memory.rebuild()
    else:
        happened = before(store_of(memory), "save_tokens", restore)
    memory.drain()
    assert happened
    assert [hit.text for hit in memory.recall("giraffe")][:1] == ["#1 a giraffe"]
    assert not [hit for hit in memory.recall("zanzibar") if hit.why.get("bm25")]
    said = [{"role": one.role, "content": one.content} for one in memory.history("trip")]
    assert memory.stats()["tokens"] == count_tokens_for_messages(said)


def after_reading(store: Any, act: Callable[[], object]) -> list[str]:
    """Let something happen when a page of messages was read, to make words of them."""
    original, happened = store._said, list[str]()

    async def said(query: str, **given: Any) -> Any:
        rows = await original(query, **given)
        if query == "page" and not happened:
            happened.append(query)
            await asyncio.to_thread(act)
        return rows

    store._said = said
    return happened


def test_a_summary_of_many_messages_that_was_interrupted_is_finished(open_memory: Open) -> None:
    memory, other = (opened(open_memory, **SMALL, topic_summary_token_cap=4000) for _ in range(2))
    chat(memory, 9)
    ids = [say(memory, 1, f"remark number {n} of this matter") for n in range(100)]
    say(memory, 1, "the code word of the tower is Tulip88")
    chat(memory, 1, 4, first=90)
    memory.drain()
    topic = topic_of(memory, 1).id
    memory.erase(message=ids[4])  # so that all of it is told anew, in two steps
    original, told = store_of(memory).topics.tell, list[int]()

    async def tell(*given: Any, **more: Any) -> bool:
        told.append(more["through"])
        if len(told) == 2:
            await asyncio.to_thread(lambda: other.pin_topic(topic))
        return bool(await original(*given, **more))

    store_of(memory).topics.tell = tell
    memory.drain()
    memory.drain()
    assert len(told) > 2
    assert told[0] < 0 < told[-1]
    assert "Tulip88" in (memory.topic(topic).summary or "")
    count = len(told)
    say(memory, 9)
    memory.drain()
    assert len(told) == count, "it is told again and again"
