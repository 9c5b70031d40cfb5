"""The tail: the newest turns word for word, as a prompt has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.budget import PromptBudget
from recollect.recall.prompt.excerpts import QueryTerms, make_excerpt

MIN_EXCERPT_TOKENS: Final = 10  # a shorter excerpt would say nothing


def to_prompt_message(message: Message, content: str | None = None) -> JsonObject:
    """Return a stored message as an API takes it, perhaps with other content.

    A stored system message becomes a quote: only the caller speaks as system.
    """
    result: JsonObject = {"role": message.role, "content": message.content if content is None else content}
    if message.role == "system":
        result = {"role": "user", "content": fence.render_fence([fence.render_quote(message, result["content"])])}
    if message.tool_calls and content is None:
        result["tool_calls"] = list(message.tool_calls)
    if message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    return result


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest turns as the prompt has them."""

    messages: Sequence[JsonObject] = ()
    whole: Sequence[Message] = ()  # the stored messages that are in the prompt uncut
    is_cut: bool = False  # not even the newest turn fits

    def tokens(self, tokenizer: PromptTokenizer) -> int:
        """Return the tokens of all messages."""
        return sum(map(tokenizer.count_message, self.messages))

    def after(self, turn: Sequence[Message], messages: Sequence[JsonObject]) -> Tail:
        """Return the tail with an older turn before it."""
        return Tail((*messages, *self.messages), (*turn, *self.whole))


def take_newest_turns(
    turns: Sequence[Sequence[Message]],
    max_tokens: int,
    max_turns: int,
    *,
    quoted: Collection[int],
    terms: QueryTerms,
    tokenizer: PromptTokenizer,
) -> Tail:
    """Return the newest turns that fit. If not even the newest fits, return excerpts of it.

    `quoted` are seqs of messages that are quoted whole elsewhere; they are not excerpted.
    """
    tail, left = Tail(), max_tokens
    for turn in reversed(turns[-max_turns:]):
        messages = [to_prompt_message(message) for message in turn]
        tokens = sum(map(tokenizer.count_message, messages))
        if tokens > left:
            break
        left -= tokens
        tail = tail.after(turn, messages)
    if tail.messages or not turns:
        return tail
    return _excerpt_turn([message for message in turns[-1] if message.seq not in quoted], left, terms, tokenizer)


def _excerpt_turn(turn: Sequence[Message], max_tokens: int, terms: QueryTerms, tokenizer: PromptTokenizer) -> Tail:
    """Return the user's message and the last answer of a turn that is too long, each cut to its share."""
    chosen = [message for message in turn if message.role == "user"][:1]
    chosen += [message for message in turn if message.role == "assistant" and message.content.strip()][-1:]
    messages, whole, left = [], [], max_tokens
    for number, message in enumerate(chosen):
        frame = tokenizer.count_message({"role": message.role, "content": ""})
        limit = left // (len(chosen) - number) - frame
        text = make_excerpt(message.content, limit, tokenizer, terms)
        if limit < MIN_EXCERPT_TOKENS and text != message.content:
            continue  # it would say nothing; the answer gets its tokens
        excerpt = {"role": message.role, "content": text}
        if text and (tokens := tokenizer.count_message(excerpt)) <= left:
            left -= tokens
            messages.append(excerpt)
            whole += [message] if text == message.content else []
    return Tail(messages, whole, is_cut=True)


def add_older_turns(
    turns: Sequence[Sequence[Message]],
    tail: Tail,
    budget: PromptBudget,
    *,
    quoted: Collection[int],
    covered: int,
    tokenizer: PromptTokenizer,
) -> Tail:
    """Return the tail with older turns, as far as the budget has tokens left.

    So no turn that fits is missing between tail and recall. Turns that the brief covers, up to that seq, are not
    missing; nor is a turn all of whose messages are quoted.
    """
    shown = {message.seq for message in tail.whole}
    for turn in reversed(turns):
        if turn[0].seq in shown or all(message.seq in quoted for message in turn):
            continue
        if turn[-1].seq <= covered:
            break
        messages = [to_prompt_message(message) for message in turn]
        if not budget.take(sum(map(tokenizer.count_message, messages))):
            break
        tail = tail.after(turn, messages)
    return tail
