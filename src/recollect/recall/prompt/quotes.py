"""Recalled passages in a prompt: chosen by score, told in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.models import JsonObject, Message
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.pack import Item, pack

ROUNDS: Final = 3  # of filling what estimates left free


class Memory:
    """What stands in the fence: the lines of the brief, and quotes.

    It is filled by estimates of what each quote adds, then with what the exact count shows to be left.
    """

    def __init__(
        self, items: Sequence[Item], before: Sequence[str], *, conversation: str, zone: str, tokenizer: PromptTokenizer
    ) -> None:
        self._conversation, self._zone, self._tokenizer = conversation, ZoneInfo(zone), tokenizer
        self.before = before
        self._headings: set[fence.Heading] = set()
        self._known: dict[int, fence.Heading] = {}  # of each message
        self._quoted: list[Item] = []  # what `_quotes` tell
        self._quotes: list[str] = []
        self.chosen: list[Item] = []
        self.left_out = sorted(items, key=attrgetter("score"), reverse=True)

    def message(self) -> JsonObject:
        return {"role": "user", "content": fence.fenced(self._lines())}

    def _lines(self) -> list[str]:
        if self._quoted != self.chosen:
            self._quoted, self._quotes = list(self.chosen), self._told()
        between = [fence.RECALLED] if self._quotes and self.before else []
        return [*self.before, *between, *self._quotes]

    @property
    def is_empty(self) -> bool:
        return not (self.chosen or self.before)

    @property
    def tokens(self) -> int:
        return 0 if self.is_empty else self._used()

    def _used(self) -> int:
        return fence_tokens(self._lines(), self._tokenizer)

    def leave_out(self, messages: Sequence[Message]) -> bool:
        """Quote nothing of these messages of the conversation. If anything of them was quoted, begin anew."""
        ids, own = {message.id for message in messages}, self._conversation

        def others(items: Sequence[Item]) -> list[Item]:
            return [one for one in items if one.message.id not in ids or one.message.conversation != own]

        kept, self.left_out = others(self.chosen), others(self.left_out)
        if len(kept) == len(self.chosen):
            return False
        self.left_out = sorted([*kept, *self.left_out], key=attrgetter("score"), reverse=True)
        self.chosen, self._headings = [], set()
        return True

    @property
    def whole(self) -> set[int]:
        """The messages of the conversation that are quoted from beginning to end."""
        quoted = [item.message for item in self.chosen if item.piece.text.strip() == item.message.content.strip()]
        return {message.seq for message in quoted if message.conversation == self._conversation}

    def fill(self, budget: int) -> None:
        """Quotes, as far as the whole stays within so many tokens."""
        used = self._used()
        for _ in range(ROUNDS):
            new, self.left_out = pack(self.left_out, budget - used, self._cost, self._take)
            if not new:
                break
            while (used := self._used()) > budget and new:  # an estimate was too low
                dropped = new.pop()
                self.chosen.remove(dropped)
                self.left_out.append(dropped)
            if not new:
                break
        if self.chosen and used > budget:
            self.chosen = []

    def _heading(self, item: Item) -> fence.Heading:
        found = self._known.get(item.index)
        if found is None:
            found = self._known[item.index] = fence.heading(item.message, self._zone, self._conversation)
        return found

    def _cost(self, item: Item) -> int:
        heading, tokens = self._heading(item), self._tokenizer.count_line(item.piece.line)
        told = heading in self._headings
        return tokens + (0 if told else self._tokenizer.count_line(heading.text(heading.day.year)))

    def _take(self, item: Item) -> None:
        self.chosen.append(item)
        self._headings.add(self._heading(item))

    def _told(self) -> list[str]:
        """Quotes in the order of time, passages of one message together, under their day."""
        ordered = sorted(self.chosen, key=lambda i: (i.message.at, i.message.conversation, i.message.seq, i.place))
        lines: list[str] = []
        heading: fence.Heading | None = None
        for _, passages in groupby(ordered, key=lambda i: (i.message.conversation, i.message.id)):
            first, *others = passages
            now = self._heading(first)
            if now != heading:
                lines.append(now.text(None if heading is None else heading.day.year))
                heading = now
            if others:
                said = "\n".join(item.piece.text for item in (first, *others))
                lines.append(fence.line(first.message, said))
            else:
                lines.append(first.piece.line)
        return lines


def fence_tokens(lines: Sequence[str], tokenizer: PromptTokenizer) -> int:
    """What the fence around these lines takes as a message."""
    return tokenizer.count_message({"role": "user", "content": ""}) + tokenizer.count_lines(fence.framed(lines))
