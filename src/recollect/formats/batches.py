"""The results of reading a file: batches of messages, a profile, and reports of what could not be read.

Owns the limits of a batch, and the names and ids of imported conversations and messages: the same file always gives
the same ones. Knows no file format.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from recollect.core.message import CONTENT_LIMIT
from recollect.core.models import JsonObject
from recollect.core.task_prompts import recognise_task
from recollect.core.times import EARLIEST, LATEST

MAX_BATCH_MESSAGES: Final = 500
MAX_BATCH_CHARACTERS: Final = 1024 * 1024
MAX_NAME_CHARACTERS: Final = 200
# A character takes at most four bytes of UTF-8, so a piece of this size always fits into one message.
PIECE_CHARACTERS: Final = CONTENT_LIMIT // 4
MAX_METADATA_TEXT_CHARACTERS: Final = 2000
MAX_METADATA_BYTES: Final = 48 * 1024

# What exports hold besides messages. These are the names in the report of an import.
HIDDEN_INSTRUCTIONS: Final = "hidden instructions"
TOOL_TRACES: Final = "tool calls and tool results"
THOUGHTS: Final = "thoughts of a model"
TASK_PROMPTS: Final = "task prompts of a chat program, with their answers"
EMPTY_MESSAGES: Final = "messages without text"
EMPTY_CONVERSATIONS: Final = "empty conversations"


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive messages of one conversation, as `add_many` takes them."""

    conversation: str
    title: str | None
    tags: tuple[str, ...]
    zone: str | None
    messages: list[JsonObject]


@dataclass(frozen=True, slots=True)
class ExportedProfile:
    """The profile of the person who exported the file, as `set_profile` takes it. Only our own format has one."""

    where: str
    fields: JsonObject
    updated_at: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A report of something that could not be read, and why. The import goes on."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A report of something that is not imported on purpose. `what` names its kind, in the plural."""

    what: str
    count: int = 1


Item = Batch | ExportedProfile | Skipped | LeftOut


class Unreadable(ValueError):
    """A single item that cannot be read. The error stays inside this package: it becomes a `Skipped`."""


def split_into_batches(
    conversation: str,
    messages: Iterable[JsonObject],
    *,
    title: str | None = None,
    tags: tuple[str, ...] = (),
    zone: str | None = None,
) -> Iterator[Batch]:
    """Split messages into batches of at most 500 messages and about 1 MiB of text.

    A message whose text is too long for one message becomes several.
    """
    pending: list[JsonObject] = []
    characters = 0
    for message in messages:
        for piece in _split_message(message):
            length = len(piece["content"])
            if pending and (len(pending) == MAX_BATCH_MESSAGES or characters + length > MAX_BATCH_CHARACTERS):
                yield Batch(conversation, title, tags, zone, pending)
                pending, characters = [], 0
            pending.append(piece)
            characters += length
    if pending:
        yield Batch(conversation, title, tags, zone, pending)


def _split_message(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the message itself, or several pieces if its text is longer than one message may hold."""
    content: str = message["content"]
    if len(content) <= PIECE_CHARACTERS or len(content.encode("utf-8", "surrogatepass")) <= CONTENT_LIMIT:
        yield message
        return
    count = math.ceil(len(content) / PIECE_CHARACTERS)
    for number in range(count):
        metadata = {**message.get("metadata", {}), "part": number + 1, "parts_in_all": count}
        piece = {
            **message,
            "content": content[number * PIECE_CHARACTERS : (number + 1) * PIECE_CHARACTERS],
            "metadata": metadata,
        }
        if number:
            piece["id"] = f"{message['id'][: MAX_NAME_CHARACTERS - 12]}/part-{number + 1}"
        yield piece


def fingerprint(value: object) -> str:
    """Return the SHA-256 of the value's canonical JSON, in hex."""
    return _digest(json.dumps(value, sort_keys=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def conversation_name(kind: str, id: object, record: object) -> str:
    """Return `<kind>-<id in the source>`. Without a usable id, the start of a fingerprint takes its place."""
    suffix = usable_id(id)
    if suffix is None:
        suffix = fingerprint(id if isinstance(id, str) and id.strip() else record)[:16]
    return f"{kind}-{suffix}"


def describe_position(where: str, name: str) -> str:
    """Return a record's position with the start of its id, for reports: `conversation 3 (6f1c09aa…)`."""
    return f"{where} ({name.partition('-')[2][:8]}…)"


def usable_id(value: object) -> str | None:
    """Return the id as text if it can be kept as it is: printable, not empty, with room for a suffix. Else None."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**30:
        return str(value)
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value if 0 < len(value) <= MAX_NAME_CHARACTERS - 40 and value == value.strip() else None


def short_text(value: object) -> str | None:
    """Return a name or title, trimmed and cut to 200 characters; None if it is empty or not text."""
    return value.strip()[:MAX_NAME_CHARACTERS] or None if isinstance(value, str) else None


def to_iso_time(value: object) -> str | None:
    """Return a time as ISO-8601 in UTC, from epoch seconds or milliseconds or ISO text; None if it is unusable."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            time = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            time = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat() if EARLIEST <= time < LATEST else None


def bound_parts(parts: list[Any]) -> list[Any]:
    """Return raw parts of the source, made small enough for metadata: a note replaces what is too long."""
    kept: list[Any] = []
    size = 0
    for number, part in enumerate(parts):
        bound_part = _bound_value(part)
        size += len(json.dumps(bound_part))  # ASCII, so never less than the bytes that will be stored
        if size > MAX_METADATA_BYTES:
            return [*kept, f"[left out: {len(parts) - number} more]"]
        kept.append(bound_part)
    return kept


def _bound_value(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_METADATA_TEXT_CHARACTERS:
        return f"{value[:100]}… [left out: {len(value) - 100} characters]"
    if isinstance(value, dict):
        return {key: _bound_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bound_value(item) for item in value]
    return value


def count_left_out(left_out: Counter[str], *, is_empty: bool) -> Iterator[LeftOut]:
    """Yield what was left out of a conversation, and the conversation itself if it has no messages."""
    yield from (LeftOut(what, count) for what, count in left_out.items())
    if is_empty:
        yield LeftOut(EMPTY_CONVERSATIONS)


class Transcript:
    """Collects the messages of one imported conversation and gives each an id, a time and its source.

    Leaves out the task prompts of chat programs, with what answered them.
    """

    def __init__(self, since: str | None = None) -> None:
        """Begin a transcript. `since` is the time of its first messages if they have none."""
        self.messages: list[JsonObject] = []
        self.left_out: Counter[str] = Counter()
        self._ids: set[str] = set()
        self._at = since
        self._in_task = False  # the newest user message was a task prompt

    def add(self, role: str, content: str, *, id: object = None, at: object = None, **optional: Any) -> str | None:
        """Append a message and return its id; None if it is left out.

        A message without a time gets the time of the one before it.
        """
        if role == "user":
            self._in_task = recognise_task(content) is not None
        if self._in_task:
            self.left_out[TASK_PROMPTS] += 1
            return None
        self._at = to_iso_time(at) or self._at
        number = len(self.messages) + 1
        message_id = usable_id(id) or f"{number}-{_digest(role + ' ' + content)[:12]}"
        if message_id in self._ids:
            message_id = f"{message_id}~{number}"
        self._ids.add(message_id)
        message = {"role": role, "content": content, "id": message_id, "at": self._at, "source": "imported", **optional}
        self.messages.append({key: value for key, value in message.items() if value is not None})
        return message_id

    def batches(self, name: str, *, title: str | None, tags: tuple[str, ...] = ()) -> Iterator[Batch | LeftOut]:
        """Yield the messages in batches, then what was left out."""
        yield from split_into_batches(name, self.messages, title=title, tags=tags)
        yield from count_left_out(self.left_out, is_empty=not self.messages)
