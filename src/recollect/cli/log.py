"""The log: adds a message, shows a conversation, lists conversations, counts."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated, Any, Final

import typer

from recollect.cli.display import (
    print_json,
    print_line,
    print_messages,
    print_note,
    print_table,
    render_count,
    render_time,
    to_line,
)
from recollect.cli.options import Call
from recollect.cli.stats_view import print_stats
from recollect.core import times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.message import CONTENT_LIMIT
from recollect.core.models import Conversation
from recollect.sync import Memory

DEFAULT_ROWS: Final = 50  # what lists show to people who do not say --limit

ConversationName = Annotated[str, typer.Argument(metavar="CONVERSATION", help="Name of the conversation.")]


def add(
    call: Call,
    conversation: ConversationName,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Who speaks: user, assistant, system or tool.")],
    content: Annotated[
        str,
        typer.Argument(
            metavar="CONTENT|-", help="The text; - reads it from stdin. Put -- before a text that begins with a dash."
        ),
    ],
    id: Annotated[
        str | None, typer.Option(help="Id of the message; by default a new one. An id that is stored changes nothing.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it was said, in ISO 8601; by default now.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the speaker.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Where it comes from: typed, assistant, imported or tool; by default what its role suggests."
        ),
    ] = None,
    model_variant: Annotated[str | None, typer.Option(help="Model that wrote it.")] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="JSON object to store with it.")] = None,
    importance: Annotated[float | None, typer.Option(help="How important it is, from 0 to 1.")] = None,
) -> None:
    """Store one message and print its number and id.

    The number (seq) is its position in the conversation, from 1. The message is on disk when the command ends. The
    conversation begins with its first message.
    """
    text = read_stdin() if content == "-" else content
    parsed_metadata = _parse_metadata(metadata)
    with call.open() as memory:
        stored = memory.add(
            conversation, role, text, id=id, at=at, name=name, source=source,
            model_variant=model_variant, metadata=parsed_metadata, importance=importance,
        )  # fmt: skip
    if stored.replaced:
        print_note(f"note: {render_count(stored.replaced, 'character')} could not be stored; U+FFFD stands for each.")
    elif (stored.role, stored.content) != (role, text):
        print_note("note: this id was stored before with another text; nothing was changed.")
    if call.json:
        print_json(stored)
    else:
        print_line(f"{stored.seq} {to_line(stored.id)}")


def read_stdin() -> str:
    """Return stdin without its last line break, which shells add.

    Bytes that are not UTF-8 become surrogates, which the memory counts and replaces. No more is read than a message
    may hold, and a little, so that the memory refuses what is too long.
    """
    text = sys.stdin.buffer.read(CONTENT_LIMIT + 3).decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def _parse_metadata(text: str | None) -> Any:
    try:
        return None if text is None else json_module.loads(text)
    except ValueError as error:
        raise InvalidInput("invalid_metadata", f"--metadata is not JSON: {error}.") from None


def history(
    call: Call,
    conversation: ConversationName,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Show the newest N messages; by default {DEFAULT_ROWS}, with --json all."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every message.")] = False,
    before: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Show only messages before the one with this number.")
    ] = None,
) -> None:
    """Show the messages of a conversation, oldest first.

    Times are in the conversation's time zone. No text is cut.
    """
    if everything and limit is not None:
        raise InvalidInput("invalid_limit", "Use either --all or --limit.")
    if limit is None and not everything and not call.json:
        limit = DEFAULT_ROWS
    with call.open(must_exist=True) as memory:
        info = find_conversation(memory, conversation)
        messages = memory.history(conversation, before=before, limit=limit)
        has_older = bool(messages) and bool(memory.history(conversation, before=messages[0].seq, limit=1))
    if call.json:
        print_json(messages)
        return
    print_note(f"{to_line(info.title)} · {render_count(info.messages, 'message')} · times in {info.zone}")
    if has_older:
        print_note(f"For older messages add --before {messages[0].seq} or --all.")
    print_messages(messages, times.load_zone(info.zone))


def find_conversation(memory: Memory, name: str) -> Conversation:
    """Return the person's conversation of this name. Raise NotFound if there is none."""
    for conversation in memory.conversations():
        if conversation.name == name:
            return conversation
    raise NotFound(
        "conversation_not_found", f"There is no conversation {name!r}. `recollect conversations` lists them."
    )


def conversations(call: Call) -> None:
    """List the conversations, the most recent first.

    Days are in each conversation's time zone.
    """
    with call.open(must_exist=True) as memory:
        found = memory.conversations()
    if call.json:
        print_json(found)
    else:
        print_conversations(found)


def print_conversations(conversations: list[Conversation]) -> None:
    """Print a table with a row for each conversation."""
    if not conversations:
        print_note("No conversations yet.")
        return
    rows = []
    for conversation in conversations:
        zone = times.load_zone(conversation.zone)
        first, last = (render_time(moment, zone)[:10] for moment in (conversation.first_at, conversation.last_at))
        tags = ", ".join(conversation.tags)
        rows.append((conversation.name, conversation.messages, first, last, tags, conversation.title))
    print_table(("name", "messages", "first", "last", "tags", "title"), rows, numbers=("messages",))


def stats(call: Call) -> None:
    """Say what the person has, whether all of it can be found, and what waits.

    With --json it prints every figure.
    """
    with call.open(must_exist=True) as memory:
        counts = memory.stats()
    if call.json:
        print_json(counts)
    else:
        print_stats(counts)
