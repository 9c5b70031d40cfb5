"""The records that cross module borders, except those of messages (`message`), topics and briefs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

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


INTERNAL: Final = {"internal": True}  # metadata of a field that `to_dict()` leaves out


class Record:
    """A base class that gives frozen dataclasses their `to_dict()`."""

    __slots__ = ()

    def to_values(self) -> JsonObject:
        """Return the fields by name, as they are, but for internal ones. A record with further names adds them."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: getattr(self, f.name) for f in fields if "internal" not in f.metadata}

    def to_dict(self) -> JsonObject:
        """Return the fields as JSON-ready values."""
        return {name: plain(value) for name, value in self.to_values().items()}


@dataclass(frozen=True, slots=True)
class Principal(Record):
    """The person who asks, and what they belong to. Every call of the store takes one.

    It is never read from metadata or from the text of messages.
    """

    person: str = "local"
    department: str | None = None
    ministry: str | None = None
    clearances: tuple[str, ...] = ()


OPERATOR: Final = Principal("")  # its settings hold for every person who has not set their own


@dataclass(frozen=True, slots=True)
class Conversation(Record):
    """A conversation as `conversations()` lists it.

    Until it is given a title, `title` is the start of the first user message.
    """

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
    """Title, tags and time zone of a conversation that is created."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Receipt(Record):
    """A record of an erase: what it removed, and where copies may still be.

    `counts` are rows per table. `files` were read byte by byte after the erase; none, if it was asked for over the
    network. `remaining` counts the pieces of erased text found in them; it is 0 unless the erase is `pending`. Then the
    rows are gone, but their bytes are not: another process keeps old pages of the file alive, or a large file was
    rewritten a moment ago. The worker finishes later. `kept_elsewhere` names copies that the database cannot reach.
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
    """The outcome of derived work.

    `counts` says how much each step did, `failed` gives the error code of each step that failed. `complete` says
    whether nothing is left to do.
    """

    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Imported(Record):
    """The outcome of an import: how much was new, known before, or could not be read.

    `skipped` gives the first reasons, `skipped_count` counts all. `left_out` counts by kind what is not imported on
    purpose: tool calls, thoughts, hidden instructions, empty conversations, files without conversations.
    """

    format: str
    conversations: int
    messages: int
    added: int
    known: int
    skipped: tuple[str, ...] = ()
    skipped_count: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restored(Record):
    """The outcome of a restore.

    `left_out` counts the rows of the backup that were erased here since it was made, and so were not brought back.
    `made_again` is what the backup did not have, or not completely: the worker makes it. It has for each kind (tokens,
    vectors, briefs, topics) how many messages the worker goes through. Without their vectors, messages are found by
    words alone; nothing else is missing meanwhile.
    """

    left_out: dict[str, int] = field(default_factory=dict)
    made_again: dict[str, int] = field(default_factory=dict)


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
    """A result of recall. `text` is the best passage of the message; the parts in `why` add up to `score`.

    `relevance` is an estimate from 0 to 1: of hits with 0.2, about a fifth hold what was asked for.

    A hit from the profile belongs to no conversation: `conversation` is empty.
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
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class Recalled(Record):
    """The hits of a recall, best first. `degraded` names the parts that failed meanwhile."""

    hits: tuple[Hit, ...]
    metrics: JsonObject
    degraded: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class Context(Record):
    """A prompt for a question: `messages` for any OpenAI-style API, the same as one `text`.

    `explain` gives the reasons: every part with its tokens and sources. `degraded` names the parts that failed.
    """

    messages: tuple[JsonObject, ...]
    text: str
    tokens: int
    explain: JsonObject
    degraded: tuple[str, ...] = ()
    # The parts that `messages` were put together from, for callers who put in turns of their own.
    memory: str = field(default="", repr=False, metadata=INTERNAL)  # the fenced block, or nothing
    tail: tuple[JsonObject, ...] = field(default=(), repr=False, metadata=INTERNAL)  # one for each message
    tail_ids: tuple[str, ...] = field(default=(), repr=False, metadata=INTERNAL)  # of the same messages
    question: str = field(default="", repr=False, metadata=INTERNAL)  # perhaps cut


@dataclass(frozen=True, slots=True)
class AuditEntry(Record):
    """An act on a person's memory, and the actor. `details` has names and counts, never content. Ids rise with time."""

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
