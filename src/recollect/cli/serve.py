"""`recollect serve` and `recollect keys`: the server, and who may ask it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Annotated, TypeVar

import typer

from recollect.cli.display import note, show_json, show_table
from recollect.cli.options import Call, this_program, typed
from recollect.core.errors import InvalidInput
from recollect.memory import AsyncMemory

T = TypeVar("T")
_MISSING = "The server is not installed: pip install 'recollect[server]'"


def serve(
    call: Call,
    host: Annotated[str, typer.Option(help="Address to listen on; beyond loopback only with keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8377,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Logs as lines of JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Answer over HTTP: REST, chat, and the OpenAI API with memory. Stops at Ctrl-C or SIGTERM."""
    try:
        from recollect.server.app import Options
        from recollect.server.launch import serve as run
    except ImportError as error:
        raise InvalidInput("server_not_installed", _MISSING) from error
    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInput("invalid_log_level", "--log-level is debug, info, warning or error.")
    options = Options(call.db, host, port, call.person, call.preset, json_logs, log_level)
    run(options, workers=workers, ready=lambda address, *, keys: _tell(address, call, keys=keys))


def _tell(address: str, call: Call, *, keys: bool) -> None:
    """What to try, each line as it can be typed."""
    program, python = this_program(), typed("python", sys.executable)
    key = "rk_…" if keys else "none"
    shown = f" -H 'Authorization: Bearer {key}'" if keys else ""
    chat = f"{address}/api/v1/conversations/trip/chat"
    asked = '[{"role": "user", "content": "What can I not eat?"}]'
    client = f'OpenAI(base_url="{address}/v1", api_key="{key}").chat.completions'
    answer = f'{client}.create(model="recollect", messages={asked}).choices[0].message.content'
    note(f"Recollect listens on {address} · database {call.shown_db} · Ctrl-C stops it")
    note("\nTry, in another terminal:")
    said = """-d '{"content": "I am allergic to peanuts."}'"""
    note(f"  curl -sN {chat}{shown} -H 'Content-Type: application/json' {said}")
    note(f"  {python} -c 'from openai import OpenAI; print({answer})'")
    note(f"  {program} chat trip --server {address}{' --key rk_…' if keys else ''}")
    if find_spec("openai") is None:
        note("  (the second one needs: pip install openai)")
    note(f"\nThe API: {address}/api/docs\n")


def keys(
    call: Call,
    action: Annotated[str, typer.Argument(metavar="[list|create|revoke]", help="What to do.")] = "list",
    subject: Annotated[str | None, typer.Argument(metavar="PERSON|ID", help="Whose, or which.")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="read, write, admin; several times.")] = None,
    clearance: Annotated[list[str] | None, typer.Option(help="What the person is cleared for.")] = None,
    days: Annotated[float | None, typer.Option(help="How long it is good; for ever by default.")] = None,
) -> None:
    """Keys for the server. A new one is shown once; from the first on, the server asks for keys."""
    from recollect.admin.access import Access

    if action == "create":
        if subject is None:
            raise InvalidInput("person_needed", "Say whose key it is: recollect keys create PERSON")
        made = _with(
            call,
            lambda memory: Access(memory.store, memory.clock).create_key(
                subject, label=label, department=call.department, ministry=call.ministry,
                clearances=clearance or (), scopes=scope or ("read", "write"), days=days,
            ),
        )  # fmt: skip
        if call.json:
            show_json(made)
            return
        note(f"key {made.id} of {made.person}: {', '.join(made.scopes)}. It is shown this once:")
        typer.echo(made.token)
    elif action == "revoke":
        if subject is None:
            raise InvalidInput("key_needed", "Say which: recollect keys revoke ID")
        _with(call, lambda memory: Access(memory.store, memory.clock).revoke_key(subject))
        note(f"Key {subject} opens nothing any more.")
    elif action == "list":
        found = _with(call, lambda memory: Access(memory.store, memory.clock).keys())
        if call.json:
            show_json(found)
            return
        rows = [
            [key.id, key.person, ", ".join(key.scopes), key.label,
             "revoked" if key.revoked_at else f"until {key.expires_at.date()}" if key.expires_at else "good"]
            for key in found
        ]  # fmt: skip
        show_table(["id", "person", "scopes", "label", "state"], rows)
    else:
        raise InvalidInput("unknown_action", "Keys are listed, created or revoked.")


def _with(call: Call, act: Callable[[AsyncMemory], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AsyncMemory(call.db, **call.principal, worker=False) as memory:
            return await act(memory)

    return asyncio.run(run())
