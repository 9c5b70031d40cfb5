"""What a topic is and how it ages (document C): use makes it last, silence lets it fade, and nothing is lost.

Its priority halves with every half-life since it was last spoken of; the half-life doubles with every five accesses,
from a day up to a month. Below `FAINT` a topic may leave those that count, into the archive, until it is spoken of
again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from recollect.core import archive, times
from recollect.core.compression.narrative import Statement, narrative
from recollect.core.models import Record

FAINT: Final = 0.05  # priority below which a topic may leave
TITLE_LENGTH: Final = 80
IMPORTANCE: Final = 1.0  # of a topic of which nobody said otherwise
LEAST: Final = 0.05  # importance that feedback leaves
# How much a kind of feedback says of the topic: two thumbs down halve its importance.
FEEDBACK: Final[Mapping[str, float]] = {"thumb": 1.0, "used": 0.5, "edited": 0.5, "deleted": 1.0}
_DOUBLING: Final = 2.0
_MOST: Final = 20.0  # doublings


@dataclass(frozen=True, slots=True)
class Aging:
    """How fast topics fade: the half-life of a new one, the longest there is, and the accesses that double it."""

    base: timedelta = timedelta(days=1)
    most: timedelta = timedelta(days=30)
    step: int = 5

    def half_life(self, accesses: int) -> timedelta:
        doubled = self.base.total_seconds() * 2.0 ** min(accesses // self.step, 60)
        return timedelta(seconds=max(self.base.total_seconds(), min(doubled, self.most.total_seconds())))

    def memory_type(self, accesses: int) -> str:
        """short, medium (on its way) or long."""
        return ("short", "medium", "long")[min(accesses // self.step, 2)]


def priority(importance: float, age: timedelta, half_life: timedelta) -> float:
    """A moment in the future (a clock was set back) counts as now."""
    return importance * math.exp2(-max(0.0, age / half_life))


def fades_after(importance: float, half_life: timedelta, level: float = FAINT) -> timedelta:
    """How long after it was last spoken of a topic falls below the level: 4.32 half-lives at importance 1."""
    return half_life * max(0.0, math.log2(importance / level)) if importance > 0 else timedelta(0)


def learned(given: float | None, score: float) -> float:
    """Importance with what feedback says: each two points double or halve it, up to 1."""
    base = IMPORTANCE if given is None else given
    if not score:
        return base
    doublings = max(-_MOST, min(score / _DOUBLING, _MOST))
    return max(min(base, LEAST), min(1.0, base * math.exp2(doublings)))


@dataclass(frozen=True, slots=True)
class Topic(Record):
    """What a conversation speaks of, again and again.

    `state` is active (spoken of now), warm, archived (older messages rest in the archive) or cold (it faded and left,
    until it is spoken of again). `priority` and `state` are those of the moment it was read; `fades_at` is when the
    priority falls below 0.05 if nobody speaks of it. `merged` names the topics that were merged into it.
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
    """Document C's statistics of a topic, under its own names."""

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
    """A topic that a search found, and the messages of it that did."""

    topic: Topic
    score: float
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Related(Record):
    """Two topics that may be one."""

    into: Topic
    topic: Topic
    similarity: float


@dataclass(frozen=True, slots=True)
class Group:
    """The stored rows of a topic: its own, and those of topics that were merged into it."""

    root: Mapping[str, Any]
    merged: Sequence[Mapping[str, Any]] = ()

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [self.root, *self.merged]

    @property
    def keys(self) -> list[int]:
        return [row["key"] for row in self.rows]

    def total(self, column: str) -> int:
        return sum(int(row[column]) for row in self.rows)

    @property
    def hot(self) -> int:
        """Messages outside the archive."""
        return self.total("messages") - self.total("archived")

    @property
    def active_at(self) -> int:
        return int(max(row["active_at"] for row in self.rows))

    @property
    def waits(self) -> bool:
        """Whether it was kept by a rebuild, and its messages are not placed again yet."""
        return any(row["waits"] for row in self.rows)

    @property
    def accesses(self) -> int:
        return self.total("accesses") + self.total("praise")

    @property
    def pinned(self) -> bool:
        return bool(self.root["pinned"])

    @property
    def importance(self) -> float:
        score = sum(row["score"] for row in self.rows) - FEEDBACK["deleted"] * self.total("deletions")
        return learned(self.root["importance"], score)

    def priority(self, now: int, aging: Aging) -> float:
        age = timedelta(microseconds=now - self.active_at)
        return priority(self.importance, age, aging.half_life(self.accesses))


def grouped(rows: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Topics with what was merged into them (also into something that was itself merged), in the order given."""
    by_key = {row["key"]: row for row in rows}

    def root(row: Mapping[str, Any]) -> int:
        seen = set()
        while row["merged_into"] in by_key and row["key"] not in seen:
            seen.add(row["key"])
            row = by_key[row["merged_into"]]
        return int(row["key"])

    parts: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        parts.setdefault(root(row), []).append(row)
    return [Group(row, [one for one in parts[row["key"]] if one is not row]) for row in rows if row["key"] in parts]


def to_topic(group: Group, conversation: str, *, active: int | None, now: datetime, aging: Aging) -> Topic:
    root, accesses, importance = group.root, group.accesses, group.importance
    half_life = aging.half_life(accesses)
    last = times.from_micros(group.active_at)
    is_active, total, archived = active in group.keys, group.total("messages"), group.total("archived")
    if root["restored"]:
        archived = 0
    state = "cold" if root["cold"] else "active" if is_active else "archived" if archived else "warm"
    summary = narrative(group_statements(group))
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
        fades_at=last + fades_after(importance, half_life),
        merged=tuple(row["id"] for row in group.merged),
    )


def stats_of(topic: Topic, now: datetime) -> TopicStats:
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
    """Moments and the priority a topic will have had at each, from when it was last spoken of, if nobody does again.

    Without `days` the curve ends a little after the topic has faded.
    """
    half_life = timedelta(days=topic.half_life_days)
    span = timedelta(days=days) if days is not None else max(topic.fades_at - topic.last_active_at, half_life) * 1.25
    ages = [span * step / max(points - 1, 1) for step in range(points)]
    return [(topic.last_active_at + age, priority(topic.importance, age, half_life)) for age in ages]


def title_of(text: str) -> str:
    """The first 80 characters of what opened it, on one line."""
    return " ".join(text.split())[:TITLE_LENGTH].rstrip() or "…"


def to_stored(statements: Sequence[Statement]) -> bytes:
    """Packed like messages in the archive: small topics are many."""
    rows = [[one.text, list(one.sources), times.to_micros(one.at), round(one.weight, 4)] for one in statements]
    return archive.encode([json.dumps(rows, ensure_ascii=False, separators=(",", ":"))], archive.shipped())


def from_stored(packed: bytes | None) -> list[Statement]:
    """What cannot be read is told anew at the next fold."""
    try:
        rows = json.loads(archive.decode(packed, lambda _: archive.shipped())[0]) if packed else []
        return [
            Statement(str(told), tuple(map(str, sources)), times.from_micros(int(at)), float(weight))
            for told, sources, at, weight in rows
        ]
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError):
        return []


def group_statements(group: Group) -> list[Statement]:
    """What is told of a topic, in the order of time."""
    return sorted((one for row in group.rows for one in from_stored(row["summary"])), key=lambda one: one.at)
