"""Puts messages into the order that every provider takes: user and assistant by turns, the user first.

Templates of many models refuse two messages of one role in a row. So those become one message. Calls of tools keep
their results right after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.recall.prompt import fence

# What stands for a message that is not there. Square brackets, so that nobody takes it for words of a person.
ASSISTANT_BEGINS: Final = "[The assistant speaks first.]"
NO_ANSWER: Final = "[No answer was stored.]"
BETWEEN: Final = "\n\n"  # messages that become one


def alternate(messages: Sequence[Mapping[str, Any]], *, opening: str = ASSISTANT_BEGINS) -> list[JsonObject]:
    """Return the messages so that user and assistant alternate and the user begins.

    Messages of one role in a row become one. Results of tools that nobody answered get a note after them. If the
    assistant begins, the user says `opening` before: nothing, if memory shall stand there.
    """
    ordered: list[JsonObject] = []
    for message in messages:
        if not ordered and message["role"] != "user":
            ordered.append({"role": "user", "content": opening})
        ordered = join(ordered, [message])
    return ordered


def join(earlier: Sequence[Mapping[str, Any]], later: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return two lists of messages as one. Where one role would follow itself, two messages become one."""
    before, after = list(map(dict, earlier)), list(map(dict, later))
    if not before or not after:
        return [*before, *after]
    last, first = before[-1], after[0]
    if last["role"] == "tool" and first["role"] == "user":
        before.append({"role": "assistant", "content": NO_ANSWER})
    elif last["role"] == first["role"] != "tool" and not last.get("tool_calls"):
        after[0] = prepend(before.pop()["content"], first)
    return [*before, *after]


def put_memory(block: str, messages: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return the messages with a fenced block at the head of the first one, which is the user's.

    Nothing else in that message can be taken for a fence. If the assistant speaks first, the block is a message of its
    own.
    """
    if not block:
        return list(map(dict, messages))
    if not messages or messages[0]["role"] != "user":
        return [{"role": "user", "content": block}, *map(dict, messages)]
    first = dict(messages[0])
    content = first.get("content")
    if isinstance(content, list):
        first["content"] = [_escape_part(part) for part in content]
    elif isinstance(content, str):
        first["content"] = fence.escape_tags(content)
    return [prepend(block, first), *map(dict, messages[1:])]


def prepend(text: str, message: Mapping[str, Any]) -> JsonObject:
    """Return a message with a text before its own, whether that is a string, a list of parts, or missing."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": text}, *content]}
    return {**message, "content": BETWEEN.join(filter(None, (text, content)))}


def _escape_part(part: Any) -> Any:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return {**part, "text": fence.escape_tags(part["text"])}
    return part
