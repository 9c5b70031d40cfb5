"""Decides to which stored conversation the messages of a client belong that names none.

A conversation without a name of its own is called after its first user message, with a suffix that makes it unique. A
client's history belongs to one only if all of it is stored there as one path that ends with an answer of ours. Chats
that begin alike must not meet, so a path is trusted only as far as it can be no other chat's:

- A list without an answer in it begins a conversation, always.
- A path whose end is the newest message of its conversation is continued there.
- A list that a client sends again is the same request if it was stored moments ago and has at most its answer after
  it. Clients also send again what was refused, so nothing of it need be stored, and an older chat may begin alike.
- A path that was continued already is an edited or repeated turn of the same chat, if no other conversation holds the
  path and it is long enough that chance cannot have made it.
- Everything else begins a conversation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from recollect.core import history_match
from recollect.core.history_match import ClientMessage
from recollect.core.message import Message

NAME_PREFIX: Final = "chat-"
AFTER_NAME_PREFIX: Final = "chat."  # the end of the range of names: a dot comes right after a hyphen
RETRY_WINDOW: Final = timedelta(minutes=15)  # official clients wait ten minutes for an answer before they try again
MIN_SURE_MESSAGES: Final = 4  # two questions with their answers: another chat does not begin with the same by chance


@dataclass(frozen=True, slots=True)
class StoredPath:
    """A conversation in which a path is stored."""

    conversation: str
    seq: int  # of the path's last message
    last_seq: int  # of the conversation's newest message
    is_answer: bool  # whether the path ends with an answer of ours
    at: datetime  # of the path's last message

    @property
    def is_newest(self) -> bool:
        """Return whether the path ends with the conversation's newest message."""
        return self.seq == self.last_seq


@dataclass(frozen=True, slots=True)
class ClientList:
    """A client's message list, and what it says about its conversation."""

    messages: tuple[ClientMessage, ...]
    ids: tuple[str, ...]  # what the messages are called if the list is the whole chat
    history_length: int  # how many of them are history: up to the last answer that was given to a user message
    places: tuple[int, ...]  # where the messages stand in the list as the client sent it
    name_prefix: str  # of all conversations that begin with the same user message

    def name(self, suffix: str) -> str:
        """Return a name for a conversation that begins with this list."""
        return f"{self.name_prefix}-{suffix}"

    def without(self, ids: Collection[str]) -> ClientList:
        """Return the list without the messages of its history that have these ids."""
        history = [index for index in range(self.history_length) if self.ids[index] not in ids]
        kept = [*history, *range(self.history_length, len(self.messages))]
        messages, own_ids, places = (
            tuple(values[index] for index in kept) for values in (self.messages, self.ids, self.places)
        )
        return replace(self, messages=messages, ids=own_ids, places=places, history_length=len(history))

    @property
    def name_range(self) -> tuple[str, str]:
        """Return the first of the names that such a conversation may have, and the first name after them."""
        return self.name_prefix, f"{self.name_prefix}."


def read_list(messages: Sequence[Mapping[str, Any]]) -> ClientList:
    """Read a client's message list, without instructions."""
    read = tuple(history_match.to_client_message(message) for message in messages)
    first_text = next((message.content for message in read if message.role == "user"), "")
    digest = hashlib.sha256(first_text.strip().encode("utf-8", "replace")).hexdigest()[:16]
    ids = tuple(history_match.derive_path(read))
    return ClientList(read, ids, _history_length(read), tuple(range(len(read))), f"{NAME_PREFIX}{digest}")


def _history_length(messages: Sequence[ClientMessage]) -> int:
    """Return the number of messages up to the last answer to a user message. What comes last is never history."""
    is_asked, length = False, 0
    for index, message in enumerate(messages[:-1]):
        is_asked = is_asked or message.role == "user"
        if is_asked and message.role == "assistant":
            length = index + 1
    return length


def choose_path(paths: Sequence[StoredPath], history_length: int) -> StoredPath | None:
    """Return the path that the list continues; None if it begins a conversation.

    `paths` are those that are stored somewhere and equal to the history: paths whose end is newest first, then by the
    conversation's last message. The first two of them are enough.
    """
    first = paths[0] if paths else None
    if first is None or not first.is_answer:
        return None
    if first.is_newest or (len(paths) == 1 and history_length >= MIN_SURE_MESSAGES):
        return first
    return None


def choose_retried(paths: Sequence[StoredPath], now: datetime) -> StoredPath | None:
    """Return the path that an earlier try of the same request stored; None if there is none.

    `paths` are those that are equal to the whole list.
    """
    tries = (path for path in paths if path.last_seq <= path.seq + 1 and now - path.at <= RETRY_WINDOW)
    return next(tries, None)


def ends_with(stored: Sequence[Message], chat: ClientList) -> bool:
    """Return whether the newest messages of a conversation are the history of a list that was cut at its beginning.

    That needs more than one exchange, and an answer of ours at the end.
    """
    history = chat.messages[: chat.history_length]
    if len(history) < MIN_SURE_MESSAGES or len(stored) != len(history) or stored[-1].model_variant is None:
        return False
    match = history_match.match_history(stored, history)
    return len(match.matched) == len(history)
