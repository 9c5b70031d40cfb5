"""`recollect chat`: a chat in the terminal, with memory, on a database or at a server."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Final, cast, get_args

import typer

from recollect.chat.run import MemoryMode
from recollect.cli import slash_commands
from recollect.cli.catch_up import catch_up_new_messages
from recollect.cli.chat_backend import ChatBackend, LocalMemory
from recollect.cli.chat_session import ChatSession
from recollect.cli.display import print_note, to_line
from recollect.cli.files import YesOption
from recollect.cli.options import DEFAULT_PERSON, Call, ExitCode, PromptBudget, print_error
from recollect.core import assistant
from recollect.core.errors import InvalidInput, RecollectError
from recollect.core.text import check_identity

PROMPT: Final = "> "
_NO_MODEL: Final = "No model is set, so answers only note and quote what you say:"


def chat(
    call: Call,
    conversation: Annotated[
        str, typer.Argument(metavar="CONVERSATION", help="Name of the conversation to begin or to go on with.")
    ] = "chat",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Model that answers; by default the one in the settings. "
            "'recollect' is the built-in assistant, which quotes memory.",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="System prompt: what the model is told first; by default the setting chat_system_prompt.",
        ),
    ] = None,
    budget: PromptBudget = None,
    memory: Annotated[
        str,
        typer.Option(
            metavar="on|read|off", help="on: recall and store. read: recall, but store nothing. off: neither."
        ),
    ] = "on",
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Chat by way of `recollect serve` at this address, without a database."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", envvar="RECOLLECT_KEY", help="API key for --server.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Chat with a model that remembers.

    Each message is stored. What memory knows about it goes into the prompt, then the model answers. Ctrl-C stops an
    answer, Ctrl-D leaves, /help lists the commands you can type.

    In a pipe each line is a message. With --json each event is printed as one line of JSON. The exit code is 5 if an
    answer failed, or was made while a part of memory did not work.
    """
    if memory not in get_args(MemoryMode):
        raise InvalidInput("invalid_memory", "--memory is on, read or off.")
    name, is_interactive = check_identity(conversation, "conversation"), sys.stdin.isatty() and not call.json
    with closing(_open_backend(call, server, key)) as backend:
        session = ChatSession(
            backend, name, model, system, budget, cast(MemoryMode, memory),
            is_interactive=is_interactive, json=call.json, skip_confirmation=yes,
        )  # fmt: skip
        _greet(session, is_remote=server is not None)
        _handle_lines(session)
    if session.is_degraded and not is_interactive:
        raise typer.Exit(ExitCode.DEGRADED)


def _open_backend(call: Call, server: str | None, key: str | None) -> ChatBackend:
    if server is not None:
        if call.db_origin == "--db":
            raise InvalidInput("invalid_place", "Use either --db or --server.")
        from recollect.cli.remote_memory import RemoteMemory

        return RemoteMemory(server, key, None if call.person == DEFAULT_PERSON else call.person)
    is_new = call.file is not None and not call.file.exists()
    memory = LocalMemory(call.db, **call.principal)
    if is_new:
        print_note(f"new database: {to_line(str(call.file))}")
    return memory


def _greet(session: ChatSession, *, is_remote: bool) -> None:
    default = session.backend.model()
    if default is None and session.model != assistant.NAME and not session.json:
        advice = "start the server with" if is_remote else "set"
        print_note(f"{_NO_MODEL} {advice} RECOLLECT_MODEL_URL and RECOLLECT_MODEL_NAME for one.")
    if session.is_interactive:
        model = to_line(session.model or default or assistant.NAME)
        print_note(f"{slash_commands.describe_conversation(session)} · model {model} · /help, Ctrl-D leaves")
        print_note("")


def _handle_lines(session: ChatSession) -> None:
    """Handle lines until one of them or their end ends the chat."""
    if session.is_interactive and isinstance(session.backend, LocalMemory):
        session.backend.warm_up()
    for line in _read_typed_lines() if session.is_interactive else _read_piped_lines(session):
        if not _handle_line(session, line):
            return
    if session.is_interactive:
        print_note("")


def _handle_line(session: ChatSession, line: str) -> bool:
    """Run a slash command or send a message. Return whether the chat goes on.

    At a terminal an error is printed and the chat goes on. In a pipe it is raised.
    """
    if not line.strip():
        return True
    is_command = line.startswith("/") and not line.startswith("//")
    try:
        if is_command:
            return slash_commands.run_command(session, line)
        session.say(line.removeprefix("/") if line.startswith("//") else line)
    except RecollectError as error:
        if not session.is_interactive:
            raise
        print_error(error, json=False)
    except KeyboardInterrupt:
        if not session.is_interactive or not is_command:
            raise
        print_note("")
    return True


def _read_piped_lines(session: ChatSession) -> Iterator[str]:
    """Yield the lines of stdin. Before each, embed the messages of the line before, so that it can be recalled.

    A worker does that while a person types, but a pipe does not wait.
    """
    for index, raw in enumerate(sys.stdin.buffer):
        if isinstance(session.backend, LocalMemory) and session.memory != "off":
            catch_up_new_messages(session.backend, quiet=index > 0)
        yield raw.decode("utf-8", "replace").rstrip("\r\n")


def _read_typed_lines() -> Iterator[str]:
    """Yield the lines that a person types. The arrow keys edit and bring back lines; no line is written to a file."""
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
        matches = [name for name in names if text.startswith("/") and name.startswith(text)]
        return matches[state] if state < len(matches) else None

    readline.set_completer_delims(" \t\n")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
