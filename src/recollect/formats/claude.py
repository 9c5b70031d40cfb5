"""Reads conversations of a Claude export: `chat_messages` with text and content blocks.

Thoughts, tool calls and tool results are blocks of a message. They stay in its metadata and out of its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.formats.batches import (
    EMPTY_MESSAGES,
    TOOL_TRACES,
    Batch,
    LeftOut,
    Skipped,
    Transcript,
    Unreadable,
    conversation_name,
    describe_position,
    short_text,
    to_iso_time,
)
from recollect.formats.parts import join_parts

_ROLES: Final = {"human": "user", "assistant": "assistant"}
_UNSPOKEN_BLOCKS: Final = frozenset(
    ("thinking", "redacted_thinking", "tool_use", "tool_result", "token_budget", "flag")
)


def convert(record: Any, where: str) -> Iterator[Batch | Skipped | LeftOut]:
    """Convert one conversation. `where` is its position in the file, for reports."""
    if not isinstance(record, dict) or not isinstance(messages := record.get("chat_messages"), list):
        yield Skipped(where, "it has no list of chat_messages")
        return
    name = conversation_name("claude", record.get("uuid"), record)
    where = describe_position(where, name)
    transcript = Transcript(since=to_iso_time(record.get("created_at")))
    for number, message in enumerate(messages, 1):
        try:
            _add(transcript, message)
        except Unreadable as error:
            yield Skipped(f"{where}, message {number}", str(error))
    yield from transcript.batches(name, title=short_text(record.get("name")))


def _add(transcript: Transcript, message: Any) -> None:
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    sender = message.get("sender")
    role = _ROLES.get(sender) if isinstance(sender, str) else None
    if role is None:
        raise Unreadable("its sender is unknown")
    blocks = message.get("content")
    text, others = join_parts(blocks, unspoken=_UNSPOKEN_BLOCKS) if isinstance(blocks, list) else ("", [])
    # Beside blocks that it cannot show, `text` has a note of the export's own.
    if not (text or others) and isinstance(fallback := message.get("text"), str):
        text = fallback
    sections = [text, *_attachments(message), *_files(message)]
    content = "\n\n".join(section for section in sections if section)
    if not content.strip():
        transcript.left_out[TOOL_TRACES if others else EMPTY_MESSAGES] += 1
        return
    transcript.add(
        role,
        content,
        id=message.get("uuid"),
        at=message.get("created_at"),
        metadata={"blocks": others} if others else None,
    )


def _attachments(message: JsonObject) -> Iterator[str]:
    """Yield the extracted text of each attachment, under a line with its name."""
    for item in _objects(message.get("attachments")):
        heading = f"[attachment: {short_text(item.get('file_name')) or 'unnamed'}]"
        content = item.get("extracted_content")
        yield f"{heading}\n{content}" if isinstance(content, str) and content else heading


def _files(message: JsonObject) -> Iterator[str]:
    """Yield a line for each file without text. A file that the attachments list too is left out."""
    attached = {item.get("file_name") for item in _objects(message.get("attachments")) if _has_file_name(item)}
    for item in _objects(message.get("files")):
        if _has_file_name(item) and item["file_name"] not in attached:
            yield f"[file: {item['file_name'][:200]}]"


def _has_file_name(item: JsonObject) -> bool:
    return isinstance(item.get("file_name"), str) and bool(item["file_name"])


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
