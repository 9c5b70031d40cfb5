"""The log: add a message, read a conversation, list conversations, count."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated, Any, Final

import typer

from recollect.cli.display import (
    counted,
    line,
    note,
    out,
    show_json,
    show_messages,
    show_pairs,
    show_table,
    shown_time,
)
from recollect.cli.options import Call
from recollect.core import times
from recollect.core.drafts import CONTENT_LIMIT
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation, JsonObject
from recollect.sync import Memory

FOR_PEOPLE: Final = 50  # messages that history shows unless told otherwise

ConversationName = Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation's name.")]

_LABELS: Final = {
    "conversations": "conversations",
    "messages": "messages",
    "roles": "by role",
    "first_at": "first message",
    "last_at": "last message",
    "text_bytes": "bytes of text",
    "tokens": "tokens",
    "counted": "messages with counted tokens",
    "estimated": "of these only estimated",
    "embedded": "messages that can be found by meaning",
    "replaced": "characters that could not be stored",
    "briefs": "versions of briefs",
    "topics": "topics",
    "archived": "messages in the archive",
    "archive_bytes": "bytes they take there",
    "due": "conversations that wait for derived work",
    "bytes": "bytes of the database, everyone's",
}


def add(
    call: Call,
    conversation: ConversationName,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="user, assistant, system or tool.")],
    content: Annotated[
        str, typer.Argument(metavar="CONTENT|-", help="What was said; - reads it from stdin. Put -- before a dash.")
    ],
    id: Annotated[str | None, typer.Option(help="Its id; the same id again changes nothing.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When, in ISO-8601; now by default.")] = None,
    name: Annotated[str | None, typer.Option(help="The speaker's name.")] = None,
    source: Annotated[str | None, typer.Option(help="typed, assistant, imported or tool.")] = None,
    model_variant: Annotated[str | None, typer.Option(help="The model that said it.")] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="A JSON object kept with it.")] = None,
    importance: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
) -> None:
    """Store one message, durably; prints its seq and id."""
    text = read_stdin() if content == "-" else content
    extra = _parse_metadata(metadata)
    with call.open() as memory:
        stored = memory.add(
            conversation, role, text, id=id, at=at, name=name, source=source,
            model_variant=model_variant, metadata=extra, importance=importance,
        )  # fmt: skip
    if stored.replaced:
        note(f"note: {counted(stored.replaced, 'character')} that no database can hold became U+FFFD.")
    elif (stored.role, stored.content) != (role, text):
        note("note: this id was stored before with other words; nothing was changed.")
    if call.json:
        show_json(stored)
    else:
        out(f"{stored.seq} {stored.id}")


def read_stdin() -> str:
    """All of stdin but its last line break, which shells put there. Bytes that are not UTF-8 are replaced later."""
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
        int | None, typer.Option(help=f"The newest N messages; {FOR_PEOPLE} by default, with --json all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every message.")] = False,
    before: Annotated[int | None, typer.Option(metavar="SEQ", help="Only messages before this one.")] = None,
) -> None:
    """Show a conversation, oldest message first. Times are in the conversation's zone."""
    if everything and limit is not None:
        raise InvalidInput("invalid_limit", "Say either --all or --limit.")
    if limit is None and not everything and not call.json:
        limit = FOR_PEOPLE
    with call.open(must_exist=True) as memory:
        about = find_conversation(memory, conversation)
        messages = memory.history(conversation, before=before, limit=limit)
        older = bool(messages) and bool(memory.history(conversation, before=messages[0].seq, limit=1))
    if call.json:
        show_json(messages)
        return
    note(f"{line(about.title)} · {counted(about.messages, 'message')} · times in {about.zone}")
    if older:
        note(f"Older messages: --before {messages[0].seq}, or --all.")
    show_messages(messages, times.load_zone(about.zone))


def find_conversation(memory: Memory, name: str) -> Conversation:
    for conversation in memory.conversations():
        if conversation.name == name:
            return conversation
    raise NotFound("conversation_not_found", f"There is no conversation {name!r}.")


def conversations(call: Call) -> None:
    """List the conversations, the latest first. Days are those of each conversation's zone."""
    with call.open(must_exist=True) as memory:
        found = memory.conversations()
    if call.json:
        show_json(found)
    else:
        show_conversations(found)


def show_conversations(found: list[Conversation]) -> None:
    if not found:
        note("No conversations yet.")
        return
    rows = []
    for one in found:
        zone = times.load_zone(one.zone)
        first, last = (shown_time(moment, zone)[:10] for moment in (one.first_at, one.last_at))
        rows.append((one.name, one.messages, first, last, ", ".join(one.tags), one.title))
    show_table(("name", "messages", "first", "last", "tags", "title"), rows, numbers=("messages",))


def stats(call: Call) -> None:
    """Count what the person has."""
    with call.open(must_exist=True) as memory:
        found = memory.stats()
    if call.json:
        show_json(found)
    else:
        show_stats(found)


def show_stats(found: JsonObject) -> None:
    roles = ", ".join(f"{count:,} {role}" for role, count in found["roles"].items())
    values = found | {"roles": roles or None}
    show_pairs([(_LABELS.get(name, name), values[name]) for name in [*_LABELS, *(found.keys() - _LABELS.keys())]])
