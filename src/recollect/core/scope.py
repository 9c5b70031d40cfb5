"""Scopes: the targets of recall, erase, export and rebuild. One type, so that every operation names its target alike.

A scope says which rows of a person are meant. The principal, who is passed beside it, says which person. Each operation
has a table from kinds of scopes to what it does with them. `SUPPORTED` says which kinds each table must have.
`tests/arch` compares the two, so a new kind of scope fails there until every operation has an answer to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from typing import ClassVar, Final

from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.text import check_identity


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a person's memory that an operation works on. Use one of the kinds below."""

    kind: ClassVar[str] = ""

    def to_dict(self) -> JsonObject:
        """Return the fields that are set, as text: a receipt names its scope by them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PersonScope(Scope):
    """Everything of the person who asks."""

    kind: ClassVar[str] = "person"
    person: str  # the one who asks; here only so that a receipt can name the person


@dataclass(frozen=True, slots=True)
class ConversationScope(Scope):
    """One conversation."""

    kind: ClassVar[str] = "conversation"
    conversation: str


@dataclass(frozen=True, slots=True)
class MessageScope(Scope):
    """One message; the conversation is needed only if several have a message with this id."""

    kind: ClassVar[str] = "message"
    message: str
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class DayScope(Scope):
    """The messages of one local date, in one conversation or in all of them, each in its own zone."""

    kind: ClassVar[str] = "day"
    day: date
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class TopicScope(Scope):
    """The messages of one topic."""

    kind: ClassVar[str] = "topic"
    topic: str


@dataclass(frozen=True, slots=True)
class ProfileScope(Scope):
    """The profile: the information that people gave about themselves."""

    kind: ClassVar[str] = "profile"
    profile: str  # the person who asks, for the receipt


@dataclass(frozen=True, slots=True)
class StoreScope(Scope):
    """Everything of everybody. For operators."""

    kind: ClassVar[str] = "store"


KINDS: Final[tuple[type[Scope], ...]] = (
    PersonScope, ConversationScope, MessageScope, DayScope, TopicScope, ProfileScope, StoreScope,
)  # fmt: skip
SUPPORTED: Final[dict[str, frozenset[type[Scope]]]] = {
    "recall": frozenset({PersonScope, ConversationScope}),
    "erase": frozenset({PersonScope, ConversationScope, MessageScope, DayScope, TopicScope, ProfileScope}),
    "export": frozenset({PersonScope}),
    "rebuild": frozenset({PersonScope, ConversationScope, StoreScope}),
    "forget": frozenset(KINDS),  # caches
}
_NAME_ONE_THING: Final = (
    "Name exactly one thing to erase: a conversation, person, day, topic or message."
    " Only a day or a message may have a conversation beside it."
)


def erase_scope(
    asking_person: str,
    *,
    conversation: str | None = None,
    person: str | None = None,
    day: str | None = None,
    topic: str | None = None,
    message: str | None = None,
) -> Scope:
    """Return the scope of an erase.

    Exactly one thing must be named; only a day or a message may have a conversation beside it. Naming nothing would
    mean everything, so it is refused.
    """
    for name, value in (("conversation", conversation), ("person", person), ("topic", topic), ("id", message)):
        if value is not None:
            check_identity(value, name)
    named = sum(value is not None for value in (person, topic, day, message))
    stands_alone = person is not None or topic is not None
    if named > 1 or (stands_alone and conversation is not None):
        raise InvalidInput("invalid_scope", _NAME_ONE_THING)
    if person is not None:
        if person != asking_person:
            refusal = f"This memory belongs to {asking_person!r}. To erase {person!r}, open one for that person."
            raise InvalidInput("invalid_scope", refusal)
        return PersonScope(person)
    if topic is not None:
        return TopicScope(topic)
    if message is not None:
        return MessageScope(message, conversation)
    if day is not None:
        return DayScope(times.parse_day(day), conversation)
    if conversation is not None:
        return ConversationScope(conversation)
    raise InvalidInput("invalid_scope", _NAME_ONE_THING)
