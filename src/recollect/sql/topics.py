"""Topics as they are stored: read, placed, folded into the archive, and what people do with them by hand."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from recollect.core import archive, times, topics
from recollect.core.archive import Damaged, Dictionary
from recollect.core.drafts import to_json
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.models import Message, Principal
from recollect.core.topics import Group, grouped
from recollect.sql.archiving import are_in, pack, save_block, tainted_dictionaries
from recollect.sql.driver import Row, Run, Transaction
from recollect.sql.rows import to_message
from recollect.sql.texts import Texts, packed_keys

T = TypeVar("T")
_CHANGES: Final = {  # the query of each
    "title": "retitle_topic",
    "tags": "tag_topic",
    "pinned": "pin_topic",
    "importance": "weigh_topic",
    "rest": "cool_topic",
    "spoken_of": "warm_topic",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the topics of a conversation stand."""

    key: int
    conversation: str
    zone: str
    placed: int  # through which seq messages belong to topics
    active: int | None
    before: int | None  # while the active topic is new and has no reply: the one that was active before
    rested: bool  # and whether the talk had rested then
    generation: int
    version: int  # another one, if the topics were changed other than by placing
    embedder: int | None  # the one in force
    embedder_name: str | None
    dimensions: int

    def same_rows(self, other: Standing) -> bool:
        """Whether what was read of the topics there is still so, but for messages that joined them since."""
        return (self.key, self.generation, self.version) == (other.key, other.generation, other.version)

    def is_active(self, group: Group) -> bool:
        return self.active in group.keys


@dataclass(frozen=True, slots=True)
class Slice:
    """What placing needs: the topics with their sums, and the messages to place."""

    standing: Standing
    groups: Sequence[Group]
    sums: Mapping[int, bytes]
    messages: Sequence[Row]
    last_at: int | None  # when the message before them was said


@dataclass(slots=True)
class Touched:
    """A topic after messages were placed; a new one has no key yet."""

    key: int | None
    opened: int
    opening_id: str
    title: str
    created_at: int
    active_at: int
    active_seq: int
    accesses: int
    restored: bool
    cold: bool
    importance: float | None
    sums: bytes | None = None
    archived: bool = False  # something of it rests in the archive
    archived_now: int = 0  # of the messages that were placed
    changed: bool = False
    seqs: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placement:
    """What placing some messages comes to: topics with their messages, of which the first is active now."""

    through: int
    touched: Sequence[Touched]
    before: Touched | None  # see Standing
    rested: bool
    gone: Sequence[tuple[int, Touched]]  # a topic that was none after all, and where its messages belong


@dataclass(frozen=True, slots=True)
class Folded:
    """Texts on their way into the archive: a block that takes the place of the one it extends."""

    extended: int | None  # the block that goes
    said: Mapping[int, str]  # all of the new block, by the keys of the messages
    fresh: Sequence[int]  # of them, those whose text is not archived yet
    body: bytes
    dictionary: Dictionary
    through: int  # all that the topic has up to this seq is archived then, but for the conversation's first message


@dataclass(frozen=True, slots=True)
class Active:
    """The topic that is spoken of now: what is told of it, and where its newest messages stand."""

    conversation: int
    key: int
    id: str
    title: str
    summary: bytes | None  # as it is stored
    summary_seq: int
    seqs: Sequence[int]


def no_topic(id: str) -> NotFound:
    return NotFound("topic_not_found", f"There is no topic {id[:80]!r}.")


class Topics:
    def __init__(self, read: Run, write: Run, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    # Reading

    async def standing(self, principal: Principal, conversation: str) -> Standing | None:
        return await self._read(lambda tx: _standing(tx, principal, conversation))

    async def all(self, principal: Principal, conversation: str) -> tuple[Standing, list[Group]] | None:
        """The topics of a conversation in the order in which they were opened."""

        def job(tx: Transaction) -> tuple[Standing, list[Group]] | None:
            standing = _standing(tx, principal, conversation)
            return None if standing is None else (standing, grouped(tx.all("topics_of", key=standing.key)))

        return await self._read(job)

    async def find(self, principal: Principal, id: str) -> tuple[Standing, Group]:
        """The topic with this id, or the one it was merged into."""
        return await self._read(lambda tx: find_topic(tx, principal, id))

    async def members(
        self, principal: Principal, standing: Standing, group: Group, *, hot: bool = False, after: int = 0
    ) -> list[Message]:
        """Its messages in the order of the log; `hot`: only those outside the archive."""

        def job(tx: Transaction) -> list[Row]:
            asked = {"key": standing.key, "rows": to_json(group.keys)}
            return self._texts.fill(tx, tx.all("hot_members" if hot else "members_of", **asked, after=after))

        return [to_message(row, standing.conversation) for row in await self._read(job)]

    async def at(self, principal: Principal, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Which topic messages belong to, by conversation key and seq of messages that were found under the person."""
        rows = await self._read(lambda tx: tx.all("topics_at", cursors=to_json(places)))
        return {(row["conversation_key"], row["seq"]): row["topic_key"] for row in rows}

    async def active(self, principal: Principal, conversation: str, *, most: int) -> Active | None:
        """With at most so many of its messages."""

        def job(tx: Transaction) -> Active | None:
            row = tx.one("active_topic", person=principal.person, conversation=conversation)
            if row is None:
                return None
            seqs = [one["seq"] for one in tx.all("newest_members", key=row["key"], limit=most)]
            seen = {row["key"]}
            while row["merged_into"] is not None and row["merged_into"] not in seen:
                row = tx.one("topic_above", key=row["merged_into"]) or row | {"merged_into": None}
                seen.add(row["key"])
                seqs += [one["seq"] for one in tx.all("newest_members", key=row["key"], limit=most)]
            return Active(
                row["conversation"], row["key"], row["id"], row["title"], row["summary"], row["summary_seq"], seqs
            )

        return await self._read(job)

    # Placing

    async def slice(
        self, principal: Principal, conversation: str, *, after: int | None, through: int = 0
    ) -> Slice | None:
        """None if messages are placed up to another place by now. Without `after` only the topics are read."""

        def job(tx: Transaction) -> Slice | None:
            standing = _standing(tx, principal, conversation)
            if standing is None or after not in (None, standing.placed):
                return None
            after_now = standing.placed
            asked = {"key": standing.key, "after": after_now, "through": through, "embedder": standing.embedder}
            messages = self._texts.fill(tx, tx.all("topic_slice", **asked))
            rows = tx.all("topics_of", key=standing.key)
            sums = {row["key"]: row["sums"] for row in tx.all("topic_sums", key=standing.key)}
            last = tx.one("last_moment", key=standing.key, through=after_now)
            return Slice(standing, grouped(rows), sums, messages, None if last is None else last["at"])

        return await self._read(job)

    async def vectors_of(self, group: Group, embedder: int) -> list[Row]:
        """What the centroid of a topic is made of, in the order of the log."""

        def job(tx: Transaction) -> list[Row]:
            found = [row for key in group.keys for row in tx.all("topic_vectors", key=key, embedder=embedder)]
            return self._texts.fill(tx, sorted(found, key=lambda row: int(row["seq"])))

        return await self._read(job)

    async def save_placed(self, principal: Principal, before: Standing, made: Placement) -> bool:
        """Messages get their topics, unless somebody else placed them or changed topics meanwhile."""

        def job(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=before.conversation)
            if _standing(tx, principal, before.conversation) != before:
                return False
            keys = {id(one): self._save_topic(tx, principal, before, one) for one in made.touched}
            for key, into in made.gone:
                tx.run("move_members", key=key, into=keys[id(into)])
                tx.run("delete_topic", key=key)
                tx.run("recount_topic", key=keys[id(into)])
            tx.run(
                "mark_topiced",
                key=before.key,
                after=before.placed,
                through=made.through,
                active=keys[id(made.touched[0])] if made.touched else before.active,
                before=None if made.before is None else keys[id(made.before)],
                rested=int(made.rested),
                generation=before.generation,
            )
            return True

        return await self._write(job)

    def _save_topic(self, tx: Transaction, principal: Principal, before: Standing, one: Touched) -> int:
        key = one.key
        if key is None:
            name = topic_id(principal.person, before.conversation, f"{one.opening_id}\0{one.opened}")
            opened = {"opened": one.opened, "at": one.created_at, "title": one.title, "by_hand": 0}
            row = tx.one("insert_topic", key=before.key, id=name, **opened)
            assert row is not None  # noqa: S101 - inserted just now
            key = int(row["key"])
        if one.seqs:
            tx.run("place_messages", key=before.key, rows=to_json([(seq, key) for seq in one.seqs]))
        tx.run(
            "save_topic",
            key=key,
            accesses=one.accesses,
            active_at=one.active_at,
            active_seq=one.active_seq,
            restored=int(one.restored),
            cold=int(one.cold),
            importance=one.importance,
            embedder=before.embedder,
            sums=one.sums,
            archived=one.archived_now,
        )
        return key

    # Folding

    async def hot(self, standing: Standing, group: Group) -> tuple[list[Row], int | None]:
        """Its messages outside the archive, with their texts; and the first user message of the conversation.

        What has been folded up to a place is not looked at again; that first message alone may still be among it.
        """

        def job(tx: Transaction) -> tuple[list[Row], int | None]:
            first = tx.one("opening_message", key=standing.key) or {"seq": None}
            asked = {"key": standing.key, "rows": to_json(group.keys), "after": group.root["folded_seq"]}
            return tx.all("hot_members", **asked), first["seq"]

        return await self._read(job)

    async def block(self, standing: Standing, key: int | None) -> dict[int, str] | None:
        """The texts of a block that can be extended, by the keys of their messages."""

        def job(tx: Transaction) -> dict[int, str] | None:
            said = None if key is None else self._texts.unpack(tx, [key]).get(key)
            return said if key is not None and said is not None and len(are_in(tx, said, key)) == len(said) else None

        return await self._read(job)

    async def dictionary(self, principal: Principal) -> Dictionary:
        """The one that packs best for the person: the newest they have, or the shipped one."""

        def job(tx: Transaction) -> Dictionary:
            newest = (tx.one("newest_dictionary", person=principal.person) or {}).get("key")
            with suppress(KeyError, Damaged):
                return archive.shipped() if newest is None else self._texts.dictionary(tx, newest)
            return archive.shipped()

        return await self._read(job)

    async def save_folded(self, principal: Principal, standing: Standing, folded: Folded, root: int) -> int | None:
        """The texts leave the hot table, if all is still as it was when they were packed. The key of their block."""

        def job(tx: Transaction) -> int | None:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            fresh, old = to_json(folded.fresh), [key for key in folded.said if key not in set(folded.fresh)]
            there = {row["message_key"]: row["content"] for row in tx.all("texts_of", rows=fresh)}
            if there != {key: folded.said[key] for key in folded.fresh} or not self._knows(tx, folded.dictionary):
                return None
            if folded.extended is not None and are_in(tx, old, folded.extended) != old:
                return None
            block = save_block(tx, standing.key, folded.said, folded.body, folded.dictionary.id)
            tx.run("delete_texts", rows=fresh)
            if folded.extended is not None:
                tx.run("delete_block", key=folded.extended)
            for row in tx.all("topics_among", rows=fresh):  # where they belong by now
                tx.run("count_archived", key=row["topic_key"], messages=row["messages"])
            tx.run("extend_topic", key=root, block=block, through=folded.through)
            return block

        return await self._write(job)

    async def tell(self, principal: Principal, standing: Standing, topic: int, summary: bytes, *, through: int) -> bool:
        """Unless the topics were changed meanwhile."""

        def job(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            now = _standing(tx, principal, standing.conversation)
            if now is None or not now.same_rows(standing):
                return False
            return bool(tx.run("tell_topic", key=topic, summary=summary, through=through))

        return await self._write(job)

    async def cool(self, principal: Principal, standing: Standing, groups: Sequence[Group]) -> int:
        """They leave the topics that count, unless one has become active meanwhile."""

        def job(tx: Transaction) -> int:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            now = _standing(tx, principal, standing.conversation)
            left = [one for one in groups if now is not None and now.key == standing.key and not now.is_active(one)]
            return sum(tx.run("cool_topic", key=one.root["key"]) for one in left)

        return await self._write(job)

    async def look_again(self, *, most: int) -> None:
        """Let the worker look at conversations with more than so many topics once more."""
        await self._write(lambda tx: tx.run("refold_crowded", most=most))

    # Dictionaries

    async def archive_size(self, principal: Principal) -> tuple[int, int]:
        """Bytes of the person's archived text, and what they were when the newest dictionary was learned."""
        row = await self._read(lambda tx: tx.one("archive_size", person=principal.person)) or {}
        return int(row.get("text_bytes") or 0), int(row.get("learned_at") or 0)

    async def archived_sample(self, principal: Principal, *, most: int) -> tuple[list[int], list[str]]:
        """Some of the person's archived messages, spread over all of them: keys and texts of about so many bytes."""

        def job(tx: Transaction) -> tuple[list[int], list[str]]:
            keys = [row["message_key"] for row in tx.all("archived_keys", person=principal.person)]
            total = int((tx.one("archive_size", person=principal.person) or {"text_bytes": 0})["text_bytes"])
            chosen = keys[:: max(1, total // most)]
            rows = self._texts.fill(tx, [{"key": key, "content": None} for key in chosen])
            kept = [row for row in rows if row["content"]]
            return [row["key"] for row in kept], [row["content"] for row in kept]

        return await self._read(job)

    async def save_dictionary(
        self, principal: Principal, body: bytes, learned_from: Sequence[int], *, text_bytes: int, now: datetime
    ) -> int | None:
        """The key of the new dictionary; None if one of the messages is gone by now."""

        def job(tx: Transaction) -> int | None:
            tx.all("lock_conversations", person=principal.person)
            learned = {"text_bytes": text_bytes, "now": times.to_micros(now), "body": archive.pack(body)}
            learned["learned_from"] = packed_keys(sorted(learned_from))
            row = tx.one("insert_dictionary", person=principal.person, **learned)
            assert row is not None  # noqa: S101 - inserted just now
            key = int(row["key"])
            if key in tainted_dictionaries(tx, principal.person):
                tx.run("delete_dictionary", key=key, person=principal.person)
                return None
            return key

        return await self._write(job)

    async def repack(self, principal: Principal, dictionary: Dictionary, *, after: int, limit: int) -> tuple[int, int]:
        """Pack some blocks of the person anew with this dictionary. The key to go on after (0: done), and how many."""

        def find(tx: Transaction) -> list[tuple[Row, dict[int, str] | None]]:
            asked = {"person": principal.person, "dictionary": dictionary.id, "after": after, "limit": limit}
            rows = tx.all("blocks_of_others", **asked)
            said = self._texts.unpack(tx, [row["key"] for row in rows])
            return [(row, said.get(row["key"])) for row in rows]

        found = await self._read(find)
        readable = [(row, said) for row, said in found if said is not None]
        bodies = await asyncio.to_thread(lambda: [pack(said, dictionary) for _, said in readable])
        packed = [(row, said, body) for (row, said), body in zip(readable, bodies, strict=True)]
        better = [one for one in packed if len(one[2]) < len(one[0]["body"])]

        def job(tx: Transaction) -> int:
            for key in sorted({row["conversation_key"] for row, _, _ in better}):
                tx.run("lock_conversation_key", key=key)
            if not self._knows(tx, dictionary):
                return 0
            return sum(_swap(tx, row, said, body, dictionary.id) for row, said, body in better)

        done = await self._write(job) if better else 0
        return (int(found[-1][0]["key"]) if len(found) == limit else 0), done

    async def drop_unused_dictionaries(self, principal: Principal) -> None:
        def job(tx: Transaction) -> None:
            tx.all("lock_conversations", person=principal.person)  # a fold may just be using one
            for row in tx.all("unused_dictionaries", person=principal.person):
                tx.run("delete_dictionary", key=row["key"], person=principal.person)

        if await self._read(lambda tx: tx.all("unused_dictionaries", person=principal.person)):
            await self._write(job)

    # By hand

    async def change(self, principal: Principal, id: str, what: str, **values: Any) -> tuple[Standing, Group]:
        """What people say of a topic: its `title`, `tags`, whether it is `pinned`, its `importance`; that it should
        `rest`, or is `spoken_of` again."""
        query = _CHANGES[what]

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, group = find_topic(tx, principal, id, lock=True)
            tx.run(query, key=group.root["key"], **values)
            tx.run("topics_changed", key=standing.key)
            return find_topic(tx, principal, id)

        return await self._write(job)

    async def merge(self, principal: Principal, into: str, id: str, *, now: datetime) -> tuple[Standing, Group]:
        """The second becomes part of the first; what it was stays known, so that it can be undone."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, target = find_topic(tx, principal, into, lock=True)
            other_standing, other = find_topic(tx, principal, id, lock=True)
            if standing.key != other_standing.key:
                raise InvalidInput("topics_apart", "Topics of two conversations cannot be merged.")
            if target.root["key"] == other.root["key"]:
                raise InvalidInput("same_topic", "These are one topic already.")
            tx.run("merge_topic", key=other.root["key"], into=target.root["key"], now=times.to_micros(now))
            _inherit(tx, target.root, other.root)
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
            return find_topic(tx, principal, id)

        return await self._write(job)

    async def split(
        self, principal: Principal, id: str, messages: Sequence[str], title: str | None, *, now: datetime
    ) -> tuple[Standing, Group]:
        """Messages of a topic become a topic of their own."""

        def job(tx: Transaction) -> tuple[Standing, Group]:
            standing, group = find_topic(tx, principal, id, lock=True)
            rows = tx.all("members_of", key=standing.key, rows=to_json(group.keys), after=0)
            wanted = set(messages)
            chosen = [row for row in rows if row["id"] in wanted]
            if len(chosen) != len(wanted):
                raise NotFound("message_not_found", "Not all of these messages belong to this topic.")
            if len(chosen) == len(rows):
                raise InvalidInput("nothing_left", "All of the topic's messages would leave it.")
            self._texts.fill(tx, chosen)
            first = next((row for row in chosen if row["role"] == "user"), chosen[0])
            new_id = topic_id(principal.person, standing.conversation, f"{first['id']}\0{id}\0{standing.version}")
            opened = {"opened": first["seq"], "at": first["at"], "by_hand": 1}
            named = topics.title_of(first["content"]) if title is None else title
            made = tx.one("insert_topic", key=standing.key, id=new_id, title=named, **opened)
            assert made is not None  # noqa: S101 - inserted just now
            if title is not None:
                tx.run("retitle_topic", key=made["key"], title=title, named=1)
            tx.many("move_message", [{"key": standing.key, "seq": row["seq"], "topic": made["key"]} for row in chosen])
            self._retitle(tx, group, {row["seq"] for row in chosen})
            _share(tx, group.root, made["key"], chosen)
            for key in (*group.keys, made["key"]):
                tx.run("freshen_topic", key=key, now=times.to_micros(now))
            tx.run("enter_topic", key=standing.key, topic=made["key"])
            tx.run("recount_topics", key=standing.key)
            _regrouped(tx, standing, (group,))
            return find_topic(tx, principal, new_id)

        return await self._write(job)

    def _retitle(self, tx: Transaction, group: Group, left: Collection[int]) -> None:
        """Topics whose opening message has left them take their titles from what they have now."""
        for row in group.rows:
            if row["opened_seq"] in left:
                opening = next(one for key in (row["key"], *group.keys) for one in tx.all("opening_of_topic", key=key))
                tx.run("thin_topic", key=row["key"], opened=opening["seq"], deletions=0)
                if not row["named"]:
                    said = self._texts.fill(tx, [opening])[0]["content"]
                    tx.run("retitle_topic", key=row["key"], title=topics.title_of(said), named=0)

    def _knows(self, tx: Transaction, dictionary: Dictionary) -> bool:
        """Whether a dictionary is still the one that the store has: an erase may have taken it, a restore replaced."""
        if dictionary.id < archive.LEARNED:
            return True
        row = tx.one("get_dictionary", key=dictionary.id)
        with suppress(Damaged):
            if row is not None and archive.unpack(row["body"]) == dictionary.body:
                return True
        self._texts.forget()
        return False

    async def feedback(
        self, principal: Principal, message: str, conversation: str | None, kind: str, value: float, *, now: datetime
    ) -> None:
        """The newest word on a message counts; 0 takes it back."""

        def job(tx: Transaction) -> None:
            rows = tx.all("topic_of_message", person=principal.person, id=message, conversation=conversation)
            if not rows:
                raise NotFound("message_not_found", f"There is no message {message[:80]!r}.")
            if len(rows) > 1:
                told = f"{len(rows)} conversations have a message {message[:80]!r}: name the conversation."
                raise InvalidInput("ambiguous_message", told)
            at = {"key": rows[0]["conversation_key"], "seq": rows[0]["seq"], "kind": kind}
            if value:
                tx.run("put_feedback", **at, value=value * topics.FEEDBACK[kind], now=times.to_micros(now))
            else:
                tx.run("drop_feedback", **at)

        await self._write(job)


def topic_id(person: str, conversation: str, opening: str) -> str:
    """Of what opened it, so that a topic which is made anew has the same."""
    told = "\0".join((person, conversation, opening)).encode("utf-8", "surrogatepass")
    return "t-" + hashlib.blake2b(told, digest_size=12).hexdigest()


def _standing(tx: Transaction, principal: Principal, conversation: str) -> Standing | None:
    row = tx.one("topic_standing", person=principal.person, conversation=conversation)
    if row is None:
        return None
    return Standing(
        row["key"], conversation, row["zone"], row["topiced_seq"], row["active_topic"], row["topic_before"],
        bool(row["topic_rested"]), row["generation"], row["topics_version"], row["embedder"], row["embedder_name"],
        row["dimensions"] or 0,
    )  # fmt: skip


def find_topic(tx: Transaction, principal: Principal, id: str, *, lock: bool = False) -> tuple[Standing, Group]:
    found = tx.one("conversation_of_topic", person=principal.person, id=id)
    if found is None:
        raise no_topic(id)
    if lock:
        tx.one("lock_conversation", person=principal.person, conversation=found["name"])
    standing = _standing(tx, principal, found["name"])
    groups = grouped(tx.all("topics_of", key=found["key"]))
    group = next((one for one in groups if found["topic"] in one.keys), None)
    if standing is None or group is None:
        raise no_topic(id)
    return standing, group


def _inherit(tx: Transaction, root: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """What people said of a topic that is merged holds for the whole; the part keeps its own, for when it leaves."""
    tags = dict.fromkeys([*json.loads(root["tags"]), *json.loads(other["tags"])])
    tx.run("tag_topic", key=root["key"], tags=to_json(list(tags)))
    tx.run("pin_topic", key=root["key"], pinned=int(bool(root["pinned"] or other["pinned"])))
    given = [one["importance"] for one in (root, other) if one["importance"] is not None]
    tx.run("weigh_topic", key=root["key"], importance=max(given, default=None))


def _share(tx: Transaction, root: Mapping[str, Any], part: int, moved: Sequence[Row]) -> None:
    """What is split off takes its accesses along, and its importance."""
    users = sum(row["role"] == "user" for row in moved)
    tx.run("set_accesses", key=part, accesses=max(0, users - 1))
    tx.run("set_accesses", key=root["key"], accesses=max(0, root["accesses"] - users))
    given = [row["importance"] for row in moved if row["role"] == "user" and row["importance"] is not None]
    tx.run("weigh_topic", key=part, importance=max(given, default=root["importance"]))


def _regrouped(tx: Transaction, standing: Standing, groups: Sequence[Group]) -> None:
    """By hand: what is told of these topics, and their centroids, are made anew; and the grouping stays."""
    tx.many("untell_topic", [{"key": key} for group in groups for key in group.keys])
    tx.run("grouped_by_hand", key=standing.key)
    tx.run("topics_changed", key=standing.key)


def _swap(tx: Transaction, row: Row, said: Mapping[int, str], body: bytes, dictionary: int) -> bool:
    """The same texts in another block, if the old one is still as it was."""
    if not said or len(are_in(tx, said, row["key"])) != len(said):
        return False
    save_block(tx, row["conversation_key"], said, body, dictionary)
    tx.run("delete_block", key=row["key"])
    return True
