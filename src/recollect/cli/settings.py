"""Settings: every value, where it comes from, and changes that are kept in the database."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from recollect.cli.display import line, note, show_json, show_table
from recollect.cli.options import Call, without_password
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.settings import Settings, preset
from recollect.sync import Memory


def settings(
    call: Call,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME[=VALUE]", help="Show these, or change them.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Take a change back; repeatable.")] = None,
) -> None:
    """Show settings and their origins, or change them.

    A change is kept in the database, for this person.
    """
    given = [text.partition("=") for text in names or ()]
    changes: dict[str, Any] = {name: value for name, sign, value in given if sign}
    changes |= dict.fromkeys(unset or ())
    wanted = {name for name, _, _ in given} | set(unset or ())
    _refuse_unknown(wanted)
    with call.open() as memory:
        if changes:
            memory.change_settings(**changes)
            _tell_overruled(call, changes)
        rows = [row for row in list_settings(memory) if not wanted or row["name"] in wanted]
    if call.json:
        show_json(rows)
    else:
        show_settings(rows)


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in sorted(names):
        if name not in Settings.model_fields:
            raise InvalidInput("unknown_setting", f"There is no setting {name!r}. `recollect settings` lists them.")


def _tell_overruled(call: Call, changes: Iterable[str]) -> None:
    """A change that a preset hides would look like one that was lost."""
    for name in sorted(preset(call.preset).model_fields_set.intersection(changes) if call.preset else ()):
        note(f"note: the preset {line(str(call.preset))} has its own {name}, which counts as long as you say --preset.")


def list_settings(memory: Memory) -> list[JsonObject]:
    """Name, value, origin and meaning of each; keys and passwords are not shown."""
    values, origins = memory.settings().model_dump(), memory.setting_origins()
    return [
        {
            "name": name,
            "value": _shown(name, values[name]),
            "origin": "preset" if origins[name] == "constructor" else origins[name],
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]


def _shown(name: str, value: object) -> object:
    if name == "api_key" and value is not None:
        return "(hidden)"
    return without_password(value) if isinstance(value, str) else value


def show_settings(rows: list[JsonObject]) -> None:
    columns = ("setting", "value", "from", "meaning")
    show_table(columns, [(row["name"], _typed(row["value"]), row["origin"], row["meaning"]) for row in rows])


def _typed(value: object) -> str | None:
    """The value as one would type it to set it."""
    return None if value is None else value if isinstance(value, str) else json_module.dumps(value)
