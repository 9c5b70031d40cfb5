"""When to fold older turns into the brief, and which. A trigger is a small strategy; several may be active.

Each says how many of the oldest uncompressed turns are due. What it keeps is always widened to a turn's border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class TurnSize:
    """What a trigger must know of a turn."""

    messages: int
    tokens: int
    answers: int  # messages of the assistant
    day: date  # the local date on which it began
    is_done: bool = True  # it ends with an answer, and no result of a tool is waited for


@dataclass(frozen=True, slots=True)
class Situation:
    """The uncompressed turns of a conversation, oldest first, and what stands before them."""

    turns: Sequence[TurnSize]
    brief_tokens: int
    system_tokens: int
    today: date

    @property
    def tokens(self) -> int:
        return self.brief_tokens + sum(turn.tokens for turn in self.turns)


class Trigger(Protocol):
    name: ClassVar[str]

    def due(self, now: Situation) -> int:
        """How many of the oldest turns to fold; 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class ManyMessages:
    """Document A: at so many uncompressed messages, all but the last few."""

    at: int = 5
    keep: int = 3
    name: ClassVar[str] = "messages"

    def due(self, now: Situation) -> int:
        total = sum(turn.messages for turn in now.turns)
        if total < self.at:
            return 0
        kept, turns = 0, 0
        for turn in reversed(now.turns):
            if kept >= self.keep:
                break
            kept, turns = kept + turn.messages, turns + 1
        return len(now.turns) - turns


@dataclass(frozen=True, slots=True)
class ManyTokens:
    """Document B: above so many tokens of system prompt, brief and messages, keep the newest turns that fit.

    Document A's variant gives `until`: then the oldest turns go until no more than that is left.
    """

    above: int = 3000
    keep: int = 2500
    until: int | None = None
    name: ClassVar[str] = "tokens"

    def due(self, now: Situation) -> int:
        total = now.system_tokens + now.tokens
        if total <= self.above or len(now.turns) < 2:
            return 0
        if self.until is not None:
            return self._oldest(now, total - self.until)
        kept, turns = 0, 0
        for turn in reversed(now.turns):
            if turns and kept + turn.tokens > self.keep:
                break
            kept, turns = kept + turn.tokens, turns + 1
        return len(now.turns) - turns

    def _oldest(self, now: Situation, excess: int) -> int:
        for place, turn in enumerate(now.turns[:-1]):
            if excess <= 0:
                return place
            excess -= turn.tokens
        return len(now.turns) - 1


@dataclass(frozen=True, slots=True)
class NewDay:
    """Document A: when the local date changes, what came before today."""

    name: ClassVar[str] = "day"

    def due(self, now: Situation) -> int:
        for place in range(_finished(now.turns), 0, -1):
            if now.turns[place - 1].day < now.today:
                return place
        return 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Document D: above so many tokens of brief and turns, all but the last few turns."""

    above: int = 6000
    keep: int = 3
    name: ClassVar[str] = "chunk"

    def due(self, now: Situation) -> int:
        return max(0, len(now.turns) - self.keep) if now.tokens > self.above else 0


@dataclass(frozen=True, slots=True)
class EveryAnswers:
    """Document E: after every so many answers. A turn that is not finished yet stays."""

    answers: int = 5
    name: ClassVar[str] = "answers"

    def due(self, now: Situation) -> int:
        if sum(turn.answers for turn in now.turns) < self.answers:
            return 0
        return _finished(now.turns)


def _finished(turns: Sequence[TurnSize]) -> int:
    """How many turns are over: all, or all but the newest."""
    return len(turns) if turns and turns[-1].is_done else max(0, len(turns) - 1)


def first_due(triggers: Sequence[Trigger], now: Situation) -> tuple[str, int]:
    """The trigger that asks for most, and how many turns; ("", 0) if none does."""
    due = [(trigger.due(now), trigger.name) for trigger in triggers]
    turns, name = max(due, key=lambda one: one[0], default=(0, ""))
    return (name, turns) if turns else ("", 0)


def within(turns: Sequence[TurnSize], due: int, tokens: int) -> int:
    """How many of the due turns are folded at once: as many as have so many tokens, but one at least.

    A history that was imported is thus folded in steps, each of a size that a model reads well.
    """
    total = 0
    for place, turn in enumerate(turns[:due]):
        total += turn.tokens
        if place and total > tokens:
            return place
    return due
