"""The job that assigns messages to topics, in the order of the log, using the vectors already made for recall.

`matcher` decides; this module reads what it needs and stores what follows. While the embedder is not
reachable, messages wait. They are assigned when their vectors are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from recollect.core import times, topics
from recollect.core.language import analyser
from recollect.core.models import Principal
from recollect.core.protocols import Clock
from recollect.core.topics import TopicGroup
from recollect.jobs.job import ConversationJob, ConversationWork, Interrupted, Pace, StopSignal
from recollect.settings import Settings
from recollect.storage import topics as topic_storage
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore
from recollect.storage.topics import AssignmentSlice, ChangedTopic, TopicAssignments, TopicsState

if TYPE_CHECKING:
    from recollect.topics.matcher import Assignment, Floats, Matcher, MatcherState, MatchRules

MAX_COUNTED_CHARACTERS: Final = 400  # words are counted in so much of a message
MAX_PROPOSED_PAIRS: Final = 20  # pairs of topics, proposed for a merge


class RelatedGroups(NamedTuple):
    """Two topics of a conversation that could be merged, the older one first. `similarity` is a cosine."""

    state: TopicsState
    earlier: TopicGroup
    later: TopicGroup
    similarity: float


class AssignMessages(ConversationJob):
    """Assigns messages to topics. No message is assigned twice: the cursor moves with what is stored."""

    name = "topics"
    cursor = topic_storage.ASSIGNED
    pace = Pace(messages=128, parallel=4)

    def __init__(self, store: SqlStore, clock: Clock, *, settings: Callable[[Principal], Settings]) -> None:
        super().__init__(store)
        self._clock, self._settings = clock, settings

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Assign the messages of a slice. Return how many."""
        batch = await self._store.topics.read_slice(
            work.principal, work.conversation, after=work.after, through=work.through
        )
        if batch is None or batch.state.embedder is None:
            return 0  # another process assigned them meanwhile, or there are no vectors yet
        centroids = await self._centroids(work.principal, batch)
        rules, now = self._rules(work.principal, batch.state), times.to_micros(self._clock.now())
        assignments = await asyncio.to_thread(_assign_batch, batch, work.through, rules, centroids, now)
        if not await self._store.topics.save_assignments(work.principal, batch.state, assignments):
            raise Interrupted  # the topics were changed meanwhile
        return len(batch.messages)

    async def find_related(self, principal: Principal, conversation: str) -> list[RelatedGroups]:
        """Return pairs of topics that could be merged, the most similar first."""
        batch = await self._store.topics.read_slice(principal, conversation, after=None)
        if batch is None or batch.state.embedder is None:
            return []
        centroids = await self._centroids(principal, batch)
        groups = [group for group in batch.groups if group.root["key"] in centroids]  # others have no messages yet
        if len(groups) < 2:
            return []

        def find_pairs() -> list[tuple[int, int, float]]:
            import numpy as np

            from recollect.topics.matcher import find_related

            rows = np.stack([centroids[group.root["key"]] for group in groups])
            return find_related(rows, self._rules(principal, batch.state))[:MAX_PROPOSED_PAIRS]

        return [
            RelatedGroups(batch.state, groups[earlier], groups[later], round(similarity, 4))
            for earlier, later, similarity in await asyncio.to_thread(find_pairs)
        ]

    def _rules(self, principal: Principal, state: TopicsState) -> MatchRules:
        """Return the rules for the embedder in force. The setting `similarity_threshold` overrides their threshold."""
        from recollect.topics.matcher import calibrated_rules

        rules, threshold = calibrated_rules(state.embedder_name or ""), self._settings(principal).similarity_threshold
        return rules if threshold is None else replace(rules, threshold=threshold)

    async def _centroids(self, principal: Principal, batch: AssignmentSlice) -> dict[int, Floats]:
        """Return the centroid of each topic that has messages, by topic key.

        A centroid that is missing or of another embedder is built again from the topic's messages.
        """
        state, centroids = batch.state, dict[int, "Floats"]()
        for group in batch.groups:
            key = group.root["key"]
            if not group.total("messages"):
                continue
            if not _is_stale(group, batch):
                centroids[key] = _to_floats(batch.centroids[key])
            else:
                rows = await self._store.topics.member_vectors(principal, group, state.embedder or 0)
                rules = self._rules(principal, state)
                centroids[key] = await asyncio.to_thread(_build_centroid, rows, rules, state.dimensions)
        return centroids


def _is_stale(group: TopicGroup, batch: AssignmentSlice) -> bool:
    """Say whether the stored centroid of a topic is missing or comes from another embedder."""
    return group.root["key"] not in batch.centroids or group.root["embedder_key"] != batch.state.embedder


def _to_floats(blob: bytes) -> Floats:
    import numpy as np

    return np.frombuffer(blob, np.float16).astype(np.float32)


def _build_centroid(rows: Sequence[Row], rules: MatchRules, dimensions: int) -> Floats:
    """Return the centroid of messages, as if they had joined one topic one after another."""
    import numpy as np

    from recollect.topics.matcher import Matcher

    matcher = Matcher(rules, np.zeros((1, dimensions), np.float32))
    for row in rows:
        min_words = rules.min_words if row["role"] == "user" else rules.min_reply_words
        if _count_words(row) >= min_words:  # shorter messages did not move the topic when they were assigned
            matcher.assign_to(0, _mean_vector(row, dimensions), role=row["role"], at=row["at"])
    centroid: Floats = matcher.centroids[0]
    return centroid


def _mean_vector(row: Row, dimensions: int) -> Floats | None:
    """Return the mean of the vectors of a message's passages; None if it has none."""
    from recollect.recall.vectors import unpack

    if row["vectors"] is None:
        return None
    scales, passages = unpack(row["vectors"], dimensions)
    return (passages * scales[:, None]).mean(axis=0) if len(passages) else None


def _count_words(row: Row) -> int:
    return len(analyser.raw_words(row["content"][:MAX_COUNTED_CHARACTERS]))


def _assign_batch(
    batch: AssignmentSlice, through: int, rules: MatchRules, centroids: Mapping[int, Floats], now: int
) -> TopicAssignments:
    """Assign all messages of a slice that ends at the seq `through`. Return what is to be stored."""
    assigner = _Assigner(batch, rules, centroids, now)
    for row in batch.messages:
        if row["role"] != "system":  # it belongs to the conversation as a whole, and its text is no title
            assigner.assign(row)
    return assigner.assignments(through)


class _Assigner:
    """Assigns the messages of a slice one after another and notes what becomes of the topics."""

    def __init__(self, batch: AssignmentSlice, rules: MatchRules, centroids: Mapping[int, Floats], now: int) -> None:
        """Start from the stored topics. `now` is in microseconds: topics are never active later than that."""
        import numpy as np

        from recollect.topics.matcher import Matcher

        self._now, self._dimensions = now, batch.state.dimensions
        # After a rebuild, a topic that people edited has no messages until the one that opened it is assigned again.
        groups = [group for group in batch.groups if group.root["key"] in centroids]
        empty_groups = [group for group in batch.groups if group.root["key"] not in centroids]
        self._empty_by_seq = {group.root["opened_seq"]: group for group in empty_groups}
        self._reopened: dict[int, TopicGroup] = {}  # by index: opened by the matcher, not yet appended to `_topics`
        # A centroid that was built again is stored even if no message joins its topic.
        self._topics = [replace(_to_changed(group), must_save=_is_stale(group, batch)) for group in groups]
        self._dissolved: list[tuple[int, ChangedTopic]] = []  # the key of a topic and the one it was dissolved into
        rows = [centroids[group.root["key"]] for group in groups]
        no_rows = np.zeros((0, self._dimensions), np.float32)
        self._matcher: Matcher = Matcher(rules, np.stack(rows) if rows else no_rows, _to_matcher_state(batch, groups))

    def assign(self, row: Row) -> None:
        """Assign the next message."""
        active_before = self._matcher.state.active
        assignment = self._match(row)
        if assignment.dissolved:
            self._dissolve_last_into(self._topics[assignment.topic])
            active_before = None
        if assignment.opened:
            self._topics.append(self._open(row))
        topic = self._topics[assignment.topic]
        self._add_message(topic, row, opened=assignment.opened)
        # Leaving a topic ends its restored mark. Coming back to one with archived messages sets it.
        is_switch = assignment.topic != active_before
        if is_switch and active_before is not None:
            left = self._topics[active_before]
            left.restored, left.must_save = False, True
        if is_switch or (topic.cold and row["role"] == "user"):
            topic.restored, topic.cold = topic.restored or topic.archived, False

    def _match(self, row: Row) -> Assignment:
        vector, empty_group = _mean_vector(row, self._dimensions), self._empty_by_seq.pop(row["seq"], None)
        if empty_group is None:
            return self._matcher.assign(vector, words=_count_words(row), role=row["role"], at=row["at"])
        assignment = self._matcher.assign_to(None, vector, role=row["role"], at=row["at"])
        self._reopened[assignment.topic] = empty_group
        return assignment

    def _dissolve_last_into(self, target: ChangedTopic) -> None:
        """Give the messages of the newest topic to another one: its first reply showed that they belong there."""
        dissolved = self._topics.pop()
        target.seqs += dissolved.seqs
        target.accesses += 1
        target.archived_now += dissolved.archived_now
        if dissolved.importance is not None:
            target.importance = max(dissolved.importance, target.importance or 0.0)
        if dissolved.key is not None:
            self._dissolved.append((dissolved.key, target))

    def _open(self, row: Row) -> ChangedTopic:
        """Return the topic that a message opens: a new one, or the edited one that it opened before a rebuild."""
        active_at = min(row["at"], self._now)
        reopened = self._reopened.pop(len(self._topics), None)
        if reopened is not None:
            return replace(_to_changed(reopened), active_at=active_at)
        return ChangedTopic(
            key=None,
            opened_seq=row["seq"],
            opening_id=row["id"],
            title=topics.make_title(row["content"]),
            created_at=row["at"],
            active_at=active_at,
            active_seq=row["seq"],
            accesses=0,
            restored=False,
            cold=False,
            importance=None,
        )

    def _add_message(self, topic: ChangedTopic, row: Row, *, opened: bool) -> None:
        topic.seqs.append(row["seq"])
        topic.archived_now += row["archived"]
        topic.active_at = max(topic.active_at, min(row["at"], self._now))
        topic.active_seq = row["seq"]
        if row["role"] == "user":
            topic.accesses += not opened
            if row["importance"] is not None:
                topic.importance = max(row["importance"], topic.importance or 0.0)

    def assignments(self, through: int) -> TopicAssignments:
        """Return what is to be stored: the topics that changed, and the state after the seq `through`."""
        import numpy as np

        state, centroids = self._matcher.state, self._matcher.centroids
        changed = []
        for index, topic in enumerate(self._topics):
            if topic.seqs or topic.must_save or index in (state.active, state.previous):
                topic.centroid = centroids[index].astype(np.float16).tobytes()
                changed.append(topic)
        active = None if state.active is None else self._topics[state.active]
        previous = None if state.previous is None else self._topics[state.previous]
        return TopicAssignments(through, changed, active, previous, state.paused, self._dissolved)


def _to_matcher_state(batch: AssignmentSlice, groups: Sequence[TopicGroup]) -> MatcherState:
    """Return the stored state with indexes into `groups`. A new topic that was edited by hand is never dissolved."""
    from recollect.topics.matcher import MatcherState

    stored = batch.state
    index_by_key = {key: index for index, group in enumerate(groups) for key in group.keys}
    active = index_by_key.get(stored.active or 0)
    may_dissolve = active is not None and active == len(groups) - 1 and not _is_edited(groups[active])
    previous = index_by_key.get(stored.previous or 0) if may_dissolve else None
    return MatcherState(active, batch.last_at, previous, stored.paused and previous is not None)


def _to_changed(group: TopicGroup) -> ChangedTopic:
    """Return a stored topic in the form in which it is changed."""
    root = group.root
    return ChangedTopic(
        key=root["key"],
        opened_seq=root["opened_seq"],
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


def _is_edited(group: TopicGroup) -> bool:
    """Say whether a topic was split, merged, named, pinned or tagged by hand."""
    root = group.root
    is_changed = root["by_hand"] or root["named"] or root["pinned"] or root["tags"] != "[]"
    return bool(is_changed or group.merged or root["merged_into"])
