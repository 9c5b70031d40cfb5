"""The arms of recall and their sum: every message of a scope gets a score that is a sum of parts.

All arms look at all messages; none only re-orders what another found. The weights were found by measurement (see
docs/benchmarks.md); three of them are settings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.core.language.question_kinds import NO_KINDS, QuestionKinds
from recollect.recall import postings, vectors
from recollect.recall.scope_index import ScopeIndex

Floats = NDArray[np.float32]

BM25_K1: Final = 1.2  # how soon more of the same word stops counting
BM25_B: Final = 0.75  # how much a long passage is held against it
WEEK_MICROS: Final = 7 * 86_400 * 1_000_000
SAMPLE_STEP: Final = 16  # `largest_indices` looks at every 16th value first
SESSION_LEADERS: Final = 30  # best messages that decide which sessions count
# The parts that depend on the question. The others are the same for every question.
QUESTION_PARTS: Final = ("dense", "bm25", "code", "neighbours", "speaker", "date")


@dataclass(frozen=True, slots=True)
class QueryFeatures:
    """A question in the form that the arms compare."""

    words: Sequence[int] = ()
    names: Sequence[int] = ()  # identifiers, each as one word
    periods: Sequence[tuple[int, int]] = ()  # microseconds
    vectors: Mapping[int, Floats] = field(default_factory=dict)  # of the question, by embedder key
    lean: float = 1.0  # towards messages of people
    kinds: QuestionKinds = NO_KINDS


@dataclass(frozen=True, slots=True)
class ArmWeights:
    """The weight of each part. Found on three public sets of conversations; see docs/benchmarks.md."""

    dense: float = 0.6
    bm25: float = 0.4
    code: float = 0.1
    neighbours: float = 0.2  # of the scores of the messages before and after
    session: float = 0.15
    speaker: float = 0.2
    date: float = 0.05
    role: float = 0.35
    substance: float = 0.1
    recency: float = 0.01


class ScorePart(NamedTuple):
    """One part of all scores: a value for each message, and its weight."""

    weight: float
    values: Floats

    def weighted(self) -> Floats:
        """Return the part that each message's score has of this."""
        weighted: Floats = np.float32(self.weight) * self.values
        return weighted


@dataclass(frozen=True, slots=True)
class Scores:
    """The score of each message, the parts it is the sum of, and the two main arms before weighting."""

    total: Floats
    parts: Mapping[str, ScorePart]
    dense: Floats
    lexical: Floats
    similarities: PassageSimilarities
    lexical_by_passage: Floats
    full_match: float  # lexical score of an average passage that has each word of the question once
    ms: Mapping[str, float]  # milliseconds that the arms of words and of vectors took

    def related(self) -> NDArray[np.bool_]:
        """Return which messages have anything in common with the question, if only by their neighbours."""
        mask = np.zeros(len(self.total), np.bool_)
        for name in QUESTION_PARTS:
            weight, values = self.parts[name]
            if weight > 0:
                mask |= values > 0
        return mask

    def with_part(self, name: str, part: ScorePart) -> Scores:
        """Return the scores with one more part."""
        return replace(self, total=self.total + part.weighted(), parts={**self.parts, name: part})

    def explain(self, index: int) -> dict[str, float]:
        """Return the parts of one message's score that are not 0."""
        parts = {name: float(np.float32(weight) * values[index]) for name, (weight, values) in self.parts.items()}
        return {name: value for name, value in parts.items() if value}

    def explain_many(self, indices: NDArray[np.int64]) -> Callable[[int], dict[str, float]]:
        """Return a function like `explain` for these messages. All are computed at once and rounded to four digits."""
        weights = np.array([weight for weight, _ in self.parts.values()], np.float32)[:, None]
        table = (weights * np.stack([values[indices] for _, values in self.parts.values()])).T
        rows = np.where(table == 0, np.nan, table.astype(np.float64).round(4)).tolist()  # nan: there is no such part
        row_of, names = dict(zip(indices.tolist(), rows, strict=True)), tuple(self.parts)
        return lambda index: {name: value for name, value in zip(names, row_of[index], strict=True) if value == value}


def score_words(scope: ScopeIndex, words: Sequence[int]) -> tuple[Floats, float]:
    """Return the BM25 score of each passage: words that are rare in the scope count more.

    Also return the score of a passage of average length that has each word once.
    """
    scores = np.zeros(len(scope.passage_message), np.float32)
    full_match = 0.0
    average = max(scope.average_length, 1.0)
    for word in words:
        docs, counts = postings.find_word(scope.words, word)
        rarity = math.log(1 + (len(scores) - len(docs) + 0.5) / (len(docs) + 0.5))
        full_match += rarity
        if len(docs):
            saturation = BM25_K1 * (1 - BM25_B + BM25_B * scope.lengths[docs] / average)
            scores[docs] += rarity * counts * (BM25_K1 + 1) / (counts + saturation)
    return scores, full_match


@dataclass(frozen=True)
class PassageSimilarities:
    """The cosine of each passage with the question: for every part of the scope's vectors, the scores of its rows."""

    parts: Sequence[tuple[vectors.VectorPart, Floats]]
    size: int  # messages in the scope

    def by_message(self) -> Floats:
        """Return the score of each message: half by its nearest passage, half by the first two.

        A message says at its beginning what it is about. What was asked for may be anywhere in it. A message without
        vectors gets 0.
        """
        totals = np.zeros(self.size, np.float32)
        for part, scores in self.parts:
            if len(part.messages) == len(part):
                totals[part.messages] = scores
            else:
                nearest = np.maximum.reduceat(scores, part.firsts)
                beginnings = scores[part.firsts]
                several = part.with_several
                beginnings[several] = (beginnings[several] + scores[part.firsts[several] + 1]) / 2
                totals[part.messages] = (nearest + beginnings) / 2
        return totals

    @cached_property
    def nearest(self) -> Floats:
        """Return the cosine of each message's nearest passage; 0 for a message without vectors."""
        return self._by_group(lambda part, scores: np.maximum.reduceat(scores, part.firsts))

    @cached_property
    def first(self) -> Floats:
        """Return the cosine of each message's first passage; 0 for a message without vectors."""
        return self._by_group(lambda part, scores: scores[part.firsts])

    @cached_property
    def mean(self) -> Floats:
        """Return the mean cosine of each message's passages; 0 for a message without vectors."""
        return self._by_group(_mean_by_message)

    def _by_group(self, group: Callable[[vectors.VectorPart, Floats], Floats]) -> Floats:
        totals = np.zeros(self.size, np.float32)
        for part, scores in self.parts:
            if len(part):
                totals[part.messages] = group(part, scores)
        return totals

    def by_passage(self, messages: NDArray[np.int64], borders: NDArray[np.int64]) -> Floats:
        """Return the score of each passage of some messages. Those of message i are at borders[i]:borders[i+1]."""
        totals = np.zeros(int(borders[-1]), np.float32)
        for part, scores in self.parts:
            own = messages.astype(part.owners.dtype)
            begins, ends = (np.searchsorted(part.owners, own, side) for side in ("left", "right"))
            counts = ends - begins
            rows = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
            slots = np.repeat(borders[:-1], counts) + part.passages[rows]
            valid = slots < np.repeat(borders[1:], counts)
            totals[slots[valid]] = scores[rows[valid]]
        return totals


def _mean_by_message(part: vectors.VectorPart, scores: Floats) -> Floats:
    means: Floats = (np.add.reduceat(scores, part.firsts) / np.diff(part.firsts, append=len(scores))).astype(np.float32)
    return means


def score_vectors(scope: ScopeIndex, question_vectors: Mapping[int, Floats]) -> PassageSimilarities:
    """Compare all passages with the question, each with the vector of its own embedder."""
    parts = []
    for embedder, query in question_vectors.items():
        own = scope.vectors.get(embedder, ())
        is_small = sum(map(len, own)) <= vectors.MAX_EXACT_VECTORS
        parts += [(part, part.score_all(query) if is_small else part.estimate_scores(query)) for part in own]
    return PassageSimilarities(parts, len(scope))


def score_identifiers(scope: ScopeIndex, names: Sequence[int]) -> Floats:
    """Return for each message the share of the question's identifiers that it holds."""
    shares = np.zeros(len(scope), np.float32)
    for name in names:
        docs, _ = postings.find_word(scope.words, name)
        shares[np.unique(scope.passage_message[docs])] += 1 / len(names)
    return shares


def best_passages(scope: ScopeIndex, by_passage: Floats) -> Floats:
    """Return for each message the best score of its passages. It is the same array if each message has one passage."""
    if len(scope) == len(by_passage):
        return by_passage
    best: Floats = np.maximum.reduceat(by_passage, scope.firsts)
    return best


def score_speakers(scope: ScopeIndex, words: Sequence[int]) -> Floats:
    """Return 1 for messages of a speaker whom the question names; 0 for all, if it names every speaker."""
    scores = np.zeros(len(scope), np.float32)
    for word in words:
        docs, _ = postings.find_word(scope.speakers, word)
        scores[docs] = 1
    return scores if not scores.all() else np.zeros_like(scores)


def score_dates(scope: ScopeIndex, periods: Sequence[tuple[int, int]]) -> Floats:
    """Return 1 for messages from a period that the question names, and less the longer after it they came."""
    scores = np.zeros(len(scope), np.float32)
    for start, stop in periods:
        since = np.flatnonzero(scope.at >= start)
        span = np.float32(max(stop - start, WEEK_MICROS))
        delay = np.maximum(scope.at[since] - stop, 0).astype(np.float32) / span
        scores[since] = np.maximum(scores[since], np.exp2(-4 * delay))
    return scores


def sum_neighbours(scope: ScopeIndex, values: Floats) -> Floats:
    """Return for each message the sum of the values of the messages before and after it, within its session."""
    sums = np.zeros_like(values)
    follows, later, earlier = scope.links
    sums[1:] = follows * values[:-1]
    sums[later] += values[earlier]
    sums[:-1] += follows * values[1:]
    sums[earlier] += values[later]
    return sums


def score_sessions(scope: ScopeIndex, total: Floats, leader_count: int = SESSION_LEADERS) -> Floats:
    """Return for each message how much of the best scores its session has; 1 for the session with most."""
    if len(total) < 2:
        return np.zeros_like(total)
    leaders = largest_indices(total, leader_count)
    excess = np.maximum(total[leaders] - total[leaders].min(), 0)
    sums = np.bincount(scope.sessions[leaders], excess, minlength=int(scope.sessions.max()) + 1)
    largest = sums.max()
    return (sums[scope.sessions] / largest).astype(np.float32) if largest > 0 else np.zeros_like(total)


def largest_indices(values: Floats, count: int) -> NDArray[np.int64]:
    """Return the indices of the largest values, largest first; of equal values the earlier first.

    A sample gives a first threshold: if `count` sampled values reach it, as many of all values do.
    """
    if count <= 0:
        return np.empty(0, np.int64)
    indices = np.flatnonzero(values >= _threshold(values[::SAMPLE_STEP], count))
    indices = indices[values[indices] >= _threshold(values[indices], count)]
    return indices[np.argsort(-values[indices], kind="stable")][:count]


def _threshold(values: Floats, count: int) -> float:
    """Return the value that `count` of the values reach."""
    return float(np.partition(values, len(values) - count)[len(values) - count]) if count < len(values) else -math.inf


def fuse(scope: ScopeIndex, question: QueryFeatures, weights: ArmWeights) -> Scores:
    """Ask all arms, weight and sum them. `hit.why` shows the parts."""
    start = time.perf_counter()
    by_passage, full_match = score_words(scope, question.words)
    lexical = best_passages(scope, by_passage)
    words_end = time.perf_counter()
    similarities = score_vectors(scope, question.vectors)
    dense = similarities.by_message()
    ms = {"words": (words_end - start) * 1000, "vectors": (time.perf_counter() - words_end) * 1000}
    lexical_around, dense_around = sum_neighbours(scope, lexical), sum_neighbours(scope, dense)
    best = float((lexical + weights.neighbours * lexical_around).max(initial=0.0))
    lexical_weight = weights.bm25 / best if best > 0 else 0.0
    around = weights.dense * dense_around + lexical_weight * lexical_around
    parts = {
        "dense": ScorePart(weights.dense, dense),
        "bm25": ScorePart(lexical_weight, lexical),
        "code": ScorePart(weights.code, score_identifiers(scope, question.names)),
        "neighbours": ScorePart(weights.neighbours, around),
        "speaker": ScorePart(weights.speaker, score_speakers(scope, question.words)),
        "date": ScorePart(weights.date, score_dates(scope, question.periods)),
        "role": ScorePart(weights.role * question.lean, scope.from_person),
        "substance": ScorePart(weights.substance, scope.substance),
        "recency": ScorePart(weights.recency, scope.recency),
    }
    total = sum_parts(parts.values(), len(scope))
    scores = Scores(total, parts, dense, lexical, similarities, by_passage, full_match, ms)
    return scores.with_part("session", ScorePart(weights.session, score_sessions(scope, total)))


def sum_parts(parts: Iterable[ScorePart], size: int) -> Floats:
    """Return the sum of the weighted parts.

    All parts are weighted in the same memory: allocating memory for each would cost more than the sums.
    """
    total, weighted = np.zeros(size, np.float32), np.empty(size, np.float32)
    for part in parts:
        np.multiply(part.values, np.float32(part.weight), out=weighted)
        total += weighted
    return total
