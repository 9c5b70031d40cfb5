"""Reads ShareGPT records: `{"conversations": [{"from", "value"}, …], "id"?}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

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
)

_ROLES: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "tool_call": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
    "tool_response": "tool",
}


def convert(record: Any, where: str) -> Iterator[Batch | Skipped | LeftOut]:
    """Convert one conversation. `where` is its position in the file, for reports."""
    if not isinstance(record, dict) or not isinstance(turns := record.get("conversations"), list):
        yield Skipped(where, "it has no list of conversations")
        return
    name = conversation_name("sharegpt", record.get("id"), record)
    where = describe_position(where, name)
    transcript = Transcript()
    if isinstance(system := record.get("system"), str) and system:
        transcript.add("system", system)
    for number, turn in enumerate(turns, 1):
        try:
            _add(transcript, turn, short_text(record.get("model")))
        except Unreadable as error:
            yield Skipped(f"{where}, message {number}", str(error))
    yield from transcript.batches(name, title=short_text(record.get("title")))


def _add(transcript: Transcript, turn: Any, model: str | None) -> None:
    if not isinstance(turn, dict):
        raise Unreadable("it is not an object")
    # Some data sets use OpenAI's names for the same two fields.
    speaker, value = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    role = _ROLES.get(speaker.lower()) if isinstance(speaker, str) else None
    if role is None:
        raise Unreadable("its speaker is unknown")
    if value is not None and not isinstance(value, str):
        raise Unreadable("its value is not text")
    if not value or not value.strip():
        transcript.left_out[EMPTY_MESSAGES] += 1
        return
    transcript.add(role, value, model_variant=model if role == "assistant" else None)
