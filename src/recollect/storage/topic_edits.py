"""What people do with topics by hand: name, tag, pin, weigh, merge, part and split them, and say what was good."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from recollect.core import times, topics
from recollect.core.drafts import to_json
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.models import Principal
from recollect.core.topics import Group
from recollect.storage.driver import Row, Run, Transaction
from recollect.storage.texts import Texts
from recollect.storage.topics import Standing, close_ranks, find_placed, find_topic, reopen_topic, unused_id

Changes = Mapping[str, Row]  # what is changed of a topic, one of the names below, and the values of its query

_CHANGE_QUERIES: Final = {
    "title": "retitle_topic",
    "tags": "tag_topic",
    "pinned": "pin_topic",
    "importance": "weigh_topic",
    "archive": "cool_topic",
    "restore": "warm_topic",
}


class TopicEdits:
    """What people do with topics by hand, each in one transaction."""

    def __init__(self, write: Run, texts: Texts) -> None:
        self._write, self._texts = write, texts

    async def change(self, principal: Principal, id: str, changes: Changes) -> tuple[Standing, Group]:
        """Make all changes of a topic (title, tags, pinned, importance, archive, restore), or none of them."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, group = find_topic(tx, principal, id, lock=True)
            for name, values in changes.items():
                tx.run(_CHANGE_QUERIES[name], key=group.root["key"], **values)
            if changes:
                tx.run("topics_changed", key=standing.key)
            return find_topic(tx, principal, id)

        return await self._write(job)

    async def merge(self, principal: Principal, into: str, id: str, *, now: datetime) -> tuple[Standing, Group]:
        """The second becomes part of the first; what it was stays known, so that it can be undone."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, target = find_placed(tx, principal, into)
            other_standing, other = find_placed(tx, principal, id)
            if standing.key != other_standing.key:
                raise InvalidInput("topics_apart", "Topics of two conversations cannot be merged.")
            if target.root["key"] == other.root["key"]:
                raise InvalidInput("same_topic", "These are one topic already.")
            tx.run("merge_topic", key=other.root["key"], into=target.root["key"], now=times.to_micros(now))
            _inherit(tx, target.root, other.root)
            _wake(tx, standing, target, other)
            _regrouped(tx, standing, (target, other))
            return find_topic(tx, principal, into)

        return await self._write(job)

    async def unmerge(self, principal: Principal, id: str) -> tuple[Standing, Group]:
        """A topic that was merged into another stands by itself again."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, group = find_topic(tx, principal, id, lock=True)
            own = next(row for row in group.rows if row["id"] == id)
            if own["merged_into"] is None:
                raise Conflict("not_merged", "This topic was not merged into another.")
            tx.run("merge_topic", key=own["key"], into=None, now=None)
            _regrouped(tx, standing, (group,))
            parted = find_topic(tx, principal, id)
            if standing.active in parted[1].keys:  # it is spoken of, and no longer what it left
                tx.run("set_topic_state", key=own["key"], cold=0, restored=group.root["restored"])
                tx.run("set_topic_state", key=group.root["key"], cold=group.root["cold"], restored=0)
            return find_topic(tx, principal, id)

        return await self._write(job)

    async def split(
        self, principal: Principal, id: str, messages: Sequence[str], title: str | None, *, now: datetime
    ) -> tuple[Standing, Group]:
        """Messages of a topic become a topic of their own."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, group = find_placed(tx, principal, id)
            rows = tx.all("members_of", key=standing.key, rows=to_json(group.keys), after=0)
            wanted = set(messages)
            chosen = [row for row in rows if row["id"] in wanted]
            if len(chosen) != len(wanted):
                raise NotFound("message_not_found", "Not all of these messages belong to this topic.")
            if len(chosen) == len(rows):
                raise InvalidInput("nothing_left", "All of the topic's messages would leave it.")
            self._texts.fill(tx, chosen)
            first = next((row for row in chosen if row["role"] == "user"), chosen[0])
            new_id = unused_id(tx, principal, standing.conversation, f"{first['id']}\0{id}\0{standing.version}")
            opened = {"opened": first["seq"], "at": first["at"], "by_hand": 1}
            named = topics.title_of(first["content"]) if title is None else title
            made = tx.one("insert_topic", key=standing.key, id=new_id, title=named, **opened)
            assert made is not None  # noqa: S101 - inserted just now
            if title is not None:
                tx.run("retitle_topic", key=made["key"], title=title, named=1)
            tx.many("move_message", [{"key": standing.key, "seq": row["seq"], "topic": made["key"]} for row in chosen])
            moved = {row["seq"] for row in chosen}
            for row in group.rows:
                if row["opened_seq"] in moved:
                    reopen_topic(tx, row, self._texts)
            _share(tx, group, made["key"], chosen)
            if tx.run("enter_topic", key=standing.key, topic=made["key"]):  # what it left is not spoken of any more
                tx.run("set_topic_state", key=group.root["key"], cold=group.root["cold"], restored=0)
                tx.run("set_topic_state", key=made["key"], cold=0, restored=group.root["restored"])
            tx.run("recount_topics", key=standing.key)
            close_ranks(tx, standing.key)
            if standing.is_active(group) and tx.one("topic_above", key=standing.active) is None:
                tx.run("move_active", key=standing.key, topic=standing.active, into=made["key"])
            for key in (*group.keys, made["key"]):
                tx.run("freshen_topic", key=key, now=times.to_micros(now))
            _regrouped(tx, standing, (group,))
            return find_topic(tx, principal, new_id)

        return await self._write(job)

    async def feedback(
        self, principal: Principal, message: str, conversation: str | None, kind: str, value: float, *, now: datetime
    ) -> None:
        """The newest word on a message counts; 0 takes it back."""

        def job(tx: Transaction) -> None:
            rows = tx.all("topic_of_message", person=principal.person, id=message, conversation=conversation)
            if not rows:
                raise no_message(message)
            if len(rows) > 1:
                told = f"{len(rows)} conversations have a message {message[:80]!r}: name the conversation."
                raise InvalidInput("ambiguous_message", told)
            tx.run("lock_conversation_key", key=rows[0]["conversation_key"])
            row = tx.one("topic_of_message", person=principal.person, id=message, conversation=rows[0]["name"])
            if row is None:
                raise no_message(message)  # erased while we waited
            at = {"key": row["conversation_key"], "seq": row["seq"], "kind": kind}
            if value:
                tx.run("put_feedback", **at, value=value * topics.FEEDBACK[kind], now=times.to_micros(now))
            else:
                tx.run("drop_feedback", **at)

        await self._write(job)


def _inherit(tx: Transaction, root: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """What people said of a topic that is merged holds for the whole; the part keeps its own, for when it leaves."""
    tags = dict.fromkeys([*json.loads(root["tags"]), *json.loads(other["tags"])])
    tx.run("tag_topic", key=root["key"], tags=to_json(list(tags)))
    tx.run("pin_topic", key=root["key"], pinned=int(bool(root["pinned"] or other["pinned"])))
    given = [one["importance"] for one in (root, other) if one["importance"] is not None]
    tx.run("weigh_topic", key=root["key"], importance=max(given, default=None))


def _wake(tx: Transaction, standing: Standing, target: Group, other: Group) -> None:
    """A merged topic rests only if both did. If it is spoken of, all of what rested is back; a part has no say."""
    root, part = target.root, other.root
    is_active = standing.is_active(target) or standing.is_active(other)
    cold = bool(root["cold"] and part["cold"] and not is_active)
    back = any(row["restored"] or (row["cold"] and is_active) for row in (root, part))
    tx.run("set_topic_state", key=root["key"], cold=int(cold), restored=int(back))
    tx.run("set_topic_state", key=part["key"], cold=part["cold"], restored=0)


def _share(tx: Transaction, group: Group, part: int, moved: Sequence[Row]) -> None:
    """What is split off takes its accesses along, and its importance."""
    users = Counter(row["topic_key"] for row in moved if row["role"] == "user")
    tx.run("set_accesses", key=part, accesses=max(0, users.total() - 1))
    for row in group.rows:
        tx.run("set_accesses", key=row["key"], accesses=max(0, row["accesses"] - users[row["key"]]))
    given = [row["importance"] for row in moved if row["role"] == "user" and row["importance"] is not None]
    tx.run("weigh_topic", key=part, importance=max(given, default=group.root["importance"]))


def no_message(id: str) -> NotFound:
    return NotFound("message_not_found", f"There is no message {id[:80]!r}.")


def _regrouped(tx: Transaction, standing: Standing, groups: Sequence[Group]) -> None:
    """By hand: what is told of these topics, and their centroids, are made anew; and the grouping stays."""
    tx.many("untell_topic", [{"key": key} for group in groups for key in group.keys])
    tx.run("grouped_by_hand", key=standing.key)
    tx.run("topics_changed", key=standing.key)
