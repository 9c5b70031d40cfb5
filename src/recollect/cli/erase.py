"""Erasing: what would go, the question, and the receipt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from recollect.cli.display import counted, line, note, show_json, show_pairs
from recollect.cli.files import Yes
from recollect.cli.log import find_conversation
from recollect.cli.options import Call, Exit, confirm
from recollect.cli.topic import find_topic
from recollect.core import times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation, Message, Receipt
from recollect.sync import Memory

_PAGE = 500


def erase(
    call: Call,
    conversation: Annotated[str | None, typer.Option(metavar="NAME", help="This conversation, or only in it.")] = None,
    message: Annotated[str | None, typer.Option(metavar="ID", help="One message.")] = None,
    day: Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="One day, in the conversation's zone.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="ID", help="All messages of one topic.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All that the person has.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Yes = False,
) -> None:
    """Delete for good and print the receipt.

    Afterwards the files are searched for pieces of what was erased.
    """
    scope = {"conversation": conversation, "message": message, "day": day}
    if sum((everything, any(scope.values()), bool(topic))) != 1 or (message and day):
        told = "Name one thing: --conversation, --message, --day, --topic or --everything."
        raise InvalidInput("invalid_scope", told)
    with call.open(must_exist=True) as memory:
        if topic is None:
            counts = _count(memory, **scope)
        else:
            found = find_topic(memory, topic).topic
            note(f"{found.id} · {line(found.title)}")
            scope, counts = {"topic": found.id}, {"conversations": 1, "messages": found.messages}
        if dry_run:
            _show_counts(counts, json=call.json)
            return
        what = f"{counted(counts['messages'], 'message')} of {counted(counts['conversations'], 'conversation')}"
        confirm(f"Erase {what} of {call.person!r}, for good?", yes=yes)
        receipt = memory.erase(person=call.person) if everything else memory.erase(**scope)
    show_receipt(receipt, json=call.json)


def _count(memory: Memory, *, conversation: str | None, message: str | None, day: str | None) -> dict[str, int]:
    """What an erase would take, counted the way it chooses."""
    chosen = memory.conversations() if conversation is None else [find_conversation(memory, conversation)]
    if message is None and day is None:
        return {"conversations": len(chosen), "messages": sum(one.messages for one in chosen)}
    found = [sum(_is_meant(said, one, message, day) for said in _walk(memory, one)) for one in chosen]
    if message is not None and not any(found):
        raise NotFound("message_not_found", f"There is no message {message!r}.")
    return {"conversations": sum(map(bool, found)), "messages": sum(found)}


def _is_meant(said: Message, conversation: Conversation, message: str | None, day: str | None) -> bool:
    if day is None:
        return said.id == message
    start, stop = times.day_bounds(times.parse_day(day), conversation.zone)
    return start <= said.at < stop


def _walk(memory: Memory, conversation: Conversation) -> Iterator[Message]:
    """Every message, newest first, never more than a page at once."""
    before = None
    while page := memory.history(conversation.name, before=before, limit=_PAGE):
        yield from reversed(page)
        before = page[0].seq


def _show_counts(counts: dict[str, int], *, json: bool) -> None:
    if json:
        show_json({"dry_run": True, "counts": counts})
    else:
        show_pairs([(f"{name} that would go", count) for name, count in counts.items()])


def show_receipt(receipt: Receipt, *, json: bool) -> None:
    """Ends with its own code where something is pending."""
    if json:
        show_json(receipt)
    else:
        show_pairs(
            [
                ("receipt", receipt.id),
                *((f"erased {name.replace('_', ' ')}", count) for name, count in receipt.counts.items()),
                ("files read afterwards", ", ".join(receipt.files) or "none"),
                ("pieces found in them", receipt.remaining),
                ("kept elsewhere", "\n".join(receipt.kept_elsewhere) or "nowhere known"),
                ("pending", receipt.pending),
            ]
        )
    if receipt.pending:
        note("warning: another process keeps old pages alive; `recollect worker` finishes when it lets go.")
        raise typer.Exit(Exit.DEGRADED)
