"""What readers hand over: batches of messages, and reports of what could not be read.

Owns the names and ids given to imported things (the same file always gives the same ones) and the
limits of a batch. Knows no file format.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.core.times import EARLIEST, LATEST

MAX_MESSAGES: Final = 500
MAX_TEXT: Final = 1024 * 1024
MAX_NAME: Final = 200
# A message may hold 1 MiB of UTF-8; a character takes four bytes at most, so pieces of this size always fit.
PIECE: Final = MAX_TEXT // 4
MAX_KEPT_TEXT: Final = 2000
MAX_KEPT: Final = 48 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive messages of one conversation, as `add_many` takes them."""

    conversation: str
    title: str | None
    tags: tuple[str, ...]
    zone: str | None
    messages: list[JsonObject]


@dataclass(frozen=True, slots=True)
class ToldOfOneself:
    """The profile of whoever made the file, as `set_profile` takes it. Only our own export has one."""

    where: str
    fields: JsonObject
    updated_at: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be read; the import goes on."""

    where: str
    reason: str


Item = Batch | ToldOfOneself | Skipped


class Unreadable(ValueError):
    """One item cannot be read. Stays inside this package: it becomes a `Skipped`."""


def batched(
    conversation: str,
    messages: Iterable[JsonObject],
    *,
    title: str | None = None,
    tags: tuple[str, ...] = (),
    zone: str | None = None,
) -> Iterator[Batch]:
    """Cut a run of messages into batches of at most 500 messages and about 1 MiB of text."""
    held: list[JsonObject] = []
    size = 0
    for message in messages:
        for piece in _pieces(message):
            length = len(piece["content"])
            if held and (len(held) == MAX_MESSAGES or size + length > MAX_TEXT):
                yield Batch(conversation, title, tags, zone, held)
                held, size = [], 0
            held.append(piece)
            size += length
    if held:
        yield Batch(conversation, title, tags, zone, held)


def _pieces(message: JsonObject) -> Iterator[JsonObject]:
    """The message itself, or several where its text is longer than one message may hold."""
    content: str = message["content"]
    if len(content) <= PIECE or len(content.encode("utf-8", "surrogatepass")) <= MAX_TEXT:
        yield message
        return
    count = math.ceil(len(content) / PIECE)
    for number in range(count):
        metadata = {**message.get("metadata", {}), "part": number + 1, "parts_in_all": count}
        piece = {**message, "content": content[number * PIECE : (number + 1) * PIECE], "metadata": metadata}
        if number:
            piece["id"] = f"{message['id'][: MAX_NAME - 12]}/part-{number + 1}"
        yield piece


def fingerprint(value: object) -> str:
    """SHA-256 of the value's canonical JSON, in hex."""
    return _digest(json.dumps(value, sort_keys=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def conversation_name(kind: str, id: object, record: object) -> str:
    """`<kind>-<id of the source>`; without a usable id, the start of the record's fingerprint."""
    known = source_id(id)
    if known is None:
        known = fingerprint(id if isinstance(id, str) and id.strip() else record)[:16]
    return f"{kind}-{known}"


def label(where: str, name: str) -> str:
    """Where a record is and which one: `conversation 3 (6f1c09aa…)`."""
    return f"{where} ({name.partition('-')[2][:8]}…)"


def source_id(value: object) -> str | None:
    """The id as text if it can be kept as it is: printable, not empty, with room for a suffix."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**30:
        return str(value)
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value if 0 < len(value) <= MAX_NAME - 40 and value == value.strip() else None


def short(value: object) -> str | None:
    """A name or title: text, trimmed and at most 200 characters; None for anything else."""
    return value.strip()[:MAX_NAME] or None if isinstance(value, str) else None


def moment(value: object) -> str | None:
    """ISO-8601 in UTC from epoch seconds (or milliseconds) or ISO text; None if it is no time we can keep."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            found = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat() if EARLIEST <= found < LATEST else None


def bounded(parts: list[Any]) -> list[Any]:
    """Raw pieces of the source, small enough for metadata: what is too long is replaced by a note."""
    kept: list[Any] = []
    size = 0
    for number, part in enumerate(parts):
        short_part = _bounded(part)
        size += len(json.dumps(short_part))  # ASCII, so never less than the bytes that will be stored
        if size > MAX_KEPT:
            return [*kept, f"[left out: {len(parts) - number} more]"]
        kept.append(short_part)
    return kept


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_KEPT_TEXT:
        return f"{value[:100]}… [left out: {len(value) - 100} characters]"
    if isinstance(value, dict):
        return {key: _bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    return value


class Transcript:
    """Collects the messages of one foreign conversation and gives each an id, a time and its source."""

    def __init__(self, since: str | None = None) -> None:
        self.messages: list[JsonObject] = []
        self._ids: set[str] = set()
        self._at = since

    def add(self, role: str, content: str, *, id: object = None, at: object = None, **optional: Any) -> str:
        """Append a message and return its id. A missing time is the one before it."""
        self._at = moment(at) or self._at
        number = len(self.messages) + 1
        known = source_id(id) or f"{number}-{_digest(role + ' ' + content)[:12]}"
        if known in self._ids:
            known = f"{known}~{number}"
        self._ids.add(known)
        message = {"role": role, "content": content, "id": known, "at": self._at, "source": "imported", **optional}
        self.messages.append({key: value for key, value in message.items() if value is not None})
        return known

    def batches(self, name: str, where: str, *, title: str | None) -> Iterator[Batch | Skipped]:
        if self.messages:
            yield from batched(name, self.messages, title=title)
        else:
            yield Skipped(where, "it has no messages with text")
