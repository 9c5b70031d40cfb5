"""From a caller's arguments to a checked draft of a message, or a typed refusal that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import ROLES, SOURCES, Draft, JsonObject
from recollect.core.text import identity, storable, storable_json

CONTENT_LIMIT: Final = 1024 * 1024  # bytes of UTF-8
METADATA_LIMIT: Final = 64 * 1024
TOOL_CALLS_LIMIT: Final = CONTENT_LIMIT
_SOURCE_OF_ROLE: Final = {"user": "typed", "system": "typed", "assistant": "assistant", "tool": "tool"}
_FIELDS: Final = frozenset(
    [
        "role",
        "content",
        "id",
        "at",
        "name",
        "source",
        "tool_calls",
        "tool_call_id",
        "model_variant",
        "metadata",
        "importance",
        "replaced",
    ]
)


def make_draft(fields: Mapping[str, Any], *, now: datetime, new_id: str) -> Draft:
    """Check one message. `new_id` is used when the caller gave no id, `now` when it gave no time."""
    unknown = set(fields) - _FIELDS
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
        id=new_id if given_id is None else identity(given_id, "id"),
        id_is_new=given_id is None,
        role=role,
        content=content,
        at=now if at is None else times.parse_moment(at),
        source=_source(fields.get("source"), role),
        name=name,
        model_variant=variant,
        tool_calls=calls,
        tool_call_id=None if call_id is None else identity(call_id, "tool_call_id"),
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
    clean, replaced = storable(content)
    if len(clean) > CONTENT_LIMIT or (not clean.isascii() and len(clean.encode()) > CONTENT_LIMIT):
        raise InvalidInput("content_too_large", f"A message may have at most {CONTENT_LIMIT} bytes of text.")
    return clean, replaced


def within_limit(content: str) -> str:
    """As much of a text as a message may have."""
    whole = content.encode("utf-8", "replace")
    return content if len(whole) <= CONTENT_LIMIT else whole[:CONTENT_LIMIT].decode("utf-8", "ignore")


def _label(value: object, what: str) -> tuple[str | None, int]:
    if value is None:
        return None, 0
    if not isinstance(value, str) or len(value) > 200:
        raise InvalidInput(f"invalid_{what}", f"The {what} must be text of at most 200 characters.")
    return storable(value)


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
    clean, replaced = storable_json(value)
    _check_size(clean, METADATA_LIMIT, "metadata")
    return clean, replaced


def _tool_calls(value: object) -> tuple[tuple[JsonObject, ...] | None, int]:
    if value is None:
        return None, 0
    if not isinstance(value, list | tuple) or not all(isinstance(call, dict) for call in value):
        raise InvalidInput("invalid_tool_calls", "`tool_calls` must be a list of JSON objects.")
    clean, replaced = storable_json(value)
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
    """An export says what was replaced when the message was first stored; it is kept through an import."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= CONTENT_LIMIT:
        raise InvalidInput("invalid_replaced", "`replaced` is a count of characters.")
    return value


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(value: object) -> str:
    """The one JSON spelling that is stored: compact, and readable in every script."""
    return _ENCODER.encode(value)
