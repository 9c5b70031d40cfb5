"""The rules for when to compress, and how many turns. A trigger is a small strategy; several may be active.

Each trigger counts how many of the oldest uncompressed turns are due. A turn is compressed whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class TurnSize:
    """The sizes of a turn that triggers decide by."""

    messages: int
    tokens: int
    answers: int  # messages of the assistant
    day: date  # local date of its first message
    is_done: bool = True  # it ends with an answer, and no tool result is missing


@dataclass(frozen=True, slots=True)
class Situation:
    """The uncompressed turns of a conversation, oldest first, and the tokens that stand before them in a prompt."""

    turns: Sequence[TurnSize]
    brief_tokens: int
    system_tokens: int
    today: date

    @property
    def tokens(self) -> int:
        """Return the tokens of the brief and the turns, without the system prompt."""
        return self.brief_tokens + sum(turn.tokens for turn in self.turns)


class Trigger(Protocol):
    """A rule that decides whether older turns must be compressed now."""

    name: ClassVar[str]

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class ManyMessages:
    """Fires at `at` uncompressed messages. Keeps the newest turns that hold at least `keep` messages.

    The preset `compact` uses it.
    """

    at: int = 5
    keep: int = 3
    name: ClassVar[str] = "messages"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        total = sum(turn.messages for turn in situation.turns)
        if total < self.at:
            return 0
        kept_messages, kept_turns = 0, 0
        for turn in reversed(situation.turns):
            if kept_messages >= self.keep:
                break
            kept_messages, kept_turns = kept_messages + turn.messages, kept_turns + 1
        return len(situation.turns) - kept_turns


@dataclass(frozen=True, slots=True)
class ManyTokens:
    """Fires above `above` tokens of system prompt, brief and messages. Keeps the newest turns within `keep` tokens.

    With `until`, the oldest turns go instead until at most that many tokens are left in all.
    The newest turn always stays. The preset `sessions` uses this trigger.
    """

    above: int = 3000
    keep: int = 2500
    until: int | None = None
    name: ClassVar[str] = "tokens"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        total = situation.system_tokens + situation.tokens
        if total <= self.above or len(situation.turns) < 2:
            return 0
        if self.until is not None:
            return self._count_oldest(situation, total - self.until)
        kept_tokens, kept_turns = 0, 0
        for turn in reversed(situation.turns):
            if kept_turns and kept_tokens + turn.tokens > self.keep:
                break
            kept_tokens, kept_turns = kept_tokens + turn.tokens, kept_turns + 1
        return len(situation.turns) - kept_turns

    def _count_oldest(self, situation: Situation, excess_tokens: int) -> int:
        """Return how many of the oldest turns must go to remove the excess; never all of them."""
        for index, turn in enumerate(situation.turns[:-1]):
            if excess_tokens <= 0:
                return index
            excess_tokens -= turn.tokens
        return len(situation.turns) - 1


@dataclass(frozen=True, slots=True)
class NewDay:
    """Fires when the local date changes. Compresses the finished turns that began before today."""

    name: ClassVar[str] = "day"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        for count in range(_count_finished(situation.turns), 0, -1):
            if situation.turns[count - 1].day < situation.today:
                return count
        return 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Fires above `above` tokens of brief and turns. Keeps the newest `keep` turns.

    The system prompt does not count. The preset `briefs` uses this trigger.
    """

    above: int = 6000
    keep: int = 3
    name: ClassVar[str] = "chunk"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        return max(0, len(situation.turns) - self.keep) if situation.tokens > self.above else 0


@dataclass(frozen=True, slots=True)
class EveryAnswers:
    """Fires after every `answers` answers. Compresses all finished turns. The preset `recall` uses it."""

    answers: int = 5
    name: ClassVar[str] = "answers"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        if sum(turn.answers for turn in situation.turns) < self.answers:
            return 0
        return _count_finished(situation.turns)


def _count_finished(turns: Sequence[TurnSize]) -> int:
    """Return the number of finished turns: all, or all but the newest."""
    return len(turns) if turns and turns[-1].is_done else max(0, len(turns) - 1)


def largest_due(triggers: Sequence[Trigger], situation: Situation) -> tuple[str, int]:
    """Return the name of the trigger with most turns due, and their number; ("", 0) if nothing is due."""
    counts = [(trigger.count_due(situation), trigger.name) for trigger in triggers]
    turns, name = max(counts, key=lambda count: count[0], default=(0, ""))
    return (name, turns) if turns else ("", 0)


def count_turns_in_step(turns: Sequence[TurnSize], due: int, max_tokens: int) -> int:
    """Return how many of the `due` oldest turns to compress in one step: those within `max_tokens`, but at least one.

    An imported history is thus compressed in several steps, each of a size that a model reads well.
    """
    total = 0
    for index, turn in enumerate(turns[:due]):
        total += turn.tokens
        if index and total > max_tokens:
            return index
    return due
