"""Checks arguments of public methods. Each function raises InvalidInput, with a message that says what to pass.

Fields of messages are checked in `core.message`, names and ids in `text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.text import MAX_TITLE_CHARACTERS, check_identity, replace_unstorable


def check_query(text: object) -> str:
    """Return a query or a system prompt, with unstorable characters replaced."""
    if not isinstance(text, str):
        raise InvalidInput("invalid_query", "A query or a system prompt is a text.")
    return replace_unstorable(text)[0]


def check_title(text: object) -> str:
    """Return a title, with unstorable characters replaced. It may be empty."""
    if not isinstance(text, str) or len(text) > MAX_TITLE_CHARACTERS:
        raise InvalidInput("invalid_title", f"A title is text of at most {MAX_TITLE_CHARACTERS} characters.")
    return replace_unstorable(text)[0]


def check_tags(names: Sequence[str]) -> list[str]:
    """Return tags as a list. Refuses a single text, whose characters would pass for tags."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput("invalid_tag", "`tags` takes a list of texts.")
    return [check_identity(name, "tag") for name in names]


def parse_optional_moment(value: datetime | str | None, name: str) -> datetime | None:
    """Return a moment in UTC, or None for None. A time without an offset is read in UTC."""
    return None if value is None else times.to_utc(times.parse_moment(value, name), "UTC")


def parse_period(since: datetime | str | None, until: datetime | str | None) -> tuple[datetime | None, datetime | None]:
    """Return both ends of a period in UTC. None leaves an end open."""
    start, stop = parse_optional_moment(since, "since"), parse_optional_moment(until, "until")
    if start is not None and stop is not None and start > stop:
        raise InvalidInput("invalid_period", "`since` lies after `until`.")
    return start, stop


def check_number(value: object, name: str, *, minimum: int, required: bool = False) -> None:
    """Check that a value is a whole number from `minimum` on. None passes unless the number is `required`."""
    if value is None and not required:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InvalidInput(f"invalid_{name}", f"`{name}` is a whole number from {minimum} on.")


def check_share(value: object, name: str) -> None:
    """Check that a value is None or a number from 0 to 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise InvalidInput(f"invalid_{name}", f"`{name}` is a number from 0 to 1.")


def check_timeout(value: object) -> None:
    """Check that a timeout is None or a number of seconds from 0 on."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
        raise InvalidInput("invalid_timeout", "`timeout` is a number of seconds from 0 on.")
