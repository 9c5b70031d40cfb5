"""The store: everything that is kept, read and erased, on either database.

Each folder of features has its part here (`log`, `briefs`, `topics`, …). Methods that read or write content take the
principal first. Each method is one transaction: all of it happens or nothing does.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import uuid
from collections.abc import Hashable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from recollect.core import times, word_index
from recollect.core.json_text import to_json
from recollect.core.message import Anchor, Message
from recollect.core.models import OPERATOR, Finding, Principal
from recollect.core.profile import Profile
from recollect.core.scope import PersonScope, Scope
from recollect.core.text import hash_name
from recollect.storage.append import find_erased
from recollect.storage.archive import ArchiveStore
from recollect.storage.audit import LIBRARY, Act, AuditStore, write_audit
from recollect.storage.briefs import BriefStore
from recollect.storage.driver import Driver, PurgeResult, Row, Transaction, TxFunction
from recollect.storage.erase import ERASERS, Eraser
from recollect.storage.jobs import JobStore
from recollect.storage.log import LogStore
from recollect.storage.message_index import MessageIndex
from recollect.storage.profiles import ProfileStore, read_usable_profile
from recollect.storage.rows import to_message
from recollect.storage.scope_updates import (
    ConversationState,
    Marks,
    ScopeState,
    ScopeUpdate,
    has_state,
    load_conversation_state,
    load_scope,
)
from recollect.storage.segments import SEGMENT_VERSION, SegmentStore
from recollect.storage.server_state import ServerStateStore
from recollect.storage.texts import Texts
from recollect.storage.tombstones import SALT_BYTES, bury, find_sent_again
from recollect.storage.topic_edits import TopicEdits
from recollect.storage.topic_store import TopicStore
from recollect.storage.vectors import VectorStore

T = TypeVar("T")
Position = tuple[int, int]  # conversation key and seq
SHORT_READ_MESSAGES: Final = 200  # up to so many messages are read as a short read


class SqlStore:
    """The parts of the store on one driver, and what concerns all of them: settings, recall, erasing, the files."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._texts = Texts()
        self.log = LogStore(self._read, self._write, driver.write_together, self._texts)
        self.briefs = BriefStore(self._read, self._write, self._texts)
        self.topics = TopicStore(self._read, self._write, self._texts)
        self.topic_edits = TopicEdits(self._write, self._texts)
        self.archive = ArchiveStore(self._read, self._write, self._texts)
        self.jobs = JobStore(self._read, self._write)
        self.index = MessageIndex(self._read, self._write, self._texts)
        self.server_state = ServerStateStore(self._read_short, self._write)
        self.vectors = VectorStore(self._read, self._write, self._texts)
        self.segments = SegmentStore(self._read, self._write)
        self.profiles = ProfileStore(self._read_short, self._write)
        self.audit = AuditStore(self._read, self._write)

    @property
    def dialect(self) -> str:
        """Return "sqlite" or "postgres"."""
        return self._driver.dialect

    async def open(self, now: datetime) -> None:
        """Connect, and bring the schema up to date. Words of an older analyser become due for the worker."""
        moment = times.to_micros(now)
        await asyncio.to_thread(self._driver.open, moment)

        def prepare(tx: Transaction) -> None:
            tx.run("outdate_words", version=word_index.VERSION)
            tx.run("outdate_segments", version=SEGMENT_VERSION)
            tx.run("note_keys", now=moment)

        await self._write(prepare)

    def hurry(self) -> None:
        """Let no call hang from now on, because the memory is being closed; see `Driver.hurry`."""
        self._driver.hurry()

    async def close(self) -> None:
        """Finish what is queued, then release the database."""
        await asyncio.to_thread(self._driver.close)

    async def _read(self, function: TxFunction[T]) -> T:
        return await asyncio.wrap_future(self._driver.read(function))

    async def _read_short(self, function: TxFunction[T], name: Hashable = None) -> T:
        """Read few rows by their keys; see `Driver.read`."""
        future = self._driver.read(function, short=True, name=name)
        return future.result() if future.done() else await asyncio.wrap_future(future)

    def enable_inline_reads(self) -> None:
        """Run short reads on the caller's thread, if the database is a file: changing threads takes longer."""
        self._driver.enable_inline_reads()

    async def _write(self, function: TxFunction[T]) -> T:
        return await asyncio.wrap_future(self._driver.write(function))

    # Erasing

    async def erase(
        self, principal: Principal, scope: Scope, *, id: str, now: datetime, actor: str = LIBRARY
    ) -> tuple[dict[str, int], list[str]]:
        """Delete the rows of a scope. `id` names the receipt, `actor` who did it, for the audit log.

        Return the deleted rows per table, and a few of the deleted texts, by which files can be searched afterwards.
        When a whole person is erased, nothing of it is in the audit log either.
        """

        salt = secrets.token_bytes(SALT_BYTES)

        def delete_rows(tx: Transaction) -> tuple[dict[str, int], list[str]]:
            eraser, moment = Eraser(tx, principal, self._texts), times.to_micros(now)
            ERASERS[type(scope)](eraser, scope, moment)
            bury(tx, eraser.erased, erasure=id, new_salt=salt, now=moment)
            owner = hash_name(principal.person)
            tx.run("record_erasure", id=id, owner=owner, kind=scope.kind, counts=to_json(eraser.counts), now=moment)
            if not isinstance(scope, PersonScope):
                write_audit(tx, Act(principal, actor, "erased", {"scope": scope.kind, "receipt": id}, now))
            return eraser.counts, eraser.samples

        counts_and_samples = await self._write(delete_rows)
        self.forget()
        return counts_and_samples

    def forget(self, person: str | None = None) -> None:
        """Drop texts and answers that are kept in memory. They are not sorted by person: all of them go."""
        self._texts.forget()
        self._driver.forget()

    async def find_in_files(self, files: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return which of these texts the database's own files still hold."""
        return await asyncio.to_thread(self._driver.find_in_files, files, texts)

    def read_start(self, path: Path) -> bytes:
        """Return the first bytes of a file that may be this database, without releasing locks on it. Blocks."""
        return self._driver.read_start(str(path))

    async def pending_erasures(self) -> list[str]:
        """Return the ids of receipts whose texts may still be in the files."""
        return [row["id"] for row in await self._read(lambda tx: tx.all("pending_erasures"))]

    async def finish_erasures(self, ids: Sequence[str]) -> None:
        """Note that nothing of these erasures is left in the files."""
        await self._write(lambda tx: tx.many("finish_erasure", [{"id": receipt_id} for receipt_id in ids]))

    async def purge(self, *, may_wait: bool = True) -> PurgeResult:
        """Remove deleted rows from the files. If the caller may not wait for its turn, they may be left pending."""
        return await asyncio.wrap_future(self._driver.purge(may_wait=may_wait))

    async def still_contains(self, piece: str) -> bool:
        """Say whether a text that was not erased contains this piece too, of any person."""
        pattern = "%" + re.sub(r"([\\%_])", r"\\\1", piece) + "%"
        if await self._read(lambda tx: tx.one("any_content_holds", pattern=pattern)):
            return True
        return await self.archive.contains(piece)

    # Settings

    async def settings(self, principal: Principal) -> tuple[dict[str, str], dict[str, str]]:
        """Return the settings that the operator changed for everybody, and those that the person changed."""
        rows = await self._read(lambda tx: tx.all("get_settings", person=principal.person))
        operator = {row["name"]: row["value"] for row in rows if row["person"] == OPERATOR.person}
        own = {row["name"]: row["value"] for row in rows if row["person"] != OPERATOR.person}
        return operator, own

    async def setting_values(self, name: str) -> list[str]:
        """Return the different values that are stored for a setting, of the operator and of all people."""
        return [row["value"] for row in await self._read(lambda tx: tx.all("setting_values", name=name))]

    async def change_settings(self, principal: Principal, changes: dict[str, str | None], *, now: datetime) -> None:
        """Store each change. None removes the stored value."""

        def store_changes(tx: Transaction) -> None:
            for name, value in changes.items():
                if value is None:
                    tx.run("drop_setting", person=principal.person, name=name)
                else:
                    moment = times.to_micros(now)
                    tx.run("put_setting", person=principal.person, name=name, value=value, now=moment)

        await self._write(store_changes)

    # Recall

    async def load_scope(
        self, principal: Principal, conversation: str | None, known: Marks, state: ScopeState
    ) -> tuple[ScopeUpdate | None, ConversationState]:
        """Return what changed in a scope since it had this state, and the state of the conversation itself.

        The update is None if nothing changed. A question needs both, and each read costs a change of threads.
        """

        def read_if_current(tx: Transaction) -> ConversationState | None:
            if has_state(tx, principal, conversation, state):
                return load_conversation_state(tx, principal, conversation)
            return None

        def read_both(tx: Transaction) -> tuple[ScopeUpdate | None, ConversationState]:
            update = load_scope(tx, principal, conversation, known, state, self._texts)
            return update, load_conversation_state(tx, principal, conversation)

        if self._driver.inline:
            name = ("conversation state", principal.person, conversation, state)
            conversation_state = await self._read_short(read_if_current, name)
            if conversation_state is not None:
                return None, conversation_state
        return await self._read(read_both)

    async def messages_at(self, principal: Principal, positions: Sequence[Position]) -> dict[Position, Message]:
        """Return the person's messages by position. Those erased since are missing."""
        return await self._read(lambda tx: self._messages_at(tx, principal, positions))

    async def messages_and_profile(
        self, principal: Principal, positions: Sequence[Position]
    ) -> tuple[dict[Position, Message], Profile]:
        """Return messages by position, and the profile as consent allows it now. A prompt needs both; one read."""

        def read_both(tx: Transaction) -> tuple[dict[Position, Message], Profile]:
            return self._messages_at(tx, principal, positions), read_usable_profile(tx, principal)

        if not positions:
            return {}, await self.profiles.get(principal)
        is_short = len(positions) <= SHORT_READ_MESSAGES
        return await (self._read_short(read_both) if is_short else self._read(read_both))

    def _messages_at(
        self, tx: Transaction, principal: Principal, positions: Sequence[Position]
    ) -> dict[Position, Message]:
        rows = self._texts.fill(tx, tx.all("messages_at", person=principal.person, cursors=to_json(positions)))
        return {(row["conversation_key"], row["seq"]): to_message(row, row["conversation"]) for row in rows}

    # Answers

    async def find_anchor(self, principal: Principal, conversation: str, messages: Sequence[Message]) -> Anchor | None:
        """Return where an answer to these messages of a conversation belongs; None if one of them was erased."""
        where = {"person": principal.person, "conversation": conversation}
        places = tuple(dict.fromkeys((message.id, message.seq) for message in messages))

        def find(tx: Transaction) -> Anchor | None:
            row = tx.one("get_conversation", **where)
            anchor = None if row is None else Anchor(row["key"], places)
            return None if anchor is None or find_erased(tx, [anchor]) else anchor

        return await self._read_short(find)

    async def find_sent_again(self, principal: Principal, ids: Sequence[str]) -> set[str]:
        """Return which of these messages, which a client sends again, were erased."""
        return await self._read(lambda tx: find_sent_again(tx, principal.person, ids))

    async def find_erased(self, anchors: Sequence[Anchor]) -> set[Anchor]:
        """Return the anchors of which a message was erased, of all people."""
        return await self._read_short(lambda tx: find_erased(tx, anchors))

    async def save_recalls(self, rows: Sequence[Row]) -> None:
        """Store the metrics of questions, but for those of people who were erased after they asked."""
        owned = [row | {"owner": hash_name(row["person"])} for row in rows]
        await self._write(lambda tx: tx.many("insert_recall", owned))

    async def recalls(self, principal: Principal, *, since: datetime, limit: int = 100_000) -> list[Row]:
        """Return the metrics of the person's questions since a moment, oldest first."""
        start = times.to_micros(since)
        return await self._read(lambda tx: tx.all("recalls_since", person=principal.person, since=start, limit=limit))

    async def forget_recalls(self, *, before: datetime) -> int:
        """Delete the metrics of older questions, of everybody. Return how many."""
        return await self._write(lambda tx: tx.run("forget_recalls", before=times.to_micros(before)))

    # The files

    async def backup(self, target: Path) -> None:
        """Write a consistent copy of everything to a new SQLite file."""
        await asyncio.wrap_future(self._driver.backup(str(target)))

    async def restore(self, source: Path, *, now: datetime, save_to: Path | None = None) -> dict[str, int]:
        """Replace everything by a backup. With `save_to`, back up what is replaced first.

        Return how many rows of each table were left out because they were erased since the backup was made.
        """
        saved = None if save_to is None else str(save_to)
        # A new epoch tells every process that other messages may now have the keys of those it keeps in memory.
        epoch = uuid.uuid4().hex
        done = self._driver.restore(str(source), times.to_micros(now), epoch=epoch, save_to=saved)
        left_out = await asyncio.wrap_future(done)
        self._texts.forget()  # other dictionaries may have the same keys now
        return left_out

    async def work_left(self) -> dict[str, int]:
        """Return for each kind of derived work that is left how many messages it goes through, of everybody."""
        row = await self._read(lambda tx: tx.one("work_left")) or {}
        return {name: int(count) for name, count in row.items() if count}

    async def maintain(self) -> None:
        """Do small maintenance of the files."""
        await asyncio.wrap_future(self._driver.maintain())

    async def examine(self) -> list[Finding]:
        """Look for damage in the files, the word index and the archive."""
        findings = await asyncio.wrap_future(self._driver.examine())

        def count_missing(tx: Transaction) -> int:
            return int((tx.one("messages_without_entry") or {"n": 0})["n"])

        missing = await self._read(count_missing)
        if missing:
            detail = f"{missing} messages have no words to be found by"
            findings = [*findings, Finding("words", "error", detail, "recollect rebuild --everyone")]
        else:
            findings = [*findings, Finding("words", "ok", "every message can be found by its words")]
        return [*findings, await self.archive.examine()]
