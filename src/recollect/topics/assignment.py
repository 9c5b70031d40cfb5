"""Placing messages into topics, in the order of the log, by the vectors that recall has of them anyway.

While the embedder is away messages wait; they are placed when their vectors are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from recollect.core import times, topics
from recollect.core.language import analyser
from recollect.core.models import Principal
from recollect.core.protocols import Clock
from recollect.core.topics import Group
from recollect.jobs.worker import Interrupted, Work
from recollect.settings import Settings
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore
from recollect.storage.topics import Placement, Slice, Standing, Touched

if TYPE_CHECKING:
    from recollect.topics.matcher import Floats, Matcher, Placed, Rules

COUNTED: Final = 400  # characters of a message in which words are counted
PROPOSED: Final = 20  # pairs of topics that may be one


class PlaceMessages:
    """The chore. Nothing is placed twice: the cursor moves with what is stored."""

    name = "topics"

    def __init__(self, store: SqlStore, clock: Clock, *, settings: Callable[[Principal], Settings]) -> None:
        self._store, self._clock, self._settings = store, clock, settings

    async def do(self, work: Work) -> int:
        found = await self._store.topics.slice(
            work.principal, work.conversation, after=work.after, through=work.through
        )
        if found is None or found.standing.embedder is None:
            return 0  # placed by another process meanwhile
        centroids = await self._centroids(work.principal, found)
        now = times.to_micros(self._clock.now())
        placing = await asyncio.to_thread(_Placing, found, self._rules(work.principal, found.standing), centroids, now)
        made = placing.placement(work.through)
        if not await self._store.topics.save_placed(work.principal, found.standing, made):
            raise Interrupted  # somebody changed the topics meanwhile
        return len(found.messages)

    async def related(
        self, principal: Principal, conversation: str
    ) -> list[tuple[tuple[Standing, Group], tuple[Standing, Group], float]]:
        """Pairs of topics that may be one, the nearest first."""
        found = await self._store.topics.slice(principal, conversation, after=None)
        if found is None or found.standing.embedder is None:
            return []
        centroids = await self._centroids(principal, found)
        groups = [group for group in found.groups if group.root["key"] in centroids]  # others wait for their messages
        if len(groups) < 2:
            return []

        def pairs() -> list[tuple[int, int, float]]:
            import numpy as np

            from recollect.topics.matcher import related

            sums = np.stack([centroids[group.root["key"]] for group in groups])
            return related(sums, self._rules(principal, found.standing))[:PROPOSED]

        def held(place: int) -> tuple[Standing, Group]:
            return found.standing, groups[place]

        return [(held(one), held(other), round(near, 4)) for one, other, near in await asyncio.to_thread(pairs)]

    def _rules(self, principal: Principal, standing: Standing) -> Rules:
        from recollect.topics.matcher import calibrated

        rules, given = calibrated(standing.embedder_name or ""), self._settings(principal).similarity_threshold
        return rules if given is None else replace(rules, threshold=given)

    async def _centroids(self, principal: Principal, found: Slice) -> dict[int, Floats]:
        """The running sum of each topic that has messages. After a change they are made anew from its messages."""
        embedder, made = found.standing.embedder, dict[int, "Floats"]()
        for group in found.groups:
            key = group.root["key"]
            if not group.total("messages"):
                continue
            if not _is_stale(group, found):
                made[key] = _floats(found.sums[key])
            else:
                rows = await self._store.topics.vectors_of(principal, group, embedder or 0)
                made[key] = await asyncio.to_thread(
                    _summed, rows, self._rules(principal, found.standing), found.standing.dimensions
                )
        return made


def _is_stale(group: Group, found: Slice) -> bool:
    """Whether its centroid has to be made anew, and is stored then, though nothing new is said of it."""
    return group.root["key"] not in found.sums or group.root["embedder_key"] != found.standing.embedder


def _floats(blob: bytes) -> Floats:
    import numpy as np

    return np.frombuffer(blob, np.float16).astype(np.float32)


def _summed(rows: Sequence[Row], rules: Rules, dimensions: int) -> Floats:
    """The sum that these messages come to, one after another."""
    import numpy as np

    from recollect.topics.matcher import Matcher

    matcher = Matcher(rules, np.zeros((1, dimensions), np.float32))
    for row in rows:
        if _words(row) >= (rules.least_words if row["role"] == "user" else rules.least_reply):  # as when placed
            matcher.put(0, _vector(row, dimensions), role=row["role"], at=row["at"])
    found: Floats = matcher.sums[0]
    return found


def _vector(row: Row, dimensions: int) -> Floats | None:
    """The mean of a message's passages; None if it has none."""
    from recollect.recall.vectors import unpack

    if row["vectors"] is None:
        return None
    scales, passages = unpack(row["vectors"], dimensions)
    return (passages * scales[:, None]).mean(axis=0) if len(passages) else None


def _words(row: Row) -> int:
    return len(analyser.raw_words(row["content"][:COUNTED]))


class _Placing:
    """Messages of a slice, one after another; what becomes of the topics."""

    def __init__(self, found: Slice, rules: Rules, centroids: Mapping[int, Floats], now: int) -> None:
        import numpy as np

        from recollect.topics.matcher import Matcher
        from recollect.topics.matcher import Standing as Stand

        self._now, self._dimensions = now, found.standing.dimensions
        open_now = [group for group in found.groups if group.root["key"] in centroids]
        waiting = [group for group in found.groups if group.root["key"] not in centroids]
        self._waiting = {group.root["opened_seq"]: group for group in waiting}
        self._kept: dict[int, Group] = {}
        self._topics = [replace(_known(group), changed=_is_stale(group, found)) for group in open_now]
        by_key = {key: place for place, group in enumerate(open_now) for key in group.keys}
        self._gone: list[tuple[int, Touched]] = []
        standing = found.standing
        active = by_key.get(standing.active or 0)
        is_plain = active is not None and active == len(open_now) - 1 and _is_plain(open_now[active])
        before = by_key.get(standing.before or 0) if is_plain else None
        shape = (0, self._dimensions)
        sums = (
            np.stack([centroids[group.root["key"]] for group in open_now]) if open_now else np.zeros(shape, np.float32)
        )
        stand = Stand(active, found.last_at, before, standing.rested and before is not None)
        self._matcher: Matcher = Matcher(rules, sums, stand)
        for row in found.messages:
            self._place(row)

    def _place(self, row: Row) -> None:
        before = self._matcher.standing.active
        placed = self._placed(row)
        if placed.folded:  # the last topic was none
            none = self._topics.pop()
            into = self._topics[placed.topic]
            into.seqs += none.seqs
            into.accesses += 1
            into.archived_now += none.archived_now
            if none.importance is not None:
                into.importance = max(none.importance, into.importance or 0.0)
            if none.key is not None:
                self._gone.append((none.key, into))
            before = None
        if placed.opened:
            self._topics.append(self._opened(row))
        topic = self._topics[placed.topic]
        topic.seqs.append(row["seq"])
        topic.archived_now += row["archived"]
        topic.active_at = max(topic.active_at, min(row["at"], self._now))
        topic.active_seq = row["seq"]
        if row["role"] == "user":
            topic.accesses += not placed.opened
            if row["importance"] is not None:
                topic.importance = max(row["importance"], topic.importance or 0.0)
        if placed.topic != before or (topic.cold and row["role"] == "user"):
            if before is not None and before != placed.topic:
                self._topics[before].restored, self._topics[before].changed = False, True
            topic.restored, topic.cold = topic.restored or topic.archived, False

    def _placed(self, row: Row) -> Placed:
        said = {"role": row["role"], "at": row["at"]}
        vector, waiting = _vector(row, self._dimensions), self._waiting.pop(row["seq"], None)
        if waiting is not None:  # it opened a topic that people did something with
            placed = self._matcher.put(None, vector, **said)
            self._kept[placed.topic] = waiting
            return placed
        return self._matcher.place(vector, words=_words(row), **said)

    def _opened(self, row: Row) -> Touched:
        kept = self._kept.pop(len(self._topics), None)
        if kept is not None:
            return replace(_known(kept), active_at=min(row["at"], self._now))
        return Touched(
            key=None,
            opened=row["seq"],
            opening_id=row["id"],
            title=topics.title_of(row["content"]),
            created_at=row["at"],
            active_at=min(row["at"], self._now),
            active_seq=row["seq"],
            accesses=0,
            restored=False,
            cold=False,
            importance=None,
        )

    def placement(self, through: int) -> Placement:
        import numpy as np

        stand, sums = self._matcher.standing, self._matcher.sums
        touched = []
        for place, topic in enumerate(self._topics):
            if topic.seqs or place in (stand.active, stand.before) or topic.changed:
                topic.sums = sums[place].astype(np.float16).tobytes()
                touched.append(topic)
        active, before = (None if at is None else self._topics[at] for at in (stand.active, stand.before))
        return Placement(through, touched, active, before, stand.paused, self._gone)


def _known(group: Group) -> Touched:
    root = group.root
    return Touched(
        key=root["key"],
        opened=root["opened_seq"],
        opening_id="",
        title=root["title"],
        created_at=root["created_at"],
        active_at=root["active_at"],
        active_seq=root["active_seq"],
        accesses=root["accesses"],
        restored=bool(root["restored"]),
        cold=bool(root["cold"]),
        importance=root["importance"],
        archived=group.total("archived") > 0 or bool(root["cold"]),
    )


def _is_plain(group: Group) -> bool:
    """Whether nobody did anything with a topic by hand."""
    root = group.root
    touched = root["by_hand"] or root["named"] or root["pinned"] or root["tags"] != "[]"
    return not (touched or group.merged or root["merged_into"])
