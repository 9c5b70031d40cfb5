"""The one JSON spelling that is stored: compact, and readable in every script."""

from __future__ import annotations

import json
from typing import Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _ENCODER.encode(value)
