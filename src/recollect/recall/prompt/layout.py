"""Divides a prompt's budget among the tail, the memory section (profile, ledger, narrative) and the quotes."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from typing import Final

from recollect.core.compression.summary import Summary
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt.brief_section import choose_section, grow_section
from recollect.recall.prompt.budget import PromptBudget
from recollect.recall.prompt.excerpts import QueryTerms
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.quotes import QuotedPassages, count_fence
from recollect.recall.prompt.tail import Tail, add_older_turns, take_newest_turns, to_prompt_message
from recollect.recall.prompt.talk_tokens import count_talk

MAX_CHARACTERS_PER_TOKEN: Final = 6  # a conversation with more for each token of the budget is not tried whole


def choose_layout(inputs: PromptInputs, budget: PromptBudget, tokenizer: PromptTokenizer) -> PromptLayout:
    """Return the layout of a prompt. A short conversation is shown without its summary if that is not longer.

    So a compression never makes a prompt longer. Word for word is better than a summary at the same price.
    """
    without_summary: PromptLayout | None = None
    characters = sum(len(message.content) for message in inputs.newest)
    is_short = characters <= MAX_CHARACTERS_PER_TOKEN * budget.left
    if inputs.is_whole and inputs.brief_version and inputs.summary.statements and is_short:
        without_summary = PromptLayout(replace(inputs, summary=Summary()), copy(budget), tokenizer)
    layout = PromptLayout(inputs, budget, tokenizer)
    if without_summary is None or not without_summary.shows_all or without_summary.tokens > layout.tokens:
        return layout
    return without_summary


class PromptLayout:
    """The tail, the memory section and the quotes of one prompt, fitted to each other.

    System prompt and question have taken their tokens before. The section is chosen first, but its tokens are taken
    with the quotes: both are in one fence.
    """

    def __init__(self, inputs: PromptInputs, budget: PromptBudget, tokenizer: PromptTokenizer) -> None:
        self._inputs, self._budget, self._tokenizer = inputs, budget, tokenizer
        self.tail = Tail()
        self._has_whole_tail = self._take_tail_first()
        self.section = choose_section(inputs, budget, tokenizer, tail_is_taken=self._has_whole_tail)
        self.quotes = QuotedPassages(
            inputs.candidates,
            self.section.lines,
            conversation=inputs.conversation,
            zone=inputs.zone,
            tokenizer=tokenizer,
            min_worth=budget.min_quote_worth(),
        )
        self._section_tokens = self.quotes.tokens  # no quote is chosen yet, so this is the section alone
        self._terms = QueryTerms(inputs.question)
        self._arrange()

    @property
    def covered_seq(self) -> int:
        """Return the last seq that the narrative in the prompt covers; 0 without one."""
        return self._inputs.summary.through_seq if self.section.statements else 0

    @property
    def tokens(self) -> int:
        """Return the tokens of all parts."""
        return self.quotes.tokens + self.tail.tokens

    @property
    def shows_all(self) -> bool:
        """Return whether every message is in the prompt, word for word."""
        shown = {message.seq for message in self.tail.whole} | self.quotes.whole_seqs
        return all(message.seq in shown for message in self._inputs.newest)

    def _arrange(self) -> None:
        budget = self._budget
        if not self._has_whole_tail:
            self._begin_tail()
        self._fill_quotes()
        if self.tail.is_cut:
            self._refit_cut_tail()
        if budget.is_small:
            self.section = grow_section(self._inputs, self.section, self.quotes, budget, self._tokenizer)
        if not self.tail.is_cut:
            self._add_older_turns()
        self._drop_repetitions()

    def _take_tail_first(self) -> bool:
        """Take all turns of the tail before anything else of memory, where the settings want that and they fit."""
        limits = self._budget.limits
        turns = self._inputs.turns[-limits.tail_turns :] if limits.tail_first else ()
        messages = [message for turn in turns for message in turn]
        shown = [to_prompt_message(message, named_roles=self._inputs.named_roles) for message in messages]
        tokens = count_talk(shown, self._tokenizer)
        if not messages or not self._budget.take_tail_first(tokens):
            return False
        self.tail = Tail(shown, messages, messages, tokens)
        return True

    def _begin_tail(self) -> None:
        reserved = self._section_tokens
        if self._budget.recall_takes_rest:  # recall pays for the fence; the tail pays only for the section's lines
            reserved = max(0, reserved - count_fence((), self._tokenizer))
        self.tail = self._take_turns(self._budget.tail_limit(reserved), self._budget.tail_turns())
        self._budget.take(self.tail.tokens)

    def _take_turns(self, max_tokens: int, max_turns: int, quoted: Collection[int] = ()) -> Tail:
        return take_newest_turns(
            self._inputs.turns,
            max_tokens,
            max_turns,
            quoted=quoted,
            terms=self._terms,
            tokenizer=self._tokenizer,
            named_roles=self._inputs.named_roles,
        )

    def _fill_quotes(self) -> None:
        self.quotes.leave_out(self.tail.whole)
        self.quotes.fill(self._budget.fence_limit(self._section_tokens))
        self._budget.take(self.quotes.tokens)

    def _refit_cut_tail(self) -> None:
        """Cut the newest turn less, with the tokens that recall left.

        If recall quotes every message of the turn, give the quotes' tokens to the tail.
        """
        budget = self._budget
        budget.give_back(self.tail.tokens)
        quoted = self.quotes.whole_seqs
        limit = budget.left
        if all(message.seq in quoted for message in self._inputs.turns[-1]):
            limit += self.quotes.tokens - self._section_tokens  # give the quotes' tokens to the tail
        self.tail = self._take_turns(limit, 1, quoted)
        budget.give_back(self.quotes.tokens)
        budget.take(self.tail.tokens)
        self._fill_quotes()

    def _add_older_turns(self) -> None:
        self.tail = add_older_turns(
            self._inputs.turns,
            self.tail,
            self._budget,
            quoted=self.quotes.quoted_seqs,
            covered=self.covered_seq,
            tokenizer=self._tokenizer,
            named_roles=self._inputs.named_roles,
        )

    def _drop_repetitions(self) -> None:
        """Drop entries and quotes of messages that the tail shows. Fill the tokens of dropped quotes with others."""
        self._budget.give_back(self.quotes.tokens)
        self.section = self.section.without_messages({message.seq for message in self.tail.whole})
        self.quotes.lines_before = self.section.lines
        if self.quotes.leave_out(self.tail.whole):
            self.quotes.fill(self._budget.fence_limit(self._section_tokens))
        self._budget.take(self.quotes.tokens)
