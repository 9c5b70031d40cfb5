"""Describes candidates for the learned order: each is a row of numbers, and each number belongs to a part of `why`.

Candidates are few, so more can be asked of each than of all messages: how it compares with the rest of the scope, what
its neighbours and its session say, and whether it holds what the question asks for. Nothing here depends on roles or
names: a message is a person's if its speaker is brief (see `ScopeIndex.brevity`).

In a talk, a word of the question makes a message likelier to belong to it. Among notes of one speaker a single word in
common is mostly chance, so there the share of the question's words is squared, and meaning counts for more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.core.language import message_flags
from recollect.recall.scope_index import USER, ScopeIndex
from recollect.recall.scoring import Floats, QueryFeatures, Scores

Indices = NDArray[np.int64]

MANY_WORDS: Final = 8  # a question with so many telling words can trust a match of them
FULL_COVERAGE: Final = 0.7  # a message with more than this share of the question's words has nearly all of them
LONG_WINDED: Final = -0.5  # brevity of a speaker who gives answers, not instructions
SURE_LEAN: Final = 0.9  # from here on a question is about the asker
# Similarities of questions to unrelated messages, by the built-in embedder; they count as so many messages.
PRIOR_MEAN, PRIOR_SPREAD, PRIOR_MESSAGES = 0.1, 0.05, 20
# Logarithms of numbers of words: fewer say little, more are long.
FEW_WORDS, SOME_WORDS = 2.5, 4.0


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """The inputs of the features: a scope, a question, and the candidates that were found for it."""

    scope: ScopeIndex
    question: QueryFeatures
    scores: Scores
    indices: Indices  # of the candidates, ascending

    def compute(self) -> dict[str, Floats]:
        """Return all features by name."""
        scope, indices = self.scope, self.indices
        before, after = _in_session(scope, scope.previous, indices), _in_session(scope, scope.following, indices)
        nearby = np.unique(np.concatenate((indices, before[before >= 0], after[after >= 0])))
        matches, rarity, unknown = self._matches(nearby)
        own = matches[:, np.searchsorted(nearby, indices)]
        around = np.maximum(own, _columns(matches, nearby, before))
        around = np.maximum(around, _columns(matches, nearby, after))
        solo = np.float32(scope.solo)
        coverage = _share(own, rarity) ** (1 + solo)
        meaning = self._meaning()
        return {
            **meaning,
            **self._words(coverage),
            **self._neighbours(before, after),
            "coverage_around": _share(around, rarity) ** (1 + solo),
            **self._sessions(meaning["nearest"], coverage),
            **self._arms(),
            **self._speakers(),
            **self._lengths(),
            **self._answers(meaning["nearest"]),
            **self._question(unknown),
        }

    def _meaning(self) -> dict[str, Floats]:
        by_message = self.scores.similarities
        nearest = by_message.nearest
        mean, spread = _usual_similarity(self.scores.dense[nearest != 0])
        near, first, average = nearest[self.indices], by_message.first[self.indices], by_message.mean[self.indices]
        return {
            "nearest": near,
            "first": first,
            "average": average,
            "nearest_lead": np.where(near != 0, ((near - mean) / spread).clip(-2, 6), 0),
            "dense_lead": np.where(near != 0, ((self.scores.dense[self.indices] - mean) / spread).clip(-2, 6), 0),
            "nearest_solo": near * np.float32(self.scope.solo),
            "first_solo": first * np.float32(self.scope.solo),
        }

    def _words(self, coverage: Floats) -> dict[str, Floats]:
        enough = min(len(self.question.words), MANY_WORDS) / MANY_WORDS
        best = float(coverage.max(initial=0.0))
        return {
            "coverage": coverage,
            "sure_coverage": coverage * enough,
            "led_coverage": coverage * best,
            "full_coverage": np.maximum(coverage - FULL_COVERAGE, 0) / (1 - FULL_COVERAGE),
        }

    def _matches(self, messages: Indices) -> tuple[Floats, float, int]:
        """Return for each word of the question (rows) its rarity where a message (columns) holds it, and 0 elsewhere.

        The messages are ascending. Also return the sum of all rarities, and how many words nothing in the scope holds.
        """
        scope, words = self.scope, self.question.words
        ends = np.append(scope.firsts, len(scope.passage_message))
        counts = ends[messages + 1] - ends[messages]
        passages = np.repeat(ends[messages] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        owners = np.repeat(np.arange(len(messages)), counts)
        table, size = np.zeros((max(len(words), 1), len(messages)), np.float32), len(scope.passage_message)
        total, unknown = 0.0, 0
        for row, word in enumerate(words):
            found, holders = 0, []
            for part in scope.words:
                docs, _ = part.find(word)
                if len(docs):
                    found += len(docs)
                    slots = np.minimum(docs.searchsorted(passages), len(docs) - 1)
                    holders.append(owners[docs[slots] == passages])
            rarity = math.log(1 + (size - found + 0.5) / (found + 0.5))
            total += rarity
            unknown += not found
            for own in holders:
                table[row, own] = rarity
        return table, total, unknown

    def _question(self, unknown: int) -> dict[str, Floats]:
        """Describe the question: equal for all candidates, so these say nothing about order, only about relevance."""
        question, count = self.question, len(self.question.words)
        values = {
            "question_words": min(count, MANY_WORDS) / MANY_WORDS,
            "question_unknown": unknown / count if count else 1.0,
            "question_self": float(question.lean >= SURE_LEAN),
            "question_asks": float(question.kinds.asks),
            "question_scope": math.log10(max(len(self.scope), 1)),
        }
        return {name: np.full(len(self.indices), value, np.float32) for name, value in values.items()}

    def _neighbours(self, before: Indices, after: Indices) -> dict[str, Floats]:
        nearest, full = self.scores.similarities.nearest, max(self.scores.full_match, 1e-6)
        return {
            "nearest_before": _at(nearest, before),
            "nearest_after": _at(nearest, after),
            "words_before": (_at(self.scores.lexical, before) / full).clip(0, 2),
            "words_after": (_at(self.scores.lexical, after) / full).clip(0, 2),
        }

    def _sessions(self, nearest: Floats, coverage: Floats) -> dict[str, Floats]:
        """Compare with the other candidates of the same session."""
        _, sessions = np.unique(self.scope.sessions[self.indices], return_inverse=True)
        total = self.scores.total[self.indices]
        ranks = np.empty(len(total), np.float32)
        by_rank = np.lexsort((-total, sessions))
        begins = np.flatnonzero(np.append(True, np.diff(sessions[by_rank]) > 0))
        ranks[by_rank] = np.arange(len(total)) - np.repeat(begins, np.diff(np.append(begins, len(total))))
        return {
            "session_nearest": _best_of_group(nearest, sessions),
            "session_coverage": _best_of_group(coverage, sessions),
            "session_rank": np.log1p(ranks),
            "session_gap": (_best_of_group(total, sessions) - total).clip(0, 1),
        }

    def _arms(self) -> dict[str, Floats]:
        parts = self.scores.parts
        own = {name: parts[name].values[self.indices] for name in ("speaker", "date", "code")}
        return {**own, "sum": self.scores.total[self.indices]}

    def _speakers(self) -> dict[str, Floats]:
        brevity, lean = self.scope.brevity[self.indices], self.question.lean
        brief, long = np.maximum(brevity, 0), np.maximum(-brevity, 0)
        user = (self.scope.roles[self.indices] == USER).astype(np.float32)
        return {
            "brief": brief,
            "brief_asked": brief * lean,
            "brief_surely_asked": brief * (lean >= SURE_LEAN),
            "long": long,
            "long_asked": long * (lean == 0),
            "user": user,
            "user_surely_asked": user * (lean >= SURE_LEAN),
            "assistant_asked": (1 - user) * (lean == 0),
        }

    def _lengths(self) -> dict[str, Floats]:
        words = np.log1p(self.scope.word_counts[self.indices])
        firsts = np.append(self.scope.firsts, len(self.scope.passage_message))
        passages = firsts[self.indices + 1] - firsts[self.indices]
        return {
            "few_words": np.minimum(words, FEW_WORDS),
            "some_words": np.minimum(words, SOME_WORDS),
            "many_words": np.maximum(words - SOME_WORDS, 0),
            "passages": np.log1p(passages).astype(np.float32),
        }

    def _answers(self, nearest: Floats) -> dict[str, Floats]:
        """Compare what the question asks for with what each candidate holds."""
        flags, kinds = self.scope.flags[self.indices], self.question.kinds

        def has(flag: int) -> Floats:
            held: Floats = ((flags & flag) > 0).astype(np.float32)
            return held

        instruction = has(message_flags.INSTRUCTION) * (self.scope.brevity[self.indices] > LONG_WINDED)
        newness = (self.scope.at[self.indices] - self.scope.at.min()) / max(float(np.ptp(self.scope.at)), 1.0)
        return {
            "asks": has(message_flags.QUESTION),
            "asked_asks": has(message_flags.QUESTION) * kinds.asks,
            "first_person": has(message_flags.FIRST_PERSON),
            "name": has(message_flags.NAME),
            "time": has(message_flags.RELATIVE_TIME),
            "number": has(message_flags.NUMBER),
            "preference": has(message_flags.PREFERENCE),
            "when_date": has(message_flags.DATE) * kinds.when,
            "when_time": has(message_flags.RELATIVE_TIME) * kinds.when,
            "how_many_number": has(message_flags.NUMBER) * kinds.how_many,
            "where_name": has(message_flags.NAME) * kinds.where,
            "who_name": has(message_flags.NAME) * kinds.who,
            "advice_preference": has(message_flags.PREFERENCE) * kinds.advice,
            "now_change": has(message_flags.CHANGE) * kinds.now,
            "now_new": newness.astype(np.float32) * kinds.now,
            "instruction": instruction,
            "near_instruction": instruction * nearest,
            "advice_instruction": instruction * kinds.advice,
        }


def _usual_similarity(cosines: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scope's similarities to the question.

    In a small scope they say little, so it is filled up with messages of the usual similarity.
    """
    count = len(cosines)
    total, squares = float(cosines.sum()), float((cosines**2).sum())
    mean = (total + PRIOR_MESSAGES * PRIOR_MEAN) / (count + PRIOR_MESSAGES)
    prior_squares = PRIOR_MESSAGES * (PRIOR_MEAN**2 + PRIOR_SPREAD**2)
    variance = (squares + prior_squares) / (count + PRIOR_MESSAGES) - mean**2
    return mean, math.sqrt(max(variance, 1e-6))


def _in_session(scope: ScopeIndex, neighbours: NDArray[np.int32], indices: Indices) -> Indices:
    """Return the neighbour of each message if it is in the same session, else -1."""
    others = neighbours[indices].astype(np.int64)
    same = (others >= 0) & (scope.sessions[np.maximum(others, 0)] == scope.sessions[indices])
    return np.where(same, others, -1)


def _columns(table: Floats, columns: Indices, wanted: Indices) -> Floats:
    """Return the columns of a table that are wanted; zeros where an index is negative. `columns` are ascending."""
    return table[:, np.searchsorted(columns, np.maximum(wanted, columns[0]))] * (wanted >= 0)


def _share(matches: Floats, rarity: float) -> Floats:
    """Return the share of the question's words, weighted by rarity, that each message holds."""
    shares: Floats = matches.sum(axis=0) / np.float32(rarity) if rarity else np.zeros(matches.shape[1], np.float32)
    return shares


def _at(values: Floats, indices: Indices) -> Floats:
    """Return the values at these indices; 0 where an index is negative."""
    found: Floats = np.where(indices >= 0, values[np.maximum(indices, 0)], 0).astype(np.float32)
    return found


def _best_of_group(values: Floats, groups: NDArray[np.int64]) -> Floats:
    """Return for each value the largest in its group."""
    best = np.full(int(groups.max(initial=-1)) + 1, -np.inf, np.float32)
    np.maximum.at(best, groups, values)
    return best[groups]
