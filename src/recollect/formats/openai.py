"""Reads OpenAI-style records: `{"messages": [{"role", "content", …}, …]}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.formats.batches import (
    EMPTY_MESSAGES,
    Batch,
    LeftOut,
    Skipped,
    Transcript,
    Unreadable,
    conversation_name,
    describe_position,
    short_text,
    usable_id,
)
from recollect.formats.parts import join_parts

_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


def convert(record: Any, where: str) -> Iterator[Batch | Skipped | LeftOut]:
    """Convert one conversation. `where` is its position in the file, for reports."""
    if not isinstance(record, dict) or not isinstance(messages := record.get("messages"), list):
        yield Skipped(where, "it has no list of messages")
        return
    name = conversation_name("openai", record.get("id"), record)
    where = describe_position(where, name)
    transcript = Transcript()
    for number, message in enumerate(messages, 1):
        try:
            _add(transcript, message)
        except Unreadable as error:
            yield Skipped(f"{where}, message {number}", str(error))
    yield from transcript.batches(name, title=short_text(record.get("title")))


def _add(transcript: Transcript, message: Any) -> None:
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    foreign_role = message.get("role")
    role = _ROLES.get(foreign_role) if isinstance(foreign_role, str) else None
    if role is None:
        raise Unreadable("its role is unknown")
    text, others = _content(message)
    calls = _tool_calls(message)
    tool_call_id = usable_id(message.get("tool_call_id"))
    if not (text.strip() or calls or tool_call_id):
        transcript.left_out[EMPTY_MESSAGES] += 1
        return
    transcript.add(
        role,
        text,
        id=message.get("id"),
        at=message.get("created_at"),
        name=short_text(message.get("name")),
        tool_calls=calls,
        tool_call_id=tool_call_id,
        metadata={"parts": others} if others else None,
    )


def _content(message: JsonObject) -> tuple[str, list[Any]]:
    content = message.get("content")
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, str):
        return content, []
    if isinstance(content, list):
        return join_parts(content)
    raise Unreadable("its content is neither text nor a list of parts")


def _tool_calls(message: JsonObject) -> list[JsonObject] | None:
    calls = message.get("tool_calls")
    if isinstance(legacy := message.get("function_call"), dict) and not calls:
        calls = [{"type": "function", "function": legacy}]
    if not calls:
        return None
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise Unreadable("its tool calls are not a list of objects")
    return calls
