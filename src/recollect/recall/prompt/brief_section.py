"""The section of a prompt before the quotes: lines of the profile, entries of the ledger, and the narrative."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from recollect.core.compression.narrative import Length, NarrativeForm, Statement
from recollect.core.compression.summary import Summary
from recollect.core.protocols import PromptTokenizer
from recollect.recall.message_texts import surely_exceeds
from recollect.recall.prompt import fence, ledger
from recollect.recall.prompt.budget import PromptBudget, PromptLimits
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.ledger import RankedEntry
from recollect.recall.prompt.profile import RankedLine, fit_lines, render_section
from recollect.recall.prompt.quotes import QuotedPassages, count_fence
from recollect.recall.prompt.tail import to_prompt_message
from recollect.recall.prompt.talk_tokens import count_talk

MIN_ENTRY_TOKENS: Final = 4  # no entry has fewer
CACHED_NARRATIVES: Final = 32  # shorter forms of one narrative that are kept


@dataclass(frozen=True)
class BriefSection:
    """The chosen lines of profile, ledger and narrative, and those that were left out of the brief."""

    profile: Sequence[RankedLine] = ()
    entries: Sequence[RankedEntry] = ()
    statements: Sequence[Statement] = ()
    entries_left_out: Sequence[RankedEntry] = ()
    statements_left_out: int = 0
    form: NarrativeForm = "prose"

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines of the fence."""
        return [*render_section(self.profile), *ledger.render_lines(self.entries, self.statements, self.form)]

    def without_messages(self, seqs: Collection[int]) -> BriefSection:
        """Return the section without entries of these messages."""
        return replace(self, entries=[ranked for ranked in self.entries if ranked.entry.seq not in seqs])

    def tokens(self, tokenizer: PromptTokenizer) -> int:
        """Return the tokens of a fence with this section alone; 0 if it is empty."""
        return count_fence(self.lines, tokenizer) if self.lines else 0


def choose_section(
    inputs: PromptInputs, budget: PromptBudget, tokenizer: PromptTokenizer, *, tail_is_taken: bool = False
) -> BriefSection:
    """Choose the lines of the profile and the parts of the brief. It leaves room for the newest turn, unless taken.

    A small budget gets only entries that always matter here. More of the brief may follow in `grow_section`.
    """
    profile = fit_lines(inputs.profile, budget.profile_limit(), tokenizer)
    profile_tokens = BriefSection(profile=profile).tokens(tokenizer)
    if budget.is_small:
        section = _choose_vital_entries(inputs, budget, profile_tokens, tokenizer)
    else:
        newest_turn = inputs.turns[-1] if inputs.turns and not tail_is_taken else ()
        messages = [to_prompt_message(message, named_roles=inputs.named_roles) for message in newest_turn]
        turn_tokens = count_talk(messages, tokenizer)
        section = _choose_brief(inputs, budget, budget.brief_limit(profile_tokens, turn_tokens), tokenizer)
    return replace(section, profile=profile)


def count_brief_tokens(summary: Summary, *, max_tokens: int, zone: str, tokenizer: PromptTokenizer) -> int:
    """Return what a brief costs in a large prompt, with its fence; 0 if it shows nothing.

    It is a prompt whose question prefers no entry of the ledger, so that all entries which always count are shown.
    """
    inputs = PromptInputs(
        conversation="",
        question="",
        system_prompt=None,
        newest=(),
        candidates=(),
        explain_score=lambda _: {},
        zone=zone,
        summary=summary,
        ledger=summary.entries,
    )
    budget = PromptBudget(max_tokens, PromptLimits(tail_turns=1, recall_tokens=0, brief_tokens=max_tokens))
    return _choose_brief(inputs, budget, max_tokens, tokenizer).tokens(tokenizer)


def grow_section(
    inputs: PromptInputs,
    section: BriefSection,
    quotes: QuotedPassages,
    budget: PromptBudget,
    tokenizer: PromptTokenizer,
) -> BriefSection:
    """Return a larger section for a small budget, with tokens that the quotes left free. Puts it before the quotes."""
    if not budget.can_grow():
        return section
    tokens_before = quotes.tokens
    limit = budget.grown_brief_limit(replace(section, profile=()).tokens(tokenizer))
    larger = replace(_choose_brief(inputs, budget, limit, tokenizer), profile=section.profile)
    quotes.lines_before = larger.lines
    if not budget.take(quotes.tokens - tokens_before):
        quotes.lines_before = section.lines
        return section
    return larger


def _choose_vital_entries(
    inputs: PromptInputs, budget: PromptBudget, profile_tokens: int, tokenizer: PromptTokenizer
) -> BriefSection:
    """Choose entries that always matter. Instructions count only if an assistant answers here: people do not obey."""
    has_assistant = any(message.role == "assistant" and not message.name for message in inputs.newest)
    vital = [
        ranked
        for ranked in inputs.ranked_entries
        if ranked.always_matters and (has_assistant or ranked.entry.slot not in ledger.INSTRUCTION_SLOTS)
    ]
    has_facts = any(ranked.entry.slot not in ledger.INSTRUCTION_SLOTS for ranked in vital)
    return _fit_entries(vital, budget.vital_entries_limit(profile_tokens, has_facts=has_facts), tokenizer)


def _choose_brief(inputs: PromptInputs, budget: PromptBudget, limit: int, tokenizer: PromptTokenizer) -> BriefSection:
    """Choose entries by relevance, then as much of the narrative as fits."""
    section = _fit_entries(inputs.ranked_entries, budget.entries_limit(limit), tokenizer)
    return _with_narrative(inputs, section, limit, tokenizer) if inputs.summary.statements else section


def _fit_entries(ranked: Sequence[RankedEntry], max_tokens: int, tokenizer: PromptTokenizer) -> BriefSection:
    """Choose the entries that are relevant and fit with their heading, most relevant first."""
    left = max_tokens - tokenizer.count_line(fence.LEDGER_HEADING)
    chosen, left_out = [], []
    for entry in ranked:
        may_fit = (
            entry.relevance >= ledger.MIN_SHOWN_RELEVANCE
            and left >= MIN_ENTRY_TOKENS
            and not surely_exceeds(entry.text, left)
        )
        tokens = tokenizer.count_line(fence.render_bullet(entry.text)) if may_fit else 0
        if may_fit and tokens <= left:
            left -= tokens
            chosen.append(entry)
        else:
            left_out.append(entry)
    return BriefSection(entries=chosen, entries_left_out=left_out)


def _with_narrative(
    inputs: PromptInputs, section: BriefSection, limit: int, tokenizer: PromptTokenizer
) -> BriefSection:
    """Return the section with as much of the narrative as the entries leave tokens for."""
    heading = tokenizer.count("\n".join(fence.render_summary("")))
    used = section.tokens(tokenizer) if section.lines else count_fence((), tokenizer)
    statements = _shorten_narrative(inputs, limit - heading - used, tokenizer)
    while True:
        left_out = len(inputs.summary.statements) - len(statements)
        larger = replace(section, statements=statements, statements_left_out=left_out, form=inputs.summary.form)
        if not statements or larger.tokens(tokenizer) <= limit:
            return larger
        statements = statements[:-1]  # an estimate was too low


def _shorten_narrative(inputs: PromptInputs, max_tokens: int, tokenizer: PromptTokenizer) -> Sequence[Statement]:
    """Return the statements that fit. They are cached by length: questions ask for the same lengths again."""
    key = (tokenizer.name, inputs.zone, max_tokens)
    statements = inputs.shorter.get(key)
    if statements is None:
        length = Length(0, max_tokens, tokenizer.count, inputs.summary.form)
        statements = ledger.fit_statements(inputs.summary.statements, length, inputs.zone)
        if len(inputs.shorter) >= CACHED_NARRATIVES:
            inputs.shorter.clear()
        inputs.shorter[key] = statements
    return statements
