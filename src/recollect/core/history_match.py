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

FOLLOWS_KEY: Final = "follows"  # metadata key: the id of the message that this one answers or comes after


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
    followers, starts = _index_by_predecessor(stored, keys[0])
    best: list[Message] = []
    for start in reversed(starts):
        path = _follow(start, followers, keys)
        # A path of one message is too weak a match, unless it begins the conversation.
        if len(path) > max(1, len(best)) or (start.seq == 1 and not best):
            best = path
        if len(best) == len(keys):
            break
    follows_id = best[-1].id if best and best[-1].id != newest.id else None
    return HistoryMatch(tuple(best), follows_id)


_Followers = Mapping[tuple[str | None, str], Message]  # by the id of the message before, and by the own key


def _index_by_predecessor(stored: Sequence[Message], first_key: str) -> tuple[_Followers, list[Message]]:
    """Return the stored messages by what they follow, and those that may be the first of the client's list.

    Of equal messages that follow the same one, the newest counts.
    """
    followers: dict[tuple[str | None, str], Message] = {}
    starts: list[Message] = []
    previous_id: str | None = None
    for message in stored:
        follows, key = (message.metadata or {}).get(FOLLOWS_KEY), _stored_key(message)
        followers[follows if isinstance(follows, str) else previous_id, key] = message
        previous_id = message.id
        if key == first_key:
            starts.append(message)
    return followers, starts


def _follow(start: Message, followers: _Followers, keys: Sequence[str]) -> list[Message]:
    """Return the longest path of stored messages from `start` on that has the client's keys."""
    path = [start]
    for key in keys[1:]:
        following = followers.get((path[-1].id, key))
        if following is None:
            break
        path.append(following)
    return path


def derive_message_id(previous_id: str | None, message: ClientMessage) -> str:
    """Return an id made of a message and the one it follows, so that two equal requests at once store it once."""
    return "c-" + hashlib.sha256(f"{previous_id or ''}\n{message.key}".encode()).hexdigest()[:40]


def _stored_key(message: Message) -> str:
    return _key(message.role, message.content, message.tool_calls, message.tool_call_id)


def _key(role: str, content: str, calls: Sequence[JsonObject] | None, call_id: str | None) -> str:
    """Return the key under which a stored message and its repetition by a client are equal.

    Unstorable characters are replaced, as they were when the message was stored.
    """
    parts = [role, replace_unstorable(content)[0].strip(), [_call_key(call) for call in calls or ()], call_id]
    return replace_unstorable(to_json(parts))[0]


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
