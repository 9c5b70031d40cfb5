"""Reads topics, assigns messages to them, and stores their summaries, for jobs and callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.core.json_text import to_json
from recollect.core.message import Message
from recollect.core.models import Principal
from recollect.core.topics import TopicGroup, group_rows
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.rows import to_message
from recollect.storage.texts import Texts
from recollect.storage.topics import (
    AssignmentSlice,
    ChangedTopic,
    TopicAssignments,
    TopicsState,
    find_topic,
    make_topic_id,
    read_topics_state,
)


class TopicStore:
    """The topics of the store. What people change by hand is in `TopicEdits`."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    # Reading

    async def load(self, principal: Principal, conversation: str) -> tuple[TopicsState, list[TopicGroup]] | None:
        """Return the topics of a conversation in the order in which they were opened, and their state."""

        def read_topics(tx: Transaction) -> tuple[TopicsState, list[TopicGroup]] | None:
            state = read_topics_state(tx, principal, conversation)
            return None if state is None else (state, group_rows(tx.all("topics_of", key=state.key)))

        return await self._read(read_topics)

    async def find(self, principal: Principal, id: str) -> tuple[TopicsState, TopicGroup]:
        """Return the topic with this id, or the one it was merged into. Raise NotFound if there is none."""
        return await self._read(lambda tx: find_topic(tx, principal, id))

    async def members(
        self,
        principal: Principal,
        state: TopicsState,
        group: TopicGroup,
        *,
        unarchived_only: bool = False,
        after: int = 0,
    ) -> list[Message]:
        """Return the messages of a topic with a seq above `after`, in the order of the log."""
        query = "unarchived_members" if unarchived_only else "members_of"

        def read_members(tx: Transaction) -> list[Row]:
            params = {"key": state.key, "rows": to_json(group.keys)}
            return self._texts.fill(tx, tx.all(query, **params, after=after))

        return [to_message(row, state.conversation) for row in await self._read(read_members)]

    async def topics_at(self, principal: Principal, positions: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the keys of the topics that messages belong to, by position (conversation key and seq).

        The positions must have been found under the person.
        """
        rows = await self._read(lambda tx: tx.all("topics_at", cursors=to_json(positions)))
        return {(row["conversation_key"], row["seq"]): row["topic_key"] for row in rows}

    # Assigning messages

    async def read_slice(
        self, principal: Principal, conversation: str, *, after: int | None, through: int = 0
    ) -> AssignmentSlice | None:
        """Return the messages from `after` to `through` with the topics. Without `after`, return only the topics.

        Return None if messages are assigned up to another seq than `after` by now.
        """

        def read_messages_and_topics(tx: Transaction) -> AssignmentSlice | None:
            state = read_topics_state(tx, principal, conversation)
            if state is None or after not in (None, state.assigned_seq):
                return None
            start = state.assigned_seq
            params = {"key": state.key, "after": start, "through": through, "embedder": state.embedder}
            messages = self._texts.fill(tx, tx.all("topic_slice", **params))
            rows = tx.all("topics_of", key=state.key)
            centroids = {row["key"]: row["sums"] for row in tx.all("topic_sums", key=state.key)}
            last = tx.one("last_moment", key=state.key, through=start)
            return AssignmentSlice(state, group_rows(rows), centroids, messages, None if last is None else last["at"])

        return await self._read(read_messages_and_topics)

    async def member_vectors(self, principal: Principal, group: TopicGroup, embedder: int) -> list[Row]:
        """Return the messages of a topic with their vectors, in the order of the log. Its centroid is made of them."""

        def read_vectors(tx: Transaction) -> list[Row]:
            rows = [row for key in group.keys for row in tx.all("topic_vectors", key=key, embedder=embedder)]
            return self._texts.fill(tx, sorted(rows, key=lambda row: int(row["seq"])))

        return await self._read(read_vectors)

    async def save_assignments(self, principal: Principal, before: TopicsState, assignments: TopicAssignments) -> bool:
        """Store which messages belong to which topics. Return False, and store nothing, if topics changed since."""

        def assign_messages(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=before.conversation)
            if read_topics_state(tx, principal, before.conversation) != before:
                return False
            keys = {id(topic): self._save_topic(tx, principal, before, topic) for topic in assignments.changed}
            for key, into in assignments.dissolved:
                tx.run("move_members", key=key, into=keys[id(into)])
                tx.run("delete_topic", key=key)
                tx.run("recount_topic", key=keys[id(into)])
            active, previous = assignments.active, assignments.previous
            tx.run(
                "mark_assigned",
                key=before.key,
                after=before.assigned_seq,
                through=assignments.through,
                active=before.active if active is None else keys[id(active)],
                previous=None if previous is None else keys[id(previous)],
                paused=int(assignments.paused),
                generation=before.generation,
            )
            return True

        return await self._write(assign_messages)

    def _save_topic(self, tx: Transaction, principal: Principal, before: TopicsState, topic: ChangedTopic) -> int:
        key = topic.key
        if key is None:
            topic_id = make_topic_id(tx, principal, before.conversation, f"{topic.opening_id}\0{topic.opened_seq}")
            values = {"opened": topic.opened_seq, "at": topic.created_at, "title": topic.title, "by_hand": 0}
            row = tx.one("insert_topic", key=before.key, id=topic_id, **values)
            assert row is not None  # noqa: S101 - inserted just now
            key = int(row["key"])
        if topic.seqs:
            tx.run("assign_messages", key=before.key, rows=to_json([(seq, key) for seq in topic.seqs]))
        tx.run(
            "save_topic",
            key=key,
            accesses=topic.accesses,
            active_at=topic.active_at,
            active_seq=topic.active_seq,
            restored=int(topic.restored),
            cold=int(topic.cold),
            importance=topic.importance,
            embedder=before.embedder,
            sums=topic.centroid,
            archived=topic.archived_now,
        )
        return key

    # Folding

    async def unarchived_members(
        self, principal: Principal, state: TopicsState, group: TopicGroup
    ) -> tuple[list[Row], int | None]:
        """Return the topic's messages that are not archived, and the seq of the conversation's first user message.

        Messages up to the topic's `folded_seq` are not read. They are archived, except that first message, which may
        be one of them.
        """

        def read_members(tx: Transaction) -> tuple[list[Row], int | None]:
            first = tx.one("opening_message", key=state.key) or {"seq": None}
            params = {"key": state.key, "rows": to_json(group.keys), "after": group.root["folded_seq"]}
            return tx.all("unarchived_members", **params), first["seq"]

        return await self._read(read_members)

    async def save_summary(
        self, principal: Principal, state: TopicsState, topic: int, summary: bytes, *, through: int
    ) -> bool:
        """Store a packed summary. Return False, and store nothing, if the topics were changed meanwhile.

        The summary covers archived messages up to the seq `through`. A negative `through` says that messages after
        that seq are still to be summarised.
        """

        def store_summary(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=state.conversation)
            current = read_topics_state(tx, principal, state.conversation)
            if current is None or not current.has_same_topics(state):
                return False
            return bool(tx.run("save_summary", key=topic, summary=summary, through=through))

        return await self._write(store_summary)

    async def make_cold(
        self,
        principal: Principal,
        state: TopicsState,
        choose: Callable[[Sequence[TopicGroup], TopicsState], Sequence[TopicGroup]],
    ) -> int:
        """Make topics cold that `choose` picks from the topics as they are now. Return how many."""

        def make_chosen_cold(tx: Transaction) -> int:
            tx.one("lock_conversation", person=principal.person, conversation=state.conversation)
            current = read_topics_state(tx, principal, state.conversation)
            if current is None or (current.key, current.generation) != (state.key, state.generation):
                return 0
            chosen = choose(group_rows(tx.all("topics_of", key=current.key)), current)
            keys = [group.root["key"] for group in chosen]
            tx.many("make_cold", [{"key": key} for key in keys])
            if keys:
                tx.run("topics_changed", key=current.key)
            return len(keys)

        return await self._write(make_chosen_cold)

    async def recheck_crowded(self, *, max_topics: int) -> None:
        """Let the worker look again at all people's conversations with more than `max_topics` topics."""
        await self._write(lambda tx: tx.run("recheck_crowded", max_topics=max_topics))
