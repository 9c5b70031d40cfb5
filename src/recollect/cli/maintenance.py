"""`recollect doctor`, `recollect worker` and `recollect rebuild`: keep a memory sound and its derived rows complete."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import Annotated, Any

import typer

from recollect.cli.catch_up import catch_up, show_progress
from recollect.cli.display import (
    print_json,
    print_line,
    print_note,
    print_pairs,
    print_table,
    print_work_done,
    spinner,
    to_line,
)
from recollect.cli.options import Call, ExitCode, check_log_level
from recollect.cli.settings import list_settings, print_settings
from recollect.memory import AsyncMemory
from recollect.runtime.log_lines import set_up_logs


def doctor(call: Call) -> None:
    """Check the database for damage and wrong settings.

    It also shows which settings differ from their defaults. The exit code is 1 if it finds errors, and 5 if it finds
    only warnings.
    """
    with call.open(must_exist=True) as memory, spinner("Checking"):
        findings = memory.check()
        changed = [row for row in list_settings(memory) if row["origin"] != "default"]
    database = {"kind": call.kind, "location": call.shown_db, "origin": call.db_origin}
    if call.json:
        report = {"database": database, "person": call.person, "settings": changed}
        print_json(report | {"findings": findings})
    else:
        described = f"{call.shown_db} ({call.kind}, from {call.db_origin})"
        print_pairs([("database", described), ("person", call.person)])
        print_line("")
        rows = [(finding.name, finding.state, finding.detail, finding.fix) for finding in findings]
        print_table(("check", "state", "detail", "fix"), rows)
        print_line("")
        if changed:
            print_settings(changed)
        else:
            print_line("Every setting has its default.")
    states = {finding.state for finding in findings}
    if "error" in states:
        raise typer.Exit(ExitCode.ERROR)
    if "warning" in states:
        raise typer.Exit(ExitCode.DEGRADED)


def worker(
    call: Call,
    once: Annotated[bool, typer.Option("--once", help="Do the work that is missing now, print it, and exit.")] = False,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Also stop when stdin ends, for a program that starts workers.")
    ] = False,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Write logs as lines of JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="What to log: debug, info, warning or error.")] = "warning",
) -> None:
    """Do derived work for all people, until stopped.

    Derived work makes messages ready for recall: it counts tokens, embeds messages, writes briefs, assigns topics.
    Ctrl-C or SIGTERM stops the worker after the piece of work it is doing; a second time it stops at once.
    """
    check_log_level(log_level)
    if once:
        with call.open() as memory:
            done = catch_up(memory)
        print_work_done(done, json=call.json)
        if not done.complete:
            raise typer.Exit(ExitCode.DEGRADED)
        return
    set_up_logs(as_json=json_logs, level=log_level)
    reason = asyncio.run(_work_until_stopped(call, until_eof=until_eof))
    if call.json:
        print_json({"stopped": reason})
    elif not until_eof:
        print_note(f"Stopped by {reason}.")


async def _work_until_stopped(call: Call, *, until_eof: bool) -> str:
    """Work until a signal or, with `until_eof`, the end of stdin. Return which it was."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    reasons: list[str] = []

    def on_signal(number: int, _: Any) -> None:
        reasons.append(signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
        loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)

    def wait_for_eof() -> None:
        sys.stdin.read()
        reasons.append("the end of the input")
        loop.call_soon_threadsafe(stop.set)

    if until_eof:
        threading.Thread(target=wait_for_eof, name="recollect-eof", daemon=True).start()
    async with AsyncMemory(call.db, **call.principal, worker=False) as memory:
        if not until_eof:
            print_note(f"Working on {to_line(call.shown_db)} until stopped.")
        await memory.work_until(stop)
    return reasons[0]


def rebuild(
    call: Call,
    conversation: Annotated[str | None, typer.Option(metavar="NAME", help="Rebuild only this conversation.")] = None,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="Rebuild the whole database, not only what the person has.")
    ] = False,
) -> None:
    """Compute again what is derived from the messages.

    That is the word index, the token counts, the vectors and all that is made from them. The messages stay as they are.
    """
    with call.open(must_exist=True) as memory, show_progress(memory, "Rebuilding"):
        done = memory.rebuild(conversation=conversation, everyone=everyone)
    print_work_done(done, json=call.json)
    if not done.complete:
        raise typer.Exit(ExitCode.DEGRADED)
