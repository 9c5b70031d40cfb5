"""Changes that people make to topics by hand: title, tags, pin, importance, merging, splitting, and feedback."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from recollect.core import times, topics
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.json_text import to_json
from recollect.core.models import Principal
from recollect.core.topics import TopicGroup
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.texts import Texts
from recollect.storage.topics import (
    TopicsState,
    find_assigned_topic,
    find_topic,
    make_topic_id,
    remove_empty_topics,
    reopen_topic,
)

Changes = Mapping[str, Row]  # the name of a change, one of those below, and the parameters of its query

_CHANGE_QUERIES: Final = {
    "title": "retitle_topic",
    "tags": "tag_topic",
    "pinned": "pin_topic",
    "importance": "weigh_topic",
    "archive": "make_cold",
    "restore": "restore_topic",
}


class TopicEdits:
    """Changes topics by hand, each change in one transaction."""

    def __init__(self, write: RunInTransaction, texts: Texts) -> None:
        self._write, self._texts = write, texts

    async def change(self, principal: Principal, id: str, changes: Changes) -> tuple[TopicsState, TopicGroup]:
        """Make all changes of a topic (title, tags, pinned, importance, archive, restore), or none of them."""

        def make_changes(tx: Transaction) -> tuple[TopicsState, TopicGroup]:
            state, group = find_topic(tx, principal, id, lock=True)
            for name, values in changes.items():
                tx.run(_CHANGE_QUERIES[name], key=group.root["key"], **values)
            tx.run("topics_changed", key=state.key)
            return find_topic(tx, principal, id)

        return await self._write(make_changes)

    async def merge(self, principal: Principal, into: str, id: str, *, now: datetime) -> tuple[TopicsState, TopicGroup]:
        """Make the topic `id` a part of the topic `into`. Its own row stays, so that it can be unmerged."""

        def merge_topics(tx: Transaction) -> tuple[TopicsState, TopicGroup]:
            state, target = find_assigned_topic(tx, principal, into)
            other_state, other = find_assigned_topic(tx, principal, id)
            if state.key != other_state.key:
                raise InvalidInput("topics_apart", "Topics of two conversations cannot be merged.")
            if target.root["key"] == other.root["key"]:
                raise InvalidInput("same_topic", "These are one topic already.")
            tx.run("merge_topic", key=other.root["key"], into=target.root["key"], now=times.to_micros(now))
            _inherit(tx, target.root, other.root)
            _merge_states(tx, state, target, other)
            _mark_regrouped(tx, state, (target, other))
            return find_topic(tx, principal, into)

        return await self._write(merge_topics)

    async def unmerge(self, principal: Principal, id: str, *, now: datetime) -> tuple[TopicsState, TopicGroup]:
        """Make a topic that was merged into another one a topic of its own again.

        Its `merged_at` is then the moment when it was taken apart: it is never merged again by itself.
        """

        def unmerge_topic(tx: Transaction) -> tuple[TopicsState, TopicGroup]:
            state, group = find_topic(tx, principal, id, lock=True)
            part = next(row for row in group.rows if row["id"] == id)
            if part["merged_into"] is None:
                raise Conflict("not_merged", "This topic was not merged into another.")
            tx.run("merge_topic", key=part["key"], into=None, now=times.to_micros(now))
            _mark_regrouped(tx, state, (group,))
            _, unmerged = find_topic(tx, principal, id)
            if state.is_active(unmerged):  # the part is spoken of, no longer the topic that it left
                tx.run("set_topic_state", key=part["key"], cold=0, restored=group.root["restored"])
                tx.run("set_topic_state", key=group.root["key"], cold=group.root["cold"], restored=0)
            return find_topic(tx, principal, id)

        return await self._write(unmerge_topic)

    async def split(
        self, principal: Principal, id: str, messages: Sequence[str], title: str | None, *, now: datetime
    ) -> tuple[TopicsState, TopicGroup]:
        """Move messages of a topic into a new topic. Return the new one."""

        def split_topic(tx: Transaction) -> tuple[TopicsState, TopicGroup]:
            state, group = find_assigned_topic(tx, principal, id)
            chosen = self._choose_members(tx, state, group, messages)
            first = next((row for row in chosen if row["role"] == "user"), chosen[0])
            new_id = make_topic_id(tx, principal, state.conversation, f"{first['id']}\0{id}\0{state.version}")
            new_key = _insert_split_topic(tx, state, new_id, first, title)
            tx.many("move_message", [{"key": state.key, "seq": row["seq"], "topic": new_key} for row in chosen])
            moved = {row["seq"] for row in chosen}
            for row in group.rows:
                if row["opened_seq"] in moved:
                    reopen_topic(tx, row, self._texts)
            _share_accesses(tx, group, new_key, chosen)
            if tx.run("activate_topic", key=state.key, topic=new_key):  # the old topic is not spoken of any more
                tx.run("set_topic_state", key=group.root["key"], cold=group.root["cold"], restored=0)
                tx.run("set_topic_state", key=new_key, cold=0, restored=group.root["restored"])
            tx.run("recount_topics", key=state.key)
            remove_empty_topics(tx, state.key)
            if state.is_active(group) and tx.one("topic_above", key=state.active) is None:
                tx.run("move_active", key=state.key, topic=state.active, into=new_key)
            for key in (*group.keys, new_key):
                tx.run("update_last_active", key=key, now=times.to_micros(now))
            _mark_regrouped(tx, state, (group,))
            return find_topic(tx, principal, new_id)

        return await self._write(split_topic)

    def _choose_members(
        self, tx: Transaction, state: TopicsState, group: TopicGroup, messages: Sequence[str]
    ) -> list[Row]:
        """Return the messages that are split off, with their texts. Refuse foreign ones, and all of the topic's."""
        rows = tx.all("members_of", key=state.key, rows=to_json(group.keys), after=0)
        ids = set(messages)
        chosen = [row for row in rows if row["id"] in ids]
        if len(chosen) != len(ids):
            raise NotFound("message_not_found", "Not all of these messages belong to this topic.")
        if len(chosen) == len(rows):
            raise InvalidInput("nothing_left", "All of the topic's messages would leave it.")
        return self._texts.fill(tx, chosen)

    async def feedback(
        self, principal: Principal, message: str, conversation: str | None, kind: str, value: float, *, now: datetime
    ) -> None:
        """Store feedback on a message. It replaces earlier feedback of the same kind; 0 removes it."""

        def store_feedback(tx: Transaction) -> None:
            rows = tx.all("topic_of_message", person=principal.person, id=message, conversation=conversation)
            if not rows:
                raise no_message(message)
            if len(rows) > 1:
                detail = f"{len(rows)} conversations have a message {message[:80]!r}: name the conversation."
                raise InvalidInput("ambiguous_message", detail)
            tx.run("lock_conversation_key", key=rows[0]["conversation_key"])
            row = tx.one("topic_of_message", person=principal.person, id=message, conversation=rows[0]["name"])
            if row is None:
                raise no_message(message)  # erased while this waited for the lock
            where = {"key": row["conversation_key"], "seq": row["seq"], "kind": kind}
            if value:
                points = value * topics.FEEDBACK_WEIGHTS[kind]
                tx.run("put_feedback", **where, value=points, now=times.to_micros(now))
            else:
                tx.run("drop_feedback", **where)

        await self._write(store_feedback)


def no_message(id: str) -> NotFound:
    """Return the error to raise for a message that the person does not have."""
    return NotFound("message_not_found", f"There is no message {id[:80]!r}.")


def _inherit(tx: Transaction, root: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    """Give a topic the tags, pin and importance of one that is merged into it. The part keeps its own."""
    tags = dict.fromkeys([*json.loads(root["tags"]), *json.loads(part["tags"])])
    tx.run("tag_topic", key=root["key"], tags=to_json(list(tags)))
    tx.run("pin_topic", key=root["key"], pinned=int(bool(root["pinned"] or part["pinned"])))
    importances = [row["importance"] for row in (root, part) if row["importance"] is not None]
    tx.run("weigh_topic", key=root["key"], importance=max(importances, default=None))


def _merge_states(tx: Transaction, state: TopicsState, target: TopicGroup, other: TopicGroup) -> None:
    """Set the state of a merged topic: cold only if both were and neither is active.

    If it is active, messages of a cold one count as restored. Only the root's state counts from now on.
    """
    root, part = target.root, other.root
    is_active = state.is_active(target) or state.is_active(other)
    cold = bool(root["cold"] and part["cold"] and not is_active)
    restored = any(row["restored"] or (row["cold"] and is_active) for row in (root, part))
    tx.run("set_topic_state", key=root["key"], cold=int(cold), restored=int(restored))
    tx.run("set_topic_state", key=part["key"], cold=part["cold"], restored=0)


def _insert_split_topic(tx: Transaction, state: TopicsState, id: str, opening: Row, title: str | None) -> int:
    """Insert the topic that is opened by a message which is split off. Return its key."""
    values = {"opened": opening["seq"], "at": opening["at"], "by_hand": 1}
    shown_title = topics.make_title(opening["content"]) if title is None else title
    row = tx.one("insert_topic", key=state.key, id=id, title=shown_title, **values)
    assert row is not None  # noqa: S101 - inserted just now
    if title is not None:
        tx.run("retitle_topic", key=row["key"], title=title, named=1)
    return int(row["key"])


def _share_accesses(tx: Transaction, group: TopicGroup, new_topic: int, moved: Sequence[Row]) -> None:
    """Move the accesses of messages that were split off to the new topic, and set its importance."""
    users = Counter(row["topic_key"] for row in moved if row["role"] == "user")
    tx.run("set_accesses", key=new_topic, accesses=max(0, users.total() - 1))
    for row in group.rows:
        tx.run("set_accesses", key=row["key"], accesses=max(0, row["accesses"] - users[row["key"]]))
    importances = [row["importance"] for row in moved if row["role"] == "user" and row["importance"] is not None]
    tx.run("weigh_topic", key=new_topic, importance=max(importances, default=group.root["importance"]))


def _mark_regrouped(tx: Transaction, state: TopicsState, groups: Sequence[TopicGroup]) -> None:
    """Note a grouping made by hand, which a rebuild keeps. Summaries and centroids of these topics are made again."""
    tx.many("clear_summary", [{"key": key} for group in groups for key in group.keys])
    tx.run("mark_grouped_by_hand", key=state.key)
    tx.run("topics_changed", key=state.key)
