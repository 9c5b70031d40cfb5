"""Splits messages into turns. A turn is a user message with everything up to the next user message.

Tails, briefs and windows are cut only between turns. A tool call and its results stay together too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from recollect.core.message import Message


def split_into_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Split messages into turns, in order. Messages before the first user message form a turn of their own."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def pair_tool_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that a provider accepts: each tool call with all its results after it.

    Results without a call are dropped. A call that lacks a result loses its calls and keeps its text, if it has any.
    """
    paired: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue  # added with its call below, or not at all
        if not message.tool_calls or message.role != "assistant":  # only the assistant calls
            paired.append(message)
            continue
        results = _results_at_start(messages[index + 1 :])
        call_ids = [call.get("id") for call in message.tool_calls]
        answered_ids = [call_id for call_id in dict.fromkeys(map(str, call_ids)) if call_id in results]
        if call_ids == answered_ids:
            paired += [message, *(results[call_id] for call_id in answered_ids)]
        elif message.content.strip():
            paired.append(replace(message, tool_calls=None))
    return paired


def _results_at_start(messages: Sequence[Message]) -> dict[str, Message]:
    """Return the tool results that the messages begin with, by the id of their call."""
    results = takewhile(lambda message: message.role == "tool", messages)
    return {message.tool_call_id: message for message in results if message.tool_call_id is not None}
