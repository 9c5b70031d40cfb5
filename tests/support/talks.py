"""Builds conversations whose topics are known beforehand: a marker like #7 in a text decides its vector."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recollect import Memory
from recollect.core.topics import Topic
from recollect.settings import Settings
from support.tables import ask

OpenMemory = Callable[..., Memory]
SMALL_TOPICS = {"max_messages_per_topic": 4, "recent_message_keep": 2}
_MARKER = re.compile(r"#(\d+)")


class MarkerEmbedder:
    """An embedder for texts with markers. Each marker is a direction at right angles to all others.

    The vector of "#1 #1 #2" lies between two: it has a cosine of 0.89 to #1 and of 0.45 to #2. A text without a
    marker has the direction of #0.
    """

    def __init__(self, dimensions: int = 64, name: str = "directions") -> None:
        self.name, self.dimensions = f"{name}-{dimensions}", dimensions
        self.failure: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.failure is not None:
            raise self.failure
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for marker in _MARKER.findall(text) or ["0"]:
            vector[int(marker) % self.dimensions] += 1.0
        length = math.sqrt(sum(x * x for x in vector))
        return [x / length for x in vector]


def open_for_topics(open_memory: OpenMemory, *, dimensions: int = 64, **options: Any) -> Memory:
    """Open a memory with the marker embedder. Options that are settings are set; all others go to the memory."""
    names = Settings.model_fields.keys() & options.keys()
    settings = Settings(**{name: options.pop(name) for name in names})
    return open_memory(settings=settings, **{"embedder": MarkerEmbedder(dimensions)} | options)


def add_message(
    memory: Memory, marker: int, text: str = "let us talk about this", *, to: str = "trip", **more: Any
) -> str:
    """Add a user's message with a marker. Return its id."""
    return memory.add(to, "user", f"#{marker} {text}", **more).id


def add_turns(memory: Memory, marker: int, turns: int = 1, *, to: str = "trip", first: int = 1) -> list[str]:
    """Add questions and answers with a marker. Return the ids of the messages."""
    ids = []
    for n in range(first, first + turns):
        ids.append(add_message(memory, marker, f"question number {n} of this matter", to=to))
        ids.append(memory.add(to, "assistant", f"#{marker} answer number {n} to that").id)
    return ids


def topic_of_marker(memory: Memory, marker: int, *, to: str = "trip") -> Topic:
    """Return the topic whose first message has the marker."""
    (topic,) = [each for each in memory.topics(to) if each.title.startswith(f"#{marker} ")]
    return topic


def add_two_topics(memory: Memory) -> tuple[str, str]:
    """Add two topics and return their ids. The second is active."""
    add_turns(memory, 1, 2)
    add_turns(memory, 2, 2)
    memory.drain()
    return topic_of_marker(memory, 1).id, topic_of_marker(memory, 2).id


def states_by_marker(memory: Memory, to: str = "trip") -> dict[str, str]:
    """Return the state of each topic, by the marker of its first message."""
    return {topic.title.split()[0].removeprefix("#"): topic.state for topic in memory.topics(to)}


def message_ids_by_topic(memory: Memory, to: str = "trip") -> dict[str, list[str]]:
    """Return the ids of each topic's messages, by the id of the topic."""
    return {topic.id: [m.id for m in memory.topic_history(to, topic=topic.id)] for topic in memory.topics(to)}


def check_assignment(memory: Memory, to: str = "trip") -> None:
    """Assert that every message but the system's is in exactly one topic, and that the counts agree."""
    ids_by_topic = message_ids_by_topic(memory, to)
    spoken = sorted(message.id for message in memory.history(to) if message.role != "system")
    assert sorted(each for ids in ids_by_topic.values() for each in ids) == spoken
    for topic in memory.topics(to):
        assert topic.messages == len(ids_by_topic[topic.id]) == topic.active_messages + topic.archived_messages


def unarchived_texts(location: str) -> set[str]:
    return {text for (text,) in ask(location, "SELECT content FROM texts")}


def fields_after_rebuild(topic: Topic) -> dict[str, Any]:
    """Return the fields of a topic that are the same after a rebuild."""
    names = ("id", "title", "tags", "pinned", "importance", "access_count", "messages", "merged", "created_at")
    return {name: value for name, value in topic.to_dict().items() if name in names}


def skip_on_postgres_unless_full(location: str, full_count: bool) -> None:
    """Skip a test on PostgreSQL, except in the long lane: the database has no part in what it checks."""
    if location.startswith("postgresql") and not full_count:
        pytest.skip("in the long lane")
