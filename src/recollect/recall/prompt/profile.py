"""The profile in a prompt and among hits: chooses its lines by the words of the question.

It gets the profile as consent allows: without consent that is an empty profile, and nothing is shown. Nothing of it is
kept in memory here, so nothing outlives a consent that is revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language import analyser
from recollect.core.models import Hit
from recollect.core.profile import NOTES, Profile, render_lines
from recollect.core.protocols import PromptTokenizer
from recollect.recall.message_texts import surely_exceeds
from recollect.recall.prompt import fence

MIN_HIT_RELEVANCE: Final = 0.25  # share of the question's words that a line must have to be a hit
MAX_HITS: Final = 3


@dataclass(frozen=True, slots=True)
class RankedLine:
    """A line of the profile. `relevance` is the share of the question's words that it has."""

    number: int  # its position in the profile
    field: str
    text: str
    relevance: float


def rank_lines(profile: Profile, question: str) -> list[RankedLine]:
    """Return the lines of a profile, most relevant first."""
    question_words = set(analyser.words(question))
    ranked = []
    for number, line in enumerate(render_lines(profile)):
        text = line.text.partition(": ")[2] if line.field == NOTES else line.text  # every note begins with its label
        shared = question_words.intersection(analyser.words(text))
        relevance = len(shared) / len(question_words) if question_words else 0.0
        ranked.append(RankedLine(number, line.field, line.text, relevance))
    return sorted(ranked, key=lambda line: (-line.relevance, line.number))


def fit_lines(ranked: Sequence[RankedLine], max_tokens: int, tokenizer: PromptTokenizer) -> list[RankedLine]:
    """Return the most relevant lines that fit with their heading, in the order of the profile."""
    left = max_tokens - tokenizer.count_line(fence.PROFILE_HEADING) if ranked else 0
    chosen = []
    for line in ranked:
        tokens = left + 1 if surely_exceeds(line.text, left) else tokenizer.count_line(fence.render_bullet(line.text))
        if tokens <= left:
            left -= tokens
            chosen.append(line)
    return sorted(chosen, key=lambda line: line.number)


def render_section(lines: Sequence[RankedLine]) -> list[str]:
    """Return the lines of the fence for a profile, with their heading."""
    return [fence.PROFILE_HEADING, *(fence.render_bullet(line.text) for line in lines)] if lines else []


def find_profile_hits(profile: Profile, question: str) -> list[Hit]:
    """Return the lines of a profile that have enough words of the question, as hits."""
    if profile.updated_at is None:
        return []
    best = [line for line in rank_lines(profile, question) if line.relevance >= MIN_HIT_RELEVANCE][:MAX_HITS]
    at = profile.updated_at
    return [
        Hit(None, "", None, "user", line.text, at, line.relevance, "profile", {"bm25": line.relevance}) for line in best
    ]
