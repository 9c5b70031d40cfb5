"""The rules of topics: how they age, how feedback changes their importance, and how merged topics are put together.

A topic's priority halves with every half-life since it was last spoken of. The half-life doubles with every five
accesses, from a day up to a month. Below `FADED_PRIORITY` a topic may go cold: its messages go into the archive until
it is spoken of again. Nothing is lost. Which message belongs to which topic is decided in `recollect.topics`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from recollect.core import times
from recollect.core.models import Record

FADED_PRIORITY: Final = 0.05  # below it a topic may go cold
MAX_TITLE_CHARACTERS: Final = 80
DEFAULT_IMPORTANCE: Final = 1.0
MIN_IMPORTANCE: Final = 0.05  # feedback alone lowers importance no further
# The points of one piece of feedback, by its kind. Two thumbs down halve the importance of a topic.
FEEDBACK_WEIGHTS: Final[Mapping[str, float]] = {"thumb": 1.0, "used": 0.5, "edited": 0.5, "deleted": 1.0}
_POINTS_PER_DOUBLING: Final = 2.0
_MAX_DOUBLINGS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Aging:
    """The settings by which topics fade. So many accesses double the half-life, up to its maximum."""

    base_half_life: timedelta = timedelta(days=1)
    max_half_life: timedelta = timedelta(days=30)
    accesses_per_doubling: int = 5

    def half_life(self, accesses: int) -> timedelta:
        """Return the half-life of a topic with so many accesses."""
        base, maximum = self.base_half_life.total_seconds(), self.max_half_life.total_seconds()
        doubled = base * 2.0 ** min(accesses // self.accesses_per_doubling, 60)
        return timedelta(seconds=max(base, min(doubled, maximum)))

    def memory_type(self, accesses: int) -> str:
        """Return "short", "medium" after one doubling of the half-life, or "long" after two."""
        return ("short", "medium", "long")[min(accesses // self.accesses_per_doubling, 2)]


def priority(importance: float, age: timedelta, half_life: timedelta) -> float:
    """Return the priority of a topic that was last spoken of `age` ago.

    An age below zero counts as zero: a clock may have been set back.
    """
    return importance * math.exp2(-max(0.0, age / half_life))


def time_until_faded(importance: float, half_life: timedelta, level: float = FADED_PRIORITY) -> timedelta:
    """Return how long after its last mention a topic falls below the level: 4.32 half-lives at importance 1."""
    return half_life * max(0.0, math.log2(importance / level)) if importance > 0 else timedelta(0)


def importance_with_feedback(importance: float | None, score: float) -> float:
    """Return the importance after feedback of `score` points. Two points double or halve it, up to 1.

    None stands for `DEFAULT_IMPORTANCE`.
    """
    base = DEFAULT_IMPORTANCE if importance is None else importance
    if not score:
        return base
    doublings = max(-_MAX_DOUBLINGS, min(score / _POINTS_PER_DOUBLING, _MAX_DOUBLINGS))
    return max(min(base, MIN_IMPORTANCE), min(1.0, base * math.exp2(doublings)))


@dataclass(frozen=True, slots=True)
class Topic(Record):
    """A subject of a conversation, at the moment when it was read.

    `state` is active (spoken of now), warm, archived (its older messages are in the archive) or cold (it faded and left
    the active list until it is spoken of again). `fades_at` is when the priority falls below 0.05 if it is not spoken
    of before. `merged` names the topics that were merged into it.
    """

    id: str
    conversation: str
    title: str
    summary: str | None
    tags: tuple[str, ...]
    importance: float
    access_count: int
    half_life_days: float
    priority: float
    memory_type: str
    state: str
    pinned: bool
    messages: int
    active_messages: int
    archived_messages: int
    created_at: datetime
    last_active_at: datetime
    fades_at: datetime
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicStats(Record):
    """Statistics of a topic. Callers of the topics API know the fields by these names."""

    topic_id: str
    topic_title: str
    active_messages: int
    compressed_messages: int
    total_messages: int
    has_summary: bool
    importance_score: float
    access_count: int
    memory_type: str
    half_life_days: float
    age_seconds: float
    inactive_seconds: float


@dataclass(frozen=True, slots=True)
class TopicHit(Record):
    """A topic that a search found, with those of its messages that match."""

    topic: Topic
    score: float
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelatedTopics(Record):
    """Two topics so similar that `topic` could be merged into `into`."""

    into: Topic
    topic: Topic
    similarity: float


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """The stored rows of a topic: its own (`root`), and those of the topics that were merged into it."""

    root: Mapping[str, Any]
    merged: Sequence[Mapping[str, Any]] = ()

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """Return all rows, the root first."""
        return [self.root, *self.merged]

    @property
    def keys(self) -> list[int]:
        """Return the database keys of all rows."""
        return [row["key"] for row in self.rows]

    def total(self, column: str) -> int:
        """Return the sum of a column over all rows."""
        return sum(int(row[column]) for row in self.rows)

    @property
    def unarchived(self) -> int:
        """Return the number of messages that are not archived."""
        return self.total("messages") - self.total("archived")

    @property
    def active_at(self) -> int:
        """Return when the topic was last spoken of, in microseconds."""
        return int(max(row["active_at"] for row in self.rows))

    @property
    def awaits_assignment(self) -> bool:
        """Return whether a rebuild kept the topic and has not assigned its messages again yet."""
        return any(row["waits"] for row in self.rows)

    @property
    def accesses(self) -> int:
        """Return how often the topic was spoken of or praised."""
        return self.total("accesses") + self.total("praise")

    @property
    def pinned(self) -> bool:
        """Return whether the user pinned the topic, so that it never goes cold."""
        return bool(self.root["pinned"])

    @property
    def importance(self) -> float:
        """Return the importance with the feedback on all parts of the topic."""
        score = sum(row["score"] for row in self.rows) - FEEDBACK_WEIGHTS["deleted"] * self.total("deletions")
        return importance_with_feedback(self.root["importance"], score)

    def priority(self, now: int, aging: Aging) -> float:
        """Return the priority at `now`, a moment in microseconds."""
        age = timedelta(microseconds=now - self.active_at)
        return priority(self.importance, age, aging.half_life(self.accesses))


def group_rows(rows: Sequence[Mapping[str, Any]]) -> list[TopicGroup]:
    """Group rows of topics under the topics that they were merged into, in the order of the roots.

    Chains of merges count. A topic that was merged into a missing one is a root.
    """
    by_key = {row["key"]: row for row in rows}

    def root_key(row: Mapping[str, Any]) -> int:
        seen = set()  # ends a circle of merges
        while row["merged_into"] in by_key and row["key"] not in seen:
            seen.add(row["key"])
            row = by_key[row["merged_into"]]
        return int(row["key"])

    members: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        members.setdefault(root_key(row), []).append(row)
    roots = [row for row in rows if row["key"] in members]
    return [TopicGroup(root, [row for row in members[root["key"]] if row is not root]) for root in roots]


def to_topic(
    group: TopicGroup, conversation: str, *, summary: str, active: int | None, now: datetime, aging: Aging
) -> Topic:
    """Return the topic of a group of rows. `active` is the key of the conversation's active topic.

    `summary` is the narrative of all parts of the topic; an empty text becomes None.
    """
    root, accesses, importance = group.root, group.accesses, group.importance
    half_life = aging.half_life(accesses)
    last = times.from_micros(group.active_at)
    is_active, total, archived = active in group.keys, group.total("messages"), group.total("archived")
    if root["restored"]:
        archived = 0
    state = "cold" if root["cold"] else "active" if is_active else "archived" if archived else "warm"
    return Topic(
        id=root["id"],
        conversation=conversation,
        title=root["title"],
        summary=summary or None,
        tags=tuple(dict.fromkeys(json.loads(root["tags"]))),
        importance=importance,
        access_count=accesses,
        half_life_days=half_life / timedelta(days=1),
        priority=group.priority(times.to_micros(now), aging),
        memory_type=aging.memory_type(accesses),
        state=state,
        pinned=group.pinned,
        messages=total,
        active_messages=total - archived,
        archived_messages=archived,
        created_at=times.from_micros(min(row["created_at"] for row in group.rows)),
        last_active_at=last,
        fades_at=last + time_until_faded(importance, half_life),
        merged=tuple(row["id"] for row in group.merged),
    )


def to_stats(topic: Topic, now: datetime) -> TopicStats:
    """Return the statistics of a topic at `now`. Ages are never below zero."""
    return TopicStats(
        topic_id=topic.id,
        topic_title=topic.title,
        active_messages=topic.active_messages,
        compressed_messages=topic.archived_messages,
        total_messages=topic.messages,
        has_summary=topic.summary is not None,
        importance_score=topic.importance,
        access_count=topic.access_count,
        memory_type=topic.memory_type,
        half_life_days=topic.half_life_days,
        age_seconds=max(0.0, (now - topic.created_at).total_seconds()),
        inactive_seconds=max(0.0, (now - topic.last_active_at).total_seconds()),
    )


def decay_curve(topic: Topic, *, days: float | None = None, points: int = 60) -> list[tuple[datetime, float]]:
    """Return moments and the priority at each, from the last mention of the topic on, if there is no other.

    The curve covers `days` days, or without them ends a little after the topic has faded.
    """
    half_life = timedelta(days=topic.half_life_days)
    span = timedelta(days=days) if days is not None else max(topic.fades_at - topic.last_active_at, half_life) * 1.25
    ages = [span * step / max(points - 1, 1) for step in range(points)]
    return [(topic.last_active_at + age, priority(topic.importance, age, half_life)) for age in ages]


def make_title(text: str) -> str:
    """Return a topic's title: the first characters of its opening message, on one line. A blank text gives "…"."""
    return " ".join(text.split())[:MAX_TITLE_CHARACTERS].rstrip() or "…"
