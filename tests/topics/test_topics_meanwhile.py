"""Another process restores, merges or pins between two steps of the worker, which sees it and looks again."""

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
from support.talks import (
    SMALL_TOPICS,
    MarkerEmbedder,
    OpenMemory,
    add_message,
    add_turns,
    check_assignment,
    open_for_topics,
    states_by_marker,
    topic_of_marker,
)


def run_before(part: object, name: str, act: Callable[[], object]) -> list[str]:
    """Run `act` before the first call of a method. The list that is returned has an entry once it ran."""
    original, happened = getattr(part, name), list[str]()

    async def call(*args: Any, **options: Any) -> Any:
        if not happened:
            happened.append(name)
            await asyncio.to_thread(act)
        return await original(*args, **options)

    setattr(part, name, call)
    return happened


def store_of(memory: Memory) -> Any:
    return memory._engine._store


def test_a_summary_that_was_written_during_a_restore_is_not_stored(open_memory: OpenMemory, tmp_path: Path) -> None:
    """After a restore of an SQLite file, keys of topics are used again, here for a topic of another person."""
    alice, bob = (open_for_topics(open_memory, person=name, **SMALL_TOPICS) for name in ("alice", "bob"))
    add_turns(alice, 1)
    alice.drain()
    alice.backup(tmp_path / "before.backup")
    for n in range(4):
        add_message(alice, 2, f"my hidden diagnosis number {n} is this")
        alice.add("trip", "assistant", f"#2 what you say of diagnosis {n} is sad")

    def restore() -> None:
        bob.restore(tmp_path / "before.backup")
        add_message(bob, 3, "what is the weather in Oslo", to="bobs")
        bob.drain()

    happened = run_before(store_of(alice).topics, "save_summary", restore)
    alice.drain()
    assert happened
    (topic,) = bob.topics("bobs")
    assert topic.summary is None
    assert "diagnosis" not in bob.context("bobs", "what do you know of my health?").text
    assert len(alice.history("trip")) == 2


@pytest.mark.parametrize("step", ["save_assignments", "save_summary"])
def test_after_a_restore_all_new_messages_get_their_topics(open_memory: OpenMemory, tmp_path: Path, step: str) -> None:
    memory, other = (open_for_topics(open_memory, **SMALL_TOPICS) for _ in range(2))
    add_turns(memory, 1, 2)
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    add_turns(memory, 2, 5)
    happened = run_before(store_of(memory).topics, step, lambda: other.restore(tmp_path / "before.backup"))
    memory.drain()
    assert happened
    assert [topic.messages for topic in memory.topics("trip")] == [4]
    add_turns(memory, 3, 2)
    assert memory.drain().complete
    assert sorted(states_by_marker(memory)) == ["1", "3"]
    check_assignment(memory)


def test_a_block_of_a_restored_store_is_not_replaced_by_an_older_one(
    open_memory: OpenMemory, location: str, tmp_path: Path
) -> None:
    memory, other = (open_for_topics(open_memory, **SMALL_TOPICS) for _ in range(2))
    add_turns(memory, 1, 2)
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    add_turns(memory, 1, 4, first=50)

    def restore() -> None:
        other.restore(tmp_path / "before.backup")
        add_turns(other, 1, 4, first=70)
        other.drain()

    happened = run_before(store_of(memory).archive, "save_fold", restore)
    memory.drain()
    assert happened
    said = [message.content for message in memory.history("trip")]
    assert len(said) == 12
    assert not [each for each in said if "number 5" in each]
    check_assignment(memory)
    assert wrong_counts(location) == []


@pytest.mark.parametrize("act", ["pin", "rename"])
def test_an_interrupted_summary_is_written_at_the_next_look(
    open_memory: OpenMemory, location: str, act: str, tmp_path: Path
) -> None:
    memory, other = (open_for_topics(open_memory, **SMALL_TOPICS) for _ in range(2))
    add_turns(memory, 9)
    add_turns(memory, 1, 4)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    assert memory.topic(topic).summary
    acts = {"pin": lambda: other.pin_topic(topic), "rename": lambda: other.rename_topic(topic, "#1 is its name")}
    happened = run_before(store_of(memory).topics, "save_summary", acts[act])
    add_message(memory, 1, "the code word of the harbour is Marigold77")
    add_turns(memory, 1, 3, first=20)
    memory.drain()
    memory.drain()
    assert happened
    assert "Marigold77" in (memory.topic(topic).summary or "")
    ((folded_seq, summary_seq),) = ask(location, "SELECT folded_seq, summary_seq FROM topics WHERE folded_seq > 0")
    assert folded_seq == summary_seq


def test_a_topic_merged_while_it_folds_is_folded_at_the_next_look(open_memory: OpenMemory) -> None:
    memory, other = (open_for_topics(open_memory, **SMALL_TOPICS) for _ in range(2))
    add_turns(memory, 9)
    add_turns(memory, 2, 2)
    add_turns(memory, 1, 2)
    memory.drain()
    into, part = topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id
    add_turns(memory, 1, 4, first=30)
    happened = run_before(store_of(memory).archive, "save_fold", lambda: other.merge_topics(into, part))
    memory.drain()
    memory.drain()
    assert happened
    whole = memory.topic(into)
    assert (whole.messages, whole.active_messages, whole.archived_messages) == (16, 2, 14)
    memory.archive_topic(into)
    memory.drain()
    assert memory.topic(into).active_messages == 0
    check_assignment(memory)


def test_a_topic_pinned_at_the_last_moment_does_not_go_cold(open_memory: OpenMemory, clock: FakeClock) -> None:
    memory, other = (open_for_topics(open_memory, max_topics=1) for _ in range(2))
    add_turns(memory, 1, 2)
    add_turns(memory, 2)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    clock.advance(timedelta(days=60))
    happened = run_before(store_of(memory).topics, "make_cold", lambda: other.pin_topic(topic))
    memory.drain()
    memory.drain()
    assert happened
    assert (memory.topic(topic).pinned, memory.topic(topic).state) == (True, "warm")


def test_centroids_are_rebuilt_once_after_a_change_of_embedder(open_memory: OpenMemory) -> None:
    first = open_for_topics(open_memory)
    for marker in range(1, 9):
        add_turns(first, marker, 2)
    first.drain()
    first.close()
    memory = open_for_topics(open_memory, embedder=MarkerEmbedder(name="another"))
    counted: list[int] = []
    topics = store_of(memory).topics
    original = topics.member_vectors

    async def member_vectors(principal: Any, group: Any, embedder: int) -> Any:
        counted.append(group.root["key"])
        return await original(principal, group, embedder)

    topics.member_vectors = member_vectors
    for n in range(3):
        add_message(memory, 1, f"another word on this, number {n}")
        memory.drain()
    assert len(counted) == len(set(counted)) == 8
    check_assignment(memory)


@pytest.mark.parametrize("how", ["restore", "erase"])
def test_vectors_are_not_stored_for_a_conversation_that_was_replaced(
    open_memory: OpenMemory, location: str, tmp_path: Path, how: str
) -> None:
    """Messages of the new conversation with the same name get vectors and topics of their own."""
    memory, other = (open_for_topics(open_memory) for _ in range(2))
    add_message(memory, 7, "what was there first")
    memory.backup(tmp_path / "before.backup")
    add_turns(memory, 1, 6)

    def replace_it() -> None:
        if how == "restore":
            other.restore(tmp_path / "before.backup")
        else:
            other.erase(conversation="trip")
            add_message(other, 7, "a new beginning under the same name")

    happened = run_before(store_of(memory).vectors, "save", replace_it)
    memory.drain()
    for marker in (8, 9):
        add_turns(memory, marker)
    assert memory.drain().complete
    assert happened
    assert sorted(states_by_marker(memory)) == ["7", "8", "9"]
    check_assignment(memory)
    assert ask(location, "SELECT count(*) FROM vectors") == [(5,)]
    (vectors,) = (bytes(value) for (value,) in ask(location, "SELECT vectors FROM vectors WHERE seq = 1"))
    assert [at for at, value in enumerate(vectors[4:]) if value] == [7]


@pytest.mark.parametrize("step", ["words", "tokens"])
def test_words_and_tokens_are_not_stored_for_a_conversation_that_was_replaced(
    open_memory: OpenMemory, tmp_path: Path, step: str
) -> None:
    memory, other = (open_for_topics(open_memory) for _ in range(2))
    add_message(memory, 1, "how it all began")
    memory.drain()
    memory.backup(tmp_path / "before.backup")
    add_message(memory, 1, "all of zanzibar and its many islands and all that is said of them")

    def restore() -> None:
        other.restore(tmp_path / "before.backup")
        add_message(other, 1, "a giraffe")
        if step == "words":
            other.drain()

    if step == "words":
        happened = after_reading(store_of(memory).index, restore)
        memory.rebuild()
    else:
        happened = run_before(store_of(memory).index, "save_tokens", restore)
    memory.drain()
    assert happened
    assert [hit.text for hit in memory.recall("giraffe")][:1] == ["#1 a giraffe"]
    assert not [hit for hit in memory.recall("zanzibar") if hit.why.get("bm25")]
    said = [{"role": message.role, "content": message.content} for message in memory.history("trip")]
    assert memory.stats()["tokens"] == count_tokens_for_messages(said)


def after_reading(index: Any, act: Callable[[], object]) -> list[str]:
    """Let `act` run once, after a page of messages was read to make words of them. The list is filled then."""
    original, happened = index._read, list[str]()

    async def read(function: Any) -> Any:
        rows = await original(function)
        if not happened:
            happened.append("page")
            await asyncio.to_thread(act)
        return rows

    index._read = read
    return happened


def test_a_summary_of_many_messages_that_was_interrupted_is_finished(open_memory: OpenMemory) -> None:
    memory, other = (open_for_topics(open_memory, **SMALL_TOPICS, topic_summary_token_cap=4000) for _ in range(2))
    add_turns(memory, 9)
    ids = [add_message(memory, 1, f"remark number {n} of this matter") for n in range(100)]
    add_message(memory, 1, "the code word of the tower is Tulip88")
    add_turns(memory, 1, 4, first=90)
    memory.drain()
    topic = topic_of_marker(memory, 1).id
    memory.erase(message=ids[4])  # so that all of it is summarised again, in two steps
    original, saved = store_of(memory).topics.save_summary, list[int]()

    async def save_summary(*args: Any, **options: Any) -> bool:
        saved.append(options["through"])
        if len(saved) == 2:
            await asyncio.to_thread(lambda: other.pin_topic(topic))
        return bool(await original(*args, **options))

    store_of(memory).topics.save_summary = save_summary
    memory.drain()
    memory.drain()
    assert len(saved) > 2
    assert saved[0] < 0 < saved[-1]
    assert "Tulip88" in (memory.topic(topic).summary or "")
    count = len(saved)
    add_message(memory, 9)
    memory.drain()
    assert len(saved) == count, "the summary is written again and again"
