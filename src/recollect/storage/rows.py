"""Converts between rows of the database and records."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Final

from recollect.core import times
from recollect.core.errors import NotFound
from recollect.core.json_text import to_json
from recollect.core.message import FIELDS, Draft, Message
from recollect.core.models import Conversation
from recollect.storage.driver import Row, Transaction

MAX_DERIVED_TITLE_CHARACTERS: Final = 80
MadeOf = tuple[int, int]  # the key and generation of the conversation that derived rows were made of


_STORED: Final = tuple(field.name for field in FIELDS if field.column is not None or field.name == "content")
_JSON: Final = tuple(field.name for field in FIELDS if field.is_json)
_DRAFTED: Final = tuple(field.name for field in fields(Draft) if field.name not in ("at", "id_is_new"))
_stored_values: Final = itemgetter(*_STORED)
_drafted_values: Final = attrgetter(*_DRAFTED)
_message_values: Final = attrgetter(*_STORED)


def stored_message(draft: Draft, conversation: str, seq: int, at: datetime) -> Message:
    """Return the message that a draft becomes at this position of the log."""
    values = dict(zip(_DRAFTED, _drafted_values(draft), strict=True))
    return Message(conversation=conversation, seq=seq, at=at, **values)


def message_row(message: Message, key: int) -> Row:
    """Return the columns of a message in the conversation with this key, and its text."""
    row: Row = dict(zip(_STORED, _message_values(message), strict=True))
    row["key"] = key
    row["at"] = times.to_micros(message.at)
    for name in _JSON:
        if row[name] is not None:
            row[name] = to_json(row[name])
    return row


def to_message(row: Row, conversation: str) -> Message:
    """Return the message of a row of `messages` that was joined with its text."""
    values = dict(zip(_STORED, _stored_values(row), strict=True))
    values["at"] = times.from_micros(values["at"])
    for name in _JSON:
        if values[name] is not None:
            value = json.loads(values[name])
            values[name] = tuple(value) if isinstance(value, list) else value  # records never change
    return Message(conversation=conversation, damaged=row.get("damaged", False), **values)


def to_conversation(row: Row) -> Conversation:
    """Return the conversation of a row. Without a title of its own it shows the start of its first user message."""
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
    """Return a text as one line that is short enough for a title."""
    line = " ".join(text.split())
    if len(line) <= MAX_DERIVED_TITLE_CHARACTERS:
        return line
    return line[: MAX_DERIVED_TITLE_CHARACTERS - 1].rstrip() + "…"


def _optional_moment(micros: int | None) -> datetime | None:
    return None if micros is None else times.from_micros(micros)


def read_if_unchanged(tx: Transaction, where: Row, made_of: MadeOf) -> Row | None:
    """Return the row of a conversation; None if it was erased, restored or rewound since it was read."""
    row = tx.one("scope_conversations", **where)
    return row if row is not None and (row["key"], row["generation"]) == made_of else None


def no_conversation(name: str) -> NotFound:
    """Return the error to raise for a conversation that the person does not have."""
    return NotFound("conversation_not_found", f"There is no conversation {name!r}.")
