"""A client's own list of messages against the log: which of them are stored already, told by what they say.

Clients of chat APIs send their whole history, or its newest part, with every request, and no ids. What they send is
read as a way through the log: each message must follow the one before it there. A client that went back and asked
otherwise leaves the way: what follows is new, and its first message notes where it branched off (`follows` in its
metadata), so that the same list finds its way again the next time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recollect.core.drafts import to_json
from recollect.core.models import JsonObject, Message
from recollect.core.text import storable

FOLLOWS: Final = "follows"  # metadata: the id of the message that this one answers or comes after


@dataclass(frozen=True, slots=True)
class Said:
    """A message as a client sends it, in our words."""

    role: str
    content: str
    name: str | None = None
    tool_calls: tuple[JsonObject, ...] | None = None
    tool_call_id: str | None = None

    @property
    def key(self) -> str:
        return _key(self.role, self.content, self.tool_calls, self.tool_call_id)


@dataclass(frozen=True, slots=True)
class Merged:
    """`known` are stored messages, the client's first ones; the others are to be stored behind the last of them."""

    known: tuple[Message, ...]
    follows: str | None  # what the first new message comes after, if that is not the newest message


def said(message: Mapping[str, Any]) -> Said:
    """Texts of parts are joined; a part that is no text leaves a mark of what it was."""
    content, calls = message.get("content"), message.get("tool_calls")
    return Said(
        role="tool" if message.get("role") == "function" else str(message.get("role")),
        content=text_of(content),
        name=message.get("name") if isinstance(message.get("name"), str) else None,
        tool_calls=tuple(calls) if calls else None,
        tool_call_id=message.get("tool_call_id"),
    )


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    pieces = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping):
            text = part.get("text")
            pieces.append(text if isinstance(text, str) else f"[{str(part.get('type', 'part'))[:40]}]")
    return "\n".join(pieces)


def align(stored: Sequence[Message], given: Sequence[Said]) -> Merged:
    """How far the client's list is a way through the stored messages, which are the newest of a conversation.

    One message alone, without any history, is new, unless it is the newest one and nobody has answered it: said twice
    is said twice.
    """
    if not stored or not given:
        return Merged((), None)
    newest, keys = stored[-1], [one.key for one in given]
    if len(given) == 1:
        repeated = newest.role == given[0].role == "user" and _stored_key(newest) == keys[0]
        return Merged((newest,), None) if repeated else Merged((), None)
    after: dict[tuple[str | None, str], Message] = {}  # of equal messages after the same one the newest is meant
    begins: list[Message] = []
    before: str | None = None
    for message in stored:
        follows, key = (message.metadata or {}).get(FOLLOWS), _stored_key(message)
        after[follows if isinstance(follows, str) else before, key] = message
        before = message.id
        if key == keys[0]:
            begins.append(message)
    best: list[Message] = []
    for message in reversed(begins):
        way = _way(message, after, keys)
        if len(way) > max(1, len(best)) or (message.seq == 1 and not best):
            best = way
        if len(best) == len(keys):
            break
    follows = best[-1].id if best and best[-1].id != newest.id else None
    return Merged(tuple(best), follows)


def _way(first: Message, after: Mapping[tuple[str | None, str], Message], keys: Sequence[str]) -> list[Message]:
    """From a message on, as far as the client's list goes with it."""
    way = [first]
    for key in keys[1:]:
        following = after.get((way[-1].id, key))
        if following is None:
            break
        way.append(following)
    return way


def new_id(before: str | None, message: Said) -> str:
    """Made of what is said and what it follows: two requests at once with the same history store it once."""
    return "c-" + hashlib.sha256(f"{before or ''}\n{message.key}".encode()).hexdigest()[:40]


def _stored_key(message: Message) -> str:
    return _key(message.role, message.content, message.tool_calls, message.tool_call_id)


def _key(role: str, content: str, calls: Sequence[JsonObject] | None, call_id: str | None) -> str:
    """The same for what is stored and for what a client sends again, which may have characters that are not stored."""
    return storable(to_json([role, storable(content)[0].strip(), [_call(call) for call in calls or ()], call_id]))[0]


def _call(call: JsonObject) -> list[Any]:
    """What makes a call the same one, however its arguments are written."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    given = function.get("arguments")
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = given
    return [call.get("id"), function.get("name"), json.dumps(arguments, sort_keys=True, default=str)]
