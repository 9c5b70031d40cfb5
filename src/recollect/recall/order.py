"""Orders candidates by a learned sum: weights for the features of each, found on several sets of conversations.

Every weight belongs to a part of `why`, so the parts still add up to the score. The weights are in `order_weights`, and
docs/benchmarks.md says on what they were found and how they do on sets that they were not found on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.recall import order_weights, relevance, scoring
from recollect.recall.features import CandidateFacts, Indices
from recollect.recall.relevance import Floor, Relevance
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import Floats, QueryFeatures, ScorePart, Scores

MIN_CANDIDATES: Final = 120  # best by the plain sum
ARM_CANDIDATES: Final = 60  # best of each single arm
UNKNOWN: Final = Relevance(0.0, np.empty(0, np.float32))
# The part of `why` that each feature counts for. The feature `sum` counts for the parts of the plain sum.
PARTS: Final = {
    "dense": ("nearest", "first", "average", "nearest_lead", "dense_lead", "nearest_solo", "first_solo"),
    "bm25": ("coverage", "sure_coverage", "led_coverage", "full_coverage"),
    "neighbours": ("nearest_before", "nearest_after", "words_before", "words_after", "coverage_around"),
    "session": ("session_nearest", "session_coverage", "session_rank", "session_gap"),
    "speaker": ("speaker",),
    "date": ("date",),
    "code": ("code",),
    "role": ("brief", "brief_asked", "brief_surely_asked", "long", "long_asked"),
    "substance": ("few_words", "some_words", "many_words", "passages"),
    "statement": ("asks", "asked_asks", "first_person", "name", "time", "number", "preference"),
    "answer": (
        "when_date", "when_time", "how_many_number", "where_name", "who_name", "advice_preference", "now_change",
        "now_new",
    ),
    "instruction": ("instruction", "near_instruction", "advice_instruction"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ordered:
    """Candidates, ascending by index, with the parts of each one's score and how surely each bears on the question."""

    candidates: Indices
    parts: Mapping[str, Floats]
    relevance: Relevance

    def with_part(self, name: str, part: ScorePart) -> Ordered:
        """Return the candidates with one more part, which is given for all messages of the scope."""
        return replace(self, parts={**self.parts, name: part.weighted()[self.candidates]})

    def select(self, floor: Floor | None, limit: int, *, is_calibrated: bool) -> Indices:
        """Return the indices of the best candidates, best first.

        Those below the floor are left out. Where relevance is not calibrated, only a floor that was asked for counts.
        """
        eligible = np.arange(len(self.candidates))
        if floor is not None and (is_calibrated or floor.min_relevance is not None):
            eligible = np.flatnonzero(floor.select(self.relevance))
        return self.candidates[eligible[scoring.largest_indices(self.total()[eligible], limit)]]

    def total(self) -> Floats:
        """Return the score of each candidate."""
        totals = np.zeros(len(self.candidates), np.float32)
        for values in self.parts.values():
            totals += values
        return totals

    def scores_of(self, indices: Indices) -> Floats:
        """Return the scores of some candidates, by their indices in the scope."""
        return self.total()[np.searchsorted(self.candidates, indices)]

    def relevance_of(self, index: int) -> float:
        """Return how surely a candidate bears on the question."""
        return round(float(self.relevance.of_hits()[np.searchsorted(self.candidates, index)]), 4)

    def quote_relevance(self, indices: Indices) -> list[float]:
        """Return how surely some candidates are worth quoting, by their indices in the scope."""
        shares: list[float] = self.relevance.of_quotes()[np.searchsorted(self.candidates, indices)].tolist()
        return shares

    def explain(self, index: int) -> dict[str, float]:
        """Return the parts of one candidate's score that are not 0."""
        row = int(np.searchsorted(self.candidates, index))
        parts = {name: float(values[row]) for name, values in self.parts.items()}
        return {name: value for name, value in parts.items() if value}

    def explain_many(self, indices: Indices) -> Callable[[int], dict[str, float]]:
        """Return a function like `explain` for these candidates. All are computed at once, rounded to four digits."""
        rows = np.searchsorted(self.candidates, indices)
        table = np.stack([values[rows] for values in self.parts.values()]).T
        rounded = np.where(table == 0, np.nan, table.astype(np.float64).round(4)).tolist()  # nan: there is no such part
        row_of, names = dict(zip(indices.tolist(), rounded, strict=True)), tuple(self.parts)
        return lambda index: {name: value for name, value in zip(names, row_of[index], strict=True) if value == value}


def choose_candidates(scores: Scores, eligible: Indices, limit: int) -> Indices:
    """Return the messages that are worth a closer look, ascending: the best by the plain sum and by each arm."""
    arms = (
        (scores.total, max(limit, MIN_CANDIDATES)),
        (scores.similarities.nearest, ARM_CANDIDATES),
        (scores.dense, ARM_CANDIDATES),
        (scores.lexical, ARM_CANDIDATES),
    )
    best = [eligible[scoring.largest_indices(values[eligible], count)] for values, count in arms]
    return np.unique(np.concatenate(best))


def order_scope(
    scope: ScopeIndex,
    question: QueryFeatures,
    scores: Scores,
    extra: Mapping[str, ScorePart],
    allowed: NDArray[np.bool_],
    *,
    limit: int,
    is_learned: bool,
) -> Ordered:
    """Choose candidates among the allowed messages and order them.

    The parts in `extra` count for the choice and are added to the scores at the end.
    """
    with_extra = scores
    for name, part in extra.items():
        with_extra = with_extra.with_part(name, part)
    eligible = np.flatnonzero(scores.related() & allowed & scope.has_words)
    candidates = choose_candidates(with_extra, eligible, limit)
    ordered = order_candidates(scope, question, scores, candidates, is_learned=is_learned)
    for name, part in extra.items():
        ordered = ordered.with_part(name, part)
    return ordered


def order_candidates(
    scope: ScopeIndex, question: QueryFeatures, scores: Scores, candidates: Indices, *, is_learned: bool
) -> Ordered:
    """Score candidates by the learned sum, or else by the plain one. Both say how relevant each is."""
    if not len(candidates):
        return Ordered(candidates, {}, UNKNOWN)
    features = CandidateFacts(scope, question, scores, candidates).compute()
    learned = weigh(features, scores, candidates, order_weights.WEIGHTS)
    ordered = Ordered(candidates, learned, UNKNOWN)
    ordered = replace(ordered, relevance=relevance.estimate(features, ordered.total()))
    if is_learned:
        return ordered
    return replace(ordered, parts={name: part.weighted()[candidates] for name, part in scores.parts.items()})


def weigh(
    features: Mapping[str, Floats], scores: Scores, candidates: Indices, weights: Mapping[str, float]
) -> dict[str, Floats]:
    """Return the parts of each candidate's score."""
    of_sum = np.float32(weights.get("sum", 0.0))
    parts = {name: of_sum * part.weighted()[candidates] for name, part in scores.parts.items()}
    for part_name, names in PARTS.items():
        own = np.zeros(len(candidates), np.float32)
        for name in names:
            if weight := weights.get(name):
                own += np.float32(weight) * features[name]
        parts[part_name] = parts[part_name] + own if part_name in parts else own
    return parts
