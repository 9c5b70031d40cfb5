"""Encodes the bodies of answers as JSON."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from recollect.core.json_text import StrictEncoder
from recollect.core.models import Context, Record, plain


def encode_json(data: Any) -> bytes:
    """Encode plain values and records as JSON. Half a surrogate pair becomes a question mark."""
    # A context is the largest and most frequent answer. It has no times, which pydantic would write differently.
    if isinstance(data, Context):
        with suppress(PydanticSerializationError):  # for half a surrogate pair, which the encoder below replaces
            return to_json(data.to_values())
    return _ENCODER.encode(data).encode("utf-8", "replace")


def _to_encodable(value: object) -> Any:
    """Convert what the JSON encoder does not know. A record becomes a dictionary of its fields, not a deep copy."""
    if isinstance(value, Record):
        return value.to_values()
    return plain(value)


_ENCODER: Final = StrictEncoder(_to_encodable)
