"""Stores briefs: their versions, the entries of the ledger, and how far each conversation was compressed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from recollect.core import times
from recollect.core.compression import brief
from recollect.core.compression.brief import Brief, BriefBody, CorruptBrief
from recollect.core.compression.ledger import KINDS, Entry
from recollect.core.json_text import to_json
from recollect.core.message import Message
from recollect.core.models import JsonObject, Principal
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.jobs import Cursor, RewindTarget
from recollect.storage.rows import to_message
from recollect.storage.texts import Texts

NEWEST_VERSION: Final = 2**62
ALL_MESSAGES: Final = 2**62


def _rewind(tx: Transaction, target: RewindTarget) -> None:
    target.run(tx, "delete_briefs_of", everybody="delete_all_briefs")
    target.run(tx, "delete_entries_of_briefs", everybody="delete_all_brief_entries")
    target.run(tx, "rewind_briefs", everybody="rewind_all_briefs")


CURSOR: Final = Cursor("unbriefed_conversations", "mark_briefed", _rewind)


@dataclass(frozen=True, slots=True)
class BriefState:
    """The state of a conversation's brief. `mark` differs for another version, and after an erase or a restore."""

    key: int
    zone: str
    last_seq: int
    version: int
    through_seq: int
    messages: int
    tokens: int
    mark: tuple[object, ...]


class BriefStore:
    """The briefs of the store, and the messages that they are made of."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    async def state(self, principal: Principal, conversation: str) -> BriefState | None:
        """Return the state of a conversation's brief; None if there is no such conversation."""
        return await self._read(lambda tx: read_brief_state(tx, principal, conversation))

    async def get(self, principal: Principal, conversation: str, version: int | None = None) -> Brief | None:
        """Return a version of the brief, the newest by default. Raise CorruptBrief if it cannot be read."""

        def read_version(tx: Transaction) -> tuple[Row, list[Row]] | None:
            where = {"person": principal.person, "conversation": conversation}
            newest = NEWEST_VERSION if version is None else min(version, NEWEST_VERSION)
            row = tx.one("get_brief", **where, version=newest)
            if row is None or (version is not None and row["version"] != version):
                return None
            return row, tx.all("brief_entries", key=row["key"], version=row["version"])

        rows = await self._read(read_version)
        return None if rows is None else _to_brief(*rows, conversation)

    async def versions(self, principal: Principal, conversation: str) -> list[JsonObject]:
        """Return a description of each stored version, oldest first, without the texts."""
        rows = await self._read(lambda tx: tx.all("brief_versions", person=principal.person, conversation=conversation))
        return [row | {"created_at": times.from_micros(row["created_at"])} for row in rows]

    async def count_written(self, principal: Principal, *, since: datetime) -> JsonObject:
        """Return how many versions of briefs were written since then, and how many answers there were for each."""
        bounds = {"person": principal.person, "since": times.to_micros(since)}
        row = await self._read(lambda tx: tx.one("count_briefs_written", **bounds))
        written, answers = (0, 0) if row is None else (int(row["written"]), int(row["answers"]))
        each = round(answers / written, 1) if written else None
        return {"written": written, "answers": answers, "answers_per_brief": each}

    async def sizes(
        self, principal: Principal, conversation: str, *, after: int, limit: int = ALL_MESSAGES
    ) -> list[Row]:
        """Return role, time and token count of messages with a seq above `after`.

        A message that is not counted yet comes with its text, name and tool calls.
        """
        params = {"person": principal.person, "conversation": conversation, "after": after, "limit": limit}
        return await self._read(lambda tx: self._texts.fill(tx, tx.all("message_sizes", **params)))

    async def messages(self, principal: Principal, conversation: str, *, after: int, through: int) -> list[Message]:
        """Return the messages with a seq above `after` and up to `through`."""
        params = {"person": principal.person, "conversation": conversation, "after": after, "limit": through - after}
        rows = await self._read(lambda tx: self._texts.fill(tx, tx.all("page", **params)))
        return [to_message(row, conversation) for row in rows if row["seq"] <= through]

    async def save(
        self, principal: Principal, conversation: str, before: BriefState, body: BriefBody, *, through: int, count: int,
        now: datetime,
    ) -> bool:  # fmt: skip
        """Store the next version. Return False, and store nothing, if brief or messages changed since they were read.

        All `count` messages that were compressed must still be stored. `body.entries` begin with the stored entries,
        in their order.
        """

        def insert_version(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=conversation)
            current = read_brief_state(tx, principal, conversation)
            if current is None or current.mark != before.mark or current.key != before.key:
                return False
            stored = tx.one("count_messages", key=before.key, after=before.through_seq, through=through)
            if stored is None or stored["n"] != count:
                return False
            version = before.version + 1
            tx.run(
                "insert_brief",
                key=before.key,
                version=version,
                through=through,
                messages=before.messages + count,
                tokens=body.tokens,
                now=times.to_micros(now),
                model=body.model_used,
                body=to_json(brief.to_stored(body)),
            )
            _save_entries(tx, before.key, version, body.entries)
            return True

        return await self._write(insert_version)

    async def recheck(self, *, since: datetime) -> None:
        """Let the worker look again at all people's conversations with messages since a moment."""
        await self._write(lambda tx: tx.run("recheck_briefs", since=times.to_micros(since)))

    async def drop(self, principal: Principal, conversation: str) -> None:
        """Delete all versions of a conversation's brief. The worker makes them again from the log."""

        def delete_all_versions(tx: Transaction) -> None:
            if tx.one("lock_conversation", person=principal.person, conversation=conversation) is not None:
                _rewind(tx, RewindTarget(principal.person, conversation))

        await self._write(delete_all_versions)


def _save_entries(tx: Transaction, key: int, version: int, entries: Sequence[Entry]) -> None:
    stored = tx.all("brief_entries", key=key, version=NEWEST_VERSION)
    for row, entry in zip(stored, entries, strict=False):
        if entry.valid_to is not None and row["ended_at"] is None:
            moment = times.to_micros(entry.valid_to)
            tx.run("end_brief_entry", key=key, number=row["number"], version=version, ended_at=moment)
    tx.many(
        "insert_brief_entry",
        [
            {
                "key": key,
                "number": number,
                "version": version,
                "entry": to_json(_to_stored_entry(entry)),
                "ended_version": None if entry.holds else version,
                "ended_at": None if entry.valid_to is None else times.to_micros(entry.valid_to),
            }
            for number, entry in enumerate(entries[len(stored) :], start=len(stored) + 1)
        ],
    )


def read_brief_state(tx: Transaction, principal: Principal, conversation: str) -> BriefState | None:
    """Return the state of a conversation's brief; None if there is no such conversation."""
    row = tx.one("brief_state", person=principal.person, conversation=conversation)
    if row is None:
        return None
    version, through = row["version"] or 0, row["through_seq"] or 0
    mark = (version, through, row["created_at"] or 0, row["erased"], row["generation"], row["epoch"])
    return BriefState(
        row["key"], row["zone"], row["last_seq"], version, through, row["messages"] or 0, row["tokens"] or 0, mark
    )


def _to_brief(row: Row, entry_rows: Sequence[Row], conversation: str) -> Brief:
    try:
        entries = [_to_entry(entry_row, row["version"]) for entry_row in entry_rows]
        return brief.from_stored(row, json.loads(row["body"]), entries, conversation)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        if isinstance(error, CorruptBrief):
            raise
        raise CorruptBrief(f"a brief cannot be read: {type(error).__name__}") from error


_ENTRY_TEXTS: Final = ("kind", "subject", "slot", "value", "text", "trust")


def _to_stored_entry(entry: Entry) -> JsonObject:
    stored: JsonObject = {name: getattr(entry, name) for name in _ENTRY_TEXTS}
    stored |= {"sources": list(entry.sources), "seq": entry.seq, "at": times.to_micros(entry.at)}
    return stored | {name: True for name in ("single", "ends") if getattr(entry, name)}


def _to_entry(row: Row, version: int) -> Entry:
    """Return an entry as it was in a version: an end that a later version found does not count."""
    stored: Any = json.loads(row["entry"])
    texts = [stored[name] for name in _ENTRY_TEXTS]
    sources = tuple(stored["sources"])
    if not all(isinstance(text, str) for text in (*texts, *sources)) or stored["kind"] not in KINDS:
        raise CorruptBrief("no entry")
    has_ended = row["ended_at"] is not None and row["ended_version"] <= version
    return Entry(
        kind=stored["kind"],
        subject=stored["subject"],
        slot=stored["slot"],
        value=stored["value"],
        text=stored["text"],
        sources=sources,
        seq=int(stored["seq"]),
        at=times.from_micros(int(stored["at"])),
        single=bool(stored.get("single")),
        ends=bool(stored.get("ends")),
        trust=stored["trust"],
        valid_to=times.from_micros(row["ended_at"]) if has_ended else None,
    )
