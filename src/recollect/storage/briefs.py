"""Briefs in the store: versions, the entries of the ledger, and how far each conversation was looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from recollect.core import times
from recollect.core.compression import brief
from recollect.core.compression.brief import Body, Brief, CorruptBrief
from recollect.core.compression.ledger import KINDS, Entry
from recollect.core.drafts import to_json
from recollect.core.models import JsonObject, Message, Principal
from recollect.storage.driver import Row, Run, Transaction
from recollect.storage.rows import to_message
from recollect.storage.texts import Texts

T = TypeVar("T")
NEWEST: Final = 2**62


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the brief of a conversation stands. Another one has another mark, and so has another log behind it."""

    key: int
    zone: str
    last_seq: int
    version: int
    through_seq: int
    messages: int
    tokens: int
    mark: tuple[object, ...]


class Briefs:
    def __init__(self, read: Run, write: Run, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    async def standing(self, principal: Principal, conversation: str) -> Standing | None:
        return await self._read(lambda tx: standing_of(tx, principal, conversation))

    async def get(self, principal: Principal, conversation: str, version: int | None = None) -> Brief | None:
        """The newest version, or a certain one. Raises CorruptBrief if it cannot be read."""

        def job(tx: Transaction) -> tuple[Row, list[Row]] | None:
            asked = {"person": principal.person, "conversation": conversation}
            row = tx.one("get_brief", **asked, version=NEWEST if version is None else min(version, NEWEST))
            if row is None or (version is not None and row["version"] != version):
                return None
            return row, tx.all("brief_entries", key=row["key"], version=row["version"])

        found = await self._read(job)
        return None if found is None else _to_brief(*found, conversation)

    async def versions(self, principal: Principal, conversation: str) -> list[JsonObject]:
        """What there is of versions, oldest first, without their texts."""
        rows = await self._read(lambda tx: tx.all("brief_versions", person=principal.person, conversation=conversation))
        return [row | {"created_at": times.from_micros(row["created_at"])} for row in rows]

    async def sizes(self, principal: Principal, conversation: str, *, after: int, limit: int = NEWEST) -> list[Row]:
        """Role, time and tokens of the messages above a place; of one that is not counted yet its fields too."""
        scope = {"person": principal.person, "conversation": conversation}
        asked = scope | {"after": after, "limit": limit}
        return await self._read(lambda tx: self._texts.fill(tx, tx.all("message_sizes", **asked)))

    async def messages(self, principal: Principal, conversation: str, *, after: int, through: int) -> list[Message]:
        scope = {"person": principal.person, "conversation": conversation}
        asked = scope | {"after": after, "limit": through - after}
        rows = await self._read(lambda tx: self._texts.fill(tx, tx.all("page", **asked)))
        return [to_message(row, conversation) for row in rows if row["seq"] <= through]

    async def save(
        self, principal: Principal, conversation: str, before: Standing, body: Body, *, through: int, count: int,
        now: datetime,
    ) -> bool:  # fmt: skip
        """The next version, if the brief still stands where it stood and all `count` messages are still there.

        `body.entries` begin with those stored already, in their order.
        """

        def job(tx: Transaction) -> bool:
            tx.one("lock_conversation", person=principal.person, conversation=conversation)
            current = standing_of(tx, principal, conversation)
            if current is None or current.mark != before.mark or current.key != before.key:
                return False
            there = tx.one("count_messages", key=before.key, after=before.through_seq, through=through)
            if there is None or there["n"] != count:
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

        return await self._write(job)

    async def look_again(self, *, since: datetime) -> None:
        """Let the worker look at everyone's conversations of that time once more, whether something is due now."""
        await self._write(lambda tx: tx.run("look_again", since=times.to_micros(since)))

    async def drop(self, principal: Principal, conversation: str) -> None:
        """All versions of a conversation: they are made anew from the log."""

        def job(tx: Transaction) -> None:
            row = tx.one("lock_conversation", person=principal.person, conversation=conversation)
            if row is not None:
                drop_from(tx, row["key"], 0)

        await self._write(job)


def drop_from(tx: Transaction, key: int, seq: int) -> int:
    """Every version that covers a place of a conversation goes, and the worker looks at the conversation again."""
    dropped = tx.run("delete_briefs", key=key, seq=seq)
    left = tx.one("last_brief", key=key)
    version = 0 if left is None else left["version"]
    tx.run("delete_brief_entries", key=key, version=version)
    tx.run("reopen_brief_entries", key=key, version=version)
    tx.run("rewind_brief", key=key)
    return dropped


def _save_entries(tx: Transaction, key: int, version: int, entries: Sequence[Entry]) -> None:
    stored = tx.all("brief_entries", key=key, version=NEWEST)
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
                "entry": to_json(_stored_entry(entry)),
                "ended_version": None if entry.holds else version,
                "ended_at": None if entry.valid_to is None else times.to_micros(entry.valid_to),
            }
            for number, entry in enumerate(entries[len(stored) :], start=len(stored) + 1)
        ],
    )


def standing_of(tx: Transaction, principal: Principal, conversation: str) -> Standing | None:
    row = tx.one("brief_standing", person=principal.person, conversation=conversation)
    if row is None:
        return None
    version, through = row["version"] or 0, row["through_seq"] or 0
    mark = (version, through, row["created_at"] or 0, row["erased"], row["generation"], row["epoch"])
    return Standing(
        row["key"], row["zone"], row["last_seq"], version, through, row["messages"] or 0, row["tokens"] or 0, mark
    )


def _to_brief(row: Row, entries: Sequence[Row], conversation: str) -> Brief:
    try:
        found = [_entry(one, row["version"]) for one in entries]
        return brief.from_stored(row, json.loads(row["body"]), found, conversation)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        if isinstance(error, CorruptBrief):
            raise
        raise CorruptBrief(f"a brief cannot be read: {type(error).__name__}") from error


_TEXTS: Final = ("kind", "subject", "slot", "value", "text", "trust")


def _stored_entry(entry: Entry) -> JsonObject:
    stored: JsonObject = {name: getattr(entry, name) for name in _TEXTS}
    stored |= {"sources": list(entry.sources), "seq": entry.seq, "at": times.to_micros(entry.at)}
    return stored | {name: True for name in ("single", "ends") if getattr(entry, name)}


def _entry(row: Row, version: int) -> Entry:
    stored: Any = json.loads(row["entry"])
    texts = [stored[name] for name in _TEXTS]
    sources = tuple(stored["sources"])
    if not all(isinstance(text, str) for text in (*texts, *sources)) or stored["kind"] not in KINDS:
        raise CorruptBrief("no entry")
    ended = row["ended_at"] is not None and row["ended_version"] <= version
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
        valid_to=times.from_micros(row["ended_at"]) if ended else None,
    )
