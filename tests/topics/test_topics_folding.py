"""Topics fold into the archive, get a summary, and come back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.storage.topic_summary import unpack_statements
from recollect.testing import FakeClock
from support.tables import ask
from support.talks import (
    SMALL_TOPICS,
    OpenMemory,
    add_message,
    add_turns,
    check_assignment,
    open_for_topics,
    topic_of_marker,
    unarchived_texts,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def memory(open_memory: OpenMemory) -> Memory:
    return open_for_topics(open_memory)


def test_above_12_messages_all_but_the_last_4_are_archived(memory: Memory, location: str) -> None:
    """The conversation's first user message is not archived either: it gives the title."""
    add_message(memory, 9, "this is how it all began")
    add_turns(memory, 1, 6)
    memory.drain()
    assert (topic_of_marker(memory, 1).archived_messages, topic_of_marker(memory, 1).summary) == (0, None)
    add_message(memory, 1, "the thirteenth message it is")
    memory.drain()
    topic = topic_of_marker(memory, 1)
    assert (topic.messages, topic.archived_messages, topic.active_messages) == (13, 9, 4)
    said = [m.content for m in memory.history("trip")]
    assert unarchived_texts(location) == {said[0], *said[-4:]}
    check_assignment(memory)


def test_the_first_message_of_a_conversation_is_not_archived(memory: Memory, location: str) -> None:
    add_turns(memory, 1, 8)
    memory.drain()
    said = [m.content for m in memory.history("trip")]
    assert unarchived_texts(location) == {said[0], *said[-4:]}
    assert topic_of_marker(memory, 1).archived_messages == 11
    (conversation,) = memory.conversations()
    assert conversation.title.startswith("#1 question number 1")


def test_folding_again_extends_the_archive_and_the_summary(open_memory: OpenMemory, location: str) -> None:
    memory = open_for_topics(open_memory, topic_summary_token_cap=400)
    facts = (
        "My piano teacher is called Ingrid.",
        "I live in Lisbon with two cats.",
        "We must not spend over 900 euros.",
    )
    summaries = []
    for number, fact in enumerate(facts):
        add_message(memory, 1, fact)
        add_turns(memory, 1, 7, first=10 * number)
        memory.drain()
        topic = topic_of_marker(memory, 1)
        assert topic.summary is not None
        summaries.append(topic.summary)
        assert topic.messages - topic.archived_messages == 5
    for number, word in enumerate(("Lisbon", "900")):
        assert word not in summaries[number]
        assert word in summaries[number + 1]
    said = [m.content for m in memory.history("trip")]
    assert unarchived_texts(location) == {said[0], *said[-4:]}
    assert [m.content for m in memory.topic_history("trip")] == said
    assert ask(location, "SELECT count(*) FROM archived") == [(len(said) - 5,)]


def test_a_summary_covers_archived_messages_and_names_its_sources(memory: Memory, location: str) -> None:
    add_message(memory, 9, "this is how it all began")
    add_message(memory, 1, "My piano teacher is called Ingrid and lives in Oslo.", id="fact")
    add_turns(memory, 1, 8)
    memory.drain()
    topic = topic_of_marker(memory, 1)
    assert topic.summary is not None
    assert "Ingrid" in topic.summary
    ((stored,),) = ask(location, "SELECT summary FROM topics WHERE summary IS NOT NULL")
    sources = {source for statement in unpack_statements(bytes(stored)) for source in statement.sources}
    known = {m.id for m in memory.history("trip")}
    assert "fact" in sources
    assert sources <= known


def test_archived_messages_read_the_same_everywhere(open_memory: OpenMemory, tmp_path: Path, location: str) -> None:
    """Two people have the same messages; nothing of one of them is archived."""
    whole = open_for_topics(open_memory, person="whole", max_messages_per_topic=1000)
    folded = open_for_topics(open_memory, person="folded")
    for memory in (whole, folded):
        for n in range(20):
            text = f"#1 message {n} tells of marmalade{n} café ☕ \u202eright to left\r\n\ttab"
            memory.add("trip", "user" if n % 2 == 0 else "assistant", text, id=f"m{n}")
        memory.drain()
    archived = topic_of_marker(folded, 1).archived_messages
    assert (archived, topic_of_marker(whole, 1).archived_messages) == (15, 0)
    assert ask(location, "SELECT count(*) FROM texts") == [(25,)]
    assert folded.history("trip") == whole.history("trip")
    assert folded.history("trip", before=9, limit=3) == whole.history("trip", before=9, limit=3)
    assert folded.topic_history("trip") == whole.topic_history("trip")

    def hits(memory: Memory, query: str) -> list[tuple[str | None, str, float]]:
        return [(hit.message_id, hit.text, hit.score) for hit in memory.recall(query)]

    for query in ("marmalade3", "marmalade7 café", "tells of right to left"):
        assert hits(folded, query) == hits(whole, query)
        tails = [memory.context("trip", query).messages[1:] for memory in (folded, whole)]  # without the summary
        assert tails[0] == tails[1]
    assert hits(folded, "marmalade3")[0][0] == "m3"
    files = [tmp_path / "whole.ndjson", tmp_path / "folded.ndjson"]
    for memory, file in zip((whole, folded), files, strict=True):
        memory.export(file)
    lines = [[line for line in file.read_bytes().splitlines() if b'"content"' in line] for file in files]
    assert len(lines[0]) == 20
    assert lines[0] == lines[1]


def test_the_history_without_the_archive_is_all_that_is_not_archived(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_message(memory, 9, "this is how it all began")
    ids = add_turns(memory, 1, 4)
    memory.drain()

    def seen(**asked: Any) -> list[str]:
        return [m.id for m in memory.topic_history("trip", **asked)]

    assert seen(include_archived=False) == ids[-2:]
    assert seen() == ids
    add_message(memory, 2)
    memory.drain()
    assert seen(topic=topic_of_marker(memory, 1).id, include_archived=False) == ids[-2:]
    more = add_turns(memory, 1, 1)
    memory.drain()
    assert seen(include_archived=False) == ids + more


def test_an_archived_topic_is_back_for_as_long_as_it_is_the_active_one(open_memory: OpenMemory, location: str) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    add_message(memory, 9, "this is how it all began")
    add_turns(memory, 1, 4)
    add_message(memory, 2)
    memory.drain()
    assert (topic_of_marker(memory, 1).state, topic_of_marker(memory, 1).archived_messages) == ("archived", 6)
    for n in range(6):  # more than enough to fold, were it not back
        add_turns(memory, 1, 1, first=5 + n)
        memory.drain()
        topic = topic_of_marker(memory, 1)
        assert (topic.state, topic.archived_messages, topic.active_messages) == ("active", 0, 10 + 2 * n)
        assert len([text for text in unarchived_texts(location) if text.startswith("#1")]) == 4 + 2 * n
        talk = memory.topic_context("trip")
        assert [each["content"] for each in talk] == [m.content for m in memory.topic_history("trip")]
    add_message(memory, 2)
    memory.drain()
    topic = topic_of_marker(memory, 1)
    assert (topic.state, topic.messages, topic.archived_messages) == ("archived", 20, 18)
    assert len([text for text in unarchived_texts(location) if text.startswith("#1")]) == 2
    check_assignment(memory)


def test_the_context_of_a_topic_has_its_summary_and_its_messages(open_memory: OpenMemory) -> None:
    memory = open_for_topics(open_memory, **SMALL_TOPICS)
    assert memory.topic_context("trip") == []
    add_message(memory, 9, "this is how it all began")
    add_message(memory, 1, "My piano teacher is called Ingrid.")
    memory.add("trip", "assistant", "#1 what a nice name")
    memory.drain()
    warm = memory.topic_context("trip")
    assert warm == [
        {"role": "user", "content": "#1 My piano teacher is called Ingrid."},
        {"role": "assistant", "content": "#1 what a nice name"},
    ]
    add_turns(memory, 1, 3)
    memory.drain()
    for asked in ({}, {"topic": topic_of_marker(memory, 1).id}):
        first, *rest = memory.topic_context("trip", **asked)
        assert first["role"] == "user"
        assert "Ingrid" in first["content"]
        assert [each["content"] for each in rest] == [m.content for m in memory.history("trip")[-2:]]
    add_turns(memory, 2, 1)
    memory.drain()
    assert len(memory.topic_context("trip")) == 2
    assert len(memory.topic_context("trip", topic=topic_of_marker(memory, 1).id)) == 3
    add_message(memory, 1)
    memory.drain()
    assert len(memory.topic_context("trip")) == 9


def test_statistics_have_the_documented_fields(memory: Memory, clock: FakeClock) -> None:
    assert memory.topic_stats("trip") is None
    add_message(memory, 9, "this is how it all began")
    memory.drain()
    add_turns(memory, 1, 8)
    clock.advance(2 * HOUR)
    memory.drain()
    topic, stats = topic_of_marker(memory, 1), memory.topic_stats("trip")
    assert stats is not None
    assert stats.to_dict() == {
        "topic_id": topic.id, "topic_title": "#1 question number 1 of this matter", "active_messages": 4,
        "compressed_messages": 12, "total_messages": 16, "has_summary": True, "importance_score": 1.0,
        "access_count": 7, "memory_type": "medium", "half_life_days": 2.0, "age_seconds": 7200.0,
        "inactive_seconds": 7200.0,
    }  # fmt: skip
    other = memory.topic_stats("trip", topic=topic_of_marker(memory, 9).id)
    assert other is not None
    assert (other.total_messages, other.has_summary) == (1, False)


def test_a_cold_topic_is_archived_whole_and_comes_back_whole(
    open_memory: OpenMemory, clock: FakeClock, location: str
) -> None:
    memory = open_for_topics(open_memory, max_topics=1)
    add_message(memory, 9, "this is how it all began")
    ids = add_turns(memory, 1, 3)
    add_message(memory, 2)
    memory.drain()
    clock.advance(6 * DAY)
    memory.drain()
    topic = topic_of_marker(memory, 1)
    assert (topic.state, topic.archived_messages) == ("cold", 6)
    assert topic.summary
    assert not [text for text in unarchived_texts(location) if text.startswith("#1")]
    assert memory.recall("question number 2")[0].message_id == ids[2]
    add_message(memory, 1)
    memory.drain()
    back = topic_of_marker(memory, 1)
    assert (back.id, back.state, back.archived_messages, back.priority) == (topic.id, "active", 0, 1.0)
    assert [message["content"] for message in memory.topic_context("trip")][:6] == [
        m.content for m in memory.history("trip")[1:7]
    ]


def test_a_decay_curve_is_that_of_the_topic(memory: Memory) -> None:
    add_message(memory, 1, importance=0.5)
    memory.drain()
    topic = topic_of_marker(memory, 1)
    curve = memory.topic_decay(topic.id, days=2, points=3)
    assert curve == [(topic.last_active_at + n * DAY, 0.5 ** (n + 1)) for n in range(3)]
    assert len(memory.topic_decay(topic.id)) == 60
