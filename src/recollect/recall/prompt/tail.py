"""The tail: the newest turns word for word, as a prompt has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.budget import PromptBudget
from recollect.recall.prompt.excerpts import QueryTerms, make_excerpt
from recollect.recall.prompt.talk_tokens import TalkCounter, count_talk

MIN_EXCERPT_TOKENS: Final = 10  # a shorter excerpt would say nothing


def to_prompt_message(message: Message, content: str | None = None, *, named_roles: Collection[str]) -> JsonObject:
    """Return a stored message as an API takes it, perhaps with other content.

    Calls belong to the assistant alone, and the id of a call to a tool's result: whatever else was stored with them
    stays in the log. Of the roles in `named_roles` several people speak, so their messages begin with their names.
    """
    text = message.content if content is None else content
    if message.name and message.role in named_roles:
        text = fence.render_speech(message, text)
    result: JsonObject = {"role": message.role, "content": text}
    if message.role == "assistant" and message.tool_calls and content is None:
        result["tool_calls"] = list(message.tool_calls)
    if message.role == "tool" and message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    return result


def find_named_roles(messages: Sequence[Message]) -> frozenset[str]:
    """Return the roles in which several people speak. Messages of one role may become one, which must say who spoke."""
    speakers = {(message.role, message.name) for message in messages if message.role in ("user", "assistant")}
    roles = [role for role, _ in speakers]
    return frozenset(role for role in roles if roles.count(role) > 1)


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest turns as the prompt has them."""

    messages: Sequence[JsonObject] = ()  # one by one; `alternate` puts them into the prompt
    shown: Sequence[Message] = ()  # the stored message of each of them
    whole: Sequence[Message] = ()  # those of the stored messages that are in the prompt uncut
    tokens: int = 0  # of all messages, in the form that they have in a prompt before the question
    is_cut: bool = False  # not even the newest turn fits

    def after(self, turns: Sequence[PromptTurn], tokens: int) -> Tail:
        """Return the tail with older turns before it, the newest of them first. All have so many tokens."""
        if not turns:
            return self
        oldest_first = turns[::-1]
        messages = [message for turn in oldest_first for message in turn.messages]
        stored = [message for turn in oldest_first for message in turn.stored]
        return Tail([*messages, *self.messages], [*stored, *self.shown], [*stored, *self.whole], tokens)


class PromptTurn(NamedTuple):
    """A turn as it is stored, and as a prompt has it."""

    stored: Sequence[Message]
    messages: Sequence[JsonObject]

    @classmethod
    def of(cls, turn: Sequence[Message], named_roles: Collection[str]) -> PromptTurn:
        """Return a turn whose messages are whole."""
        return cls(turn, [to_prompt_message(message, named_roles=named_roles) for message in turn])


def take_newest_turns(
    turns: Sequence[Sequence[Message]],
    max_tokens: int,
    max_turns: int,
    *,
    quoted: Collection[int],
    terms: QueryTerms,
    tokenizer: PromptTokenizer,
    named_roles: Collection[str],
) -> Tail:
    """Return the newest turns that fit. If not even the newest fits, return excerpts of it.

    `quoted` are seqs of messages that are quoted whole elsewhere; they are not excerpted.
    """
    counter, tokens = TalkCounter(tokenizer), 0
    taken: list[PromptTurn] = []
    for stored in reversed(turns[-max_turns:]):
        turn = PromptTurn.of(stored, named_roles)
        if counter.put_before(turn.messages) > max_tokens:
            break
        taken.append(turn)
        tokens = counter.tokens
    if taken or not turns:
        return Tail().after(taken, tokens)
    excerpted = [message for message in turns[-1] if message.seq not in quoted]
    return _excerpt_turn(excerpted, max_tokens, terms, tokenizer, named_roles)


def _excerpt_turn(
    turn: Sequence[Message],
    max_tokens: int,
    terms: QueryTerms,
    tokenizer: PromptTokenizer,
    named_roles: Collection[str],
) -> Tail:
    """Return the user's message and the last answer of a turn that is too long, each cut to its share; or one."""
    asked = [message for message in turn if message.role == "user"][:1]
    answered = [message for message in turn if message.role == "assistant" and message.content.strip()][-1:]
    tails = (
        _excerpt_messages(chosen, max_tokens, terms, tokenizer, named_roles)
        for chosen in ((*asked, *answered), answered, asked)
    )
    return next((tail for tail in tails if tail.messages), Tail(is_cut=True))


def _excerpt_messages(
    chosen: Sequence[Message],
    max_tokens: int,
    terms: QueryTerms,
    tokenizer: PromptTokenizer,
    named_roles: Collection[str],
) -> Tail:
    messages: list[JsonObject] = []
    shown: list[Message] = []
    whole: list[Message] = []
    for number, message in enumerate(chosen):
        used = count_talk(messages, tokenizer)
        frame = count_talk([*messages, to_prompt_message(message, "", named_roles=named_roles)], tokenizer) - used
        limit = (max_tokens - used) // (len(chosen) - number) - frame
        text = make_excerpt(message.content, limit, tokenizer, terms)
        if limit < MIN_EXCERPT_TOKENS and text != message.content:
            continue  # it would say nothing; the next one gets its tokens
        excerpt = to_prompt_message(message, text, named_roles=named_roles)
        if text and count_talk([*messages, excerpt], tokenizer) <= max_tokens:
            messages.append(excerpt)
            shown.append(message)
            whole += [message] if text == message.content else []
    return Tail(messages, shown, whole, count_talk(messages, tokenizer), is_cut=True)


def add_older_turns(
    turns: Sequence[Sequence[Message]],
    tail: Tail,
    budget: PromptBudget,
    *,
    quoted: Collection[int],
    covered: int,
    tokenizer: PromptTokenizer,
    named_roles: Collection[str],
) -> Tail:
    """Return the tail with older turns, as far as the budget has tokens left.

    So no turn that fits is missing between tail and recall. Turns that the brief covers, up to that seq, are not
    missing; nor is a turn all of whose messages are quoted.
    """
    shown = {message.seq for message in tail.whole}
    counter, tokens = TalkCounter(tokenizer, tail.messages), tail.tokens
    added: list[PromptTurn] = []
    for stored in reversed(turns):
        if stored[0].seq in shown or all(message.seq in quoted for message in stored):
            continue
        if stored[-1].seq <= covered:
            break
        turn = PromptTurn.of(stored, named_roles)
        if not budget.take(counter.put_before(turn.messages) - tokens):
            break
        added.append(turn)
        tokens = counter.tokens
    return tail.after(added, tokens)
