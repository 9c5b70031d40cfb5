"""Messages: their fields, declared once, their records, and the checks that a new one must pass.

`FIELDS` says for each field how it is stored and who may set it. Rows, SQL and exports are made from it;
`tests/arch/test_message_fields.py` compares it with the records, the schema, the REST body and `add`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.json_text import to_json
from recollect.core.models import JsonObject, Record
from recollect.core.text import check_identity, replace_unstorable, replace_unstorable_json

ROLES: Final = ("user", "assistant", "system", "tool")
SOURCES: Final = ("typed", "assistant", "imported", "tool")
BUILT_IN_ASSISTANT: Final = "recollect"  # the model variant of the built-in assistant, whose answers only quote memory


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message: how it is stored, and who may set it.

    `column` is its SQL type in the table `messages`; None means that it is stored elsewhere. `is_json` says that it is
    stored as JSON text. Callers of `add` may set a field that is `given`, imports also one that is `imported`.
    """

    name: str
    column: str | None
    is_json: bool = False
    given: bool = True
    imported: bool = True


FIELDS: Final = (
    MessageField("id", "TEXT"),
    MessageField("conversation", None, given=False, imported=False),  # by its key
    MessageField("seq", "INTEGER", given=False, imported=False),
    MessageField("role", "TEXT"),
    MessageField("content", None),  # in the table `texts`, or archived
    MessageField("at", "INTEGER"),  # microseconds since 1970
    MessageField("source", "TEXT"),
    MessageField("name", "TEXT"),
    MessageField("model_variant", "TEXT"),
    MessageField("tool_calls", "TEXT", is_json=True),
    MessageField("tool_call_id", "TEXT"),
    MessageField("metadata", "TEXT", is_json=True),
    MessageField("importance", "REAL"),
    MessageField("replaced", "INTEGER", given=False),
    MessageField("damaged", None, given=False, imported=False),  # found out when the text is read
)
_ACCEPTED: Final = frozenset(field.name for field in FIELDS if field.imported)


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
        """Say whether the message only quotes memory. It is kept and shown, but nothing new is learned from it."""
        return self.model_variant == BUILT_IN_ASSISTANT


def is_recalled(role: str, model_variant: str | None) -> bool:
    """Return whether a message is indexed, recalled and quoted.

    A system message is for its own conversation: it may hold what its author would not show. An answer of the built-in
    assistant only quotes.
    """
    return role != "system" and model_variant != BUILT_IN_ASSISTANT


@dataclass(frozen=True, slots=True)
class Appended(Record):
    """A message as it is stored, and whether this call stored it."""

    message: Message
    created: bool


@dataclass(frozen=True, slots=True)
class Anchor(Record):
    """The stored messages that an answer belongs to: its question, and what it follows.

    The answer is stored only while they are: not after one of them was erased, even if something else has its name by
    then. `messages` has the id and seq of each.
    """

    conversation_key: int
    messages: tuple[tuple[str, int], ...]


CONTENT_LIMIT: Final = 1024 * 1024  # bytes of UTF-8
METADATA_LIMIT: Final = 64 * 1024  # bytes of JSON
TOOL_CALLS_LIMIT: Final = CONTENT_LIMIT  # bytes of JSON
LABEL_LIMIT: Final = 200  # characters of a speaker's name or a model's
_SOURCE_OF_ROLE: Final = {"user": "typed", "system": "typed", "assistant": "assistant", "tool": "tool"}


def make_draft(fields: Mapping[str, Any], *, now: datetime, new_id: str) -> Draft:
    """Check the fields of a new message and return its draft. Raise InvalidInput if one is wrong.

    `new_id` is used if they name no id, `now` if they name no time.
    """
    unknown = set(fields) - _ACCEPTED
    if unknown:
        raise InvalidInput("unknown_field", f"A message has no field {sorted(map(str, unknown))[0]!r}.")
    role = _role(fields.get("role"))
    calls, in_calls = _tool_calls(fields.get("tool_calls"))
    content, in_content = _content(fields.get("content"), may_be_none=calls is not None)
    metadata, in_metadata = _metadata(fields.get("metadata"))
    name, in_name = _label(fields.get("name"), "name")
    variant, in_variant = _label(fields.get("model_variant"), "model_variant")
    given_id, at = fields.get("id"), fields.get("at")
    call_id = fields.get("tool_call_id")
    return Draft(
        id=new_id if given_id is None else check_identity(given_id, "id"),
        id_is_new=given_id is None,
        role=role,
        content=content,
        at=now if at is None else times.parse_moment(at),
        source=_source(fields.get("source"), role),
        name=name,
        model_variant=variant,
        tool_calls=calls,
        tool_call_id=None if call_id is None else check_identity(call_id, "tool_call_id"),
        metadata=metadata,
        importance=_importance(fields.get("importance")),
        replaced=_replaced_before(fields.get("replaced"))
        + in_calls + in_content + in_metadata + in_name + in_variant,
    )  # fmt: skip


def _role(role: object) -> str:
    if role is None or role == "":
        raise InvalidInput("empty_role", f"A message needs a role: {', '.join(ROLES)}.")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput("unknown_role", f"The role must be one of {', '.join(ROLES)}.")
    return role


def _content(content: object, *, may_be_none: bool) -> tuple[str, int]:
    if content is None and may_be_none:
        return "", 0
    if not isinstance(content, str):
        raise InvalidInput("invalid_content", f"The content must be text, not {type(content).__name__}.")
    clean, replaced = replace_unstorable(content)
    if len(clean) > CONTENT_LIMIT or (not clean.isascii() and len(clean.encode()) > CONTENT_LIMIT):
        raise InvalidInput("content_too_large", f"A message may have at most {CONTENT_LIMIT} bytes of text.")
    return clean, replaced


def within_limit(content: str) -> str:
    """Return the text, cut to `CONTENT_LIMIT` bytes of UTF-8."""
    whole = content.encode("utf-8", "replace")
    return content if len(whole) <= CONTENT_LIMIT else whole[:CONTENT_LIMIT].decode("utf-8", "ignore")


def storable_calls(calls: Sequence[JsonObject] | None) -> tuple[Sequence[JsonObject] | None, bool]:
    """Return tool calls as far as they can be stored, and whether that is all of them.

    Further fields of a call go first: they may be too deep or too large, or hold what is not JSON. If that is not
    enough, the calls go. The text beside them must not be lost because of them.
    """
    if not calls:
        return None, True
    for candidate in (calls, [_to_plain_call(call) for call in calls]):
        try:
            _tool_calls(candidate)
        except InvalidInput:
            continue
        return candidate, candidate is calls
    return None, False


def _to_plain_call(call: JsonObject) -> JsonObject:
    """Return the id, kind, name and arguments of a tool call, by which it is known again."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    texts = {name: call[name] for name in ("id", "type") if isinstance(call.get(name), str)}
    parts = {name: function[name] for name in ("name", "arguments") if isinstance(function.get(name), str)}
    return texts | {"function": parts}


def _label(value: object, what: str) -> tuple[str | None, int]:
    if value is None:
        return None, 0
    if not isinstance(value, str) or len(value) > LABEL_LIMIT:
        raise InvalidInput(f"invalid_{what}", f"The {what} must be text of at most {LABEL_LIMIT} characters.")
    return replace_unstorable(value)


def _source(source: object, role: str) -> str:
    if source is None:
        return _SOURCE_OF_ROLE[role]
    if not isinstance(source, str) or source not in SOURCES:
        raise InvalidInput("unknown_source", f"The source must be one of {', '.join(SOURCES)}.")
    return source


def _metadata(value: object) -> tuple[JsonObject | None, int]:
    if value is None:
        return None, 0
    if not isinstance(value, dict):
        raise InvalidInput("invalid_metadata", "Metadata must be a JSON object.")
    clean, replaced = replace_unstorable_json(value)
    _check_size(clean, METADATA_LIMIT, "metadata")
    return clean, replaced


def _tool_calls(value: object) -> tuple[tuple[JsonObject, ...] | None, int]:
    if value is None:
        return None, 0
    if not isinstance(value, list | tuple) or not all(isinstance(call, dict) for call in value):
        raise InvalidInput("invalid_tool_calls", "`tool_calls` must be a list of JSON objects.")
    clean, replaced = replace_unstorable_json(value)
    _check_size(clean, TOOL_CALLS_LIMIT, "tool_calls")
    return tuple(clean), replaced


def _check_size(value: object, limit: int, what: str) -> None:
    if len(to_json(value).encode()) > limit:
        raise InvalidInput(f"{what}_too_large", f"The {what} may have at most {limit} bytes of JSON.")


def _importance(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput("invalid_importance", "Importance is a number from 0 to 1.")
    return round(float(value), 6)


def _replaced_before(value: object) -> int:
    """Return the count that an export gives: characters replaced when the message was first stored."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= CONTENT_LIMIT:
        raise InvalidInput("invalid_replaced", "`replaced` is a count of characters.")
    return value
