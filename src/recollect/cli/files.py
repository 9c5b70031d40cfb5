"""Files in and out: backup and restore of the database, export and import of a person's conversations."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from recollect.admin.transfer import REPORTED
from recollect.cli.catch_up import catch_up
from recollect.cli.display import clean, counted, note, out, progress_bar, show_json, show_pairs, spinner, tell_missing
from recollect.cli.options import Call, Exit, confirm
from recollect.core.errors import Conflict, InvalidInput
from recollect.core.models import Imported
from recollect.formats import FORMATS

_FEW: Final = 5  # reasons for skipping that are shown

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def backup(
    call: Call,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new file; one that exists is never replaced.")],
) -> None:
    """Copy the whole database, everyone's, to a new file.

    It is an SQLite file, consistent, whatever the database is. Writers go on meanwhile.
    """
    _check_folder(target)
    if target.exists():
        raise Conflict("backup_exists", f"{target} exists already; a backup is never overwritten.")
    with call.open(must_exist=True) as memory, spinner("Writing the backup"):
        memory.backup(target)
    size = target.stat().st_size
    if call.json:
        show_json({"backup": str(target), "bytes": size})
    else:
        out(f"{target}: {size:,} bytes")


def restore(
    call: Call,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file that `recollect backup` wrote.")],
    yes: Yes = False,
) -> None:
    """Replace the whole database, everyone's, by a backup.

    What an SQLite database held before is first saved beside it.
    """
    if not source.is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    if call.kind == "postgresql" and not yes:
        raise InvalidInput(
            "not_confirmed", "No backup is made before a restore to PostgreSQL: make one, then say --yes."
        )
    confirm(f"Replace everything in {call.shown_db} by {source}?", yes=yes)
    file = call.file
    held = file is not None and file.exists() and file.stat().st_size > 0
    saved = _saved_name(file) if file is not None and held else None
    with call.open() as memory, spinner("Restoring"):
        memory.restore(source, save_to=saved)
    if saved is not None:
        note(f"What was there is saved in {saved}")
    elif call.kind == "postgresql":
        note("note: no automatic backup was made.")
    if call.json:
        show_json({"restored": str(source), "database": call.shown_db, "saved": None if saved is None else str(saved)})
    else:
        out(f"{call.shown_db} now holds what {source} held.")


def _saved_name(file: Path) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return file.with_name(f"{file.name}.before-restore-{moment}.backup")


def export(
    call: Call,
    target: Annotated[str, typer.Argument(metavar="TARGET|-", help="A file; - writes to stdout.")],
) -> None:
    """Write everything the person has as NDJSON.

    `recollect import` reads it again.
    """
    if target == "-":
        with tempfile.TemporaryDirectory(prefix="recollect-export-") as folder, call.open(must_exist=True) as memory:
            file = Path(folder) / "export.ndjson"
            count = memory.export(file)
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
        note(counted(count, "message"))
        return
    with call.open(must_exist=True) as memory, spinner("Exporting"):
        count = memory.export(target)
    if call.json:
        show_json({"export": target, "messages": count})
    else:
        out(f"{target}: {counted(count, 'message')}")


def _check_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {target.parent}.")


def import_(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="SOURCE|-", help="A file or a zip; - reads stdin.")],
    format: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(FORMATS)}; by default seen from the file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be new.")] = False,
    work: Annotated[bool, typer.Option("--work/--no-work", help="Do the derived work afterwards.")] = True,
) -> None:
    """Read conversations from an export.

    It may be one of our own or of another program. The same file again adds nothing.
    """
    with readable(source) as file:
        if dry_run and call.file is not None and not call.file.exists():
            call = dataclasses.replace(call, db=":memory:")  # a dry run leaves no database behind
        with call.open() as memory:
            with progress_bar("Importing", file.stat().st_size) as progress:
                result = memory.import_file(file, format=format, dry_run=dry_run, progress=progress)
            _show_imported(result, dry_run=dry_run, json=call.json)
            if work and not dry_run:
                done = catch_up(memory)
                tell_missing(done)
                if not done.complete:
                    raise typer.Exit(Exit.DEGRADED)
            if result.skipped_count:
                raise typer.Exit(Exit.DEGRADED)


@contextmanager
def readable(source: str) -> Iterator[Path]:
    """The file; stdin is put into one that is gone afterwards."""
    if source != "-":
        if not Path(source).is_file():
            raise InvalidInput("file_not_found", f"There is no file {source}.")
        yield Path(source)
        return
    with tempfile.NamedTemporaryFile(prefix="recollect-import-") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        yield Path(spool.name)


def _show_imported(result: Imported, *, dry_run: bool, json: bool) -> None:
    if json:
        show_json(result.to_dict() | {"dry_run": dry_run})
    else:
        show_pairs(
            [
                ("format", result.format),
                ("conversations", result.conversations),
                ("messages", result.messages),
                ("would be new" if dry_run else "new", result.added),
                ("known before", result.known),
                ("skipped", result.skipped_count),
            ]
        )
    for reason in result.skipped[:_FEW]:
        note(f"skipped: {clean(reason)}")
    if result.skipped_count > _FEW:
        note(f"skipped: … and {result.skipped_count - _FEW} others; --json names up to {REPORTED}.")
