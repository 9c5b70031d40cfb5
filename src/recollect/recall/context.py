"""The prompt for a question: system prompt, recalled passages, the newest turns, the question; within a hard budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.core.errors import InvalidInput
from recollect.core.models import Context, JsonObject, Message
from recollect.core.protocols import Tokenizer
from recollect.core.turns import turns_of
from recollect.recall import fence
from recollect.recall.packing import Item, pack

SMALL: Final = 2000  # tokens; up to here recall comes first and the tail shrinks
SMALL_SHARE: Final = 0.9  # of what system prompt and question leave, for recall in a small budget
DEFAULT_RECALL: Final = 1000
LEFT_OUT: Final = 20  # passages left out that `explain` names
ROUNDS: Final = 3  # of filling what estimates left free
ELLIPSIS: Final = " […] "

Count = Callable[[Mapping[str, Any]], int]


@dataclass(slots=True)
class Room:
    """Tokens of the budget that are still free."""

    left: int

    def take(self, tokens: int) -> bool:
        if tokens > self.left:
            return False
        self.left -= tokens
        return True


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a context is made from. `newest` are the conversation's last messages in order, without the question."""

    conversation: str
    question: str
    system_prompt: str | None
    newest: Sequence[Message]
    items: Sequence[Item]
    why: Callable[[int], dict[str, float]]
    zone: str
    degraded: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    parts: list[JsonObject] = field(default_factory=list)
    left_out: list[JsonObject] = field(default_factory=list)

    def part(self, name: str, tokens: int, reason: str, items: Sequence[JsonObject] = ()) -> None:
        self.parts.append({"name": name, "tokens": tokens, "reason": reason, "items": list(items)})


def build(
    given: Ingredients, *, budget: int, turns: int, recall_budget: int, tokenizer: Tokenizer, count: Count
) -> Context:
    """The context. Its tokens never exceed the budget, whatever was stored or asked."""
    room, draft = Room(budget), _Draft()
    head = _system(given, room, count, draft)
    question = _question(given, room, tokenizer, count)
    asked = count(question)
    room.take(asked)
    share = _recall_share(budget, room.left, recall_budget)
    tail = _tail(given, Room(room.left - share), turns if budget > SMALL else 1, tokenizer, count)
    room.take(tail.tokens(count))
    takes_all = budget <= SMALL and recall_budget >= DEFAULT_RECALL  # what the tail left is free
    memory = _Packing(given, tokenizer, count)
    memory.leave_out(tail.whole)
    memory.fill(room.left if takes_all else share)
    room.take(memory.tokens)
    if tail.is_cut:  # perhaps less, with what recall left
        room.left += tail.tokens(count)
        tail = _tail(given, Room(room.left), turns if budget > SMALL else 1, tokenizer, count)
        room.take(tail.tokens(count))
    if not tail.is_cut:
        tail = _with_older(given, tail, memory.chosen, room, count)
    room.left += memory.tokens
    if memory.leave_out(tail.whole):  # nothing is said twice
        memory.fill(room.left if takes_all else min(share, room.left))
    room.take(memory.tokens)
    memory.explain(draft)
    draft.part(
        "tail",
        tail.tokens(count),
        "the newest turns, word for word",
        [{"message_id": message.id, "seq": message.seq} for message in tail.whole],
    )
    draft.part("question", asked, "what is asked now")
    fenced = [memory.message()] if memory.chosen else []
    messages = [*head, *fenced, *tail.messages, question]
    return Context(
        messages=tuple(messages),
        text=as_text(messages, fenced),
        tokens=sum(count(message) for message in messages),
        explain={"budget": budget, "parts": draft.parts, "left_out": draft.left_out},
        degraded=given.degraded,
    )


def as_text(messages: Sequence[JsonObject], fenced: Sequence[JsonObject]) -> str:
    """The same as one text, for models that take no list of messages."""
    return "\n\n".join(
        message["content"]
        if message["role"] == "system" or any(message is one for one in fenced)
        else f"{message['role']}: {fence.quoted(message['content'])}"
        for message in messages
    )


def _system(given: Ingredients, room: Room, count: Count, draft: _Draft) -> list[JsonObject]:
    if given.system_prompt is None:
        return []
    message: JsonObject = {"role": "system", "content": given.system_prompt}
    tokens = count(message)
    if not room.take(tokens):
        raise InvalidInput("budget_too_small", f"The system prompt alone takes {tokens} tokens of {room.left}.")
    draft.part("system_prompt", tokens, "given by the caller")
    return [message]


def _question(given: Ingredients, room: Room, tokenizer: Tokenizer, count: Count) -> JsonObject:
    """The question, whole if it fits in half of what is left (or in all of it, when nothing else is stored)."""
    message: JsonObject = {"role": "user", "content": given.question}
    frame = count({"role": "user", "content": ""})
    most = room.left if not (given.newest or given.items) else max(room.left // 2, min(room.left, 64))
    if count(message) <= most:
        return message
    if room.left <= frame:
        raise InvalidInput("budget_too_small", f"A question does not fit into {room.left} tokens.")
    return {"role": "user", "content": excerpt(given.question, most - frame, tokenizer)}


def _recall_share(budget: int, left: int, recall_budget: int) -> int:
    if budget > SMALL:
        return min(recall_budget, left)
    most = int(left * SMALL_SHARE)
    return most if recall_budget >= DEFAULT_RECALL else min(most, recall_budget)


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
class _Tail:
    """The newest turns as they stand in the prompt, and which stored messages stand there whole."""

    messages: Sequence[JsonObject] = ()
    whole: Sequence[Message] = ()
    is_cut: bool = False  # not even the newest turn fits

    def tokens(self, count: Count) -> int:
        return sum(map(count, self.messages))

    def after(self, turn: Sequence[Message], messages: Sequence[JsonObject]) -> _Tail:
        """With an older turn before it."""
        return _Tail((*messages, *self.messages), (*turn, *self.whole))


def _tail(given: Ingredients, room: Room, most: int, tokenizer: Tokenizer, count: Count) -> _Tail:
    """The newest turns that fit, at most `most`; of the very newest at least an excerpt."""
    tail = _Tail()
    for turn in reversed(turns_of(given.newest)[-most:]):
        messages = [as_message(message) for message in turn]
        if not room.take(sum(map(count, messages))):
            break
        tail = tail.after(turn, messages)
    if tail.messages or not given.newest:
        return tail
    return _excerpted(turns_of(given.newest)[-1], room, tokenizer, count)


def _excerpted(turn: Sequence[Message], room: Room, tokenizer: Tokenizer, count: Count) -> _Tail:
    """What was said last in a turn that is too long: the user's words and the answer, each cut to its share."""
    said = [message for message in turn if message.role == "user"][:1]
    said += [message for message in turn if message.role == "assistant" and message.content.strip()][-1:]
    found, whole = [], []
    for place, message in enumerate(said):
        frame = count({"role": message.role, "content": ""})
        text = excerpt(message.content, room.left // (len(said) - place) - frame, tokenizer)
        if text and room.take(count({"role": message.role, "content": text})):
            found.append({"role": message.role, "content": text})
            whole += [message] if text == message.content else []
    return _Tail(found, whole, is_cut=True)


def _with_older(given: Ingredients, tail: _Tail, chosen: Sequence[Item], room: Room, count: Count) -> _Tail:
    """Older turns too, as far as there is room: nothing that fits is left in a hole between tail and recall."""
    known = {message.seq for message in tail.whole}
    quoted = {item.message.seq for item in chosen if item.message.conversation == given.conversation}
    for turn in reversed(turns_of(given.newest)):
        if turn[0].seq in known:
            continue
        if all(message.seq in quoted for message in turn):
            continue
        messages = [as_message(message) for message in turn]
        if not room.take(sum(map(count, messages))):
            break
        tail = tail.after(turn, messages)
    return tail


class _Packing:
    """The recalled passages in their fence: chosen by score, told in the order of time.

    It is filled by estimates of what each quote adds, then with what the exact count shows to be left.
    """

    def __init__(self, given: Ingredients, tokenizer: Tokenizer, count: Count) -> None:
        self._given, self._tokenizer, self._count = given, tokenizer, count
        self._headings: set[fence.Heading] = set()
        self._lines: dict[tuple[int, int], int] = {}  # tokens of each item, counted once
        self.chosen: list[Item] = []
        self.left_out = sorted(given.items, key=lambda item: -item.score)

    def message(self) -> JsonObject:
        return {"role": "user", "content": fence.fenced(_told(self.chosen, self._given))}

    @property
    def tokens(self) -> int:
        return self._count(self.message()) if self.chosen else 0

    def leave_out(self, messages: Sequence[Message]) -> bool:
        """Quote nothing of these messages of the conversation. If anything of them was quoted, begin anew."""
        ids, own = {message.id for message in messages}, self._given.conversation

        def others(items: Sequence[Item]) -> list[Item]:
            return [one for one in items if one.message.id not in ids or one.message.conversation != own]

        kept, self.left_out = others(self.chosen), others(self.left_out)
        if len(kept) == len(self.chosen):
            return False
        self.left_out = sorted([*kept, *self.left_out], key=lambda item: -item.score)
        self.chosen, self._headings = [], set()
        return True

    def explain(self, draft: _Draft) -> None:
        if self.chosen:
            named = [_named(item, self._given) for item in self.chosen]
            draft.part("recall", self.tokens, "passages that bear on the question", named)
            draft.left_out += [_named(item, self._given) | {"reason": "no room"} for item in self.left_out[:LEFT_OUT]]

    def fill(self, budget: int) -> None:
        for _ in range(ROUNDS):
            used = self._count(self.message())
            before = len(self.chosen)
            new, self.left_out = pack(self.left_out, budget - used, self._cost, self._take)
            while new and self._count(self.message()) > budget:  # an estimate was too low
                dropped = new.pop()
                self.chosen.remove(dropped)
                self.left_out.append(dropped)
            if len(self.chosen) == before:
                break
        if self.chosen and self._count(self.message()) > budget:
            self.chosen = []

    def _heading(self, item: Item) -> fence.Heading:
        return fence.heading(item.message, self._given.zone, self._given.conversation)

    def _cost(self, item: Item) -> int:
        place, heading = (item.index, item.place), self._heading(item)
        if place not in self._lines:
            self._lines[place] = self._tokenizer.count(fence.line(item.message, item.text) + "\n")
        told = heading in self._headings
        return self._lines[place] + (0 if told else self._tokenizer.count(heading.text(heading.day.year) + "\n"))

    def _take(self, item: Item) -> None:
        self.chosen.append(item)
        self._headings.add(self._heading(item))


def _told(chosen: Sequence[Item], given: Ingredients) -> list[str]:
    """Quotes in the order of time, passages of one message together, under their day."""
    ordered = sorted(chosen, key=lambda i: (i.message.at, i.message.conversation, i.message.seq, i.place))
    lines: list[str] = []
    heading: fence.Heading | None = None
    last: Item | None = None
    for item in ordered:
        now = fence.heading(item.message, given.zone, given.conversation)
        if now != heading:
            lines.append(now.text(None if heading is None else heading.day.year))
            heading = now
        if (
            last is not None
            and last.message.id == item.message.id
            and last.message.conversation == item.message.conversation
        ):
            lines.append(fence.quoted(item.text))
        else:
            lines.append(fence.line(item.message, item.text))
        last = item
    return lines


def _named(item: Item, given: Ingredients) -> JsonObject:
    return {
        "message_id": item.message.id,
        "conversation": item.message.conversation,
        "seq": item.message.seq,
        "kind": item.kind,
        "score": round(item.score, 4),
        "why": {name: round(part, 4) for name, part in given.why(item.index).items()},
    }


def excerpt(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """The beginning and the end of a text, within so many tokens."""
    if tokens <= 0:
        return ""
    if tokenizer.count(text) <= tokens:
        return text
    low, high = 0, min(len(text), tokens * 12)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        if tokenizer.count(_ends(text, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return _ends(text, low) if low else ""


def _ends(text: str, characters: int) -> str:
    head = (characters + 1) * 2 // 3
    return text[:head] + ELLIPSIS + text[len(text) - (characters - head) :]
