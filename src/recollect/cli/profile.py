"""What a person tells of themselves, whether it may be used, and the log of who did what."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from recollect.cli.display import line, note, out, show_json, show_pairs, show_table
from recollect.cli.erase import show_receipt
from recollect.cli.files import Yes
from recollect.cli.options import Call, confirm
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.profile import FIELDS, LISTS, NOTES, Profile, label, to_nested

_SETTABLE = tuple(name for name in FIELDS if name != NOTES)
_OFF = "There is no consent, so it is used nowhere and not shown: recollect consent --grant"


def profile(
    call: Call,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help=f"One of {', '.join(_SETTABLE)}; lists with commas; repeatable."
        ),
    ] = None,
    notes: Annotated[str | None, typer.Option(metavar="TEXT|-", help="Free notes; - reads stdin.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Empty all fields that are not set here.")] = False,
) -> None:
    """Show what you told of yourself, or change it.

    It is used only with consent; without, it is kept but neither shown nor used.
    """
    changes: JsonObject = dict.fromkeys(FIELDS) if clear else {}
    changes |= _read_fields(set_ or ())
    if notes is not None:
        changes[NOTES] = sys.stdin.read() if notes == "-" else notes
    with call.open(must_exist=not changes) as memory:
        found = memory.set_profile(to_nested(changes)) if changes else memory.profile()
    if call.json:
        show_json(found)
    else:
        _show_profile(found)


def _read_fields(given: Iterable[str]) -> JsonObject:
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in _SETTABLE:
            raise InvalidInput("unknown_field", f"Write FIELD=VALUE, with a field of {', '.join(_SETTABLE)}.")
        found[name] = [one.strip() for one in value.split(",")] if name in LISTS else value
    return found


def _show_profile(found: Profile) -> None:
    if not found.consent:
        out("A profile is stored." if found.stored else "No profile is stored.")
        note(_OFF)
        return
    fields = found.preferences | found.context | {NOTES: found.notes}
    told = {name: ", ".join(fields[name]) if name in LISTS else fields[name] for name in FIELDS}
    show_pairs([*((label(name).lower(), told[name] or None) for name in FIELDS), ("changed", found.updated_at)])


def consent(
    call: Call,
    grant: Annotated[bool, typer.Option("--grant", help="Let the profile be used.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Use it no more, and erase it.")] = False,
    yes: Yes = False,
) -> None:
    """Show whether the profile may be used, allow it, or take it back.

    Taking it back erases the profile and prints the receipt.
    """
    if grant and revoke:
        raise InvalidInput("invalid_consent", "Say either --grant or --revoke.")
    with call.open(must_exist=not grant) as memory:
        if revoke:
            confirm(f"Take consent back and erase the profile of {call.person!r}, for good?", yes=yes)
            show_receipt(memory.revoke_consent(), json=call.json)
            return
        granted = memory.set_consent(True) if grant else memory.consent()
    if call.json:
        show_json({"consent": granted})
    else:
        out("The profile may be used." if granted else "The profile is not used.")


def audit(
    call: Call,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Only what is older than this entry.")] = None,
) -> None:
    """Show who did what with this memory, the newest first.

    Names and counts, never what was said. Entries are kept for 400 days.
    """
    with call.open(must_exist=True) as memory:
        entries = memory.audit(limit=limit, before=before)
    if call.json:
        show_json(entries)
    elif not entries:
        note("Nothing was noted yet.")
    else:
        rows = [(str(one.id), one.at, line(one.actor), one.action, _told(one.details)) for one in entries]
        show_table(("id", "at", "actor", "action", "details"), rows, numbers=("id",))


def _told(details: JsonObject) -> str:
    return line(
        ", ".join(
            f"{name}: {value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)}"
            for name, value in details.items()
        )
    )
