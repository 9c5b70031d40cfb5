"""The records that cross module borders: what a message, a conversation, a receipt is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

ROLES: Final = ("user", "assistant", "system", "tool")
SOURCES: Final = ("typed", "assistant", "imported", "tool")
BUILT_IN: Final = "recollect"  # the model variant of the built-in assistant, whose answers only quote memory

JsonObject = dict[str, Any]


def plain(value: object) -> Any:
    """Turn a record into JSON-ready values: times as ISO-8601, tuples as lists."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


class Record:
    """Gives frozen dataclasses their `to_dict()`."""

    __slots__ = ()

    def to_dict(self) -> JsonObject:
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Principal(Record):
    """Who asks. Every store call takes one; it is never read from metadata or message text."""

    person: str = "local"
    department: str | None = None
    ministry: str | None = None
    clearances: tuple[str, ...] = ()


OPERATOR: Final = Principal("")  # whose settings hold for everybody who has not chosen otherwise


@dataclass(frozen=True, slots=True)
class Draft(Record):
    """A checked message that is not stored yet: no `seq`, and `at` may still lack a zone."""

    id: str
    role: str
    content: str
    at: datetime
    source: str
    id_is_new: bool = False  # made here, so no stored message can have it
    name: str | None = None
    model_variant: str | None = None
    tool_calls: tuple[JsonObject, ...] | None = None
    tool_call_id: str | None = None
    metadata: JsonObject | None = None
    importance: float | None = None
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class Message(Record):
    """One message of the log. `seq` counts from 1 within its conversation and is the only order.

    `replaced` says how many characters no database can hold (NUL, lone surrogates) were replaced by U+FFFD. A message
    that is `damaged` has lost its text to a fault of the disk; `recollect doctor` says more.
    """

    id: str
    conversation: str
    seq: int
    role: str
    content: str
    at: datetime
    source: str
    name: str | None = None
    model_variant: str | None = None
    tool_calls: tuple[JsonObject, ...] | None = None
    tool_call_id: str | None = None
    metadata: JsonObject | None = None
    importance: float | None = None
    replaced: int = 0
    damaged: bool = False

    @property
    def only_quotes(self) -> bool:
        """Kept and shown like all others, but no new memory."""
        return self.model_variant == BUILT_IN


@dataclass(frozen=True, slots=True)
class Appended(Record):
    """A message as it is stored, and whether this call stored it."""

    message: Message
    created: bool


@dataclass(frozen=True, slots=True)
class Conversation(Record):
    """What `conversations()` shows. A title nobody gave is the start of the first user message."""

    name: str
    title: str
    tags: tuple[str, ...]
    zone: str
    messages: int
    last_seq: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class About(Record):
    """What a conversation is called when it is created."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Receipt(Record):
    """What an erase removed, and what may still hold it.

    `counts` are rows per table. `files` were read byte by byte after the erase; `remaining` counts the pieces of
    erased text found in them (none, unless `pending`). While `pending`, the rows are gone but another process
    keeps old pages alive; the worker finishes. `kept_elsewhere` names copies outside the database's reach.
    """

    id: str
    scope: JsonObject
    counts: dict[str, int]
    at: datetime
    files: tuple[str, ...] = ()
    remaining: int = 0
    pending: bool = False
    kept_elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done(Record):
    """What derived work was done: `counts` per chore, and what is still missing and why."""

    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Imported(Record):
    """The outcome of an import: how much was new, known before, or could not be read.

    `skipped` gives the first reasons, `skipped_count` counts all.
    """

    format: str
    conversations: int
    messages: int
    added: int
    known: int
    skipped: tuple[str, ...] = ()
    skipped_count: int = 0


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """One line of the doctor's report. `state` is ok, warning or error; `fix` says what to do about it."""

    name: str
    state: str
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour(Record):
    """A message of the same turn as a hit."""

    message_id: str
    seq: int
    role: str
    text: str
    at: datetime
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Hit(Record):
    """Something recalled. `text` is the best passage of the message; the parts in `why` add up to `score`.

    What comes from the profile belongs to no conversation: its name is empty there.
    """

    message_id: str | None
    conversation: str
    seq: int | None
    role: str
    text: str
    at: datetime
    score: float
    kind: str
    why: dict[str, float]
    name: str | None = None
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class Recalled(Record):
    """Hits, best first; how they were found; and names of what failed meanwhile."""

    hits: tuple[Hit, ...]
    metrics: JsonObject
    degraded: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]


@dataclass(frozen=True, slots=True)
class Context(Record):
    """A prompt for a question: `messages` for any OpenAI-style API, the same as one `text`, and the reasons."""

    messages: tuple[JsonObject, ...]
    text: str
    tokens: int
    explain: JsonObject
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditEntry(Record):
    """Who did what with a person's memory: names and counts, never content. Entries are ordered by their `id`."""

    id: int
    at: datetime
    person: str
    actor: str
    action: str
    details: JsonObject


@dataclass(frozen=True, slots=True)
class Similar(Record):
    """An earlier question like the one asked, in another conversation."""

    message_id: str
    conversation: str
    seq: int
    text: str
    at: datetime
    age: str
    similarity: float
    answer: str | None = None
