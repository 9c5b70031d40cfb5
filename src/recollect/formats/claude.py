"""Reads the conversations of a Claude export: `chat_messages` with text and content blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.formats.batches import (
    Batch,
    Skipped,
    Transcript,
    Unreadable,
    conversation_name,
    label,
    moment,
    short,
)
from recollect.formats.parts import join_parts

_ROLES: Final = {"human": "user", "assistant": "assistant"}


def convert(record: Any, where: str) -> Iterator[Batch | Skipped]:
    if not isinstance(record, dict) or not isinstance(messages := record.get("chat_messages"), list):
        yield Skipped(where, "it has no list of chat_messages")
        return
    name = conversation_name("claude", record.get("uuid"), record)
    where = label(where, name)
    transcript = Transcript(since=moment(record.get("created_at")))
    for number, message in enumerate(messages, 1):
        try:
            _add(transcript, message)
        except Unreadable as error:
            yield Skipped(f"{where}, message {number}", str(error))
    yield from transcript.batches(name, where, title=short(record.get("name")))


def _add(transcript: Transcript, message: Any) -> None:
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    sender = message.get("sender")
    role = _ROLES.get(sender) if isinstance(sender, str) else None
    if role is None:
        raise Unreadable("its sender is unknown")
    blocks = message.get("content")
    text, others = join_parts(blocks) if isinstance(blocks, list) else ("", [])
    if not text and isinstance(fallback := message.get("text"), str):
        text = fallback
    sections = [text, *_attachments(message), *_files(message)]
    whole = "\n\n".join(section for section in sections if section)
    if not whole:
        raise Unreadable("it has no text")
    transcript.add(
        role,
        whole,
        id=message.get("uuid"),
        at=message.get("created_at"),
        metadata={"blocks": others} if others else None,
    )


def _attachments(message: JsonObject) -> Iterator[str]:
    """The text that was read out of attached documents, each under a line with its name."""
    for item in _objects(message.get("attachments")):
        heading = f"[attachment: {short(item.get('file_name')) or 'unnamed'}]"
        content = item.get("extracted_content")
        yield f"{heading}\n{content}" if isinstance(content, str) and content else heading


def _files(message: JsonObject) -> Iterator[str]:
    """Files without text, named once even where the attachments list them too."""
    attached = {item.get("file_name") for item in _objects(message.get("attachments")) if _named(item)}
    for item in _objects(message.get("files")):
        if _named(item) and item["file_name"] not in attached:
            yield f"[file: {item['file_name'][:200]}]"


def _named(item: JsonObject) -> bool:
    return isinstance(item.get("file_name"), str) and bool(item["file_name"])


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
