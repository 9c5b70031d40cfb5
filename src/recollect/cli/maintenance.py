"""Keeping a memory in order: the doctor, the worker, rebuilding derived rows."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from typing import Annotated, Any

import typer

from recollect.cli.catch_up import catch_up, watched
from recollect.cli.display import note, out, show_done, show_json, show_pairs, show_table, spinner
from recollect.cli.options import Call, Exit
from recollect.cli.settings import list_settings, show_settings
from recollect.memory import AsyncMemory


def doctor(call: Call) -> None:
    """Look for damage and wrong settings.

    Exits with 1 if it finds errors and with 5 if it finds warnings.
    """
    with call.open(must_exist=True) as memory, spinner("Looking"):
        findings = memory.check()
        changed = [row for row in list_settings(memory) if row["origin"] != "default"]
    database = {"kind": call.kind, "location": call.shown_db, "origin": call.db_origin}
    if call.json:
        report = {"database": database, "person": call.person, "settings": changed}
        show_json(report | {"findings": findings})
    else:
        named = f"{call.shown_db} ({call.kind}, from {call.db_origin})"
        show_pairs([("database", named), ("person", call.person)])
        out("")
        rows = [(one.name, one.state, one.detail, one.fix) for one in findings]
        show_table(("check", "state", "detail", "fix"), rows)
        out("")
        if changed:
            show_settings(changed)
        else:
            out("Every setting has its default.")
    states = {finding.state for finding in findings}
    if "error" in states:
        raise typer.Exit(Exit.ERROR)
    if "warning" in states:
        raise typer.Exit(Exit.DEGRADED)


def worker(
    call: Call,
    once: Annotated[bool, typer.Option("--once", help="Do what is missing now, print it, and end.")] = False,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="End when the input does, too.")] = False,
) -> None:
    """Do everyone's derived work until stopped.

    SIGTERM or Ctrl-C ends it after the piece of work at hand.
    """
    if once:
        with call.open() as memory:
            done = catch_up(memory)
        show_done(done, json=call.json)
        if not done.complete:
            raise typer.Exit(Exit.DEGRADED)
        return
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    reason = asyncio.run(_work(call, until_eof=until_eof))
    if call.json:
        show_json({"stopped": reason})
    elif not until_eof:
        note(f"Stopped by {reason}.")


async def _work(call: Call, *, until_eof: bool) -> str:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    reasons: list[str] = []

    def halt(number: int, _: Any) -> None:
        reasons.append(signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # asked twice, it ends at once
        loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, halt)

    def listen() -> None:
        sys.stdin.read()
        reasons.append("the end of the input")
        loop.call_soon_threadsafe(stop.set)

    if until_eof:
        threading.Thread(target=listen, name="recollect-eof", daemon=True).start()
    async with AsyncMemory(call.db, **call.principal, worker=False) as memory:
        if not until_eof:
            note(f"Working on {call.shown_db} until stopped.")
        await memory.work_until(stop)
    return reasons[0]


def rebuild(
    call: Call,
    conversation: Annotated[str | None, typer.Option(metavar="NAME", help="Only this conversation.")] = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="The whole database, not only the person.")] = False,
) -> None:
    """Make what is derived from the log anew.

    That is the words, the token counts and the vectors; the log itself is only read.
    """
    with call.open(must_exist=True) as memory, watched(memory, "Rebuilding"):
        done = memory.rebuild(conversation=conversation, everyone=everyone)
    show_done(done, json=call.json)
    if not done.complete:
        raise typer.Exit(Exit.DEGRADED)
