"""`recollect profile`, `consent` and `audit`: what a person told about themselves, its use, and the audit log."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from recollect.cli.display import print_json, print_line, print_note, print_pairs, print_table, to_line
from recollect.cli.erase import print_receipt
from recollect.cli.files import YesOption
from recollect.cli.options import Call, confirm
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.profile import FIELDS, LISTS, NOTES, Profile, field_label, to_nested

_SETTABLE_FIELDS: Final = tuple(name for name in FIELDS if name != NOTES)
_NO_CONSENT: Final = "Without consent it is neither used nor shown. To consent: recollect consent --grant"


def profile(
    call: Call,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help=f"Set a field: {', '.join(_SETTABLE_FIELDS)}. Repeat it for several fields; put commas into lists.",
        ),
    ] = None,
    notes: Annotated[
        str | None, typer.Option(metavar="TEXT|-", help="Set the free notes; - reads them from stdin.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Empty all fields that are not set in this call.")] = False,
) -> None:
    """Show or change what you told about yourself.

    With your consent (`recollect consent`) the profile goes into prompts. Without it the profile is kept, but neither
    used nor shown.
    """
    changes: JsonObject = dict.fromkeys(FIELDS) if clear else {}
    changes |= _parse_fields(set_ or ())
    if notes is not None:
        changes[NOTES] = sys.stdin.read() if notes == "-" else notes
    with call.open(must_exist=not changes) as memory:
        current = memory.set_profile(to_nested(changes)) if changes else memory.profile()
    if call.json:
        print_json(current)
    else:
        _print_profile(current)


def _parse_fields(assignments: Iterable[str]) -> JsonObject:
    fields: dict[str, Any] = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign or name not in _SETTABLE_FIELDS:
            raise InvalidInput(
                "unknown_field", f"Write --set FIELD=VALUE. The fields are {', '.join(_SETTABLE_FIELDS)}."
            )
        fields[name] = [item.strip() for item in value.split(",")] if name in LISTS else value
    return fields


def _print_profile(current: Profile) -> None:
    if not current.consent:
        print_line("A profile is stored." if current.stored else "No profile is stored.")
        print_note(_NO_CONSENT)
        return
    fields = current.preferences | current.context | {NOTES: current.notes}
    texts = {name: ", ".join(fields[name]) if name in LISTS else fields[name] for name in FIELDS}
    print_pairs(
        [*((field_label(name).lower(), texts[name] or None) for name in FIELDS), ("changed", current.updated_at)]
    )


def consent(
    call: Call,
    grant: Annotated[bool, typer.Option("--grant", help="Allow that the profile is used.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Forbid it, and erase the profile for good.")] = False,
    yes: YesOption = False,
) -> None:
    """Show whether your profile may be used, or change that.

    --revoke erases the profile and prints a receipt.
    """
    if grant and revoke:
        raise InvalidInput("invalid_consent", "Use either --grant or --revoke.")
    with call.open(must_exist=not grant) as memory:
        if revoke:
            confirm(f"Revoke the consent and erase the profile of {call.person!r}, for good?", yes=yes)
            print_receipt(memory.revoke_consent(), json=call.json)
            return
        is_granted = memory.set_consent(True) if grant else memory.consent()
    if call.json:
        print_json({"consent": is_granted})
    else:
        print_line("The profile may be used." if is_granted else "The profile is not used.")


def audit(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most N entries.")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Show only entries older than the one with this id.")
    ] = None,
) -> None:
    """Show who did what with this memory, newest first.

    The audit log holds names and counts, never what was said. Its entries are kept for 400 days.
    """
    with call.open(must_exist=True) as memory:
        entries = memory.audit(limit=limit, before=before)
    if call.json:
        print_json(entries)
    elif not entries:
        print_note("The audit log is empty.")
    else:
        rows = [
            (str(entry.id), entry.at, to_line(entry.actor), entry.action, _render_details(entry.details))
            for entry in entries
        ]
        print_table(("id", "at", "actor", "action", "details"), rows, numbers=("id",))


def _render_details(details: JsonObject) -> str:
    return to_line(
        ", ".join(
            f"{name}: {value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)}"
            for name, value in details.items()
        )
    )
