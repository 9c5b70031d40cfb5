"""Recollect's own NDJSON: a header line, the profile of one who consents, each conversation followed by its messages.

The writer is deterministic: reading what it wrote and writing it again gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

from recollect.core.errors import InvalidInput
from recollect.core.models import ROLES, SOURCES, Conversation, JsonObject, Message
from recollect.core.profile import Profile
from recollect.formats.batches import (
    MAX_MESSAGES,
    MAX_NAME,
    MAX_TEXT,
    Batch,
    Item,
    Skipped,
    ToldOfOneself,
    Unreadable,
    batched,
)
from recollect.formats.stream import Decoded

VERSION: Final = 1

Exported = tuple[Conversation, str | None, Iterable[Message]]


def ndjson_lines(conversations: Iterable[Exported], profile: Profile | None = None) -> Iterator[bytes]:
    """The lines of an export. Each item is a conversation, the title somebody gave it, its messages in order."""
    yield _line({"format": "recollect", "version": VERSION})
    if profile is not None and profile.updated_at is not None:  # one that may not be shown has no time
        yield _line(_profile_fields(profile, profile.updated_at))
    for conversation, title, messages in conversations:
        yield _line(
            {
                "type": "conversation",
                "name": conversation.name,
                "title": title,
                "tags": list(conversation.tags) or None,
                "zone": conversation.zone,
            }
        )
        for message in messages:
            yield _line(_fields(message))


def write_ndjson(target: BinaryIO, conversations: Iterable[Exported]) -> None:
    target.writelines(ndjson_lines(conversations))


def _profile_fields(profile: Profile, updated_at: datetime) -> JsonObject:
    groups = {
        name: {key: value for key, value in group.items() if value} or None
        for name, group in (("preferences", profile.preferences), ("context", profile.context))
    }
    told = {"notes": profile.notes or None, "updated_at": updated_at.astimezone(UTC).isoformat()}
    return {"type": "profile"} | groups | told


def _fields(message: Message) -> JsonObject:
    return {
        "type": "message",
        "conversation": message.conversation,
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "at": message.at.astimezone(UTC).isoformat(),
        "source": message.source,
        "name": message.name,
        "model_variant": message.model_variant,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "metadata": message.metadata,
        "importance": message.importance,
        "replaced": message.replaced or None,
    }


def _line(fields: JsonObject) -> bytes:
    """One line: our own keys in the order given, keys inside values sorted (a database may reorder those)."""
    pairs = (f"{_dump(key)}:{_dump(value)}" for key, value in fields.items() if value is not None)
    # A lone surrogate cannot be UTF-8; `backslashreplace` writes exactly its JSON escape.
    return ("{" + ",".join(pairs) + "}\n").encode("utf-8", "backslashreplace")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def convert_lines(records: Iterable[Decoded | Skipped]) -> Iterator[Item]:
    """Messages in batches of one conversation; a conversation without messages is an empty batch."""
    lines = iter(records)
    _check_header(next(lines, None))
    run = _Run()
    for item in lines:
        if isinstance(item, Skipped):
            yield item
            continue
        where, record = item
        try:
            if isinstance(record, dict) and record.get("type") == "profile":
                yield _told(record, where)
            else:
                yield from run.take(record)
        except Unreadable as error:
            yield Skipped(where, str(error))
    yield from run.flush()


class _Run:
    """The conversation being read and its messages that were not handed over yet."""

    def __init__(self) -> None:
        self._heading: Batch | None = None
        self._held: list[JsonObject] = []
        self._size = 0

    def take(self, record: Any) -> Iterator[Batch]:
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "conversation":
            heading = _heading(record)
            yield from self.flush()
            self._heading = heading
        elif kind == "message":
            conversation, message = _conversation(record, "conversation"), _message(record)
            if self._heading is None or self._heading.conversation != conversation:
                yield from self.flush()
                self._heading = Batch(conversation, None, (), None, [])
            elif len(self._held) == MAX_MESSAGES or self._size > MAX_TEXT:
                yield from self.flush()
            self._held.append(message)
            self._size += len(message["content"])
        else:
            raise Unreadable("a line of an unknown type")

    def flush(self) -> Iterator[Batch]:
        heading, held = self._heading, self._held
        self._held, self._size = [], 0
        if heading is None:
            return
        if held:
            yield from batched(heading.conversation, held, title=heading.title, tags=heading.tags, zone=heading.zone)
        else:
            yield heading


def _check_header(first: Decoded | Skipped | None) -> None:
    header = first[1] if isinstance(first, tuple) else None
    version = header.get("version") if isinstance(header, dict) and header.get("format") == "recollect" else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidInput("unknown_format", "The first line is not the header of a Recollect export")
    if version > VERSION:
        raise InvalidInput(
            "format_too_new", f"The export has version {version}, this Recollect reads {VERSION}; update it"
        )


def _told(record: JsonObject, where: str) -> ToldOfOneself:
    updated_at = _at(record, "updated_at")
    if updated_at is None:
        raise Unreadable("a profile without its time")
    return ToldOfOneself(
        where, {name: record[name] for name in record if name not in ("type", "updated_at")}, updated_at
    )


def _heading(record: JsonObject) -> Batch:
    tags = record.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Unreadable("its tags are not a list of texts")
    title, zone = _optional(record, "title", str), _optional(record, "zone", str)
    return Batch(_conversation(record, "name"), title, tuple(tags), zone, [])


def _conversation(record: JsonObject, key: str) -> str:
    name = record.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise Unreadable(f"its conversation needs a name of 1 to {MAX_NAME} characters")
    return name


def _message(record: JsonObject) -> JsonObject:
    known, role, content = record.get("id"), record.get("role"), record.get("content")
    if not isinstance(known, str) or not 0 < len(known) <= MAX_NAME:
        raise Unreadable(f"its id must be text of 1 to {MAX_NAME} characters")
    if role not in ROLES:
        raise Unreadable("its role is unknown")
    if not isinstance(content, str):
        raise Unreadable("its content is not text")
    if record.get("source") not in (None, *SOURCES):
        raise Unreadable("its source is unknown")
    calls = _optional(record, "tool_calls", list)
    if not all(isinstance(call, dict) for call in calls or ()):
        raise Unreadable("its tool_calls are not a list of objects")
    fields = {
        "role": role,
        "content": content,
        "id": known,
        "at": _at(record),
        "source": record.get("source"),
        "name": _optional(record, "name", str),
        "model_variant": _optional(record, "model_variant", str),
        "tool_calls": calls,
        "tool_call_id": _optional(record, "tool_call_id", str),
        "metadata": _optional(record, "metadata", dict),
        "importance": _optional(record, "importance", (int, float)),
        "replaced": _optional(record, "replaced", int) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _at(record: JsonObject, key: str = "at") -> str | None:
    at: str | None = _optional(record, key, str)
    try:
        if at is not None:
            datetime.fromisoformat(at)
    except ValueError as error:
        raise Unreadable("its time is not ISO-8601") from error
    return at


def _optional(record: JsonObject, key: str, kind: type | tuple[type, ...]) -> Any:
    value = record.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise Unreadable(f"its {key} has the wrong type")
    return value
