"""Turns: a user message with everything up to the next one. Nothing is ever cut inside a turn.

A call of a tool and its results stay together too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from recollect.core.models import Message


def turns_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages in turns: a user message with everything up to the next one."""
    found: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not found:
            found.append([])
        found[-1].append(message)
    return found


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages as providers take them: no result without its call before it, no call without all its results."""
    found: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            continue  # comes with its call, or not at all
        if not message.tool_calls:
            found.append(message)
            continue
        results = _results(messages[place + 1 :])
        asked = [call.get("id") for call in message.tool_calls]
        known = [one for one in dict.fromkeys(map(str, asked)) if one in results]
        if asked == known:
            found += [message, *(results[one] for one in known)]
        elif message.content.strip():
            found.append(replace(message, tool_calls=None))
    return found


def _results(messages: Sequence[Message]) -> dict[str, Message]:
    """The results that follow a call at once."""
    following = takewhile(lambda message: message.role == "tool", messages)
    return {message.tool_call_id: message for message in following if message.tool_call_id is not None}
