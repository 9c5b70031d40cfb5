"""Talk whose topics are known beforehand: a marker like #7 in a text says which way its vector points."""

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

Open = Callable[..., Memory]
SMALL = {"max_messages_per_topic": 4, "recent_message_keep": 2}
_MARKER = re.compile(r"#(\d+)")


class Directions:
    """Each marker is a direction, at right angles to all others; a text with several points between them.

    "#1 #1 #2" has a cosine of 0.89 to #1 and of 0.45 to #2. What has no marker has a direction of its own.
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


def opened(open_memory: Open, *, dimensions: int = 64, **options: Any) -> Memory:
    """A memory whose settings are those named, and no others that matter to topics."""
    names = Settings.model_fields.keys() & options.keys()
    given = Settings(**{name: options.pop(name) for name in names})
    return open_memory(settings=given, **{"embedder": Directions(dimensions)} | options)


def say(memory: Memory, marker: int, text: str = "let us talk about this", *, to: str = "trip", **more: Any) -> str:
    """A user's message on a topic; returns its id."""
    return memory.add(to, "user", f"#{marker} {text}", **more).id


def chat(memory: Memory, marker: int, turns: int = 1, *, to: str = "trip", first: int = 1) -> list[str]:
    """Questions and answers on a topic; returns the ids."""
    found = []
    for n in range(first, first + turns):
        found.append(say(memory, marker, f"question number {n} of this matter", to=to))
        found.append(memory.add(to, "assistant", f"#{marker} answer number {n} to that").id)
    return found


def topic_of(memory: Memory, marker: int, *, to: str = "trip") -> Topic:
    """The topic that a marker opened."""
    (found,) = [one for one in memory.topics(to) if one.title.startswith(f"#{marker} ")]
    return found


def two(memory: Memory) -> tuple[str, str]:
    """Two topics; the second is active."""
    chat(memory, 1, 2)
    chat(memory, 2, 2)
    memory.drain()
    return topic_of(memory, 1).id, topic_of(memory, 2).id


def states(memory: Memory, to: str = "trip") -> dict[str, str]:
    """By the marker that opened each topic."""
    return {one.title.split()[0].removeprefix("#"): one.state for one in memory.topics(to)}


def members(memory: Memory, to: str = "trip") -> dict[str, list[str]]:
    """The messages of each topic, by its id."""
    return {one.id: [m.id for m in memory.topic_history(to, topic=one.id)] for one in memory.topics(to)}


def adds_up(memory: Memory, to: str = "trip") -> None:
    """Every message belongs to one topic, and the counts say so."""
    found = members(memory, to)
    assert sorted(one for ids in found.values() for one in ids) == sorted(m.id for m in memory.history(to))
    for topic in memory.topics(to):
        assert topic.messages == len(found[topic.id]) == topic.active_messages + topic.archived_messages


def texts_at_hand(location: str) -> set[str]:
    return {text for (text,) in ask(location, "SELECT content FROM texts")}


def lasting(topic: Topic) -> dict[str, Any]:
    """What a rebuild makes again."""
    names = ("id", "title", "tags", "pinned", "importance", "access_count", "messages", "merged", "created_at")
    return {name: value for name, value in topic.to_dict().items() if name in names}


def enough_on_sqlite(location: str, full_count: bool) -> None:
    """What the database has no part in runs on the other one in the long lane alone."""
    if location.startswith("postgresql") and not full_count:
        pytest.skip("in the long lane")
