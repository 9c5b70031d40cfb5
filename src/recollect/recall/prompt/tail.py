"""The tail: the newest turns word for word, as they stand in a prompt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.models import JsonObject, Message
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.excerpts import Asked, excerpt

LEAST: Final = 10  # tokens that an excerpt has


@dataclass(slots=True)
class Room:
    """Tokens of the budget that are still free."""

    left: int

    def take(self, tokens: int) -> bool:
        if tokens > self.left:
            return False
        self.left -= tokens
        return True


def as_message(message: Message, content: str | None = None) -> JsonObject:
    """A stored message as an API takes it. Stored system messages are quoted: only the caller speaks as system."""
    found: JsonObject = {"role": message.role, "content": message.content if content is None else content}
    if message.role == "system":
        found = {"role": "user", "content": fence.fenced([fence.line(message, found["content"])])}
    if message.tool_calls and content is None:
        found["tool_calls"] = list(message.tool_calls)
    if message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
    return found


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest turns as they stand in the prompt, and which stored messages stand there whole."""

    messages: Sequence[JsonObject] = ()
    whole: Sequence[Message] = ()
    is_cut: bool = False  # not even the newest turn fits

    def tokens(self, tokenizer: PromptTokenizer) -> int:
        return sum(map(tokenizer.count_message, self.messages))

    def after(self, turn: Sequence[Message], messages: Sequence[JsonObject]) -> Tail:
        """With an older turn before it."""
        return Tail((*messages, *self.messages), (*turn, *self.whole))


def newest_turns(
    turns: Sequence[Sequence[Message]],
    room: Room,
    most: int,
    *,
    told: Collection[int],
    asked: Asked,
    tokenizer: PromptTokenizer,
) -> Tail:
    """The newest turns that fit, at most `most`; of the very newest at least an excerpt, unless it is told whole."""
    tail = Tail()
    for turn in reversed(turns[-most:]):
        whole = [as_message(message) for message in turn]
        if not room.take(sum(map(tokenizer.count_message, whole))):
            break
        tail = tail.after(turn, whole)
    if tail.messages or not turns:
        return tail
    return _excerpted([message for message in turns[-1] if message.seq not in told], room, asked, tokenizer)


def _excerpted(turn: Sequence[Message], room: Room, asked: Asked, tokenizer: PromptTokenizer) -> Tail:
    """What was said last in a turn that is too long: the user's words and the answer, each cut to its share."""
    said = [message for message in turn if message.role == "user"][:1]
    said += [message for message in turn if message.role == "assistant" and message.content.strip()][-1:]
    found, whole = [], []
    for place, message in enumerate(said):
        frame = tokenizer.count_message({"role": message.role, "content": ""})
        most = room.left // (len(said) - place) - frame
        text = excerpt(message.content, most, tokenizer, asked)
        if most < LEAST and text != message.content:
            continue  # it would say nothing; the answer has its room
        if text and room.take(tokenizer.count_message({"role": message.role, "content": text})):
            found.append({"role": message.role, "content": text})
            whole += [message] if text == message.content else []
    return Tail(found, whole, is_cut=True)


def with_older(
    turns: Sequence[Sequence[Message]],
    tail: Tail,
    room: Room,
    *,
    quoted: Collection[int],
    covered: int,
    tokenizer: PromptTokenizer,
) -> Tail:
    """Older turns too, as far as there is room: nothing that fits is left in a hole between tail and recall.

    What the brief has covered, up to that seq, is in no hole; nor is a turn all of whose messages are quoted.
    """
    known = {message.seq for message in tail.whole}
    for turn in reversed(turns):
        if turn[0].seq in known or all(message.seq in quoted for message in turn):
            continue
        if turn[-1].seq <= covered:
            break
        told = [as_message(message) for message in turn]
        if not room.take(sum(map(tokenizer.count_message, told))):
            break
        tail = tail.after(turn, told)
    return tail
