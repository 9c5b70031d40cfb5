"""The one JSON spelling that is stored: compact, and readable in every script."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _ENCODER.encode(value)


def parse_foreign_json(text: str | bytes) -> Any:
    """Return the value of JSON that somebody else wrote. NaN and infinity, which JSON does not have, become None."""
    return json.loads(text, parse_constant=lambda _: None)


class StrictEncoder:
    """Writes values that others gave as JSON, with null in place of NaN and infinity. `default` is as in `json`."""

    def __init__(self, default: Callable[[Any], Any] | None = None) -> None:
        make = partial(json.JSONEncoder, ensure_ascii=False, separators=(",", ":"), default=default)
        self._strict, self._lenient = make(allow_nan=False), make()

    def encode(self, value: object) -> str:
        """Return a value as JSON text."""
        try:
            return self._strict.encode(value)
        except ValueError:  # a number that JSON does not have
            return self._strict.encode(parse_foreign_json(self._lenient.encode(value)))
