"""Decides which text both databases can hold, and repairs or refuses the rest.

PostgreSQL refuses NUL, and neither database can hold a lone surrogate. In message text each such character is replaced
by U+FFFD, and the number of replaced characters is stored beside it. Names and ids that have one are refused instead: a
changed id would name something else.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from recollect.core.errors import InvalidInput

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_MAX_DEPTH: Final = 64
_MAX_INTEGER_BITS: Final = 1024  # far more than any JSON reader keeps
MAX_TITLE_CHARACTERS: Final = 500


def replace_unstorable(text: str) -> tuple[str, int]:
    """Replace each character that cannot be stored by U+FFFD. Return the text and the number of replacements."""
    if text.isascii() and "\x00" not in text:
        return text, 0
    return _UNSTORABLE.subn("\ufffd", text)


def replace_unstorable_json(value: Any, depth: int = 0) -> tuple[Any, int]:
    """Replace unstorable characters in every string of a JSON value, keys included.

    Return the value and the number of replacements. Raise InvalidInput for a value that JSON cannot express or that is
    nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise InvalidInput("invalid_metadata", f"Nested deeper than {_MAX_DEPTH} levels.")
    if value is None or isinstance(value, bool):
        return value, 0
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InvalidInput("invalid_metadata", "A number is too large.")
        return value, 0
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidInput("invalid_metadata", "NaN and infinity are not JSON.")
        return value, 0
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict):
        return _replace_in_object(value, depth)
    if isinstance(value, list | tuple):
        items = [replace_unstorable_json(item, depth + 1) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    raise InvalidInput("invalid_metadata", f"{type(value).__name__} is not JSON.")


def _replace_in_object(value: dict[Any, Any], depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    replaced = 0
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidInput("invalid_metadata", "Keys of JSON objects are strings.")
        clean_key, in_key = replace_unstorable(key)
        if clean_key in result:
            raise InvalidInput("invalid_metadata", "Two keys differ only in characters that cannot be stored.")
        result[clean_key], in_item = replace_unstorable_json(item, depth + 1)
        replaced += in_key + in_item
    return result, replaced


def hash_name(name: str) -> str:
    """Return a SHA-256 in hex that stands for a name where the name itself must not be stored."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def check_identity(value: object, what: str, *, limit: int = 200) -> str:
    """Return a name or an id unchanged if it is non-empty, storable text of at most `limit` characters.

    Otherwise raise InvalidInput. `what` names the thing in the error's code (`invalid_<what>`) and message.
    """
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
