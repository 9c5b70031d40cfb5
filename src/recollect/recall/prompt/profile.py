"""The profile in a prompt and among hits: chooses its lines by the words and the meaning of the question.

It gets the profile as consent allows: without consent that is an empty profile, and nothing is shown. Nothing of it is
kept in memory here, so nothing outlives a consent that is revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language import analyser
from recollect.core.models import Hit
from recollect.core.profile import Profile, comparable_lines, render_lines
from recollect.core.protocols import PromptTokenizer
from recollect.recall.message_texts import surely_exceeds
from recollect.recall.prompt import fence

MIN_HIT_RELEVANCE: Final = 0.25  # of a line that is a hit
MAX_HITS: Final = 3


@dataclass(frozen=True, slots=True)
class RankedLine:
    """A line of the profile. It is as relevant as the better of the two: words and meaning."""

    number: int  # its position in the profile
    field: str
    text: str
    word_share: float  # of the question's words
    similarity: float  # to the question, as a cosine; 0 if there are no vectors

    @property
    def relevance(self) -> float:
        return max(self.word_share, self.similarity)


def rank_lines(profile: Profile, question: str, similarities: Sequence[float] = ()) -> list[RankedLine]:
    """Return the lines of a profile, most relevant first. `similarities` has the cosine of each, if there are any."""
    question_words = set(analyser.words(question))
    lines = render_lines(profile)
    ranked = []
    for number, (line, text) in enumerate(zip(lines, comparable_lines(profile), strict=True)):
        shared = question_words.intersection(analyser.words(text))
        word_share = len(shared) / len(question_words) if question_words else 0.0
        similarity = similarities[number] if len(similarities) == len(lines) else 0.0
        ranked.append(RankedLine(number, line.field, line.text, word_share, similarity))
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


def find_profile_hits(profile: Profile, question: str, similarities: Sequence[float] = ()) -> list[Hit]:
    """Return the lines of a profile that bear on the question, by its words or its meaning, as hits."""
    at = profile.updated_at
    if at is None:
        return []
    ranked = rank_lines(profile, question, similarities)
    best = [line for line in ranked if line.relevance >= MIN_HIT_RELEVANCE][:MAX_HITS]
    return [Hit(None, "", None, "user", line.text, at, line.relevance, "profile", _explain(line)) for line in best]


def _explain(line: RankedLine) -> dict[str, float]:
    """Return the part that made a line relevant."""
    by_words = line.word_share >= line.similarity
    return {"bm25": line.word_share} if by_words else {"dense": line.similarity}
