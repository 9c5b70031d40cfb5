"""Topics as they are stored: read, given their messages, told, and left when they faded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.core import topics
from recollect.core.drafts import to_json
from recollect.core.errors import Conflict, NotFound
from recollect.core.models import Message, Principal
from recollect.core.topics import Group, grouped
from recollect.storage.driver import Row, Run, Transaction
from recollect.storage.rows import to_message
from recollect.storage.texts import Texts


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
    """What placing some messages comes to."""

    through: int
    touched: Sequence[Touched]
    active: Touched | None  # the topic that is spoken of now
    before: Touched | None  # see Standing
    rested: bool
    gone: Sequence[tuple[int, Touched]]  # a topic that was none after all, and where its messages belong


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


def active_of(tx: Transaction, principal: Principal, conversation: str, *, most: int) -> Active | None:
    """With at most so many of its messages."""
    row = tx.one("active_topic", person=principal.person, conversation=conversation)
    if row is None:
        return None
    seqs = [one["seq"] for one in tx.all("newest_members", key=row["key"], limit=most)]
    seen = {row["key"]}
    while row["merged_into"] is not None and row["merged_into"] not in seen:
        row = tx.one("topic_above", key=row["merged_into"]) or row | {"merged_into": None}
        seen.add(row["key"])
        seqs += [one["seq"] for one in tx.all("newest_members", key=row["key"], limit=most)]
    return Active(row["conversation"], row["key"], row["id"], row["title"], row["summary"], row["summary_seq"], seqs)


def no_topic(id: str) -> NotFound:
    return NotFound("topic_not_found", f"There is no topic {id[:80]!r}.")


class Topics:
    def __init__(self, read: Run, write: Run, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    # Reading

    async def standing(self, principal: Principal, conversation: str) -> Standing | None:
        return await self._read(lambda tx: standing_of(tx, principal, conversation))

    async def all(self, principal: Principal, conversation: str) -> tuple[Standing, list[Group]] | None:
        """The topics of a conversation in the order in which they were opened."""

        def job(tx: Transaction) -> tuple[Standing, list[Group]] | None:
            standing = standing_of(tx, principal, conversation)
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

    # Placing

    async def slice(
        self, principal: Principal, conversation: str, *, after: int | None, through: int = 0
    ) -> Slice | None:
        """None if messages are placed up to another place by now. Without `after` only the topics are read."""

        def job(tx: Transaction) -> Slice | None:
            standing = standing_of(tx, principal, conversation)
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

    async def vectors_of(self, principal: Principal, group: Group, embedder: int) -> list[Row]:
        """What the centroid of a topic is made of, in the order of the log."""

        def job(tx: Transaction) -> list[Row]:
            found = [row for key in group.keys for row in tx.all("topic_vectors", key=key, embedder=embedder)]
            return self._texts.fill(tx, sorted(found, key=lambda row: int(row["seq"])))

        return await self._read(job)

    async def save_placed(self, principal: Principal, before: Standing, made: Placement) -> bool:
        """Messages get their topics, unless somebody else placed them or changed topics meanwhile."""

        def job(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=before.conversation)
            if standing_of(tx, principal, before.conversation) != before:
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
                active=before.active if made.active is None else keys[id(made.active)],
                before=None if made.before is None else keys[id(made.before)],
                rested=int(made.rested),
                generation=before.generation,
            )
            return True

        return await self._write(job)

    def _save_topic(self, tx: Transaction, principal: Principal, before: Standing, one: Touched) -> int:
        key = one.key
        if key is None:
            name = unused_id(tx, principal, before.conversation, f"{one.opening_id}\0{one.opened}")
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

    async def hot(self, principal: Principal, standing: Standing, group: Group) -> tuple[list[Row], int | None]:
        """Its messages outside the archive, with their texts; and the first user message of the conversation.

        What has been folded up to a place is not looked at again; that first message alone may still be among it.
        """

        def job(tx: Transaction) -> tuple[list[Row], int | None]:
            first = tx.one("opening_message", key=standing.key) or {"seq": None}
            asked = {"key": standing.key, "rows": to_json(group.keys), "after": group.root["folded_seq"]}
            return tx.all("hot_members", **asked), first["seq"]

        return await self._read(job)

    async def tell(self, principal: Principal, standing: Standing, topic: int, summary: bytes, *, through: int) -> bool:
        """Unless the topics were changed meanwhile."""

        def job(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            now = standing_of(tx, principal, standing.conversation)
            if now is None or not now.same_rows(standing):
                return False
            return bool(tx.run("tell_topic", key=topic, summary=summary, through=through))

        return await self._write(job)

    async def cool(
        self, principal: Principal, standing: Standing, fading: Callable[[Sequence[Group], Standing], Sequence[Group]]
    ) -> int:
        """Those that are `fading` leave the topics that count; it decides by what they are now."""

        def job(tx: Transaction) -> int:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            now = standing_of(tx, principal, standing.conversation)
            if now is None or (now.key, now.generation) != (standing.key, standing.generation):
                return 0
            left = [one.root["key"] for one in fading(grouped(tx.all("topics_of", key=now.key)), now)]
            tx.many("cool_topic", [{"key": key} for key in left])
            if left:
                tx.run("topics_changed", key=now.key)
            return len(left)

        return await self._write(job)

    async def look_again(self, *, most: int) -> None:
        """Let the worker look at conversations with more than so many topics once more."""
        await self._write(lambda tx: tx.run("refold_crowded", most=most))


def unused_id(tx: Transaction, principal: Principal, conversation: str, opening: str) -> str:
    """Of what opened it, so that a topic which is made anew has the same; another one if there is such a topic."""
    while True:
        told = "\0".join((principal.person, conversation, opening)).encode("utf-8", "surrogatepass")
        found = "t-" + hashlib.blake2b(told, digest_size=12).hexdigest()
        if tx.one("conversation_of_topic", person=principal.person, id=found) is None:
            return found
        opening += "\0"


def standing_of(tx: Transaction, principal: Principal, conversation: str) -> Standing | None:
    row = tx.one("topic_standing", person=principal.person, conversation=conversation)
    if row is None:
        return None
    return Standing(
        row["key"], conversation, row["zone"], row["topiced_seq"], row["active_topic"], row["topic_before"],
        bool(row["topic_rested"]), row["generation"], row["topics_version"], row["embedder"], row["embedder_name"],
        row["dimensions"] or 0,
    )  # fmt: skip


def find_placed(tx: Transaction, principal: Principal, id: str) -> tuple[Standing, Group]:
    """A topic to do something with its messages, locked. Refused while they are being placed anew."""
    standing, group = find_topic(tx, principal, id, lock=True)
    if group.waits:
        told = "The messages of this topic are being placed anew; try again when the rebuild is through."
        raise Conflict("topic_being_rebuilt", told, retryable=True)
    return standing, group


def find_topic(tx: Transaction, principal: Principal, id: str, *, lock: bool = False) -> tuple[Standing, Group]:
    found = tx.one("conversation_of_topic", person=principal.person, id=id)
    if found is None:
        raise no_topic(id)
    if lock:
        tx.one("lock_conversation", person=principal.person, conversation=found["name"])
    standing = standing_of(tx, principal, found["name"])
    groups = grouped(tx.all("topics_of", key=found["key"]))
    group = next((one for one in groups if found["topic"] in one.keys), None)
    if standing is None or group is None:
        raise no_topic(id)
    return standing, group


def reopen_topic(tx: Transaction, topic: Mapping[str, Any], texts: Texts) -> None:
    """The message that opened a topic left it: another one opens it now, and gives it its title."""
    for opening in texts.fill(tx, tx.all("opening_of_topic", key=topic["key"])):
        tx.run("reopen_topic", key=topic["key"], opened=opening["seq"])
        if not topic["named"]:
            tx.run("retitle_topic", key=topic["key"], title=topics.title_of(opening["content"]), named=0)


def close_ranks(tx: Transaction, key: int) -> int:
    """After messages left topics of a conversation, and topics were counted anew. How many topics went.

    A topic that has no message of its own any more, but parts that were merged into it, takes over the first of them:
    what people said of the whole stays. Other empty ones go, unless they wait for their first message (a rebuild).
    """
    for group in grouped(tx.all("topics_of", key=key)):
        parts = [row for row in group.merged if row["messages"]]
        if not group.root["messages"] and not group.waits and parts:
            _take_over(tx, key, group.root, parts[0])
    empty = tx.all("empty_topics", key=key)
    for row in empty:
        tx.run("hang_higher", key=row["key"])
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
