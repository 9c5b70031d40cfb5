"""The profile, which holds what people chose to tell about themselves: its fields, their checks, and their rendering.

Consent is not decided here: `memory/profile.py` asks for it.
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
from recollect.core.text import replace_unstorable

GROUPS: Final = {
    "preferences": ("coding_style", "languages", "frameworks"),
    "context": ("goals", "domain", "constraints"),
}
LISTS: Final = frozenset(("languages", "frameworks"))
NOTES: Final = "notes"
FIELDS: Final = (*(name for group in GROUPS.values() for name in group), NOTES)
MAX_FIELD_CHARACTERS: Final = 500  # of a field, or of one item of a list
MAX_LIST_ITEMS: Final = 50
MAX_NOTES_BYTES: Final = 8 * 1024  # of UTF-8
LINE_CHARACTERS: Final = 200  # sentences of notes are joined to lines below this length; one sentence may be longer
MAX_LINE_CHARACTERS: Final = 400
_SENTENCE_END: Final = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")


def _empty_group(group: str) -> JsonObject:
    return {name: [] if name in LISTS else None for name in GROUPS[group]}


@dataclass(frozen=True, slots=True)
class Profile(Record):
    """A person's profile. Without consent its fields are empty; `stored` says whether the store holds any."""

    preferences: JsonObject = field(default_factory=lambda: _empty_group("preferences"))
    context: JsonObject = field(default_factory=lambda: _empty_group("context"))
    notes: str = ""
    updated_at: datetime | None = None
    consent: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True)
class ProfileLine:
    """One line of a rendered profile, and the field it comes from."""

    field: str
    text: str


def check_changes(fields: object) -> JsonObject:
    """Return the checked fields of a nested mapping, by their names. Fields may be missing; None or "" empties one.

    Raise InvalidInput for an unknown field, a wrong type or a value that is too long.
    """
    if not isinstance(fields, Mapping):
        raise _invalid("A profile is a mapping with preferences, context and notes.")
    checked: JsonObject = {}
    for name, value in fields.items():
        if name == NOTES:
            checked[NOTES] = _check_notes(value)
        elif name in GROUPS:
            checked |= _check_group(name, value)
        else:
            raise _unknown(name)
    return checked


def _check_group(group: str, fields: object) -> JsonObject:
    if not isinstance(fields, Mapping):
        raise _invalid(f"`{group}` is a mapping with {', '.join(GROUPS[group])}.")
    for name in fields:
        if name not in GROUPS[group]:
            raise _unknown(name)
    return {
        name: _check_list(name, value) if name in LISTS else _check_text(name, value) for name, value in fields.items()
    }


def _check_text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"`{name}` is text.")
    if len(value) > MAX_FIELD_CHARACTERS:
        raise _too_large(f"`{name}` may have at most {MAX_FIELD_CHARACTERS} characters.")
    return replace_unstorable(value)[0].strip() or None


def _check_list(name: str, value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _invalid(f"`{name}` is a list of texts.")
    if len(value) > MAX_LIST_ITEMS:
        raise _too_large(f"`{name}` may have at most {MAX_LIST_ITEMS} items.")
    items = [_check_text(name, item) for item in value]
    return list(dict.fromkeys(item for item in items if item is not None))


def _check_notes(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _invalid("`notes` is text.")
    clean = replace_unstorable(value)[0].strip()
    if len(clean.encode()) > MAX_NOTES_BYTES:
        raise _too_large(f"`notes` may have at most {MAX_NOTES_BYTES} bytes of text.")
    return clean


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("invalid_profile", message)


def _too_large(message: str) -> InvalidInput:
    return InvalidInput("profile_too_large", message)


def _unknown(name: object) -> InvalidInput:
    return InvalidInput("unknown_field", f"A profile has no field {str(name)[:60]!r}.")


# Storage: a flat mapping of the fields that are filled in.


def merge_changes(stored: JsonObject, changed: JsonObject) -> JsonObject:
    """Return the stored fields after a change. Fields that it does not name stay; emptied fields are removed."""
    after = stored | changed
    return {name: after[name] for name in FIELDS if after.get(name)}


def from_stored(body: Mapping[str, Any], *, updated_at: datetime) -> Profile:
    """Return the profile of a person who consents, from its stored fields."""
    groups = {
        group: _empty_group(group) | {name: body[name] for name in names if name in body}
        for group, names in GROUPS.items()
    }
    notes = body.get(NOTES, "")
    return Profile(groups["preferences"], groups["context"], notes, updated_at, consent=True, stored=True)


def to_nested(fields: Mapping[str, Any]) -> JsonObject:
    """Return a flat mapping of fields in the nested form that `check_changes` takes."""
    nested: JsonObject = {}
    for name, value in fields.items():
        group = next((group for group, names in GROUPS.items() if name in names), None)
        if group is None:
            nested[name] = value
        else:
            nested.setdefault(group, {})[name] = value
    return nested


# Rendering.


def render_lines(profile: Profile) -> list[ProfileLine]:
    """Return a profile as short lines such as "Coding style: functional". Long notes take several lines."""
    fields = profile.preferences | profile.context
    lines = []
    for name in FIELDS[:-1]:
        value = fields[name]
        if value:
            text = ", ".join(value) if name in LISTS else value
            lines.append(ProfileLine(name, f"{field_label(name)}: {' '.join(text.split())}"))
    return lines + [ProfileLine(NOTES, f"{field_label(NOTES)}: {piece}") for piece in _split_notes(profile.notes)]


def comparable_lines(profile: Profile) -> list[str]:
    """Return the texts of `render_lines` as they are compared with a question: notes without their label.

    The label of a field says what it is about. That of notes is the same for all of them.
    """
    return [line.text.partition(": ")[2] if line.field == NOTES else line.text for line in render_lines(profile)]


def field_label(name: str) -> str:
    """Return a field's name as people read it: "Coding style"."""
    return name.replace("_", " ").capitalize()


def _split_notes(notes: str) -> Iterator[str]:
    """Split notes at line breaks, and longer lines between sentences. A sentence too long for one line is wrapped."""
    for note_line in notes.splitlines():
        piece = ""
        for sentence in _SENTENCE_END.split(" ".join(note_line.split())):
            if piece and len(piece) + len(sentence) >= LINE_CHARACTERS:
                yield piece
                piece = ""
            piece = f"{piece} {sentence}".strip()
            if len(piece) > MAX_LINE_CHARACTERS:
                *full_lines, piece = textwrap.wrap(piece, MAX_LINE_CHARACTERS)
                yield from full_lines
        if piece:
            yield piece
