"""Between rows and records."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from recollect.core import times
from recollect.core.drafts import to_json
from recollect.core.models import Conversation, Draft, Message
from recollect.storage.driver import Row, Transaction

TITLE_LENGTH = 80
MadeOf = tuple[int, int]  # the key and generation of the conversation that derived rows were made of


def stored_message(draft: Draft, conversation: str, seq: int, at: datetime) -> Message:
    """The record of a draft that gets its place in the log."""
    return Message(
        id=draft.id,
        conversation=conversation,
        seq=seq,
        role=draft.role,
        content=draft.content,
        at=at,
        source=draft.source,
        name=draft.name,
        model_variant=draft.model_variant,
        tool_calls=draft.tool_calls,
        tool_call_id=draft.tool_call_id,
        metadata=draft.metadata,
        importance=draft.importance,
        replaced=draft.replaced,
    )


def message_row(message: Message, key: int) -> Row:
    """What is stored of a message in the conversation with this key."""
    return {
        "key": key,
        "seq": message.seq,
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "at": times.to_micros(message.at),
        "source": message.source,
        "name": message.name,
        "model_variant": message.model_variant,
        "tool_calls": None if message.tool_calls is None else to_json(message.tool_calls),
        "tool_call_id": message.tool_call_id,
        "metadata": None if message.metadata is None else to_json(message.metadata),
        "importance": message.importance,
        "replaced": message.replaced,
    }


def to_message(row: Row, conversation: str) -> Message:
    calls = row["tool_calls"]
    return Message(
        id=row["id"],
        conversation=conversation,
        seq=row["seq"],
        role=row["role"],
        content=row["content"],
        at=times.from_micros(row["at"]),
        source=row["source"],
        name=row["name"],
        model_variant=row["model_variant"],
        tool_calls=None if calls is None else tuple(json.loads(calls)),
        tool_call_id=row["tool_call_id"],
        metadata=_optional_json(row["metadata"]),
        importance=row["importance"],
        replaced=row["replaced"],
        damaged=row.get("damaged", False),
    )


def to_conversation(row: Row) -> Conversation:
    return Conversation(
        name=row["name"],
        title=row["title"] if row["title"] is not None else shorten(row["opening"] or ""),
        tags=tuple(json.loads(row["tags"])),
        zone=row["zone"],
        messages=row["messages"],
        last_seq=row["last_seq"],
        first_at=_optional_moment(row["first_at"]),
        last_at=_optional_moment(row["last_at"]),
    )


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _optional_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _optional_moment(micros: int | None) -> datetime | None:
    return None if micros is None else times.from_micros(micros)


def unchanged(tx: Transaction, scope: Row, made_of: MadeOf) -> Row | None:
    """The conversation, if it still is the one that was read: not erased, not restored, not to be made anew."""
    row = tx.one("scope_conversations", **scope)
    return row if row is not None and (row["key"], row["generation"]) == made_of else None
