"""`recollect chat`: talk in the terminal, with memory, on a database or at a server."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Final, cast, get_args

import typer

from recollect.chat.chats import Mode
from recollect.cli import slash_commands
from recollect.cli.catch_up import catch_up_shortly
from recollect.cli.chat_backend import Here, Talk
from recollect.cli.chat_session import Session
from recollect.cli.display import line, note
from recollect.cli.files import Yes
from recollect.cli.options import Call, Exit, tell
from recollect.core import assistant
from recollect.core.errors import InvalidInput, RecollectError
from recollect.core.text import identity

PROMPT: Final = "> "
_NO_MODEL: Final = "No model is set, so answers only quote memory:"


def chat(
    call: Call,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its name.")] = "chat",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answers; recollect is the built-in assistant.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="What the model is told first.")] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="The whole prompt; by default memory_prompt_token_budget.")
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="on|read|off", help="read stores nothing; off is temporary: nor does it recall.")
    ] = "on",
    server: Annotated[str | None, typer.Option(metavar="URL", help="Talk to a server instead of a database.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", envvar="RECOLLECT_KEY", help="The key for the server.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Talk, with memory: what you say is stored, what bears on it is recalled, a model answers.

    Ctrl-C stops an answer, Ctrl-D leaves, /help lists what else there is. From a pipe every line is a message; --json
    prints every event as a line of JSON. An answer that was degraded or failed makes the exit code 5.
    """
    if memory not in get_args(Mode):
        raise InvalidInput("invalid_memory", "--memory is on, read or off.")
    name, is_person = identity(conversation, "conversation"), sys.stdin.isatty() and not call.json
    with closing(_open(call, server, key)) as talk:
        session = Session(
            talk, name, model, system, budget, cast(Mode, memory), is_person=is_person, json=call.json, yes=yes
        )
        _greet(session, is_remote=server is not None)
        if is_person and isinstance(talk, Here):
            talk.warm_up()
        for typed in _typed() if is_person else _piped(session):
            if not _take(session, typed):
                break
        else:
            if is_person:
                note("")
    if session.is_degraded and not is_person:
        raise typer.Exit(Exit.DEGRADED)


def _open(call: Call, server: str | None, key: str | None) -> Talk:
    if server is not None:
        if call.db_origin == "--db":
            raise InvalidInput("invalid_place", "Say either --db or --server.")
        from recollect.cli.remote_memory import There

        return There(server, key)
    is_new = call.file is not None and not call.file.exists()
    here = Here(call.db, **call.principal)
    if is_new:
        note(f"new database: {call.file}")
    return here


def _greet(session: Session, *, is_remote: bool) -> None:
    default = session.talk.model()
    if default is None and session.model != assistant.NAME and not session.json:
        how = "start the server with" if is_remote else "set"
        note(f"{_NO_MODEL} {how} RECOLLECT_MODEL_URL and RECOLLECT_MODEL_NAME for one.")
    if session.is_person:
        answers = line(session.model or default or assistant.NAME)
        note(f"{slash_commands.where(session)} · model {answers} · /help, Ctrl-D leaves")
        note("")


def _take(session: Session, typed: str) -> bool:
    """One line. Says whether the chat goes on. What went wrong is told to a person, who may try something else."""
    if not typed.strip():
        return True
    is_command = typed.startswith("/") and not typed.startswith("//")
    try:
        if is_command:
            return slash_commands.run(session, typed)
        session.say(typed.removeprefix("/") if typed.startswith("//") else typed)
    except RecollectError as error:
        if not session.is_person:
            raise
        tell(error, json=False)
    except KeyboardInterrupt:
        if not session.is_person or not is_command:
            raise
        note("")
    return True


def _piped(session: Session) -> Iterator[str]:
    """Lines of stdin. A program does not wait as people do, so what the line before said is made ready first."""
    for place, raw in enumerate(sys.stdin.buffer):
        if isinstance(session.talk, Here) and session.memory != "off":
            catch_up_shortly(session.talk, quietly=place > 0)
        yield raw.decode("utf-8", "replace").rstrip("\r\n")


def _typed() -> Iterator[str]:
    """Lines with editing and a history that is gone afterwards: what people type is written to no file."""
    _prepare_editing()
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            return


def _prepare_editing() -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    try:
        import readline
    except ImportError:
        return
    names = sorted(f"/{name}" for name in (*slash_commands.COMMANDS, "quit"))

    def complete(text: str, state: int) -> str | None:
        found = [name for name in names if text.startswith("/") and name.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" \t\n")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
