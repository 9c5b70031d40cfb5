"""Reads and writes Recollect's own NDJSON: a header, the profile (with consent), and conversations with messages.

Each conversation is one line, followed by one line for each of its messages. The writer is deterministic: to read an
export and write it again gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

from recollect.core.errors import InvalidInput
from recollect.core.message import FIELDS, ROLES, SOURCES, Message
from recollect.core.models import Conversation, JsonObject
from recollect.core.profile import Profile
from recollect.formats.batches import (
    MAX_BATCH_CHARACTERS,
    MAX_BATCH_MESSAGES,
    MAX_NAME_CHARACTERS,
    Batch,
    ExportedProfile,
    Item,
    Skipped,
    Unreadable,
    split_into_batches,
)
from recollect.formats.stream import Decoded

_JSON_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {"TEXT": str, "INTEGER": int, "REAL": (int, float)}
FORMAT_VERSION: Final = 1

ExportedConversation = tuple[Conversation, str | None, Iterable[Message]]


def ndjson_lines(conversations: Iterable[ExportedConversation], profile: Profile | None = None) -> Iterator[bytes]:
    """Yield the lines of an export. Each item is a conversation, its title if a person set one, and its messages."""
    yield _line({"format": "recollect", "version": FORMAT_VERSION})
    if profile is not None and profile.updated_at is not None:  # without consent a profile has no time
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
            yield _line(message_fields(message))


def write_ndjson(target: BinaryIO, conversations: Iterable[ExportedConversation]) -> None:
    """Write the lines of an export to a stream."""
    target.writelines(ndjson_lines(conversations))


def _profile_fields(profile: Profile, updated_at: datetime) -> JsonObject:
    groups = {
        name: {key: value for key, value in group.items() if value} or None
        for name, group in (("preferences", profile.preferences), ("context", profile.context))
    }
    rest = {"notes": profile.notes or None, "updated_at": updated_at.astimezone(UTC).isoformat()}
    return {"type": "profile"} | groups | rest


def message_fields(message: Message) -> JsonObject:
    """Return the line of a message: every field that an import may set."""
    fields = {field.name: getattr(message, field.name) for field in FIELDS if field.imported}
    fields["at"] = message.at.astimezone(UTC).isoformat()
    fields["replaced"] = message.replaced or None
    return {"type": "message", "conversation": message.conversation} | fields


def _line(fields: JsonObject) -> bytes:
    """Return one line. Our own keys keep their order; keys inside values are sorted, as a database may reorder them."""
    pairs = (f"{_dump(key)}:{_dump(value)}" for key, value in fields.items() if value is not None)
    # A lone surrogate cannot be UTF-8; `backslashreplace` writes exactly its JSON escape.
    return ("{" + ",".join(pairs) + "}\n").encode("utf-8", "backslashreplace")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def convert_lines(records: Iterable[Decoded | Skipped]) -> Iterator[Item]:
    """Convert the lines of an export to batches, each of one conversation. One without messages is an empty batch."""
    lines = iter(records)
    _check_header(next(lines, None))
    batcher = _Batcher()
    for item in lines:
        if isinstance(item, Skipped):
            yield item
            continue
        where, record = item
        try:
            if isinstance(record, dict) and record.get("type") == "profile":
                yield _profile(record, where)
            else:
                yield from batcher.add(record)
        except Unreadable as error:
            yield Skipped(where, str(error))
    yield from batcher.flush()


class _Batcher:
    """Collects the messages of the conversation that is being read, and yields them in batches."""

    def __init__(self) -> None:
        self._heading: Batch | None = None
        self._pending: list[JsonObject] = []
        self._characters = 0

    def add(self, record: Any) -> Iterator[Batch]:
        """Add a line, and yield the batches that it completes."""
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
            elif len(self._pending) == MAX_BATCH_MESSAGES or self._characters > MAX_BATCH_CHARACTERS:
                yield from self.flush()
            self._pending.append(message)
            self._characters += len(message["content"])
        else:
            raise Unreadable("a line of an unknown type")

    def flush(self) -> Iterator[Batch]:
        """Yield the messages that are left."""
        heading, pending = self._heading, self._pending
        self._pending, self._characters = [], 0
        if heading is None:
            return
        if pending:
            yield from split_into_batches(
                heading.conversation, pending, title=heading.title, tags=heading.tags, zone=heading.zone
            )
        else:
            yield heading


def _check_header(first: Decoded | Skipped | None) -> None:
    header = first[1] if isinstance(first, tuple) else None
    version = header.get("version") if isinstance(header, dict) and header.get("format") == "recollect" else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidInput("unknown_format", "The first line is not the header of a Recollect export")
    if version > FORMAT_VERSION:
        raise InvalidInput(
            "format_too_new", f"The export has version {version}, this Recollect reads {FORMAT_VERSION}; update it"
        )


def _profile(record: JsonObject, where: str) -> ExportedProfile:
    updated_at = _time(record, "updated_at")
    if updated_at is None:
        raise Unreadable("a profile without its time")
    return ExportedProfile(
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
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS:
        raise Unreadable(f"its conversation needs a name of 1 to {MAX_NAME_CHARACTERS} characters")
    return name


def _message(record: JsonObject) -> JsonObject:
    message_id, role, content = record.get("id"), record.get("role"), record.get("content")
    if not isinstance(message_id, str) or not 0 < len(message_id) <= MAX_NAME_CHARACTERS:
        raise Unreadable(f"its id must be text of 1 to {MAX_NAME_CHARACTERS} characters")
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
        "id": message_id,
        "at": _time(record, "at"),
        "source": record.get("source"),
        "tool_calls": calls,
        "metadata": _optional(record, "metadata", dict),
    }
    for field in FIELDS:
        if field.imported and field.name not in fields:
            kind = (list, dict) if field.is_json else _JSON_TYPES[field.column or "TEXT"]
            fields[field.name] = _optional(record, field.name, kind)
    fields["replaced"] = fields["replaced"] or None
    return {key: value for key, value in fields.items() if value is not None}


def _time(record: JsonObject, key: str) -> str | None:
    time: str | None = _optional(record, key, str)
    try:
        if time is not None:
            datetime.fromisoformat(time)
    except ValueError as error:
        raise Unreadable("its time is not ISO-8601") from error
    return time


def _optional(record: JsonObject, key: str, kind: type | tuple[type, ...]) -> Any:
    value = record.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise Unreadable(f"its {key} has the wrong type")
    return value
