"""The arms of recall and how they are put together: every message of a scope gets a score that is a sum of parts.

All arms look at all messages; none only re-orders what another found. Weights were found by measurement (see
docs/benchmarks.md); three of them are settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.recall import postings, vectors
from recollect.recall.scope_index import Scope

Floats = NDArray[np.float32]

K1: Final = 1.2  # BM25: how soon more of the same word stops counting,
B: Final = 0.75  # and how much a long message is held against it
WEEK: Final = 7 * 86_400 * 1_000_000  # microseconds
SPARSE: Final = 16
TELLING: Final = ("dense", "bm25", "code", "neighbours", "speaker", "date")  # the others are the same for any question


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for, as far as arms can compare it."""

    words: Sequence[int] = ()
    names: Sequence[int] = ()  # identifiers, as a whole
    periods: Sequence[tuple[int, int]] = ()  # microseconds
    vectors: Mapping[int, Floats] = field(default_factory=dict)  # the question's own, by embedder
    lean: float = 1.0  # towards what people said


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts. Found on three public sets of conversations; see docs/benchmarks.md."""

    dense: float = 0.6
    bm25: float = 0.4
    code: float = 0.1
    neighbours: float = 0.2  # of what the messages before and after got
    session: float = 0.15
    speaker: float = 0.2
    date: float = 0.05
    role: float = 0.35
    substance: float = 0.1
    recency: float = 0.01


class Part(NamedTuple):
    """What one arm says of each message, and how much that counts."""

    weight: float
    values: Floats

    def weighed(self) -> Floats:
        found: Floats = np.float32(self.weight) * self.values
        return found


@dataclass(frozen=True, slots=True)
class Scores:
    """Each message's score, the parts it is the sum of, and what the two great arms said before weighing."""

    total: Floats
    parts: Mapping[str, Part]
    near: Floats
    lexical: Floats
    nearness: Nearness
    lexical_by_passage: Floats
    possible: float  # what holding all words of the question once is worth

    def related(self) -> NDArray[np.bool_]:
        """Which messages have anything in common with the question, be it only what stands beside them."""
        found = np.zeros(len(self.total), np.bool_)
        for name in TELLING:
            weight, values = self.parts[name]
            if weight > 0:
                found |= values > 0
        return found

    def with_part(self, name: str, part: Part) -> Scores:
        return replace(self, total=self.total + part.weighed(), parts={**self.parts, name: part})

    def why(self, index: int) -> dict[str, float]:
        """The parts of one message's score that are not nothing."""
        worth = {name: float(np.float32(weight) * values[index]) for name, (weight, values) in self.parts.items()}
        return {name: value for name, value in worth.items() if value}

    def whys(self, indices: NDArray[np.int64]) -> Callable[[int], dict[str, float]]:
        """The same for any of many messages, weighed at once; with four digits."""
        weights = np.array([weight for weight, _ in self.parts.values()], np.float32)[:, None]
        worth = (weights * np.stack([values[indices] for _, values in self.parts.values()])).T
        rows = np.where(worth == 0, np.nan, worth.astype(np.float64).round(4)).tolist()  # nan: it has no such part
        known, names = dict(zip(indices.tolist(), rows, strict=True)), tuple(self.parts)
        return lambda index: {name: value for name, value in zip(names, known[index], strict=True) if value == value}


def bm25(scope: Scope, words: Sequence[int]) -> tuple[Floats, float]:
    """Each passage by the words it shares with the question; what is rare in the scope counts more.

    And what a passage of average length is worth that holds each word once.
    """
    found = np.zeros(len(scope.owners), np.float32)
    possible = 0.0
    average = max(scope.average_length, 1.0)
    for word in words:
        docs, counts = postings.find(scope.words, word)
        rarity = math.log(1 + (len(found) - len(docs) + 0.5) / (len(docs) + 0.5))
        possible += rarity
        if len(docs):
            room = K1 * (1 - B + B * scope.lengths[docs] / average)
            found[docs] += rarity * counts * (K1 + 1) / (counts + room)
    return found, possible


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near each passage is: for every part of the scope's vectors, the scores of its rows."""

    parts: Sequence[tuple[vectors.Part, Floats]]
    size: int

    def messages(self) -> Floats:
        """How near each message is: half by its nearest passage, half by the two it begins with.

        What a message is about stands at its beginning, what was asked for may stand anywhere. What has no vector is
        near nothing.
        """
        found = np.zeros(self.size, np.float32)
        for part, scores in self.parts:
            if len(part.messages) == len(part):
                found[part.messages] = scores
            else:
                nearest = np.maximum.reduceat(scores, part.firsts)
                begins = scores[part.firsts]
                begins[part.longer] = (begins[part.longer] + scores[part.firsts[part.longer] + 1]) / 2
                found[part.messages] = (nearest + begins) / 2
        return found

    def passages(self, messages: NDArray[np.int64], borders: NDArray[np.int64]) -> Floats:
        """The nearness of each passage of some messages; those of a message lie between two borders."""
        found = np.zeros(int(borders[-1]), np.float32)
        for part, scores in self.parts:
            own = messages.astype(part.owners.dtype)
            begins, ends = (np.searchsorted(part.owners, own, side) for side in ("left", "right"))
            counts = ends - begins
            rows = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
            spots = np.repeat(borders[:-1], counts) + part.places[rows]
            known = spots < np.repeat(borders[1:], counts)
            found[spots[known]] = scores[rows[known]]
        return found


def dense(scope: Scope, asked: Mapping[int, Floats]) -> Nearness:
    parts = []
    for embedder, query in asked.items():
        own = scope.vectors.get(embedder, ())
        count = sum(map(len, own))
        parts += [(part, _part_scores(part, query, count)) for part in own]
    return Nearness(parts, len(scope))


def _part_scores(part: vectors.Part, query: Floats, all_of_them: int) -> Floats:
    if all_of_them <= vectors.EXACT:
        return part.scores(query)
    return part.estimated(query)


def names(scope: Scope, asked: Sequence[int]) -> Floats:
    """The share of the question's identifiers that a message holds."""
    found = np.zeros(len(scope), np.float32)
    for name in asked:
        docs, _ = postings.find(scope.words, name)
        found[np.unique(scope.owners[docs])] += 1 / len(asked)
    return found


def best_of(scope: Scope, passages: Floats) -> Floats:
    """For each message the best of its passages; the passages' own array, if each message has one."""
    if len(scope) == len(passages):
        return passages
    found: Floats = np.maximum.reduceat(passages, scope.firsts)
    return found


def speakers(scope: Scope, words: Sequence[int]) -> Floats:
    """1 for what was said by someone the question names, unless it names everyone."""
    found = np.zeros(len(scope), np.float32)
    for word in words:
        docs, _ = postings.find(scope.speakers, word)
        found[docs] = 1
    return found if not found.all() else np.zeros_like(found)


def dates(scope: Scope, periods: Sequence[tuple[int, int]]) -> Floats:
    """1 for what was said in a period the question names, and less and less for what was said soon after it."""
    found = np.zeros(len(scope), np.float32)
    for start, stop in periods:
        since = np.flatnonzero(scope.at >= start)
        late = np.maximum(scope.at[since] - stop, 0).astype(np.float32) / np.float32(max(stop - start, WEEK))
        found[since] = np.maximum(found[since], np.exp2(-4 * late))
    return found


def around(scope: Scope, values: Floats) -> Floats:
    """What the turns before and after each message got, within its session."""
    found = np.zeros_like(values)
    follows, later, earlier = scope.links
    found[1:] = follows * values[:-1]
    found[later] += values[earlier]
    found[:-1] += follows * values[1:]
    found[earlier] += values[later]
    return found


def sessions(scope: Scope, total: Floats, best: int = 30) -> Floats:
    """How much of what scored best lies in each message's session; 1 for the session with most."""
    if len(total) < 2:
        return np.zeros_like(total)
    leaders = largest(total, best)
    worth = np.maximum(total[leaders] - total[leaders].min(), 0)
    sums = np.bincount(scope.sessions[leaders], worth, minlength=int(scope.sessions.max()) + 1)
    most = sums.max()
    return (sums[scope.sessions] / most).astype(np.float32) if most > 0 else np.zeros_like(total)


def largest(values: Floats, most: int) -> NDArray[np.int64]:
    """Where the largest values stand, the largest first; of equals the earlier ones. The others are not ordered."""
    if most <= 0:
        return np.empty(0, np.int64)
    places = np.flatnonzero(values >= _border(values[::SPARSE], most))  # so many reach it, since some of them do
    places = places[values[places] >= _border(values[places], most)]
    return places[np.argsort(-values[places], kind="stable")][:most]


def _border(values: Floats, most: int) -> float:
    """What so many of the values reach."""
    return float(np.partition(values, len(values) - most)[len(values) - most]) if most < len(values) else -math.inf


def fuse(scope: Scope, question: Question, weights: Weights) -> Scores:
    """All arms, weighed and summed; `hit.why` shows the parts."""
    (by_passage, possible), nearness = bm25(scope, question.words), dense(scope, question.vectors)
    lexical = best_of(scope, by_passage)
    near = nearness.messages()
    lexical_around, near_around = around(scope, lexical), around(scope, near)
    best = float((lexical + weights.neighbours * lexical_around).max(initial=0.0))
    share = weights.bm25 / best if best > 0 else 0.0
    parts = {
        "dense": Part(weights.dense, near),
        "bm25": Part(share, lexical),
        "code": Part(weights.code, names(scope, question.names)),
        "neighbours": Part(weights.neighbours, weights.dense * near_around + share * lexical_around),
        "speaker": Part(weights.speaker, speakers(scope, question.words)),
        "date": Part(weights.date, dates(scope, question.periods)),
        "role": Part(weights.role * question.lean, scope.people),
        "substance": Part(weights.substance, scope.substance),
        "recency": Part(weights.recency, scope.recency),
    }
    total = summed(parts.values(), len(scope))
    return Scores(total, parts, near, lexical, nearness, by_passage, possible).with_part(
        "session", Part(weights.session, sessions(scope, total))
    )


def summed(parts: Iterable[Part], size: int) -> Floats:
    """What they come to. One after another in the same memory: fresh memory costs more than sums."""
    total, weighed = np.zeros(size, np.float32), np.empty(size, np.float32)
    for part in parts:
        np.multiply(part.values, np.float32(part.weight), out=weighed)
        total += weighed
    return total
