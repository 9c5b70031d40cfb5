"""What callers pass, checked where it enters: each function returns what is meant, or says what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.text import TITLE_LIMIT, identity, storable


def query(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput("invalid_query", "A query or a system prompt is a text.")
    return storable(text)[0]


def title(text: object) -> str:
    if not isinstance(text, str) or len(text) > TITLE_LIMIT:
        raise InvalidInput("invalid_title", f"A title is text of at most {TITLE_LIMIT} characters.")
    return storable(text)[0]


def tags(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput("invalid_tag", "`tags` takes a list of texts.")
    return [identity(name, "tag") for name in names]


def moment(value: datetime | str | None, name: str) -> datetime | None:
    return None if value is None else times.in_zone(times.parse_moment(value, name), "UTC")


def period(since: datetime | str | None, until: datetime | str | None) -> tuple[datetime | None, datetime | None]:
    start, stop = moment(since, "since"), moment(until, "until")
    if start is not None and stop is not None and start > stop:
        raise InvalidInput("invalid_period", "`since` lies after `until`.")
    return start, stop


def number(value: object, name: str, *, least: int, needed: bool = False) -> None:
    if (needed or value is not None) and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InvalidInput(f"invalid_{name}", f"`{name}` is a whole number from {least} on.")


def timeout(value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
        raise InvalidInput("invalid_timeout", "`timeout` is a number of seconds from 0 on.")


def erase_scope(own: str, **wanted: str | None) -> JsonObject:
    """Exactly one thing to erase: an empty scope would mean everything, so it is refused. `own` is the person."""
    scope = {name: value for name, value in wanted.items() if value is not None}
    for name, value in scope.items():
        if name != "day":
            identity(value, name if name != "message" else "id")
    alone = {"person", "topic"} & scope.keys()
    if not scope or (alone and len(scope) > 1) or {"day", "message"} <= scope.keys():
        raise InvalidInput("invalid_scope", "Name one thing to erase: a conversation, person, day, topic or message.")
    if scope.get("person", own) != own:
        raise InvalidInput("invalid_scope", "A person is erased by a memory opened for that person.")
    return scope
