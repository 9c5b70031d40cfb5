"""Holds what all commands share: the database and the person, exit codes, printing of errors, confirmation."""

from __future__ import annotations

import functools
import inspect
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

from recollect.admin.compose import find_start_notices, has_database, sqlite_file
from recollect.cli.display import print_note, to_json_text, to_line, to_printable
from recollect.core.errors import Denied, InvalidInput, NotFound, RecollectError
from recollect.sync import Memory

DEFAULT_DATABASE: Final = "recollect.db"
DEFAULT_PERSON: Final = "local"
PromptBudget = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS", help="Most tokens for the whole prompt; by default the setting memory_prompt_token_budget."
    ),
]
_PRESET_HELP: Final = "Use a preset's settings for this call: compact, sessions, topics, briefs or recall."
_DB_ORIGINS: Final = {"COMMANDLINE": "--db", "ENVIRONMENT": "RECOLLECT_DB"}


class ExitCode(IntEnum):
    """The exit codes of all commands. docs/cli.md explains them."""

    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    DEGRADED = 5
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the command line: the database, the principal, and whether to print JSON."""

    db: str
    db_origin: str
    person: str
    department: str | None
    ministry: str | None
    preset: str | None
    json: bool

    def open(self, *, must_exist: bool = False) -> Memory:
        """Open the memory, without a background worker.

        Raise NotFound if the database `must_exist` and does not, or is empty: the path may be mistyped. Otherwise
        create it, and print a note so that a mistyped path is noticed.
        """
        file = self.file
        if must_exist:
            self._check_database()
        if file is not None and not file.exists():
            memory = Memory(self.db, **self.principal, worker=False)
            print_note(f"new database: {to_line(str(file))}")
            return memory
        return Memory(self.db, **self.principal, worker=False)

    def _check_database(self) -> None:
        """Raise NotFound if there is no database, or an empty one. Nothing is created in it."""
        if self.db == ":memory:" or has_database(self.db):
            return
        if self.file is not None and not self.file.exists():
            raise NotFound("database_not_found", f"There is no database {self.file}. Name yours with --db.")
        raise NotFound(
            "database_empty",
            f"{self.shown_db} has no memory in it: the tables of Recollect are missing. Name your database with --db. "
            "If it was this one, restore a backup: recollect restore BACKUP",
        )

    @property
    def principal(self) -> dict[str, Any]:
        """Return the arguments with which every memory is made: the person, their offices, the settings' preset."""
        person = {"person": self.person, "department": self.department, "ministry": self.ministry}
        return person | {"settings": self.preset}

    @property
    def file(self) -> Path | None:
        """Return the file of an SQLite database; None for PostgreSQL or a database in memory."""
        return sqlite_file(self.db)

    @property
    def kind(self) -> str:
        """Return "postgresql" or "sqlite"."""
        return "postgresql" if self.db.startswith(("postgresql://", "postgres://")) else "sqlite"

    @property
    def shown_db(self) -> str:
        """Return the location of the database, without its password."""
        return hide_password(self.db)


def check_log_level(level: str) -> None:
    """Raise InvalidInput if there is no such level."""
    if level not in ("debug", "info", "warning", "error"):
        raise InvalidInput("invalid_log_level", "--log-level is debug, info, warning or error.")


def find_shell_name(name: str, path: str) -> str:
    """Return what to type in another terminal to run the program at `path`: its name if the shell finds it by that."""
    program = shutil.which(name)
    if program is not None and Path(path).exists() and Path(program).samefile(path):
        return name
    return shlex.quote(str(Path(path).absolute()))  # not resolved: a virtual environment links to another Python


def find_own_shell_name() -> str:
    """Return what to type in another terminal to run this program again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{find_shell_name('python', sys.executable)} -m recollect"
    return find_shell_name("recollect", sys.argv[0])


def hide_password(location: str) -> str:
    """Return the location without its password. A URL may have one before the host or in its query."""
    before, at, host = location.rpartition("@")
    hidden = re.sub(r"(://[^:/@?#]*+):.*", r"\1:…", before) + at + host
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1…", hidden)


def make_command(function: Callable[..., None], *, db: str | None = None) -> Callable[..., None]:
    """Return the function as a command that also takes the common options, and prints an error as one line.

    The function gets the common options as one `Call`. `db` is its own default database; RECOLLECT_DB is then ignored.
    """

    @functools.wraps(function)
    def run(context: typer.Context, **options: Any) -> None:
        source = context.get_parameter_source("db")
        call = Call(
            db=options.pop("db"),
            db_origin=_DB_ORIGINS.get(source.name if source else "", "default"),
            person=options.pop("person"),
            department=options.pop("department"),
            ministry=options.pop("ministry"),
            preset=options.pop("preset"),
            json=options.pop("json"),
        )
        if not options.get("until_eof"):  # the server that started this worker has printed them
            _print_notices(json=call.json)
        _run_and_report(lambda: function(call, **options), json=call.json)

    signature = inspect.signature(function, eval_str=True)
    own = [_parameter(p.name, p.annotation, p.default) for p in signature.parameters.values() if p.name != "call"]
    parameters = [_parameter("context", typer.Context), *own, *_common_parameters(db)]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _common_parameters(db: str | None) -> list[inspect.Parameter]:
    database = typer.Option(
        "--db", metavar="PATH|URL", envvar=None if db else "RECOLLECT_DB", help="Database: a file or a PostgreSQL URL."
    )
    person = typer.Option("--person", metavar="NAME", envvar="RECOLLECT_PERSON", help="Person whose memory is used.")
    department = typer.Option("--department", metavar="NAME", help="Department of the person.")
    ministry = typer.Option("--ministry", metavar="NAME", help="Ministry of the person.")
    preset = typer.Option("--preset", metavar="NAME", envvar="RECOLLECT_PRESET", help=_PRESET_HELP)
    as_json = typer.Option("--json", help="Print one JSON document instead of text.")
    return [
        _parameter("db", Annotated[str, database], db or DEFAULT_DATABASE),
        _parameter("person", Annotated[str, person], DEFAULT_PERSON),
        _parameter("department", Annotated[str | None, department], None),
        _parameter("ministry", Annotated[str | None, ministry], None),
        _parameter("preset", Annotated[str | None, preset], None),
        _parameter("json", Annotated[bool, as_json], False),
    ]


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _print_notices(*, json: bool) -> None:
    """Print what settings file and environment say without effect, one line each, on stderr."""
    for notice in find_start_notices():
        if json:
            fields = {"name": notice.name, "message": notice.detail, "fix": notice.fix}
            print_note(to_json_text({"warning": fields}))
        else:
            print_note(f"warning: {to_line(notice.detail)} ({to_line(notice.fix)})")


def _run_and_report(action: Callable[[], None], *, json: bool) -> None:
    """Run the action. Print an error as one line, and exit with its code."""
    try:
        try:
            action()
        finally:
            sys.stdout.flush()
    except RecollectError as error:
        print_error(error, json=json)
        raise typer.Exit(_exit_code(error)) from None
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does. Flushing the rest at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        print_error(RecollectError("file_error", f"{file}{error.strerror or error}."), json=json)
        raise typer.Exit(ExitCode.ERROR) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _exit_code(error: RecollectError) -> ExitCode:
    if isinstance(error, InvalidInput):
        return ExitCode.USAGE
    if isinstance(error, NotFound):
        return ExitCode.NOT_FOUND
    return ExitCode.DENIED if isinstance(error, Denied) else ExitCode.ERROR


def print_error(error: RecollectError, *, json: bool) -> None:
    """Print the error as one line on stderr."""
    if json:
        fields = {"code": error.code, "message": error.message, "retryable": error.retryable}
        print_note(to_json_text({"error": fields}))
    else:
        print_note("error: " + to_printable(str(error)).replace("\n", " "))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something grave. End the command with exit code 1 if the person says no."""
    if not is_confirmed(question, yes=yes):
        raise typer.Exit(ExitCode.ERROR)


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Ask the person, and return their answer. `yes` answers for them; without it, raise InvalidInput in a pipe."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidInput("not_confirmed", "This must be confirmed. Add --yes, since there is no terminal to ask on.")
    if typer.confirm(to_line(question), err=True):
        return True
    print_note("Nothing was changed.")
    return False
