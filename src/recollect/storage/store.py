"""The one store: what is kept, read and erased, for a principal, on either database.

Every method takes the principal first. Each is one transaction: all of it happens or nothing does.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from recollect.core import times, word_index
from recollect.core.drafts import to_json
from recollect.core.models import (
    OPERATOR,
    About,
    Appended,
    Conversation,
    Draft,
    Finding,
    JsonObject,
    Message,
    Principal,
)
from recollect.core.profile import Profile
from recollect.storage.append import Request, append, save_entries
from recollect.storage.archive import Archive
from recollect.storage.audit import LIBRARY, Act, Audit, write_audit
from recollect.storage.briefs import Briefs
from recollect.storage.driver import Driver, Job, Purged, Row, Transaction
from recollect.storage.erase import Erasing, no_conversation
from recollect.storage.profiles import Profiles, usable_profile
from recollect.storage.rows import MadeOf, to_conversation, to_message, unchanged
from recollect.storage.scope_updates import Beside, Known, News, State, is_as_it_was, load_beside, load_scope
from recollect.storage.server_state import Serving
from recollect.storage.texts import Texts
from recollect.storage.topic_edits import TopicEdits
from recollect.storage.topics import Topics
from recollect.storage.vectors import Vectors

T = TypeVar("T")
EVERYTHING: Final = 2**62
FEW: Final = 200  # messages that are read at once


class SqlStore:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._texts = Texts()
        self.briefs = Briefs(self._read, self._write, self._texts)
        self.topics = Topics(self._read, self._write, self._texts)
        self.topic_edits = TopicEdits(self._write, self._texts)
        self.archive = Archive(self._read, self._write, self._texts)
        self.serving = Serving(self._read_short, self._write)
        self.vectors = Vectors(self._read, self._write, self._texts)
        self.profiles = Profiles(self._read_short, self._write)
        self.audit = Audit(self._read, self._write)

    @property
    def dialect(self) -> str:
        return self._driver.dialect

    async def open(self, now: datetime) -> None:
        await asyncio.to_thread(self._driver.open, times.to_micros(now))
        await self._write(lambda tx: tx.run("outdate_words", version=word_index.VERSION))

    async def close(self) -> None:
        await asyncio.to_thread(self._driver.close)

    async def _read(self, job: Job[T]) -> T:
        return await asyncio.wrap_future(self._driver.read(job))

    async def _read_short(self, job: Job[T], name: Hashable = None) -> T:
        """For few rows by their keys; see `Driver.read`."""
        future = self._driver.read(job, short=True, name=name)
        return future.result() if future.done() else await asyncio.wrap_future(future)

    def read_inline(self) -> None:
        """Short reads run where they are asked for, if the database is a file: changing threads takes longer."""
        self._driver.read_inline()

    async def _write(self, job: Job[T]) -> T:
        return await asyncio.wrap_future(self._driver.write(job))

    async def _said(self, query: str, **params: Any) -> list[Row]:
        """Rows of messages with their texts, wherever those lie."""
        return await self._read(lambda tx: self._texts.fill(tx, tx.all(query, **params)))

    # The log

    async def append(
        self,
        principal: Principal,
        conversation: str,
        drafts: Sequence[Draft],
        *,
        now: datetime,
        about: About | None = None,
    ) -> list[Appended]:
        """Store the drafts that are not known yet, in their order, and return all of them as they are stored.

        `about` describes the conversation if this creates it; one that exists keeps its own title, tags and zone.
        """
        return await asyncio.wrap_future(self.submit(principal, conversation, drafts, now=now, about=about))

    def submit(
        self,
        principal: Principal,
        conversation: str,
        drafts: Sequence[Draft],
        *,
        now: datetime,
        about: About | None = None,
    ) -> Future[list[Appended]]:
        """`append` without an event loop: the future resolves when the messages are durable."""
        prepared = [(draft, word_index.encode(draft.content, draft.name, draft.model_variant)) for draft in drafts]
        moment = times.to_micros(now)
        request = Request(principal, conversation, about or About(), moment, prepared)
        return self._driver.write_together(self._append, request)

    def _append(self, tx: Transaction, requests: Sequence[Request]) -> list[list[Appended]]:
        return append(tx, requests, self._texts)

    async def history(
        self, principal: Principal, conversation: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Message]:
        """The newest `limit` messages below `before`, in the order of seq."""
        rows = await self._said(
            "history",
            person=principal.person,
            conversation=conversation,
            before=EVERYTHING if before is None else min(before, EVERYTHING),
            limit=EVERYTHING if limit is None else min(limit, EVERYTHING),
        )
        return [to_message(row, conversation) for row in reversed(rows)]

    async def find_message(self, principal: Principal, conversation: str, id: str) -> Message | None:
        scope = {"person": principal.person, "conversation": conversation}
        rows = await self._read(lambda tx: tx.all("find_messages", **scope, id=id))
        if not rows:
            return None
        found = await self.history(principal, conversation, before=rows[0]["seq"] + 1, limit=1)
        return next((message for message in found if message.id == id), None)

    async def page(self, principal: Principal, conversation: str, *, after: int, limit: int) -> list[Message]:
        """The next `limit` messages above `after`: for walking a long conversation."""
        rows = await self._said("page", person=principal.person, conversation=conversation, after=after, limit=limit)
        return [to_message(row, conversation) for row in rows]

    async def conversations(self, principal: Principal) -> list[Conversation]:
        return [to_conversation(row) for row in await self._describe(principal, None)]

    async def given_titles(self, principal: Principal) -> list[tuple[Conversation, str | None]]:
        """All conversations, oldest first, with the title somebody gave them (the record may show a derived one)."""
        rows = sorted(await self._describe(principal, None), key=lambda row: int(row["key"]))
        return [(to_conversation(row), row["title"]) for row in rows]

    async def conversation(self, principal: Principal, conversation: str) -> Conversation:
        found = await self._describe(principal, conversation)
        if not found:
            raise no_conversation(conversation)
        return to_conversation(found[0])

    async def _describe(self, principal: Principal, conversation: str | None) -> list[Row]:
        return await self._read(lambda tx: self._described(tx, principal, conversation))

    def _described(self, tx: Transaction, principal: Principal, conversation: str | None) -> list[Row]:
        rows = tx.all("describe_conversations", person=principal.person, conversation=conversation)
        archived = [row for row in rows if row["opened_by"] is not None and row["opening"] is None]
        said = [{"key": row["opened_by"], "content": None} for row in archived]
        for row, message in zip(archived, self._texts.fill(tx, said), strict=True):
            row["opening"] = message["content"]
        return rows

    async def update_conversation(self, principal: Principal, conversation: str, **changes: Any) -> Conversation:
        """Set any of title, tags, zone."""

        def job(tx: Transaction) -> Row:
            changed = tx.run(
                "update_conversation",
                person=principal.person,
                conversation=conversation,
                set_title=int("title" in changes),
                title=changes.get("title"),
                tags=to_json(changes["tags"]) if "tags" in changes else None,
                zone=changes.get("zone"),
            )
            found = self._described(tx, principal, conversation)
            if not changed or not found:
                raise no_conversation(conversation)
            return found[0]

        return to_conversation(await self._write(job))

    async def stats(self, principal: Principal) -> JsonObject:
        def job(tx: Transaction) -> JsonObject:
            totals = tx.one("count_rows", person=principal.person) or {}
            roles = tx.all("count_roles", person=principal.person)
            size = tx.one("store_bytes") or {}
            return totals | size | {"roles": {row["role"]: row["messages"] for row in roles}}

        found = await self._read(job)
        for name in ("first_at", "last_at"):
            found[name] = None if found[name] is None else times.from_micros(found[name])
        return {name: int(value) if name in _NUMBERS else value for name, value in found.items()}

    async def count_known(self, principal: Principal, conversation: str, ids: Sequence[str]) -> int:
        """How many of these message ids are stored already."""

        def job(tx: Transaction) -> int:
            row = tx.one("get_conversation", person=principal.person, conversation=conversation)
            return 0 if row is None else len(tx.all("known_messages", key=row["key"], ids=to_json(ids)))

        return await self._read(job)

    # Erasing

    async def erase(
        self,
        principal: Principal,
        *,
        id: str,
        now: datetime,
        conversation: str | None = None,
        message: str | None = None,
        day: date | None = None,
        topic: str | None = None,
        profile: bool = False,
        actor: str = LIBRARY,
    ) -> tuple[dict[str, int], list[str]]:
        """Delete one conversation, message, day, topic or the profile, or (with none of these) all the person has.

        Returns rows per table and a few of the deleted texts, by which the files can be searched afterwards. `actor` is
        for the audit log, of which nothing is left either when the whole person is erased.
        """

        def job(tx: Transaction) -> tuple[dict[str, int], list[str]]:
            erasing = Erasing(tx, principal, self._texts)
            if message is not None:
                kind = "message"
                erasing.message(message, conversation)
            elif topic is not None:
                kind = "topic"
                erasing.topic(topic)
            elif day is not None:
                kind = "day"
                erasing.day(day, conversation)
            elif conversation is not None:
                kind = "conversation"
                erasing.conversation(conversation)
            elif profile:
                kind = "profile"
                erasing.profile()
            else:
                kind = "person"
                erasing.everything()
            owner = hashlib.sha256(principal.person.encode()).hexdigest()
            tx.run(
                "record_erasure",
                id=id, owner=owner, kind=kind, counts=to_json(erasing.counts), now=times.to_micros(now),
            )  # fmt: skip
            if kind != "person":
                write_audit(tx, Act(principal, actor, "erased", {"scope": kind, "receipt": id}, now))
            return erasing.counts, erasing.samples

        erased = await self._write(job)
        self._texts.forget()
        self._driver.forget()
        return erased

    async def pending_erasures(self) -> list[str]:
        return [row["id"] for row in await self._read(lambda tx: tx.all("pending_erasures"))]

    async def finish_erasures(self, ids: Sequence[str]) -> None:
        await self._write(lambda tx: tx.many("finish_erasure", [{"id": one} for one in ids]))

    async def purge(self) -> Purged:
        return await asyncio.wrap_future(self._driver.purge())

    async def still_said(self, piece: str) -> bool:
        """Whether a message that stays holds this piece of an erased text."""
        pattern = "%" + re.sub(r"([\\%_])", r"\\\1", piece) + "%"
        if await self._read(lambda tx: tx.one("any_content_holds", pattern=pattern)):
            return True
        return await self.archive.holds(piece)

    # Settings

    async def settings(self, principal: Principal) -> tuple[dict[str, str], dict[str, str]]:
        """What the operator changed for everybody, and what the person changed."""
        rows = await self._read(lambda tx: tx.all("get_settings", person=principal.person))
        operator = {row["name"]: row["value"] for row in rows if row["person"] == OPERATOR.person}
        own = {row["name"]: row["value"] for row in rows if row["person"] != OPERATOR.person}
        return operator, own

    async def given_settings(self, name: str) -> list[str]:
        """Every value that somebody gave a setting."""
        return [row["value"] for row in await self._read(lambda tx: tx.all("given_settings", name=name))]

    async def change_settings(self, principal: Principal, changes: dict[str, str | None], *, now: datetime) -> None:
        """Store each change; None takes it back."""

        def job(tx: Transaction) -> None:
            for name, value in changes.items():
                if value is None:
                    tx.run("drop_setting", person=principal.person, name=name)
                else:
                    moment = times.to_micros(now)
                    tx.run("put_setting", person=principal.person, name=name, value=value, now=moment)

        await self._write(job)

    # Derived work

    async def due(self, track: str, *, after: int, limit: int) -> list[Row]:
        """Conversations with messages above the cursor of a track (worked, embedded)."""
        return await self._read(lambda tx: tx.all(_DUE[track], after=after, limit=limit))

    async def finish_work(
        self, track: str, lease: str, *, holder: str, key: int, after: int, through: int, generation: int
    ) -> bool:
        """Move the track's cursor, unless somebody else moved it, and let go of the lease.

        The cursor of vectors moves with the vectors themselves: another embedder may come into force meanwhile. That of
        topics moves with the messages that are placed.
        """
        mark = _MARK.get(track)

        def job(tx: Transaction) -> bool:
            tx.run("release_lease", name=lease, holder=holder)
            moved = {"key": key, "after": after, "through": through, "generation": generation}
            return mark is not None and bool(tx.run(mark, **moved))

        return await self._write(job)

    async def reindex(
        self, principal: Principal, conversation: str, made_of: MadeOf, *, after: int, through: int, last: int
    ) -> int:
        """Make the entries of a stretch of a conversation anew; in one transaction, so that each is always found."""
        scope = {"person": principal.person, "conversation": conversation}
        page = await self._said("page", **scope, after=after, limit=through - after)
        found = [message for message in page if message["seq"] <= through]
        made = await asyncio.to_thread(
            lambda: [word_index.encode(one["content"], one["name"], one["model_variant"]) for one in found]
        )

        def job(tx: Transaction) -> int:
            if tx.one("lock_conversation", **scope) is None or unchanged(tx, scope, made_of) is None:
                return 0
            key = made_of[0]
            tx.run("delete_entries", key=key, after=after, through=through)
            there = tx.all("page", **scope, after=after, limit=through - after)
            still = {message["seq"] for message in there}  # others were erased meanwhile
            pairs = [(one | {"key": key}, entry) for one, entry in zip(found, made, strict=True) if one["seq"] in still]
            save_entries(tx, pairs)
            if through >= last:
                tx.run("mark_words", key=key, version=word_index.VERSION)
            return len(pairs)

        return await self._write(job)

    async def uncounted(self, principal: Principal, conversation: str, *, after: int, through: int) -> list[Row]:
        scope = {"person": principal.person, "conversation": conversation, "after": after, "through": through}
        return await self._said("uncounted_messages", **scope)

    async def save_tokens(self, principal: Principal, conversation: str, made_of: MadeOf, rows: Sequence[Row]) -> None:
        scope = {"person": principal.person, "conversation": conversation}

        def job(tx: Transaction) -> None:
            if unchanged(tx, scope, made_of) is not None:
                tx.many("save_tokens", rows)

        await self._write(job)

    async def rewind(self, principal: Principal, conversation: str | None = None) -> None:
        """Forget derived rows of the person (or of one conversation), so that the worker makes them anew."""

        def job(tx: Transaction) -> None:
            scope = {"person": principal.person, "conversation": conversation}
            if conversation is not None and tx.one("get_conversation", **scope) is None:
                raise no_conversation(conversation)
            tx.run("delete_tokens", **scope)
            tx.run("delete_vectors", **scope)
            tx.run("delete_briefs_of", **scope)
            tx.run("delete_entries_of_briefs", **scope)
            tx.run("rewind_conversations", **scope)
            _rewind_topics(tx, **scope)

        await self._write(job)

    async def rewind_everything(self) -> None:
        """For all people, even where derived rows are damaged."""

        def job(tx: Transaction) -> None:
            tx.run("delete_all_entries")
            tx.run("delete_all_tokens")
            tx.run("delete_all_vectors")
            tx.run("delete_all_briefs")
            tx.run("delete_all_brief_entries")
            tx.run("rewind_everything")
            _rewind_topics(tx, person=None, conversation=None)

        await self._write(job)

    async def take_lease(self, name: str, *, holder: str, now: datetime, until: datetime) -> bool:
        params = {"now": times.to_micros(now), "until": times.to_micros(until)}
        return bool(await self._write(lambda tx: tx.run("take_lease", name=name, holder=holder, **params)))

    async def lease_holders(self) -> list[str]:
        rows = await self._read(lambda tx: tx.all("lease_holders"))
        return [row["holder"] for row in rows]

    async def free_leases(self, holders: Sequence[str]) -> None:
        await self._write(lambda tx: tx.many("free_leases", [{"holder": holder} for holder in holders]))

    async def release_lease(self, name: str, *, holder: str) -> None:
        await self._write(lambda tx: tx.run("release_lease", name=name, holder=holder))

    # Recall

    async def load_scope(
        self, principal: Principal, conversation: str | None, known: Known, state: State
    ) -> tuple[News | None, Beside]:
        """What changed in a scope since `known`; everything, if something went or was made anew; None if nothing. And
        what stands beside it: a question needs both, and each reading costs a change of threads."""

        def beside(tx: Transaction) -> Beside | None:
            if is_as_it_was(tx, principal, conversation, state):
                return load_beside(tx, principal, conversation)
            return None

        def job(tx: Transaction) -> tuple[News | None, Beside]:
            news = load_scope(tx, principal, conversation, known, state, self._texts)
            return news, load_beside(tx, principal, conversation)

        name = ("beside", principal.person, conversation, state)
        if self._driver.inline and (found := await self._read_short(beside, name)) is not None:
            return None, found
        return await self._read(job)

    async def messages_at(
        self, principal: Principal, places: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], Message]:
        """Messages by conversation key and seq, as far as they are (still) there and the person's own."""
        return await self._read(lambda tx: self._messages_at(tx, principal, places))

    async def messages_and_profile(
        self, principal: Principal, places: Sequence[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], Message], Profile]:
        """The same, and the profile as it may be used now: two of the things that a prompt needs, in one reading."""

        def job(tx: Transaction) -> tuple[dict[tuple[int, int], Message], Profile]:
            return self._messages_at(tx, principal, places), usable_profile(tx, principal)

        if not places:
            return {}, await self.profiles.get(principal)
        return await (self._read_short(job) if len(places) <= FEW else self._read(job))

    def _messages_at(
        self, tx: Transaction, principal: Principal, places: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], Message]:
        rows = self._texts.fill(tx, tx.all("messages_at", person=principal.person, cursors=to_json(places)))
        return {(row["conversation_key"], row["seq"]): to_message(row, row["conversation"]) for row in rows}

    async def save_recalls(self, rows: Sequence[Row]) -> None:
        await self._write(lambda tx: tx.many("insert_recall", rows))

    async def recalls(self, principal: Principal, *, since: datetime, limit: int = 100_000) -> list[Row]:
        start = times.to_micros(since)
        return await self._read(lambda tx: tx.all("recalls_since", person=principal.person, since=start, limit=limit))

    async def forget_recalls(self, *, before: datetime) -> int:
        return await self._write(lambda tx: tx.run("forget_recalls", before=times.to_micros(before)))

    # Upkeep

    async def backup(self, target: Path) -> None:
        await asyncio.wrap_future(self._driver.backup(str(target)))

    async def restore(self, source: Path, *, now: datetime, save_to: Path | None = None) -> None:
        saved = None if save_to is None else str(save_to)
        # Other messages may take the places of those that recall has in memory, here and in other processes.
        epoch = uuid.uuid4().hex
        done = self._driver.restore(str(source), times.to_micros(now), epoch=epoch, save_to=saved)
        await asyncio.wrap_future(done)
        self._texts.forget()  # other dictionaries may have the same keys now

    async def tidy(self) -> None:
        await asyncio.wrap_future(self._driver.tidy())

    async def examine(self) -> list[Finding]:
        found = await asyncio.wrap_future(self._driver.examine())

        def job(tx: Transaction) -> int:
            return int((tx.one("messages_without_entry") or {"n": 0})["n"])

        missing = await self._read(job)
        if missing:
            detail = f"{missing} messages have no words to be found by"
            found = [*found, Finding("words", "error", detail, "recollect rebuild --everyone")]
        else:
            found = [*found, Finding("words", "ok", "every message can be found by its words")]
        return [*found, await self.archive.examine()]


def _rewind_topics(tx: Transaction, person: str | None, conversation: str | None) -> None:
    """After the conversations themselves. Where people grouped topics by hand, only what is told of them goes."""
    rows = tx.all("topics_to_rewind", person=person, conversation=conversation)
    anew, everywhere = [{"key": row["key"]} for row in rows if row["anew"]], [{"key": row["key"]} for row in rows]
    tx.many("unplace_messages", anew)
    tx.many("delete_plain_topics", anew)
    tx.many("reset_topics", anew)
    tx.many("untell_topics", everywhere)


_DUE: Final = {
    "worked": "due_conversations",
    "embedded": "unembedded_conversations",
    "briefed": "unbriefed_conversations",
    "topiced": "untopiced_conversations",
    "folded": "unfolded_conversations",
}
_MARK: Final = {"worked": "mark_worked", "briefed": "mark_briefed", "folded": "mark_folded"}
_NUMBERS: Final = frozenset(
    (
        "conversations",
        "due",
        "messages",
        "replaced",
        "text_bytes",
        "tokens",
        "estimated",
        "counted",
        "bytes",
        "embedded",
        "vector_bytes",
        "passages",
        "entry_bytes",
        "briefs",
        "topics",
        "archived",
        "archive_bytes",
    )
)
