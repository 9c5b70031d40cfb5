"""`recollect serve` and `recollect keys`: runs the server, and manages the API keys that it accepts."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from recollect.admin.compose import find_model_name
from recollect.cli.display import print_json, print_note, print_table, to_line
from recollect.cli.options import Call, check_log_level, confirm, find_own_shell_name, find_shell_name
from recollect.core import assistant
from recollect.core.errors import InvalidInput
from recollect.memory import AsyncMemory

if TYPE_CHECKING:
    from recollect.admin.access import Key

T = TypeVar("T")
_KEYLESS_QUESTION: Final = (
    "Without keys, every program on this machine may read, change and erase everything through the server. Go on?"
)
_NOT_INSTALLED: Final = "The server is not installed. In the folder of Recollect run: pip install '.[server]'"


def serve(
    call: Call,
    host: Annotated[
        str, typer.Option(help="Address to listen on. One that other machines can reach needs an API key first.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8377,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of server processes.")] = 1,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Write logs as lines of JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="What to log: debug, info, warning or error.")] = "info",
) -> None:
    """Run the HTTP server: REST, chat, OpenAI's API with memory.

    It prints examples to try. Ctrl-C or SIGTERM stops it.
    """
    try:
        from recollect.server.app import ServerOptions
        from recollect.server.launch import serve as run
    except ImportError as error:
        raise InvalidInput("server_not_installed", _NOT_INSTALLED) from error
    check_log_level(log_level)
    options = ServerOptions(call.db, host, port, call.person, call.preset, json_logs, log_level)
    run(options, workers=workers, ready=lambda address, *, keys: _print_examples(address, call, keys=keys))


def _print_examples(address: str, call: Call, *, keys: bool) -> None:
    """Print commands to try, each as it can be typed. `keys` says whether the server wants an API key."""
    program, python = find_own_shell_name(), find_shell_name("python", sys.executable)
    key = "rk_…" if keys else "none"
    header = f" -H 'Authorization: Bearer {key}'" if keys else ""
    chat_url = f"{address}/api/v1/conversations/trip/chat"
    messages = '[{"role": "user", "content": "What can I not eat?"}]'
    client = f'OpenAI(base_url="{address}/v1", api_key="{key}").chat.completions'
    model = find_model_name(call.preset)
    names = [assistant.NAME] if model is None else [model, assistant.NAME]
    answers = [f"{client}.create(model={json.dumps(name)}, messages={messages})" for name in names]
    print_note(f"Recollect listens on {address} · database {to_line(call.shown_db)} · Ctrl-C stops it")
    print_note("\nTry, in another terminal:")
    body = """-d '{"content": "I am allergic to peanuts."}'"""
    print_note(f"  curl -sN {chat_url}{header} -H 'Content-Type: application/json' {body}")
    for answer in answers:
        code = f"from openai import OpenAI; print({answer}.choices[0].message.content)"
        print_note(f"  {python} -c {shlex.quote(code)}")
    print_note(f"  {program} chat trip --server {address}{' --key rk_…' if keys else ''}")
    if find_spec("openai") is None:
        print_note("  (Python's needs: pip install openai)")
    if model is not None:
        print_note(f"\nThe model {model} answers; {assistant.NAME} quotes what it remembers, without a model.")
    print_note(f"\nDocumentation of the API: {address}/api/docs\n")


def keys(
    call: Call,
    action: Annotated[
        str,
        typer.Argument(
            metavar="[list|create|revoke|allow-keyless]",
            help="List all keys, create one, revoke one, or let the server do without keys again.",
        ),
    ] = "list",
    subject: Annotated[
        str | None, typer.Argument(metavar="PERSON|ID", help="create: the person it is for. revoke: the id of the key.")
    ] = None,
    label: Annotated[str, typer.Option(help="create: a note on what the key is for.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="create: what the key may do: read, write, admin, or act_as for an application that names its "
            "users. Repeat it for several; by default read and write."
        ),
    ] = None,
    clearance: Annotated[
        list[str] | None, typer.Option(help="create: a clearance the person has. Repeat it for several.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="create: number of days the key is valid; by default for ever.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="allow-keyless: do not ask for confirmation.")] = False,
) -> None:
    """List, create and revoke API keys for the server.

    A new key is printed once and cannot be shown again. As soon as there is a key, the server asks for one, also
    after the last key was revoked or an older backup was restored. `allow-keyless` ends that, when no key is valid.
    """
    from recollect.admin.access import Access

    if action == "create":
        if subject is None:
            raise InvalidInput("person_needed", "Name the person the key is for: recollect keys create PERSON")
        fields = {"clearances": clearance or (), "scopes": scope or ("read", "write"), "label": label, "days": days}
        _create_key(call, subject, fields)
    elif action == "revoke":
        if subject is None:
            raise InvalidInput("key_needed", "Name the key by its id: recollect keys revoke ID")
        _run_with_memory(call, lambda memory: Access(memory).revoke_key(subject))
        print_note(f"Key {to_line(subject)} is revoked: the server refuses it from now on.")
    elif action == "list":
        listed = _run_with_memory(call, lambda memory: Access(memory).keys())
        if call.json:
            print_json(listed)
        else:
            rows = [[key.id, key.person, ", ".join(key.scopes), key.label, _render_state(key)] for key in listed]
            print_table(["id", "person", "scopes", "label", "state"], rows)
    elif action == "allow-keyless":
        confirm(_KEYLESS_QUESTION, yes=yes)
        _run_with_memory(call, lambda memory: Access(memory).allow_keyless())
        print_note("The server asks for no key any more, until you create the next one.")
    else:
        raise InvalidInput("unknown_action", "The action is list, create, revoke or allow-keyless.")


def _create_key(call: Call, person: str, fields: dict[str, Any]) -> None:
    """Create a key and print its token, which cannot be shown again."""
    from recollect.admin.access import Access

    fields |= {"department": call.department, "ministry": call.ministry}
    created = _run_with_memory(call, lambda memory: Access(memory).create_key(person, **fields))
    if call.json:
        print_json(created)
    else:
        scopes = ", ".join(created.scopes)
        print_note(f"key {created.id} of {to_line(created.person)}, for {scopes}. Copy it now: it is not shown again.")
        typer.echo(created.token)


def _render_state(key: Key) -> str:
    return "revoked" if key.revoked_at else f"until {key.expires_at.date()}" if key.expires_at else "valid"


def _run_with_memory(call: Call, action: Callable[[AsyncMemory], Awaitable[T]]) -> T:
    """Open the memory, run the action on it, and return its result."""

    async def run() -> T:
        async with AsyncMemory(call.db, **call.principal, worker=False) as memory:
            return await action(memory)

    return asyncio.run(run())
