"""`recollect erase`: counts what would go, asks, erases, and prints the receipt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from recollect.cli.display import print_json, print_note, print_pairs, render_count, to_line
from recollect.cli.files import YesOption
from recollect.cli.log import find_conversation
from recollect.cli.options import Call, ExitCode, confirm
from recollect.cli.topic import find_topic
from recollect.core import times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.message import Message
from recollect.core.models import Conversation, Receipt
from recollect.sync import Memory

_PAGE_MESSAGES: Final = 500
_COUNT_LABELS: Final = {
    "entries": "word index rows",
    "brief_entries": "ledger entries",
    "recalls": "metrics of recall",
    "archived": "archived messages",
    "dictionaries": "archive dictionaries",
    "audit": "audit entries",
}


def erase(
    call: Call,
    conversation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Erase this conversation; with --message or --day only these in it."),
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="ID", help="Erase the message with this id.")] = None,
    day: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DD", help="Erase the messages of one day, in each conversation's time zone."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ID", help="Erase all messages of a topic, and of topics merged into it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Erase all that is stored of the person.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be erased.")] = False,
    yes: YesOption = False,
) -> None:
    """Erase messages for good and print a receipt.

    What was derived from the messages is erased too. Then the database's files are searched for remains of the text.
    The exit code is 5 if another process has to let go of old pages first.
    """
    scope = {"conversation": conversation, "message": message, "day": day}
    if sum((everything, any(scope.values()), bool(topic))) != 1 or (message and day):
        choices = "--conversation, --message, --day, --topic or --everything"
        raise InvalidInput("invalid_scope", f"Name one thing to erase: {choices}.")
    with call.open(must_exist=True) as memory:
        if topic is None:
            extent = _measure(memory, **scope)
        else:
            match = find_topic(memory, topic).topic
            print_note(f"{match.id} · {to_line(match.title)}")
            scope, extent = {"topic": match.id}, _Extent(match.messages, conversations=1)
        if dry_run:
            _print_counts(extent.counts, json=call.json)
            return
        messages = render_count(extent.messages, "message")
        conversations = render_count(extent.conversations, "conversation")
        confirm(f"Erase {messages} of {conversations} of {call.person!r}, for good?", yes=yes)
        receipt = memory.erase(person=call.person) if everything else memory.erase(**scope)
    print_receipt(receipt, json=call.json)


@dataclass(frozen=True, slots=True)
class _Extent:
    """Counts what an erase would take: messages, their conversations, and whether these go as a whole."""

    messages: int
    conversations: int
    whole: bool = False  # an erase of messages keeps their conversation, even if it was the last one

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts as the receipt of the erase will have them."""
        return {"conversations": self.conversations if self.whole else 0, "messages": self.messages}


def _measure(memory: Memory, *, conversation: str | None, message: str | None, day: str | None) -> _Extent:
    """Count what an erase of this scope would take. Raise what the erase would raise."""
    chosen = memory.conversations() if conversation is None else [find_conversation(memory, conversation)]
    if message is None and day is None:
        return _Extent(sum(each.messages for each in chosen), len(chosen), whole=True)
    counts = [_count_messages(memory, each, message, day) for each in chosen]
    if message is not None and not any(counts):
        raise NotFound("message_not_found", f"There is no message {message!r}.")
    if message is not None and sum(counts) > 1:
        detail = f"{sum(counts)} conversations have a message {message!r}: name the conversation."
        raise InvalidInput("ambiguous_message", detail)
    return _Extent(sum(counts), sum(map(bool, counts)))


def _count_messages(memory: Memory, conversation: Conversation, message_id: str | None, day: str | None) -> int:
    messages = _iterate_messages(memory, conversation)
    return sum(_is_in_scope(message, conversation, message_id, day) for message in messages)


def _is_in_scope(message: Message, conversation: Conversation, message_id: str | None, day: str | None) -> bool:
    if day is None:
        return message.id == message_id
    start, stop = times.day_bounds(times.parse_day(day), conversation.zone)
    return start <= message.at < stop


def _iterate_messages(memory: Memory, conversation: Conversation) -> Iterator[Message]:
    """Yield every message, newest first, reading one page at a time."""
    before = None
    while page := memory.history(conversation.name, before=before, limit=_PAGE_MESSAGES):
        yield from reversed(page)
        before = page[0].seq


def _print_counts(counts: dict[str, int], *, json: bool) -> None:
    if json:
        print_json({"dry_run": True, "counts": counts})
    else:
        print_pairs([(f"{name} that would be erased", count) for name, count in counts.items()])


def _name_first(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Return a row for each value. The first has the name, the others have none."""
    return [(name if number == 0 else "", value) for number, value in enumerate(values)]


def print_receipt(receipt: Receipt, *, json: bool) -> None:
    """Print the receipt of an erase. Exit with code 5 if it is pending."""
    if json:
        print_json(receipt)
    else:
        print_pairs(
            [
                ("receipt", receipt.id),
                *(
                    (f"erased {_COUNT_LABELS.get(name, name.replace('_', ' '))}", n)
                    for name, n in receipt.counts.items()
                ),
                ("files searched afterwards", ", ".join(receipt.files) or "none"),
                ("remains found in them", receipt.remaining),
                *_name_first("copies elsewhere", receipt.kept_elsewhere or ("none known",)),
                ("pending", receipt.pending),
            ]
        )
    if receipt.pending:
        print_note(
            "warning: old pages are still in use, or may not be vacuumed. `recollect worker` finishes when it can."
        )
        raise typer.Exit(ExitCode.DEGRADED)
