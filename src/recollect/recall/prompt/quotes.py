"""The fence of a prompt: the section of profile and brief, then recalled passages, chosen by score, shown by time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.message import Message
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.alternation import BETWEEN
from recollect.recall.prompt.pack import Candidate, pack_candidates

MAX_FILL_ROUNDS: Final = 3  # rounds that fill the tokens which estimates left free


class QuotedPassages:
    """The fenced message of a prompt: the lines before the quotes, and the quotes.

    It is filled by estimates of what each quote adds, then with the tokens that the exact count shows to be left.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        lines_before: Sequence[str],
        *,
        conversation: str,
        zone: str,
        tokenizer: PromptTokenizer,
        min_worth: float,
    ) -> None:
        self._conversation, self._zone, self._tokenizer = conversation, ZoneInfo(zone), tokenizer
        self.lines_before, self._min_worth = lines_before, min_worth
        self._headings: set[fence.Heading] = set()  # of the chosen passages
        self._heading_by_index: dict[int, fence.Heading] = {}
        self._rendered: list[Candidate] = []  # those that `_quote_lines` show
        self._quote_lines: list[str] = []
        self.chosen: list[Candidate] = []
        self.unworthy: set[Candidate] = set()  # of those left out: they would fit, but bring too little
        self.left_out = sorted(candidates, key=attrgetter("score"), reverse=True)

    def block(self) -> str:
        """Return the fence as one text; "" if there is nothing in it."""
        return "" if self.is_empty else fence.render_fence(self._lines())

    def _lines(self) -> list[str]:
        if self._rendered != self.chosen:
            self._rendered, self._quote_lines = list(self.chosen), self._render_quotes()
        between = [fence.QUOTES_HEADING] if self._quote_lines and self.lines_before else []
        return [*self.lines_before, *between, *self._quote_lines]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to put into the fence."""
        return not (self.chosen or self.lines_before)

    @property
    def tokens(self) -> int:
        """Return the tokens that the fence adds to a prompt; 0 if there is none."""
        return 0 if self.is_empty else self._count()

    def _count(self) -> int:
        return count_fence(self._lines(), self._tokenizer)

    def leave_out(self, messages: Sequence[Message]) -> bool:
        """Quote nothing of these messages. If something of them was quoted, drop all quotes and return True.

        The messages are those of the conversation asked about.
        """
        ids, conversation = {message.id for message in messages}, self._conversation

        def keep_others(candidates: Sequence[Candidate]) -> list[Candidate]:
            return [
                candidate
                for candidate in candidates
                if candidate.message.id not in ids or candidate.message.conversation != conversation
            ]

        remaining, self.left_out = keep_others(self.chosen), keep_others(self.left_out)
        if len(remaining) == len(self.chosen):
            return False
        self.left_out = sorted([*remaining, *self.left_out], key=attrgetter("score"), reverse=True)
        self.chosen, self._headings = [], set()
        return True

    @property
    def whole_seqs(self) -> set[int]:
        """Return the seqs of the conversation's messages that are quoted from beginning to end."""
        return {
            candidate.message.seq
            for candidate in self.chosen
            if candidate.is_whole and candidate.message.conversation == self._conversation
        }

    @property
    def quoted_seqs(self) -> set[int]:
        """Return the seqs of the conversation's messages of which anything is quoted."""
        return {
            candidate.message.seq for candidate in self.chosen if candidate.message.conversation == self._conversation
        }

    def fill(self, max_tokens: int) -> None:
        """Choose quotes, as many as fit, so that the whole fence stays within so many tokens."""
        used = self._count()
        for _ in range(MAX_FILL_ROUNDS):
            new, self.left_out = pack_candidates(
                self.left_out, max_tokens - used, self._estimate, self._choose, self._is_worth
            )
            if not new:
                break
            while (used := self._count()) > max_tokens and new:  # an estimate was too low
                dropped = new.pop()
                self.chosen.remove(dropped)
                self.left_out.append(dropped)
            if not new:
                break
        if self.chosen and used > max_tokens:
            self.chosen = []

    def _heading_of(self, candidate: Candidate) -> fence.Heading:
        heading = self._heading_by_index.get(candidate.index)
        if heading is None:
            heading = fence.to_heading(candidate.message, self._zone, self._conversation)
            self._heading_by_index[candidate.index] = heading
        return heading

    def _estimate(self, candidate: Candidate) -> int:
        """Return the tokens that a quote adds, with its heading if that is new."""
        heading, tokens = self._heading_of(candidate), self._tokenizer.count_line(candidate.passage.line)
        if heading in self._headings:
            return tokens
        return tokens + self._tokenizer.count_line(heading.text(heading.day.year))

    def _is_worth(self, candidate: Candidate, tokens: int) -> bool:
        """Return whether a quote brings enough relevance for its tokens."""
        if candidate.relevance is None or candidate.relevance >= self._min_worth * tokens:
            self.unworthy.discard(candidate)
            return True
        self.unworthy.add(candidate)
        return False

    def _choose(self, candidate: Candidate) -> None:
        self.chosen.append(candidate)
        self._headings.add(self._heading_of(candidate))

    def _render_quotes(self) -> list[str]:
        """Return the quotes in the order of time under headings; passages of one message together."""
        by_time = sorted(
            self.chosen, key=lambda c: (c.message.at, c.message.conversation, c.message.seq, c.passage_index)
        )
        lines: list[str] = []
        heading: fence.Heading | None = None
        for _, candidates in groupby(by_time, key=lambda c: (c.message.conversation, c.message.id)):
            first, *others = candidates
            own = self._heading_of(first)
            if own != heading:
                lines.append(own.text(None if heading is None else heading.day.year))
                heading = own
            if others:
                text = "\n".join(candidate.passage.text for candidate in (first, *others))
                lines.append(fence.render_quote(first.message, text))
            else:
                lines.append(first.passage.line)
        return lines


def count_fence(lines: Sequence[str], tokenizer: PromptTokenizer) -> int:
    """Return the tokens that a fence with these lines adds to a message."""
    return tokenizer.count_lines(fence.frame_lines(lines)) + tokenizer.count(BETWEEN)
