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
    runs: list[list[Mapping[str, Any]]] = []  # messages that become one
    if messages and messages[0]["role"] != "user":
        runs.append([{"role": "user", "content": opening}])
    for message in messages:
        if runs and become_one(runs[-1][-1], message):
            runs[-1].append(message)
        else:
            runs += [[note] for note in notes_between(runs[-1][-1], message)] if runs else []
            runs.append([message])
    return list(map(_merge, runs))


def join(earlier: Sequence[Mapping[str, Any]], later: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return two lists of messages as one. Where one role would follow itself, two messages become one."""
    before, after = list(map(dict, earlier)), list(map(dict, later))
    if before and after:
        if become_one(before[-1], after[0]):
            after[0] = _merge([before.pop(), after[0]])
        else:
            before += notes_between(before[-1], after[0])
    return [*before, *after]


def become_one(last: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Return whether a message and the one after it become one: they are of one role, and no call stands between."""
    return bool(last["role"] == message["role"] != "tool" and not last.get("tool_calls"))


def notes_between(last: Mapping[str, Any], message: Mapping[str, Any]) -> list[JsonObject]:
    """Return what must stand between two messages: a note, if results of tools got no answer."""
    is_unanswered = last["role"] == "tool" and message["role"] == "user"
    return [{"role": "assistant", "content": NO_ANSWER}] if is_unanswered else []


def _merge(run: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Return messages of one role as one: a text, or a list of parts if one of them has parts."""
    *earlier, last = run
    if any(isinstance(message.get("content"), list) for message in earlier):
        return {**last, "content": [part for message in run for part in _to_parts(message.get("content"))]}
    texts = BETWEEN.join(text for message in earlier if (text := message.get("content")))
    return prepend(texts, last) if earlier else dict(last)


def _to_parts(content: Any) -> Sequence[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


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
