"""What a person chose to tell of themselves: the record, what may stand in it, and how it is told.

Whether it may be used is not decided here; see `engine/profile.py`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject, Record
from recollect.core.text import storable

GROUPS: Final = {
    "preferences": ("coding_style", "languages", "frameworks"),
    "context": ("goals", "domain", "constraints"),
}
LISTS: Final = frozenset(("languages", "frameworks"))
NOTES: Final = "notes"
FIELDS: Final = (*(name for group in GROUPS.values() for name in group), NOTES)
FIELD_LIMIT: Final = 500  # characters of a field, or of one item of a list
LIST_LIMIT: Final = 50  # items
NOTES_LIMIT: Final = 8 * 1024  # bytes of UTF-8
TOLD_AT_ONCE: Final = 200  # characters of notes that are told as one line, unless one sentence is longer,
LONGEST: Final = 400  # and how long it may be
_END: Final = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")


def _nothing(group: str) -> JsonObject:
    return {name: [] if name in LISTS else None for name in GROUPS[group]}


@dataclass(frozen=True, slots=True)
class Profile(Record):
    """What a person told of themselves. Without consent it is empty, whatever is `stored`."""

    preferences: JsonObject = field(default_factory=lambda: _nothing("preferences"))
    context: JsonObject = field(default_factory=lambda: _nothing("context"))
    notes: str = ""
    updated_at: datetime | None = None
    consent: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of a profile as a prompt tells it, and the field it comes from."""

    field: str
    text: str


def changes(fields: object) -> JsonObject:
    """Checked fields by their names, of a mapping like a profile that need not be whole. None or "" empties a field."""
    if not isinstance(fields, Mapping):
        raise _invalid("A profile is a mapping with preferences, context and notes.")
    found: JsonObject = {}
    for name, value in fields.items():
        if name == NOTES:
            found[NOTES] = _notes(value)
        elif name in GROUPS:
            found |= _group(name, value)
        else:
            raise _unknown(name)
    return found


def _group(group: str, fields: object) -> JsonObject:
    if not isinstance(fields, Mapping):
        raise _invalid(f"`{group}` is a mapping with {', '.join(GROUPS[group])}.")
    for name in fields:
        if name not in GROUPS[group]:
            raise _unknown(name)
    return {name: _list(name, value) if name in LISTS else _text(name, value) for name, value in fields.items()}


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"`{name}` is text.")
    if len(value) > FIELD_LIMIT:
        raise _too_large(f"`{name}` may have at most {FIELD_LIMIT} characters.")
    return storable(value)[0].strip() or None


def _list(name: str, value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _invalid(f"`{name}` is a list of texts.")
    if len(value) > LIST_LIMIT:
        raise _too_large(f"`{name}` may have at most {LIST_LIMIT} items.")
    items = [_text(name, item) for item in value]
    return list(dict.fromkeys(item for item in items if item is not None))


def _notes(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _invalid("`notes` is text.")
    clean = storable(value)[0].strip()
    if len(clean.encode()) > NOTES_LIMIT:
        raise _too_large(f"`notes` may have at most {NOTES_LIMIT} bytes of text.")
    return clean


def _invalid(told: str) -> InvalidInput:
    return InvalidInput("invalid_profile", told)


def _too_large(told: str) -> InvalidInput:
    return InvalidInput("profile_too_large", told)


def _unknown(name: object) -> InvalidInput:
    return InvalidInput("unknown_field", f"A profile has no field {str(name)[:60]!r}.")


# How it is stored: only what is filled in, by the names of the fields.


def merged(stored: JsonObject, changed: JsonObject) -> JsonObject:
    """What is stored after a change: fields that are not named stay as they are, empty ones go."""
    after = stored | changed
    return {name: after[name] for name in FIELDS if after.get(name)}


def from_stored(body: Mapping[str, Any], *, updated_at: datetime) -> Profile:
    """The profile of somebody who consents."""
    groups = {group: _nothing(group) | {n: body[n] for n in names if n in body} for group, names in GROUPS.items()}
    notes = body.get(NOTES, "")
    return Profile(groups["preferences"], groups["context"], notes, updated_at, consent=True, stored=True)


def to_nested(fields: Mapping[str, Any]) -> JsonObject:
    """Fields by their names, as the mapping that `changes` reads."""
    nested: JsonObject = {}
    for name, value in fields.items():
        group = next((group for group, names in GROUPS.items() if name in names), None)
        if group is None:
            nested[name] = value
        else:
            nested.setdefault(group, {})[name] = value
    return nested


# How it is told.


def lines(profile: Profile) -> list[Line]:
    """A profile as short lines: "Coding style: functional". Long notes are several."""
    fields = profile.preferences | profile.context
    found = []
    for name in FIELDS[:-1]:
        value = fields[name]
        if value:
            told = ", ".join(value) if name in LISTS else value
            found.append(Line(name, f"{label(name)}: {' '.join(told.split())}"))
    return found + [Line(NOTES, f"{label(NOTES)}: {told}") for told in _pieces(profile.notes)]


def label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _pieces(notes: str) -> Iterator[str]:
    """The notes line by line; of a long line so many sentences together as are read at a glance."""
    for written in notes.splitlines():
        held = ""
        for sentence in _END.split(" ".join(written.split())):
            if held and len(held) + len(sentence) >= TOLD_AT_ONCE:
                yield held
                held = ""
            held = f"{held} {sentence}".strip()
            if len(held) > LONGEST:  # no end of a sentence for long: cut where a word ends
                *whole, held = textwrap.wrap(held, LONGEST)
                yield from whole
        if held:
            yield held
