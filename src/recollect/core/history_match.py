"""Matches the message list of a chat API's client against the log: which messages are stored already, which are new.

Clients send their whole history, or its newest part, with every request and without ids. So messages are compared by
role, text and tool calls. A list matches as far as it is a path through the log: each message must follow the one
before it there. A client may go back, change a question and go on from there. Its list then leaves the path, and the
first new message names the message that it follows (`follows` in its metadata). That link lets the same list match
again at the next request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recollect.core.assistant import strip_notice
from recollect.core.json_text import to_json
from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.text import replace_unstorable

_REASONING_TAGS: Final = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"), ('<details type="reasoning"', "</details>"),
)  # fmt: skip
FOLLOWS_KEY: Final = "follows"  # metadata key: the id of the message that this one answers or comes after
ID_PREFIX: Final = "c-"  # of ids that are made of what messages say and follow


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A message that a client sent, in the fields of our log."""

    role: str
    content: str
    name: str | None = None
    tool_calls: tuple[JsonObject, ...] | None = None
    tool_call_id: str | None = None

    @property
    def key(self) -> str:
        """Return a text that is equal for equal messages, stored or sent."""
        return _key(self.role, self.content, self.tool_calls, self.tool_call_id)


@dataclass(frozen=True, slots=True)
class HistoryMatch:
    """The stored messages that a client's list begins with. The rest of the list is to be stored after them."""

    matched: tuple[Message, ...]
    follows_id: str | None  # the message that the first new one follows, if that is not the newest in the log


def to_client_message(message: Mapping[str, Any]) -> ClientMessage:
    """Read a message in the form of OpenAI's API. The old role `function` becomes `tool`.

    The notice that the built-in assistant sends after its first answer is no part of that answer.
    """
    role, calls = message.get("role"), message.get("tool_calls")
    content = read_content(message.get("content"))
    return ClientMessage(
        role="tool" if role == "function" else str(role),
        content=strip_notice(content) if role == "assistant" else content,
        name=message.get("name") if isinstance(message.get("name"), str) else None,
        tool_calls=tuple(calls) if calls else None,
        tool_call_id=message.get("tool_call_id"),
    )


def read_content(content: object) -> str:
    """Return the text of a message's content. Parts are joined by line breaks; a part without text leaves "[type]"."""
    if isinstance(content, str):
        return content
    pieces = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping):
            text = part.get("text")
            pieces.append(text if isinstance(text, str) else f"[{str(part.get('type', 'part'))[:40]}]")
    return "\n".join(pieces)


def match_history(stored: Sequence[Message], sent: Sequence[ClientMessage]) -> HistoryMatch:
    """Match a client's message list against stored messages. Return the stored prefix and what the rest follows.

    `stored` are the newest messages of a conversation, in order. A list of one message has no history to compare, so it
    is new, unless it repeats the newest stored message and that is a user message without an answer.
    """
    if not stored or not sent:
        return HistoryMatch((), None)
    newest, keys = stored[-1], [message.key for message in sent]
    if len(sent) == 1:
        repeated = newest.role == sent[0].role == "user" and _stored_key(newest) == keys[0]
        return HistoryMatch((newest,), None) if repeated else HistoryMatch((), None)
    path = _longest_path(stored, keys)
    return HistoryMatch(path, path[-1].id if path and path[-1].id != newest.id else None)


def _longest_path(stored: Sequence[Message], keys: Sequence[str]) -> tuple[Message, ...]:
    """Return the longest path through the stored messages that begins as the keys do; of several, the newest.

    A path of one message is too weak a match, unless it begins the conversation. Work grows with the number of
    messages, however often they repeat each other: it is the search of Knuth, Morris and Pratt, which each stored
    message continues from the one that it follows.
    """
    numbers = {key: number for number, key in enumerate(keys)}
    pattern = [numbers[key] for key in keys]
    fallbacks, predecessors = _fallbacks(pattern), _predecessors(stored)
    lengths: list[int] = []  # for each stored message: how many keys the path that ends with it has
    best, best_length = -1, 0
    for index, (message, predecessor) in enumerate(zip(stored, predecessors, strict=True)):
        number = numbers.get(_stored_key(message), -1)
        length = lengths[predecessor] if predecessor >= 0 else 0
        while length >= 0 and (length == len(pattern) or pattern[length] != number):
            length = fallbacks[length]
        length += 1
        lengths.append(length)
        if length >= max(best_length, 2) or (length == 1 and message.seq == 1 and best < 0):
            best, best_length = index, length
    path: list[Message] = []
    while len(path) < best_length:
        path.append(stored[best])
        best = predecessors[best]
    return tuple(reversed(path))


def _predecessors(stored: Sequence[Message]) -> list[int]:
    """Return, for each stored message, the index of the one that it follows; -1 if that is not among them."""
    indexes_by_id: dict[str, int] = {}
    predecessors = []
    for index, message in enumerate(stored):
        follows = (message.metadata or {}).get(FOLLOWS_KEY)
        predecessors.append(indexes_by_id.get(follows, -1) if isinstance(follows, str) else index - 1)
        indexes_by_id[message.id] = index
    return predecessors


def _fallbacks(pattern: Sequence[int]) -> list[int]:
    """Return, for each number of matched items, how many still match if the next item differs; -1 for none at all.

    Lengths that would fail on the same item are skipped, so that a search falls back only a few times in a row.
    """
    fallbacks, border = [-1], 0
    for item in pattern[1:]:
        fallbacks.append(fallbacks[border] if pattern[border] == item else border)
        while border >= 0 and pattern[border] != item:
            border = fallbacks[border]
        border += 1
    return [*fallbacks, border]


def derive_path(messages: Sequence[ClientMessage], previous_id: str | None = None) -> list[str]:
    """Return the ids of messages that follow each other, the first after `previous_id`.

    Each id stands for the message and everything before it, so equal ids mean equal paths.
    """
    ids: list[str] = []
    for message in messages:
        previous_id = derive_message_id(previous_id, message)
        ids.append(previous_id)
    return ids


def derive_message_id(previous_id: str | None, message: ClientMessage) -> str:
    """Return an id made of a message and the one it follows, so that two equal requests at once store it once."""
    return ID_PREFIX + hashlib.sha256(f"{previous_id or ''}\n{message.key}".encode()).hexdigest()[:40]


def _stored_key(message: Message) -> str:
    return _key(message.role, message.content, message.tool_calls, message.tool_call_id)


def _key(role: str, content: str, calls: Sequence[JsonObject] | None, call_id: str | None) -> str:
    """Return the key under which a stored message and its repetition by a client are equal.

    Unstorable characters are replaced, as they were when the message was stored.
    """
    text = replace_unstorable(content)[0]
    text = _comparable(_without_reasoning(text) if role == "assistant" else text)
    parts = [role, text, [_call_key(call) for call in calls or ()], call_id]
    return replace_unstorable(to_json(parts))[0]


def _comparable(text: str) -> str:
    """Return a text without what clients change when they send it again: line endings, and blanks at ends of lines."""
    if "\n" not in text and "\r" not in text:
        return text.strip()
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")).strip()


def _without_reasoning(text: str) -> str:
    """Return an answer without the reasoning that it begins with: many clients show it and do not send it again."""
    text = text.lstrip()
    for opening, closing in _REASONING_TAGS:
        if text.startswith(opening):
            end = text.find(closing)
            return text[end + len(closing) :] if end >= 0 else text
    return text


def _call_key(call: JsonObject) -> list[Any]:
    """Return a tool call's id, name and arguments. Clients may write the same arguments as different JSON text."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    raw = function.get("arguments")
    try:
        arguments = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        arguments = raw
    return [call.get("id"), function.get("name"), json.dumps(arguments, sort_keys=True, default=str)]
