"""Files: backup and restore of the whole database, export and import of one person's conversations."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from recollect.admin.transfer import MAX_REPORTED_SKIPS, private_folder_beside
from recollect.cli.catch_up import MAX_QUICK_MESSAGES, catch_up, count_searchable, render_searchable
from recollect.cli.display import (
    escape_json,
    print_json,
    print_line,
    print_note,
    print_pairs,
    print_work_left,
    progress_bar,
    render_count,
    spinner,
    to_line,
)
from recollect.cli.options import Call, ExitCode, confirm, find_own_shell_name
from recollect.core.errors import Conflict, InvalidInput
from recollect.core.models import Imported, Restored
from recollect.formats import FORMATS, source_size
from recollect.sync import Memory

MAX_SHOWN_REASONS: Final = 5  # why something was skipped
PASSAGES_PER_SECOND: Final = 120  # of the built-in embedder on two cores; most messages have one
MADE_AGAIN: Final = {"tokens": "token counts", "vectors": "vectors", "briefs": "briefs", "topics": "topics and archive"}

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def backup(
    call: Call,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="File to write. A file that exists is not replaced.")
    ],
) -> None:
    """Copy the whole database, of all people, to a new file.

    The copy is a consistent SQLite file, for a PostgreSQL database too. Others can go on writing meanwhile.
    """
    _check_folder(target)
    if target.exists():
        raise Conflict("backup_exists", f"{target} exists already. Name a new file: a backup replaces none.")
    with call.open(must_exist=True) as memory, spinner("Writing the backup"):
        memory.backup(target)
    size = target.stat().st_size
    if call.json:
        print_json({"backup": str(target), "bytes": size})
    else:
        print_line(f"{to_line(str(target))}: {size:,} bytes")


def restore(
    call: Call,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="File that `recollect backup` wrote.")],
    yes: YesOption = False,
) -> None:
    """Replace the whole database, of all people, by a backup.

    An SQLite database that is replaced is first saved to a file beside it. For PostgreSQL there is no such copy.
    """
    if not source.is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    if call.kind == "postgresql" and not yes:
        raise InvalidInput(
            "not_confirmed", "No backup is made before a restore to PostgreSQL. Make one, then add --yes."
        )
    confirm(f"Replace everything in {call.shown_db} by {source}?", yes=yes)
    file = call.file
    has_data = file is not None and file.exists() and file.stat().st_size > 0
    saved = _name_saved_copy(file) if file is not None and has_data else None
    with call.open() as memory, spinner("Restoring"):
        restored = memory.restore(source, save_to=saved)
    if saved is not None:
        print_note(f"The database as it was before is saved in {to_line(str(saved))}")
    elif call.kind == "postgresql":
        print_note("note: no automatic backup was made.")
    if call.json:
        saved_in = None if saved is None else str(saved)
        print_json({"restored": str(source), "database": call.shown_db, "saved": saved_in} | restored.to_dict())
    else:
        print_line(f"{to_line(call.shown_db)} now holds what {to_line(str(source))} holds.")
        _print_restored(restored)


def _print_restored(restored: Restored) -> None:
    if restored.left_out:
        messages = render_count(restored.left_out.get("messages", 0), "message")
        print_line(f"Erased since the backup was made, so not brought back: {messages} and what was derived from them.")
    for kind, name in MADE_AGAIN.items():
        count = restored.made_again.get(kind, 0)
        if count:
            print_line(f"The worker makes again: {name} of {render_count(count, 'message')}{_estimate(kind, count)}.")


def _estimate(kind: str, count: int) -> str:
    minutes = count / PASSAGES_PER_SECOND / 60
    if kind != "vectors" or minutes < 1:
        return ""
    return f" (about {minutes:.0f} minutes with the built-in embedder; they are found by words meanwhile)"


def _name_saved_copy(file: Path) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return file.with_name(f"{file.name}.before-restore-{moment}.backup")


def export(
    call: Call,
    target: Annotated[str, typer.Argument(metavar="TARGET|-", help="File to write; - writes to stdout.")],
) -> None:
    """Write all that the person has to a file of JSON lines.

    `recollect import` reads it again.
    """
    if target == "-":
        with call.open(must_exist=True) as memory, private_folder_beside(call.file) as folder:
            file = folder / "export.ndjson"
            count = memory.export(file)
            with file.open("rb") as stream:
                _write_lines(stream)
        print_note(render_count(count, "message"))
        return
    with call.open(must_exist=True) as memory, spinner("Exporting"):
        count = memory.export(target)
    if call.json:
        print_json({"export": target, "messages": count})
    else:
        print_line(f"{to_line(target)}: {render_count(count, 'message')}")


def _write_lines(stream: BinaryIO) -> None:
    """Write an export to stdout: byte by byte to a pipe or a file, without control characters to a terminal."""
    if sys.stdout.isatty():
        for line in stream:
            sys.stdout.write(escape_json(line.decode()))
    else:
        shutil.copyfileobj(stream, sys.stdout.buffer)


def _check_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {target.parent}.")


def import_(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="SOURCE|-", help="File to read, zip or folder; - reads stdin.")],
    format: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(FORMATS)}; by default recognised from the file.")
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="It is your own export: do not mark its messages as imported.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be new.")] = False,
    work: Annotated[
        bool,
        typer.Option(
            "--work/--no-work", help="Afterwards make the messages ready for recall, or leave it to a worker."
        ),
    ] = True,
) -> None:
    """Import conversations from a file, a zip or a folder.

    It may come from `recollect export`, ChatGPT, Claude, Open WebUI, ShareGPT or OpenAI's JSONL. Messages that are
    stored already are not stored twice, so the same command goes on after an interruption. Messages can be found by
    words when they are stored, and by meaning as the work goes on. The exit code is 5 if something could not be read.
    Prompts show that messages were imported, except with --own: then an export keeps what it says of their origin.
    """
    with open_source(source, call.file, folders=True) as file:
        if dry_run and call.file is not None and not call.file.exists():
            call = dataclasses.replace(call, db=":memory:")  # a dry run creates no database
        with call.open() as memory, _explain_interruption(memory):
            with progress_bar("Importing", source_size(file)) as progress:
                result = memory.import_file(file, format=format, own=own, dry_run=dry_run, progress=progress)
            searchable = count_searchable(memory)
            _print_imported(result, searchable, dry_run=dry_run, json=call.json)
            is_complete = dry_run or _make_searchable(memory, *searchable, work=work)
        if result.skipped_count or not is_complete:
            raise typer.Exit(ExitCode.DEGRADED)


def _make_searchable(memory: Memory, by_words: int, by_meaning: int, *, work: bool) -> bool:
    """Do the derived work, or say who does it. Return whether all of it was done that was to be done."""
    is_much = by_words - by_meaning > MAX_QUICK_MESSAGES
    if is_much:
        print_note(render_searchable(by_words, by_meaning))
    if not work:
        if is_much:
            print_note(f"A worker does the rest: `{find_own_shell_name()} worker --once`, or a running server.")
        return True
    if is_much:
        print_note("The rest follows now. Ctrl-C stops it; the same command goes on.")
    done = catch_up(memory, "Found by meaning")
    print_work_left(done)
    if is_much:
        print_note(render_searchable(*count_searchable(memory)))
    return done.complete


@contextmanager
def _explain_interruption(memory: Memory) -> Iterator[None]:
    """Say on Ctrl-C what is stored and what can be found, and that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        print_note(f"Stopped. {render_searchable(*count_searchable(memory))} The same command goes on.")
        raise


@contextmanager
def open_source(source: str, database: Path | None, *, folders: bool = False) -> Iterator[Path]:
    """Yield the path of the file or, with `folders`, of the folder. Raise InvalidInput if there is none.

    For "-" it is the path of a private file beside the database, with what stdin holds.
    """
    if source != "-":
        path = Path(source)
        if not path.exists():
            raise InvalidInput("file_not_found", f"There is no file {source}.")
        if not path.is_file() and not (folders and path.is_dir()):
            raise InvalidInput("not_a_file", f"{source} is not a file.")
        yield path
        return
    with private_folder_beside(database) as folder:
        spool = folder / "stdin"
        with spool.open("xb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        yield spool


def _print_imported(result: Imported, searchable: tuple[int, int], *, dry_run: bool, json: bool) -> None:
    if json:
        by_words, by_meaning = searchable
        now = {"by_words": by_words, "by_meaning": by_meaning}
        print_json(result.to_dict() | {"dry_run": dry_run, "searchable": now})
    else:
        print_pairs(
            [
                ("format", result.format),
                ("conversations", result.conversations),
                ("messages", result.messages),
                ("would be new" if dry_run else "new", result.added),
                ("stored before", result.known),
                ("skipped", result.skipped_count),
            ]
        )
        for what, count in result.left_out.items():
            print_note(f"not imported: {to_line(what)}" + (f": {count:,}" if count > 1 else ""))
    for reason in result.skipped[:MAX_SHOWN_REASONS]:
        print_note(f"skipped: {to_line(reason)}")
    if result.skipped_count > MAX_SHOWN_REASONS:
        more = result.skipped_count - MAX_SHOWN_REASONS
        print_note(f"skipped: … and {more} others; --json names up to {MAX_REPORTED_SKIPS}.")
