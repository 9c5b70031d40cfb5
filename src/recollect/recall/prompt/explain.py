"""Explains a prompt: what each part costs and why it is there, and what was left out for which reason."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from recollect.core.compression.narrative import Statement
from recollect.core.models import JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import ledger
from recollect.recall.prompt.brief_section import BriefSection
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.layout import PromptLayout
from recollect.recall.prompt.ledger import RankedEntry
from recollect.recall.prompt.pack import Candidate
from recollect.recall.prompt.profile import RankedLine

log = logging.getLogger(__name__)

MAX_LEFT_OUT: Final = 20  # items of each kind that are named
MEMORY_PARTS: Final = ("profile", "important_data", "summary", "recall")  # parts that stand in the fence


@dataclass(slots=True)
class Explanation:
    """The parts of a prompt in their order, and what was left out."""

    parts: list[JsonObject] = field(default_factory=list)
    left_out: list[JsonObject] = field(default_factory=list)
    passages_left_out: int = 0  # all that had no room; `left_out` names the best

    def add_part(self, name: str, tokens: int, reason: str, items: Sequence[JsonObject] = ()) -> None:
        """Add a part. The tokens of all parts sum up to those of the prompt."""
        self.parts.append({"name": name, "tokens": tokens, "reason": reason, "items": list(items)})

    def correct_tokens(self, *, tail: int, total: int) -> None:
        """Set the tokens of the tail, and let the last part of memory make up the rest of the total.

        Messages that become one share their frame, so the parts alone sum up to a little more or less.
        """
        for part in self.parts:
            if part["name"] == "tail":
                part["tokens"] = tail
        memory = [part for part in self.parts if part["name"] in MEMORY_PARTS]
        if memory:
            memory[-1]["tokens"] += total - sum(part["tokens"] for part in self.parts)

    def to_dict(self, inputs: PromptInputs, budget: int) -> JsonObject:
        """Return the explanation as callers get it. `budget` is the one that the caller asked for."""
        version, through_seq = inputs.brief_version, inputs.summary.through_seq
        return {
            "budget": budget,
            "parts": self.parts,
            "left_out": self.left_out,
            "passages_left_out": self.passages_left_out,
            "brief": {"version": version, "through_seq": through_seq} if version else None,
            "topic": inputs.topic,
        }


def explain_layout(
    explanation: Explanation, inputs: PromptInputs, layout: PromptLayout, max_turns: int, tokenizer: PromptTokenizer
) -> None:
    """Add the parts that come from memory: profile, brief, quotes and tail. `max_turns` are those of a full tail."""
    section, quotes, tail = layout.section, layout.quotes, layout.tail
    _explain_section(explanation, section, tokenizer)
    unused_lines = [line for line in inputs.profile if line not in section.profile]
    explanation.left_out += [_describe_line(line) | {"reason": "no room"} for line in unused_lines[:MAX_LEFT_OUT]]
    if quotes.chosen:
        items = [_describe_candidate(candidate, inputs) for candidate in quotes.chosen]
        tokens = quotes.tokens - section.tokens(tokenizer)
        explanation.add_part("recall", tokens, "passages that bear on the question", items)
    explanation.passages_left_out = sum(candidate not in quotes.unworthy for candidate in quotes.left_out)
    explanation.left_out += [
        _describe_candidate(candidate, inputs)
        | {"reason": "less relevant" if candidate in quotes.unworthy else "no room"}
        for candidate in quotes.left_out[:MAX_LEFT_OUT]
    ]
    items = [{"message_id": message.id, "seq": message.seq} for message in tail.whole]
    explanation.add_part("tail", tail.tokens, "the newest turns, word for word", items)
    explanation.left_out += _describe_missing_turns(inputs, layout, max_turns)
    explanation.left_out += [
        {"message_id": message.id, "seq": message.seq, "kind": "turn", "reason": "a stored system message"}
        for message in [message for message in inputs.newest if message.role == "system"][-MAX_LEFT_OUT:]
    ]


def _explain_section(explanation: Explanation, section: BriefSection, tokenizer: PromptTokenizer) -> None:
    profile_tokens = BriefSection(section.profile).tokens(tokenizer)
    with_entries = BriefSection(section.profile, section.entries).tokens(tokenizer)
    if section.profile:
        items = [_describe_line(line) for line in section.profile]
        explanation.add_part("profile", profile_tokens, "told by the person, who consents", items)
    if section.entries:
        items = [_describe_entry(entry) for entry in section.entries]
        reason = "what must not be lost, as far as it may matter here"
        explanation.add_part("important_data", with_entries - profile_tokens, reason, items)
    if section.statements:
        items = [_describe_statement(statement) for statement in section.statements]
        tokens = section.tokens(tokenizer) - with_entries
        explanation.add_part("summary", tokens, "what came before the newest turns", items)
    explanation.left_out += [
        _describe_entry(entry)
        | {"reason": "no room" if entry.relevance >= ledger.MIN_SHOWN_RELEVANCE else "less relevant"}
        for entry in section.entries_left_out[:MAX_LEFT_OUT]
    ]
    if section.statements_left_out:
        reason = f"the summary was made shorter by {section.statements_left_out} statements"
        explanation.left_out.append({"kind": "summary", "reason": reason})
        log.info("context: summary shortened by %d statements", section.statements_left_out)


def _describe_missing_turns(inputs: PromptInputs, layout: PromptLayout, max_turns: int) -> list[JsonObject]:
    """Return the messages of the newest turns that are not in the prompt, and where they can be found."""
    shown = {message.seq for message in layout.tail.whole} | layout.quotes.quoted_seqs
    missing = [message for turn in inputs.turns[-max_turns:] for message in turn if message.seq not in shown]
    if missing:
        log.info("context: %d messages of the newest turns had no room", len(missing))
    covered = layout.covered_seq
    return [
        {
            "message_id": message.id,
            "seq": message.seq,
            "kind": "turn",
            "reason": "no room; in the brief" if message.seq <= covered else "no room; recall finds it",
        }
        for message in missing[-MAX_LEFT_OUT:]
    ]


def _describe_line(line: RankedLine) -> JsonObject:
    return {
        "message_id": None, "kind": "profile", "field": line.field, "text": line.text,
        "score": round(line.relevance, 4),
    }  # fmt: skip


def _describe_statement(statement: Statement) -> JsonObject:
    first = statement.sources[0] if statement.sources else None
    return {"message_id": first, "kind": "summary", "text": statement.text, "sources": list(statement.sources)}


def _describe_entry(ranked: RankedEntry) -> JsonObject:
    entry = ranked.entry
    return {
        "message_id": entry.sources[0] if entry.sources else None,
        "kind": entry.kind, "slot": entry.slot, "text": ranked.text, "sources": list(entry.sources),
        "trust": entry.trust, "score": round(ranked.relevance, 4),
    }  # fmt: skip


def _describe_candidate(candidate: Candidate, inputs: PromptInputs) -> JsonObject:
    return {
        "message_id": candidate.message.id,
        "conversation": candidate.message.conversation,
        "seq": candidate.message.seq,
        "kind": candidate.passage.kind,
        "type": "message" if candidate.is_whole else "passage",
        "score": round(candidate.score, 4),
        "why": inputs.explain_score(candidate.index),
    }
