"""`recollect settings`: shows every setting and where its value comes from, and stores changes in the database."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from recollect.cli.display import print_json, print_note, print_table, to_line
from recollect.cli.options import Call, hide_password
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.settings import SECRET_SETTINGS, Settings, preset
from recollect.sync import Memory


def settings(
    call: Call,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME[=VALUE]", help="Show this setting, or set it; by default show all."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Take back a change of this setting. Repeat it for several."),
    ] = None,
) -> None:
    """Show settings and where they come from, or change them.

    A change is stored in the database and holds for this person.
    """
    assignments = [text.partition("=") for text in names or ()]
    changes: dict[str, Any] = {name: value for name, sign, value in assignments if sign}
    changes |= dict.fromkeys(unset or ())
    chosen = {name for name, _, _ in assignments} | set(unset or ())
    _refuse_unknown(chosen)
    with call.open() as memory:
        if changes:
            memory.change_settings(**changes)
            _print_overruled(call, changes)
        rows = [row for row in list_settings(memory) if not chosen or row["name"] in chosen]
    if call.json:
        print_json(rows)
    else:
        print_settings(rows)


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in sorted(names):
        if name not in Settings.model_fields:
            raise InvalidInput("unknown_setting", f"There is no setting {name!r}. `recollect settings` lists them.")


def _print_overruled(call: Call, changes: Iterable[str]) -> None:
    """Print a note for each change that the preset will hide in later calls; it would look lost."""
    for name in sorted(preset(call.preset).model_fields_set.intersection(changes) if call.preset else ()):
        chosen = to_line(str(call.preset))
        print_note(f"note: {name} is stored, but later calls with --preset {chosen} use the preset's own value.")


def list_settings(memory: Memory) -> list[JsonObject]:
    """Return name, value, origin and meaning of each setting. Keys and passwords are hidden."""
    values, origins = memory.settings().model_dump(), memory.setting_origins()
    return [
        {
            "name": name,
            "value": _hide_secrets(name, values[name]),
            "origin": "preset" if origins[name] == "constructor" else origins[name],
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]


def _hide_secrets(name: str, value: object) -> object:
    if name in SECRET_SETTINGS and value is not None:
        return "(hidden)"
    return hide_password(value) if isinstance(value, str) else value


def print_settings(rows: list[JsonObject]) -> None:
    """Print the rows of `list_settings` as a table."""
    columns = ("setting", "value", "from", "meaning")
    print_table(columns, [(row["name"], _render_setting(row["value"]), row["origin"], row["meaning"]) for row in rows])


def _render_setting(value: object) -> str | None:
    """Return the value as a person types it to set it."""
    return None if value is None else value if isinstance(value, str) else json_module.dumps(value)
