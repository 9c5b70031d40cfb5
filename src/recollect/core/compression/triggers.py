"""The rules for when to compress, and how many turns. A trigger is a small strategy; several may be active.

Each trigger counts how many of the oldest uncompressed turns are due. A turn is compressed whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Final, Protocol

# Shares of the threshold of `ManyTokens`:
LEFT_SHARE: Final = 1 / 3  # so much is left after a compression, unless the settings name a number
MAX_LEFT_SHARE: Final = 1 / 2  # more is never left: the next compression would be due after a few turns
MIN_TURNS_SHARE: Final = 0.6  # turns may always have so much, however long system prompt and brief are


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
    """The uncompressed turns of a conversation, oldest first, and the tokens that stand before them in a prompt.

    `next_brief_tokens` are those that the next version of the brief is expected to have.
    """

    turns: Sequence[TurnSize]
    brief_tokens: int
    system_tokens: int
    today: date
    next_brief_tokens: int = 0

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

    What is left, with system prompt and the next brief, has at most `until` tokens: by default a third of `above`, and
    never more than half of it. So a compression makes room for many turns. Without that, 2500 kept tokens and a brief
    of 900 would be above 3000 again at once, and every turn would be compressed. The newest turn always stays. The
    preset `sessions` uses this trigger.
    """

    above: int = 3000
    keep: int = 2500
    until: int | None = None
    name: ClassVar[str] = "tokens"

    def count_due(self, situation: Situation) -> int:
        """Return how many of the oldest turns to compress; 0 for none."""
        turn_tokens = sum(turn.tokens for turn in situation.turns)
        before_turns = situation.system_tokens + situation.brief_tokens
        if turn_tokens <= max(self.above - before_turns, int(self.above * MIN_TURNS_SHARE)):
            return 0
        limit = self._max_kept(situation)
        kept_tokens, kept_turns = 0, 0
        for turn in reversed(situation.turns):
            if kept_turns and kept_tokens + turn.tokens > limit:
                break
            kept_tokens, kept_turns = kept_tokens + turn.tokens, kept_turns + 1
        return len(situation.turns) - kept_turns

    def _max_kept(self, situation: Situation) -> int:
        """Return the tokens of turns that may be kept; below 0 if system prompt and brief have too many already."""
        left = int(self.above * LEFT_SHARE) if self.until is None else min(self.until, int(self.above * MAX_LEFT_SHARE))
        brief_tokens = max(situation.brief_tokens, situation.next_brief_tokens)
        return min(self.keep, left - situation.system_tokens - brief_tokens)


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
