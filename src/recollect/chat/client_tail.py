"""The newest turns of a client that sends its own list of messages: they come from the list, not from the log.

A client may have edited a question or asked for another answer. The log keeps what it replaced, but the model must see
the talk as the client has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from recollect.core import history_match
from recollect.core.message import Message
from recollect.core.models import Context, JsonObject
from recollect.core.text import replace_unstorable
from recollect.recall.prompt.alternation import ASSISTANT_BEGINS

UNSTORED_SEQ: Final = 1 << 40  # of messages that a client sent and nobody stored: after all that are stored


def read_path(
    conversation: str, history: Sequence[Mapping[str, Any]], stored: Sequence[Message | None], now: datetime
) -> list[Message] | None:
    """Return the messages that a client sent before its question, or None if none of them is an answer.

    A client without answers sends only what is new, and the log has what came before. `stored` has the stored form of
    each message of the history, or None.
    """
    if not any(message.get("role") == "assistant" for message in history):
        return None
    path = []
    for index, (message, known) in enumerate(zip(history, stored, strict=False)):
        read = history_match.to_client_message(message)
        path.append(
            Message(
                known.id if known else f"sent-{index}",
                conversation,
                known.seq if known else UNSTORED_SEQ + index,
                read.role,
                replace_unstorable(read.content)[0],
                now,
                "typed",
                read.name,
                tool_calls=read.tool_calls,
                tool_call_id=read.tool_call_id,
            )
        )
    return path


def choose_sent(context: Context, path: Sequence[Message], history: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return the messages of a client's history that have room: as it sent them, or excerpts of them."""
    sent = {message.id: history[index] for index, message in enumerate(path)}
    parts = {part["name"]: part["items"] for part in context.explain["parts"]}
    whole = {item["message_id"] for item in parts.get("tail", ())}
    chosen: list[JsonObject] = []
    for message, message_id in zip(context.tail, context.tail_ids, strict=True):
        chosen.append(dict(sent[message_id] if message_id in whole else message))
    if chosen and chosen[0]["role"] == "assistant" != history[0].get("role") and not context.memory:
        chosen.insert(0, {"role": "user", "content": ASSISTANT_BEGINS})
    return chosen
