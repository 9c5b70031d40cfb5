"""The rows of topics: their records, and what is read and changed of them inside a transaction of the caller.

`topic_store.py` has the operations of jobs and callers, `topic_edits.py` the changes that people make by hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.core import topics
from recollect.core.errors import Conflict, NotFound
from recollect.core.models import Principal
from recollect.core.topics import TopicGroup, group_rows
from recollect.storage.driver import Row, Transaction
from recollect.storage.jobs import Cursor, RewindTarget
from recollect.storage.texts import Texts


@dataclass(frozen=True, slots=True)
class TopicsState:
    """The state of the topics of a conversation, at the moment when it was read.

    While the active topic is new and has no reply, it may turn out to be none. `previous` is then the topic that was
    active before it, and `paused` says whether the talk had paused before the new one was opened.
    """

    key: int
    conversation: str
    zone: str
    assigned_seq: int  # messages up to here are assigned to topics
    active: int | None
    previous: int | None
    paused: bool
    generation: int
    version: int  # changes when topics are changed other than by assigning messages
    embedder: int | None  # the current one
    embedder_name: str | None
    dimensions: int

    def has_same_topics(self, other: TopicsState) -> bool:
        """Say whether the topics are the same, except for messages that were assigned to them since."""
        return (self.key, self.generation, self.version) == (other.key, other.generation, other.version)

    def is_active(self, group: TopicGroup) -> bool:
        """Say whether a topic is the active one."""
        return self.active in group.keys


@dataclass(frozen=True, slots=True)
class AssignmentSlice:
    """Messages to assign to topics, and the topics with their centroids."""

    state: TopicsState
    groups: Sequence[TopicGroup]
    centroids: Mapping[int, bytes]  # by topic key
    messages: Sequence[Row]
    last_at: int | None  # the time of the message before them, in microseconds


@dataclass(slots=True)
class ChangedTopic:
    """A topic after messages were assigned to it. A new one has no key yet."""

    key: int | None
    opened_seq: int  # the message that opened it
    opening_id: str
    title: str
    created_at: int
    active_at: int
    active_seq: int
    accesses: int
    restored: bool
    cold: bool
    importance: float | None
    centroid: bytes | None = None
    archived: bool = False  # whether some of its messages are archived
    archived_now: int = 0  # number of archived messages among those that are assigned now
    must_save: bool = False  # even if no message was assigned to it
    seqs: list[int] = field(default_factory=list)  # messages that are assigned to it now


@dataclass(frozen=True, slots=True)
class TopicAssignments:
    """Topics chosen for a batch of messages, with new centroids. See `TopicsState` for `previous` and `paused`."""

    through: int
    changed: Sequence[ChangedTopic]
    active: ChangedTopic | None
    previous: ChangedTopic | None
    paused: bool
    dissolved: Sequence[tuple[int, ChangedTopic]]  # topics to delete, each with the topic that takes its messages


@dataclass(frozen=True, slots=True)
class ActiveTopic:
    """The topic that is spoken of now: its packed summary, and the positions of its newest messages."""

    conversation: int
    key: int
    id: str
    title: str
    summary: bytes | None
    summary_seq: int
    seqs: Sequence[int]


# Reading


def read_topics_state(tx: Transaction, principal: Principal, conversation: str) -> TopicsState | None:
    """Return the state of the topics of a conversation."""
    row = tx.one("topics_state", person=principal.person, conversation=conversation)
    if row is None:
        return None
    return TopicsState(
        row["key"], conversation, row["zone"], row["topiced_seq"], row["active_topic"], row["topic_before"],
        bool(row["topic_rested"]), row["generation"], row["topics_version"], row["embedder"], row["embedder_name"],
        row["dimensions"] or 0,
    )  # fmt: skip


def read_active_topic(tx: Transaction, principal: Principal, conversation: str, *, limit: int) -> ActiveTopic | None:
    """Return the active topic with its newest `limit` messages, and as many of each topic that it was merged into."""
    row = tx.one("active_topic", person=principal.person, conversation=conversation)
    if row is None:
        return None
    seqs = [member["seq"] for member in tx.all("newest_members", key=row["key"], limit=limit)]
    seen = {row["key"]}
    while row["merged_into"] is not None and row["merged_into"] not in seen:
        row = tx.one("topic_above", key=row["merged_into"]) or row | {"merged_into": None}
        seen.add(row["key"])
        seqs += [member["seq"] for member in tx.all("newest_members", key=row["key"], limit=limit)]
    return ActiveTopic(
        row["conversation"], row["key"], row["id"], row["title"], row["summary"], row["summary_seq"], seqs
    )


def find_topic(tx: Transaction, principal: Principal, id: str, *, lock: bool = False) -> tuple[TopicsState, TopicGroup]:
    """Return the topic with this id, or the one it was merged into. Raise NotFound if there is none.

    With `lock`, its conversation is locked until the transaction ends.
    """
    row = tx.one("conversation_of_topic", person=principal.person, id=id)
    if row is None:
        raise no_topic(id)
    if lock:
        tx.one("lock_conversation", person=principal.person, conversation=row["name"])
    state = read_topics_state(tx, principal, row["name"])
    groups = group_rows(tx.all("topics_of", key=row["key"]))
    group = next((group for group in groups if row["topic"] in group.keys), None)
    if state is None or group is None:
        raise no_topic(id)
    return state, group


def find_assigned_topic(tx: Transaction, principal: Principal, id: str) -> tuple[TopicsState, TopicGroup]:
    """Return a locked topic whose messages can be changed. Raise Conflict while a rebuild assigns them again."""
    state, group = find_topic(tx, principal, id, lock=True)
    if group.awaits_assignment:
        message = "The messages of this topic are being assigned again; try again when the rebuild is through."
        raise Conflict("topic_being_rebuilt", message, retryable=True)
    return state, group


def no_topic(id: str) -> NotFound:
    """Return the error to raise for a topic that the person does not have."""
    return NotFound("topic_not_found", f"There is no topic {id[:80]!r}.")


def make_topic_id(tx: Transaction, principal: Principal, conversation: str, opening: str) -> str:
    """Return an unused id, derived from what opened the topic: a rebuild gives the same topic the same id."""
    while True:
        source = "\0".join((principal.person, conversation, opening)).encode("utf-8", "surrogatepass")
        topic_id = "t-" + hashlib.blake2b(source, digest_size=12).hexdigest()
        if tx.one("conversation_of_topic", person=principal.person, id=topic_id) is None:
            return topic_id
        opening += "\0"


# Repairing topics after messages left them


def reopen_topic(tx: Transaction, topic: Mapping[str, Any], texts: Texts) -> None:
    """Choose another opening message for a topic whose own one left it. It gives the topic its title."""
    for opening in texts.fill(tx, tx.all("opening_of_topic", key=topic["key"])):
        tx.run("reopen_topic", key=topic["key"], opened=opening["seq"])
        if not topic["named"]:
            tx.run("retitle_topic", key=topic["key"], title=topics.make_title(opening["content"]), named=0)


def remove_empty_topics(tx: Transaction, key: int) -> int:
    """Delete the topics of a conversation that have no messages any more. Return how many.

    Call it when the messages of all topics have been counted again. A topic without messages of its own, into which
    others were merged, takes over the messages of the first of them, so that it keeps its name, tags and pin. A topic
    that awaits its first message during a rebuild stays.
    """
    for group in group_rows(tx.all("topics_of", key=key)):
        parts = [row for row in group.merged if row["messages"]]
        if not group.root["messages"] and not group.awaits_assignment and parts:
            _take_over(tx, key, group.root, parts[0])
    empty = tx.all("empty_topics", key=key)
    for row in empty:
        tx.run("reattach_merged", key=row["key"])
        tx.run("delete_topic", key=row["key"])
    return len(empty)


def _take_over(tx: Transaction, conversation: int, root: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    tx.run("move_members", key=part["key"], into=root["key"])
    names = ("accesses", "deletions", "created_at", "active_at", "active_seq")
    tx.run("take_over", key=root["key"], opened=part["opened_seq"], **{name: part[name] for name in names})
    if not root["named"]:
        tx.run("retitle_topic", key=root["key"], title=part["title"], named=part["named"])
    tx.run("move_active", key=conversation, topic=part["key"], into=root["key"])
    for topic in (root, part):
        tx.run("recount_topic", key=topic["key"])


# Cursors


def _rewind_assignment(tx: Transaction, target: RewindTarget) -> None:
    """Let messages be assigned again. Where people merged or split topics, the grouping stays; summaries go."""
    target.run(tx, "rewind_topics", everybody="rewind_all_topics")
    conversations = target.all(tx, "topics_to_rewind", everybody="all_topics_to_rewind")
    regrouped = [{"key": row["key"]} for row in conversations if row["is_regrouped"]]
    tx.many("unassign_messages", regrouped)
    tx.many("delete_plain_topics", regrouped)
    tx.many("reset_topics", regrouped)
    tx.many("clear_summaries", [{"key": row["key"]} for row in conversations])


def _rewind_folds(tx: Transaction, target: RewindTarget) -> None:
    target.run(tx, "rewind_folds", everybody="rewind_all_folds")


ASSIGNED: Final = Cursor("unassigned_conversations", None, _rewind_assignment)  # moves with what is assigned
FOLDED: Final = Cursor("unfolded_conversations", "mark_folded", _rewind_folds)
