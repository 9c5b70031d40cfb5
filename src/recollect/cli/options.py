"""What every command shares: where the memory is and who asks, exit codes, and how an error is told."""

from __future__ import annotations

import functools
import inspect
import json as json_module
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from recollect.admin.compose import sqlite_file
from recollect.cli.display import clean, note
from recollect.core.errors import Denied, InvalidInput, NotFound, RecollectError
from recollect.sync import Memory

DEFAULT_DATABASE: Final = "recollect.db"
_PRESET: Final = "Settings for a purpose: compact, sessions, topics, briefs or recall."
_ORIGINS: Final = {"COMMANDLINE": "--db", "ENVIRONMENT": "RECOLLECT_DB"}


class Exit(IntEnum):
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    DEGRADED = 5
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Call:
    """One use of the command line: the database, the principal, and how to answer."""

    db: str
    db_origin: str
    person: str
    department: str | None
    ministry: str | None
    preset: str | None
    json: bool

    def open(self, *, must_exist: bool = False) -> Memory:
        """A memory without a background worker. A mistyped path is refused, or at least does not go unnoticed."""
        file = self.file
        if file is not None and not file.exists():
            if must_exist:
                raise NotFound("database_not_found", f"There is no database {file}. Name yours with --db.")
            memory = Memory(self.db, **self.principal, worker=False)
            note(f"new database: {file}")
            return memory
        return Memory(self.db, **self.principal, worker=False)

    @property
    def principal(self) -> dict[str, Any]:
        """Who asks, and by which settings: what every memory here is made with."""
        who = {"person": self.person, "department": self.department, "ministry": self.ministry}
        return who | {"settings": self.preset}

    @property
    def file(self) -> Path | None:
        """Where an SQLite database lies; None for PostgreSQL or memory."""
        return sqlite_file(self.db)

    @property
    def kind(self) -> str:
        return "postgresql" if self.db.startswith(("postgresql://", "postgres://")) else "sqlite"

    @property
    def shown_db(self) -> str:
        return without_password(self.db)


def typed(name: str, path: str) -> str:
    """How a program is called in another terminal: by its name if that finds this one, else by its path."""
    found = shutil.which(name)
    if found is not None and Path(path).exists() and Path(found).samefile(path):
        return name
    return shlex.quote(str(Path(path).absolute()))  # not resolved: what a virtual environment links to is another one


def this_program() -> str:
    """How this program is called again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{typed('python', sys.executable)} -m recollect"
    return typed("recollect", sys.argv[0])


def without_password(location: str) -> str:
    """The location as it may be shown; a URL may carry a password before the host or in its query."""
    shown = re.sub(r"(://[^:/@?#]*):.*@", r"\1:…@", location)
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1…", shown)


def command(function: Callable[..., None], *, db: str | None = None) -> Callable[..., None]:
    """The function as a command: with the common options, which it gets as a `Call`, and errors told in one line.

    With `db` it has a database of its own by default, whatever the environment says.
    """

    @functools.wraps(function)
    def run(context: typer.Context, **given: Any) -> None:
        source = context.get_parameter_source("db")
        call = Call(
            db=given.pop("db"),
            db_origin=_ORIGINS.get(source.name if source else "", "default"),
            person=given.pop("person"),
            department=given.pop("department"),
            ministry=given.pop("ministry"),
            preset=given.pop("preset"),
            json=given.pop("json"),
        )
        _guarded(lambda: function(call, **given), json=call.json)

    signature = inspect.signature(function, eval_str=True)
    own = [_parameter(p.name, p.annotation, p.default) for p in signature.parameters.values() if p.name != "call"]
    parameters = [_parameter("context", typer.Context), *own, *_common(db)]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _common(db: str | None) -> list[inspect.Parameter]:
    where = typer.Option("--db", metavar="PATH|URL", envvar=None if db else "RECOLLECT_DB", help="The database.")
    who = typer.Option("--person", metavar="NAME", envvar="RECOLLECT_PERSON", help="Whose memory.")
    department = typer.Option("--department", metavar="NAME", help="The person's department.")
    ministry = typer.Option("--ministry", metavar="NAME", help="The person's ministry.")
    preset = typer.Option("--preset", metavar="NAME", envvar="RECOLLECT_PRESET", help=_PRESET)
    as_json = typer.Option("--json", help="Print one JSON document instead of text.")
    return [
        _parameter("db", Annotated[str, where], db or DEFAULT_DATABASE),
        _parameter("person", Annotated[str, who], "local"),
        _parameter("department", Annotated[str | None, department], None),
        _parameter("ministry", Annotated[str | None, ministry], None),
        _parameter("preset", Annotated[str | None, preset], None),
        _parameter("json", Annotated[bool, as_json], False),
    ]


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _guarded(act: Callable[[], None], *, json: bool) -> None:
    try:
        try:
            act()
        finally:
            sys.stdout.flush()
    except RecollectError as error:
        tell(error, json=json)
        raise typer.Exit(_exit_code(error)) from None
    except BrokenPipeError:
        # The reader has seen enough, as in `| head`. What is still buffered must not raise again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        tell(RecollectError("file_error", f"{where}{error.strerror or error}."), json=json)
        raise typer.Exit(Exit.ERROR) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


def _exit_code(error: RecollectError) -> Exit:
    if isinstance(error, InvalidInput):
        return Exit.USAGE
    if isinstance(error, NotFound):
        return Exit.NOT_FOUND
    return Exit.DENIED if isinstance(error, Denied) else Exit.ERROR


def tell(error: RecollectError, *, json: bool) -> None:
    """What went wrong, in one line."""
    if json:
        told = {"code": error.code, "message": error.message, "retryable": error.retryable}
        note(json_module.dumps({"error": told}, ensure_ascii=False))
    else:
        note("error: " + clean(str(error)).replace("\n", " "))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone; who says no ends the command."""
    if not is_agreed(question, yes=yes):
        raise typer.Exit(Exit.ERROR)


def is_agreed(question: str, *, yes: bool) -> bool:
    """What a person answers; a program must say --yes."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidInput("not_confirmed", "This cannot be undone: say --yes where nobody can be asked.")
    if typer.confirm(question, err=True):
        return True
    note("Nothing was changed.")
    return False
