"""Stores and reads the log: conversations, their messages, and figures about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final

from recollect.core import times, word_index
from recollect.core.json_text import to_json
from recollect.core.message import Anchor, Appended, Draft, Message
from recollect.core.models import About, Conversation, JsonObject, Principal
from recollect.core.unnamed_chat import StoredPath
from recollect.storage.append import Request, append
from recollect.storage.driver import Handler, Row, RunInTransaction, Transaction
from recollect.storage.rows import no_conversation, to_conversation, to_message
from recollect.storage.texts import Texts

ALL_MESSAGES: Final = 2**62
# Figures that PostgreSQL returns as Decimal where they are sums.
_INTEGER_STATS: Final = frozenset(
    (
        "conversations", "due", "messages", "replaced", "text_bytes", "tokens", "estimated", "counted", "bytes",
        "embedded", "vector_bytes", "passages", "entry_bytes", "briefs", "topics", "archived", "archive_bytes",
    )
)  # fmt: skip
WriteTogether = Callable[[Handler[Request, list[Appended]], Request], Future[list[Appended]]]


class LogStore:
    """The conversations and messages of the store. All methods work for one principal."""

    def __init__(
        self, read: RunInTransaction, write: RunInTransaction, write_together: WriteTogether, texts: Texts
    ) -> None:
        self._read, self._write, self._write_together, self._texts = read, write, write_together, texts

    # Messages

    async def append(
        self,
        principal: Principal,
        conversation: str,
        drafts: Sequence[Draft],
        *,
        now: datetime,
        about: About | None = None,
    ) -> list[Appended]:
        """Store the drafts whose ids are new, in their order. Return all of them as they are stored.

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
        expected_seq: int | None = None,
        anchor: Anchor | None = None,
    ) -> Future[list[Appended]]:
        """Do what `append` does, without an event loop. The future resolves when the messages are durable.

        With `expected_seq`, nothing is stored and the result is empty unless the newest message has this seq. With an
        `anchor` it raises Conflict, and nothing is stored, if one of the messages that it names was erased.
        """
        prepared = [
            (draft, word_index.encode_row(draft.content, draft.name, draft.model_variant, role=draft.role))
            for draft in drafts
        ]
        moment = times.to_micros(now)
        request = Request(principal, conversation, about or About(), moment, prepared, expected_seq, anchor)
        return self._write_together(self._append, request)

    def _append(self, tx: Transaction, requests: Sequence[Request]) -> list[list[Appended]]:
        return append(tx, requests, self._texts)

    async def history(
        self, principal: Principal, conversation: str, *, before: int | None = None, limit: int | None = None
    ) -> list[Message]:
        """Return the newest `limit` messages with a seq below `before`, in the order of seq."""
        rows = await self._read_messages(
            "history",
            person=principal.person,
            conversation=conversation,
            before=ALL_MESSAGES if before is None else min(before, ALL_MESSAGES),
            limit=ALL_MESSAGES if limit is None else min(limit, ALL_MESSAGES),
        )
        return [to_message(row, conversation) for row in reversed(rows)]

    async def find_message(self, principal: Principal, conversation: str, id: str) -> Message | None:
        """Return the message with this id."""
        where = {"person": principal.person, "conversation": conversation}
        rows = await self._read(lambda tx: tx.all("find_messages", **where, id=id))
        if not rows:
            return None
        messages = await self.history(principal, conversation, before=rows[0]["seq"] + 1, limit=1)
        return next((message for message in messages if message.id == id), None)

    async def page(self, principal: Principal, conversation: str, *, after: int, limit: int) -> list[Message]:
        """Return the next `limit` messages with a seq above `after`, for walking through a long conversation."""
        params = {"person": principal.person, "conversation": conversation, "after": after, "limit": limit}
        return [to_message(row, conversation) for row in await self._read_messages("page", **params)]

    async def _read_messages(self, query: str, **params: Any) -> list[Row]:
        """Return rows of messages with their texts, archived or not."""
        return await self._read(lambda tx: self._texts.fill(tx, tx.all(query, **params)))

    async def count_stored(self, principal: Principal, conversation: str, ids: Sequence[str]) -> int:
        """Return how many of these message ids are stored already."""

        def count(tx: Transaction) -> int:
            row = tx.one("get_conversation", person=principal.person, conversation=conversation)
            return 0 if row is None else len(tx.all("known_messages", key=row["key"], ids=to_json(ids)))

        return await self._read(count)

    # What clients without conversation names send

    async def find_paths(self, principal: Principal, id: str, names: tuple[str, str]) -> list[StoredPath]:
        """Return up to two conversations that have a message with this id.

        Their names are in a range: from the first of `names` to before the second. Those whose newest message it is
        come first, then those that were written to last.
        """
        params = {"person": principal.person, "id": id, "first_name": names[0], "after_name": names[1]}
        rows = await self._read(lambda tx: tx.all("find_paths", **params))
        return [
            StoredPath(
                row["name"],
                row["seq"],
                row["last_seq"],
                is_answer=row["model_variant"] is not None,
                at=times.from_micros(row["at"]),
            )
            for row in rows
        ]

    async def known_messages(
        self, principal: Principal, conversation: str, ids: Sequence[str]
    ) -> tuple[dict[str, Message], int]:
        """Return the stored messages that have these ids, by id, and the seq of the conversation's newest message."""

        def find(tx: Transaction) -> tuple[list[Row], int]:
            row = tx.one("get_conversation", person=principal.person, conversation=conversation)
            if row is None:
                return [], 0
            return self._texts.fill(tx, tx.all("known_messages", key=row["key"], ids=to_json(ids))), row["last_seq"]

        rows, last_seq = await self._read(find)
        return {row["id"]: to_message(row, conversation) for row in rows}, last_seq

    async def latest_names(self, principal: Principal, names: tuple[str, str], *, limit: int) -> list[str]:
        """Return the conversations that were written to last, with names in a range."""
        params = {"person": principal.person, "first_name": names[0], "after_name": names[1], "limit": limit}
        return [row["name"] for row in await self._read(lambda tx: tx.all("latest_names", **params))]

    # Conversations

    async def conversations(self, principal: Principal) -> list[Conversation]:
        """Return all conversations, the one with the newest message first."""
        return [to_conversation(row) for row in await self._describe(principal, None)]

    async def conversations_with_titles(self, principal: Principal) -> list[tuple[Conversation, str | None]]:
        """Return all conversations, oldest first, each with the title that a caller gave it.

        The record itself may show a derived title.
        """
        rows = sorted(await self._describe(principal, None), key=lambda row: int(row["key"]))
        return [(to_conversation(row), row["title"]) for row in rows]

    async def conversation(self, principal: Principal, conversation: str) -> Conversation:
        """Return a conversation by its name. Raise NotFound if the person has none with it."""
        rows = await self._describe(principal, conversation)
        if not rows:
            raise no_conversation(conversation)
        return to_conversation(rows[0])

    async def _describe(self, principal: Principal, conversation: str | None) -> list[Row]:
        return await self._read(lambda tx: self._read_descriptions(tx, principal, conversation))

    def _read_descriptions(self, tx: Transaction, principal: Principal, conversation: str | None) -> list[Row]:
        rows = tx.all("describe_conversations", person=principal.person, conversation=conversation)
        archived = [row for row in rows if row["opened_by"] is not None and row["opening"] is None]
        openings = [{"key": row["opened_by"], "content": None} for row in archived]
        for row, opening in zip(archived, self._texts.fill(tx, openings), strict=True):
            row["opening"] = opening["content"]
        return rows

    async def update_conversation(self, principal: Principal, conversation: str, **changes: Any) -> Conversation:
        """Set any of title, tags and zone. Return the changed conversation."""

        def update(tx: Transaction) -> Row:
            changed = tx.run(
                "update_conversation",
                person=principal.person,
                conversation=conversation,
                set_title=int("title" in changes),
                title=changes.get("title"),
                tags=to_json(changes["tags"]) if "tags" in changes else None,
                zone=changes.get("zone"),
            )
            rows = self._read_descriptions(tx, principal, conversation)
            if not changed or not rows:
                raise no_conversation(conversation)
            return rows[0]

        return to_conversation(await self._write(update))

    async def stats(self, principal: Principal) -> JsonObject:
        """Return figures about everything that the person has, and the size of the whole store in bytes."""

        def count(tx: Transaction) -> JsonObject:
            totals = tx.one("count_rows", person=principal.person) or {}
            roles = tx.all("count_roles", person=principal.person)
            size = tx.one("store_bytes") or {}
            return totals | size | {"roles": {row["role"]: row["messages"] for row in roles}}

        stats = await self._read(count)
        for name in ("first_at", "last_at"):
            stats[name] = None if stats[name] is None else times.from_micros(stats[name])
        return {name: int(value) if name in _INTEGER_STATS else value for name, value in stats.items()}
