"""Which text both databases can hold, and what happens to the rest.

PostgreSQL refuses NUL and neither database can hold a lone surrogate. Message text that has them is kept with
U+FFFD in their place, and the number of replaced characters is stored beside it. Names and ids are identities:
they are refused instead, since a changed identity would be another thing.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from recollect.core.errors import InvalidInput

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_MAX_DEPTH: Final = 64
_MAX_BITS: Final = 1024  # of an integer; far more than any JSON reader keeps
TITLE_LIMIT: Final = 500


def storable(text: str) -> tuple[str, int]:
    """The text with every character that cannot be stored replaced, and how many there were."""
    if text.isascii() and "\x00" not in text:
        return text, 0
    return _UNSTORABLE.subn("\ufffd", text)


def storable_json(value: Any, depth: int = 0) -> tuple[Any, int]:
    """The same for every string (keys too) inside a JSON value; refuses what JSON cannot say."""
    if depth > _MAX_DEPTH:
        raise InvalidInput("invalid_metadata", f"Nested deeper than {_MAX_DEPTH} levels.")
    if value is None or isinstance(value, bool):
        return value, 0
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise InvalidInput("invalid_metadata", "A number is too large.")
        return value, 0
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidInput("invalid_metadata", "NaN and infinity are not JSON.")
        return value, 0
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return _storable_object(value, depth)
    if isinstance(value, list | tuple):
        items = [storable_json(item, depth + 1) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    raise InvalidInput("invalid_metadata", f"{type(value).__name__} is not JSON.")


def _storable_object(value: dict[Any, Any], depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    replaced = 0
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidInput("invalid_metadata", "Keys of JSON objects are strings.")
        clean_key, in_key = storable(key)
        if clean_key in result:
            raise InvalidInput("invalid_metadata", "Two keys differ only in characters that cannot be stored.")
        result[clean_key], in_item = storable_json(item, depth + 1)
        replaced += in_key + in_item
    return result, replaced


def digest(name: str) -> str:
    """Stands for a name where the name itself need not be kept."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def identity(value: object, what: str, *, limit: int = 200) -> str:
    """Check a name or an id: non-empty text of at most `limit` characters that can be stored as it is."""
    code = f"invalid_{what}"
    if not isinstance(value, str):
        raise InvalidInput(code, f"The {what} must be text, not {type(value).__name__}.")
    if not value.strip():
        raise InvalidInput(code, f"The {what} must not be empty.")
    if len(value) > limit:
        raise InvalidInput(code, f"The {what} may have at most {limit} characters.")
    if _UNSTORABLE.search(value):
        raise InvalidInput(code, f"The {what} has a NUL or half a surrogate pair.")
    return value
