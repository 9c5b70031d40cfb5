"""The prompt for a question: system prompt, profile, what the brief holds, recalled passages, newest turns, question.

Within a hard budget, whatever was stored or asked. What gives way first: the oldest turns of the tail, down to one;
then the brief, which is made anew to fit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from recollect.core.compression.brief import Brief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Shorter, Statement
from recollect.core.errors import InvalidInput
from recollect.core.models import Context, JsonObject, Message
from recollect.core.protocols import PromptTokenizer
from recollect.core.turns import turns_of
from recollect.recall.prompt import fence, ledger
from recollect.recall.prompt.excerpts import Asked, excerpt
from recollect.recall.prompt.ledger import Worthy
from recollect.recall.prompt.pack import Item, exceeds
from recollect.recall.prompt.profile import Told, fitting, section
from recollect.recall.prompt.quotes import Memory, fence_tokens
from recollect.recall.prompt.tail import Room, Tail, as_message, newest_turns, with_older

log = logging.getLogger(__name__)

SMALL: Final = 2000  # tokens; up to here recall comes first and the tail shrinks
SMALL_TAIL: Final = 0.07  # of what system prompt and question leave is kept for the tail in a small budget,
SMALL_TAIL_LEAST: Final = 20  # and not fewer tokens, which would say nothing,
SMALL_TAIL_MOST: Final = 100  # but no more tokens than these, unless recall leaves more
PROFILE_SHARE: Final = 0.1  # of what system prompt and question leave, for what the person told of themselves,
PROFILE_MOST: Final = 200  # but no more tokens than these,
SMALL_PROFILE_MOST: Final = 60  # and in a small budget a few lines
SMALL_DATA: Final = 0.04  # and so much of it for what always matters,
SMALL_DATA_LEAST: Final = 20  # enough for an allergy and whose it is
SMALL_DATA_MOST: Final = 40  # but no more tokens than these; the rest of the brief gets what is free
DATA_SHARE: Final = 0.5  # of the brief's budget for the ledger
DEFAULT_RECALL: Final = 1000
WORTH_GROWING: Final = 60  # tokens that are free
LEAST_LINE: Final = 4  # tokens that an entry has at least
SHORTER: Final = 32  # narratives of one brief that are remembered
LEFT_OUT: Final = 20  # things left out that `explain` names, of each kind


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings allow each part."""

    turns: int
    recall: int
    brief: int


@dataclass(frozen=True)
class Ingredients:
    """What a context is made from. `newest` are the conversation's last messages in order, without the question."""

    conversation: str
    question: str
    system_prompt: str | None
    newest: Sequence[Message]
    items: Sequence[Item]
    why: Callable[[int], dict[str, float]]
    zone: str
    brief: Brief | None = None
    entries: Sequence[Entry] = ()  # of the ledger, with what was said since the brief
    liked: Callable[[int], float] = lambda _: 0.0  # how well recall liked the message at a seq, from 0 to 1
    degraded: tuple[str, ...] = ()
    shorter: Shorter = field(default_factory=dict)
    topic: JsonObject | None = None  # the active one: its id and title
    profile: Sequence[Told] = ()  # by relevance; none without consent

    @cached_property
    def ranked(self) -> list[Worthy]:
        """The entries by what they are worth for the question."""
        return ledger.weigh(self.entries, self.question, self.liked, self.zone)

    @cached_property
    def turns(self) -> list[list[Message]]:
        return turns_of(self.newest)

    @property
    def covered(self) -> int:
        """Up to which seq the brief tells."""
        return 0 if self.brief is None else self.brief.through_seq


@dataclass(slots=True)
class _Draft:
    parts: list[JsonObject] = field(default_factory=list)
    left_out: list[JsonObject] = field(default_factory=list)

    def part(self, name: str, tokens: int, reason: str, items: Sequence[JsonObject] = ()) -> None:
        self.parts.append({"name": name, "tokens": tokens, "reason": reason, "items": list(items)})


def build(given: Ingredients, *, budget: int, limits: Limits, tokenizer: PromptTokenizer) -> Context:
    """The context. Neither its messages nor its text ever exceed the budget."""
    room = budget
    while True:
        made = _build(given, budget, room, limits, tokenizer)
        excess = tokenizer.count(made.text) - budget
        if excess <= 0:
            return made
        room -= excess  # what was quoted in the text made it longer than the messages


def _build(given: Ingredients, wanted: int, budget: int, limits: Limits, tokenizer: PromptTokenizer) -> Context:
    room, draft = Room(budget), _Draft()
    head = _system(given, room, tokenizer, draft)
    question = _question(given, room, tokenizer)
    asked = tokenizer.count_message(question)
    room.take(asked)
    share = _recall_share(budget, room.left, limits.recall)
    profile = _profile(given, budget, room.left, tokenizer)
    left = room.left - profile.tokens(tokenizer)
    brief = replace(_brief(given, budget, left, share, limits, tokenizer), profile=profile.profile)
    memory = Memory(given.items, brief.lines, conversation=given.conversation, zone=given.zone, tokenizer=tokenizer)
    tail, brief = _filled(given, room, memory, brief, budget, share, limits, tokenizer)
    brief.explain(draft, tokenizer)
    left_out = [one for one in given.profile if one not in brief.profile]
    draft.left_out += [_line(one) | {"reason": "no room"} for one in left_out[:LEFT_OUT]]
    if memory.chosen:
        named = [_named(item, given) for item in memory.chosen]
        tokens = memory.tokens - brief.tokens(tokenizer)
        draft.part("recall", tokens, "passages that bear on the question", named)
    draft.left_out += [_named(item, given) | {"reason": "no room"} for item in memory.left_out[:LEFT_OUT]]
    draft.part(
        "tail",
        tail.tokens(tokenizer),
        "the newest turns, word for word",
        [{"message_id": message.id, "seq": message.seq} for message in tail.whole],
    )
    draft.left_out += _outside(given, tail, memory.chosen, limits.turns, given.covered if brief.statements else 0)
    whole = question["content"] == given.question
    draft.part("question", asked, "what is asked now" if whole else "what is asked now, cut: it does not fit")
    fenced = [] if memory.is_empty else [memory.message()]
    messages = [*head, *fenced, *tail.messages, question]
    return Context(
        messages=tuple(messages),
        text=as_text(head, fenced, [*tail.messages, question], headed=bool(brief.lines)),
        tokens=sum(tokenizer.count_message(message) for message in messages),
        explain={
            "budget": wanted,
            "parts": draft.parts,
            "left_out": draft.left_out,
            "brief": _version(given.brief),
            "topic": given.topic,
        },
        degraded=given.degraded,
    )


def _filled(
    given: Ingredients,
    room: Room,
    memory: Memory,
    brief: _Brief,
    budget: int,
    share: int,
    limits: Limits,
    tokenizer: PromptTokenizer,
) -> tuple[Tail, _Brief]:
    """The tail, and what the brief tells beside it; the memory is filled with quotes."""
    takes_all = budget <= SMALL and limits.recall >= DEFAULT_RECALL  # what the tail left is free
    base = memory.tokens  # of the brief
    asked = Asked(given.question)

    def newest(free: Room, turns: int, told: Collection[int] = ()) -> Tail:
        return newest_turns(given.turns, free, turns, told=told, asked=asked, tokenizer=tokenizer)

    def most() -> int:
        return room.left if takes_all else min(share + base, room.left)

    # In a small budget the brief comes at the tail's expense, not at recall's.
    told = base if not takes_all else max(0, base - fence_tokens((), tokenizer))
    free = max(room.left - share - told, min(SMALL_TAIL_LEAST, room.left // 8))
    tail = newest(Room(free), limits.turns if budget > SMALL else 1)
    room.take(tail.tokens(tokenizer))
    memory.leave_out(tail.whole)
    memory.fill(most())
    room.take(memory.tokens)
    if tail.is_cut:  # perhaps less, with what recall left; the turn itself, if it would quote all of it anyway
        room.left += tail.tokens(tokenizer)
        quoted = memory.whole
        is_quoted = all(message.seq in quoted for message in given.turns[-1])
        tail = newest(Room(room.left + memory.tokens - base if is_quoted else room.left), 1, quoted)
        room.left += memory.tokens - tail.tokens(tokenizer)
        memory.leave_out(tail.whole)
        memory.fill(most())
        room.take(memory.tokens)
    if budget <= SMALL:
        brief = _grown(given, brief, memory, room, limits, tokenizer)
    if not tail.is_cut:
        quoted = {item.message.seq for item in memory.chosen if item.message.conversation == given.conversation}
        covered = given.covered if brief.statements else 0
        tail = with_older(given.turns, tail, room, quoted=quoted, covered=covered, tokenizer=tokenizer)
    room.left += memory.tokens
    brief = brief.without({message.seq for message in tail.whole})  # nothing is said twice
    memory.before = brief.lines
    if memory.leave_out(tail.whole):
        memory.fill(most())
    room.take(memory.tokens)
    return tail, brief


def _grown(
    given: Ingredients,
    brief: _Brief,
    memory: Memory,
    room: Room,
    limits: Limits,
    tokenizer: PromptTokenizer,
) -> _Brief:
    """In a small budget the brief gets what evidence leaves free."""
    before = memory.tokens
    cap = min(limits.brief, replace(brief, profile=()).tokens(tokenizer) + room.left)
    if room.left < WORTH_GROWING:
        return brief
    larger = _with_entries(given.ranked, int(cap * DATA_SHARE), ledger.WORTH_TELLING, tokenizer)
    if given.brief is not None:
        larger = _with_narrative(given, given.brief, larger, cap, tokenizer)
    larger = replace(larger, profile=brief.profile)
    memory.before = larger.lines
    if not room.take(memory.tokens - before):
        memory.before = brief.lines
        return brief
    return larger


def as_text(
    head: Sequence[JsonObject], fenced: Sequence[JsonObject], talk: Sequence[JsonObject], *, headed: bool
) -> str:
    """The same as one text, for models that take no list of messages."""
    said = [f"{message['role']}: {fence.in_turn(message['content'])}" for message in talk]
    if headed and len(said) > 1:
        said[0] = f"{fence.RECENT}\n{said[0]}"
    return "\n\n".join([message["content"] for message in (*head, *fenced)] + said)


def _system(given: Ingredients, room: Room, tokenizer: PromptTokenizer, draft: _Draft) -> list[JsonObject]:
    if given.system_prompt is None:
        return []
    message: JsonObject = {"role": "system", "content": given.system_prompt}
    tokens = tokenizer.count_message(message)
    if not room.take(tokens):
        raise InvalidInput("budget_too_small", f"The system prompt alone takes {tokens} tokens of {room.left}.")
    draft.part("system_prompt", tokens, "given by the caller")
    return [message]


def _question(given: Ingredients, room: Room, tokenizer: PromptTokenizer) -> JsonObject:
    """The question, whole if it fits at all. If not, it leaves half of the room to the rest, if there is any."""
    message: JsonObject = {"role": "user", "content": given.question}
    frame = tokenizer.count_message({"role": "user", "content": ""})
    if tokenizer.count_message(message) <= room.left:
        return message
    if room.left <= frame:
        raise InvalidInput("budget_too_small", f"A question does not fit into {room.left} tokens.")
    most = room.left if not (given.newest or given.items) else max(room.left // 2, min(room.left, 64))
    return {"role": "user", "content": excerpt(given.question, most - frame, tokenizer)}


def _recall_share(budget: int, left: int, recall_budget: int) -> int:
    if budget > SMALL:
        return min(recall_budget, left)
    most = left - min(int(left * SMALL_TAIL), SMALL_TAIL_MOST)
    return most if recall_budget >= DEFAULT_RECALL else min(most, recall_budget)


# What stands before the quotes: the profile and the brief.


def _profile(given: Ingredients, budget: int, left: int, tokenizer: PromptTokenizer) -> _Brief:
    most = PROFILE_MOST if budget > SMALL else SMALL_PROFILE_MOST
    return _Brief(profile=fitting(given.profile, min(int(left * PROFILE_SHARE), most), tokenizer))


@dataclass(frozen=True)
class _Brief:
    """What of the brief stands in the prompt, behind the lines of the profile, and what does not."""

    profile: Sequence[Told] = ()
    data: Sequence[Worthy] = ()
    statements: Sequence[Statement] = ()
    data_left_out: Sequence[Worthy] = ()
    statements_left_out: int = 0

    @cached_property
    def lines(self) -> list[str]:
        return [*section(self.profile), *ledger.lines(self.data, self.statements)]

    def without(self, seqs: Collection[int]) -> _Brief:
        """Without entries of these messages."""
        return replace(self, data=[one for one in self.data if one.entry.seq not in seqs])

    def tokens(self, tokenizer: PromptTokenizer) -> int:
        return fence_tokens(self.lines, tokenizer) if self.lines else 0

    def explain(self, draft: _Draft, tokenizer: PromptTokenizer) -> None:
        profile = _Brief(self.profile).tokens(tokenizer)
        alone = _Brief(self.profile, self.data).tokens(tokenizer)
        if self.profile:
            draft.part("profile", profile, "told by the person, who consents", [_line(one) for one in self.profile])
        if self.data:
            items = [_entry(one) for one in self.data]
            draft.part("important_data", alone - profile, "what must not be lost, as far as it may matter here", items)
        if self.statements:
            items = [_statement(one) for one in self.statements]
            draft.part("summary", self.tokens(tokenizer) - alone, "what came before the newest turns", items)
        draft.left_out += [
            _entry(one) | {"reason": "no room" if one.worth >= ledger.WORTH_TELLING else "less relevant"}
            for one in self.data_left_out[:LEFT_OUT]
        ]
        if self.statements_left_out:
            reason = f"the summary was made shorter by {self.statements_left_out} statements"
            draft.left_out.append({"kind": "summary", "reason": reason})
            log.info("context: summary shortened by %d statements", self.statements_left_out)


def _line(one: Told) -> JsonObject:
    return {"message_id": None, "kind": "profile", "field": one.field, "text": one.text, "score": round(one.worth, 4)}


def _statement(one: Statement) -> JsonObject:
    first = one.sources[0] if one.sources else None
    return {"message_id": first, "kind": "summary", "text": one.text, "sources": list(one.sources)}


def _entry(one: Worthy) -> JsonObject:
    entry = one.entry
    return {
        "message_id": entry.sources[0] if entry.sources else None,
        "kind": entry.kind, "slot": entry.slot, "text": one.text, "sources": list(entry.sources),
        "trust": entry.trust, "score": round(one.worth, 4),
    }  # fmt: skip


def _brief(
    given: Ingredients, budget: int, left: int, share: int, limits: Limits, tokenizer: PromptTokenizer
) -> _Brief:
    """Entries by relevance, then as much of the narrative as fits."""
    turns = given.turns
    if budget <= SMALL:
        obeys = any(message.role == "assistant" and not message.name for message in given.newest)  # people do not
        standing = [one for one in given.ranked if one.always_matters]
        standing = [one for one in standing if obeys or one.entry.slot not in ledger.ORDERS]
        vital = any(one.entry.slot not in ledger.ORDERS for one in standing)
        least = SMALL_DATA_LEAST if vital and left >= 8 * SMALL_DATA_LEAST else 0  # with its frame it must fit
        cap = min(max(int(left * SMALL_DATA), least), SMALL_DATA_MOST, limits.brief)
        return _with_entries(standing, cap, ledger.WORTH_TELLING, tokenizer)
    newest = sum(tokenizer.count_message(as_message(message)) for message in turns[-1]) if turns else 0
    cap = min(limits.brief, max(0, left - share - min(newest, left // 3)))
    data = _with_entries(given.ranked, int(cap * DATA_SHARE), ledger.WORTH_TELLING, tokenizer)
    return data if given.brief is None else _with_narrative(given, given.brief, data, cap, tokenizer)


def _with_narrative(given: Ingredients, brief: Brief, data: _Brief, cap: int, tokenizer: PromptTokenizer) -> _Brief:
    """As much of the narrative as the entries leave room for."""
    heading = tokenizer.count("\n".join(fence.background("")))
    rest = cap - heading - (data.tokens(tokenizer) if data.lines else fence_tokens((), tokenizer))
    statements = _narrative(given, brief, rest, tokenizer)
    while True:
        left_out = len(brief.statements) - len(statements)
        found = _Brief((), data.data, statements, data.data_left_out, left_out)
        if not statements or found.tokens(tokenizer) <= cap:
            return found
        statements = statements[:-1]  # an estimate was too low


def _narrative(given: Ingredients, brief: Brief, most: int, tokenizer: PromptTokenizer) -> Sequence[Statement]:
    """Made once for each room: from question to question it is nearly the same."""
    place = (tokenizer.name, given.zone, most)
    found = given.shorter.get(place)
    if found is None:
        found = ledger.fitting(brief, most, tokenizer.count, given.zone)
        if len(given.shorter) >= SHORTER:
            given.shorter.clear()
        given.shorter[place] = found
    return found


def _with_entries(ranked: Sequence[Worthy], cap: int, worth: float, tokenizer: PromptTokenizer) -> _Brief:
    """The entries that are worth it and fit, best first; and the heading must fit too."""
    left = cap - tokenizer.count_line(fence.DATA)
    data, others = [], []
    for one in ranked:
        fits = one.worth >= worth and left >= LEAST_LINE and not exceeds(one.text, left)
        tokens = tokenizer.count_line(fence.bullet(one.text)) if fits else 0
        if fits and tokens <= left:
            left -= tokens
            data.append(one)
        else:
            others.append(one)
    return _Brief((), data, (), others)


def _version(brief: Brief | None) -> JsonObject | None:
    """Of the brief that tells; none where only the active topic does."""
    return {"version": brief.version, "through_seq": brief.through_seq} if brief is not None and brief.version else None


# What was left out.


def _outside(given: Ingredients, tail: Tail, chosen: Sequence[Item], turns: int, covered: int) -> list[JsonObject]:
    """Messages of the newest turns that are not in the prompt, and where they can be found."""
    inside = {message.seq for message in tail.whole}
    inside |= {item.message.seq for item in chosen if item.message.conversation == given.conversation}
    wanted = [message for turn in given.turns[-turns:] for message in turn if message.seq not in inside]
    if wanted:
        log.info("context: %d messages of the newest turns had no room", len(wanted))
    return [
        {
            "message_id": message.id,
            "seq": message.seq,
            "kind": "turn",
            "reason": "no room; in the brief" if message.seq <= covered else "no room; recall finds it",
        }
        for message in wanted[-LEFT_OUT:]
    ]


def _named(item: Item, given: Ingredients) -> JsonObject:
    return {
        "message_id": item.message.id,
        "conversation": item.message.conversation,
        "seq": item.message.seq,
        "kind": item.piece.kind,
        "score": round(item.score, 4),
        "why": given.why(item.index),
    }
