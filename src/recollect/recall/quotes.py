"""Recalled passages in a prompt: chosen by score, told in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from recollect.core.models import JsonObject, Message
from recollect.core.protocols import Tokenizer
from recollect.recall import fence
from recollect.recall.packing import Item, pack
from recollect.recall.tail import Count

ROUNDS: Final = 3  # of filling what estimates left free


class Memory:
    """What stands in the fence: the lines of the brief, and quotes.

    It is filled by estimates of what each quote adds, then with what the exact count shows to be left.
    """

    def __init__(
        self,
        items: Sequence[Item],
        before: Sequence[str],
        *,
        conversation: str,
        zone: str,
        tokenizer: Tokenizer,
        count: Count,
    ) -> None:
        self._conversation, self._zone = conversation, zone
        self._tokenizer, self._count = tokenizer, count
        self.before = before
        self._headings: set[fence.Heading] = set()
        self._known: dict[int, fence.Heading] = {}  # of each message,
        self._lines: dict[tuple[int, str], str] = {}  # and its passages, told
        self._quoted: list[Item] = []  # what `_quotes` tell
        self._quotes: list[str] = []
        self.chosen: list[Item] = []
        self.left_out = sorted(items, key=lambda item: -item.score)

    def message(self) -> JsonObject:
        if self._quoted != self.chosen:
            self._quoted, self._quotes = list(self.chosen), self._told()
        quotes = self._quotes
        between = [fence.RECALLED] if quotes and self.before else []
        return {"role": "user", "content": fence.fenced([*self.before, *between, *quotes])}

    @property
    def is_empty(self) -> bool:
        return not (self.chosen or self.before)

    @property
    def tokens(self) -> int:
        return 0 if self.is_empty else self._count(self.message())

    def leave_out(self, messages: Sequence[Message]) -> bool:
        """Quote nothing of these messages of the conversation. If anything of them was quoted, begin anew."""
        ids, own = {message.id for message in messages}, self._conversation

        def others(items: Sequence[Item]) -> list[Item]:
            return [one for one in items if one.message.id not in ids or one.message.conversation != own]

        kept, self.left_out = others(self.chosen), others(self.left_out)
        if len(kept) == len(self.chosen):
            return False
        self.left_out = sorted([*kept, *self.left_out], key=lambda item: -item.score)
        self.chosen, self._headings = [], set()
        return True

    @property
    def whole(self) -> set[int]:
        """The messages of the conversation that are quoted from beginning to end."""
        quoted = [item.message for item in self.chosen if item.text.strip() == item.message.content.strip()]
        return {message.seq for message in quoted if message.conversation == self._conversation}

    def fill(self, budget: int) -> None:
        """Quotes, as far as the whole stays within so many tokens."""
        used = self._count(self.message())
        for _ in range(ROUNDS):
            new, self.left_out = pack(self.left_out, budget - used, self._cost, self._take)
            if not new:
                break
            while (used := self._count(self.message())) > budget and new:  # an estimate was too low
                dropped = new.pop()
                self.chosen.remove(dropped)
                self.left_out.append(dropped)
            if not new:
                break
        if self.chosen and used > budget:
            self.chosen = []

    def _heading(self, item: Item) -> fence.Heading:
        if item.index not in self._known:
            self._known[item.index] = fence.heading(item.message, self._zone, self._conversation)
        return self._known[item.index]

    def _line(self, item: Item, text: str) -> str:
        place = (item.index, text)
        if place not in self._lines:
            self._lines[place] = fence.line(item.message, text)
        return self._lines[place]

    def _cost(self, item: Item) -> int:
        heading, tokens = self._heading(item), self._tokenizer.count(self._line(item, item.text) + "\n")
        told = heading in self._headings
        return tokens + (0 if told else self._tokenizer.count(heading.text(heading.day.year) + "\n"))

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
            lines.append(self._line(first, "\n".join(item.text for item in (first, *others))))
        return lines
