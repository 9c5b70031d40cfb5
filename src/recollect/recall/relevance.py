"""Estimates how surely a message bears on a question: the share of such messages that were evidence.

It is the product of two estimates. The first is for the question as a whole: does anything in the scope bear on it?
Small talk and general knowledge find similar words everywhere, but nothing stands out. The second is for each message:
how far is it behind the best one, and how far is the best one ahead of all?

Both were fitted on sets of conversations, and on questions that were asked in the wrong one. They hold for the cosines
of the built-in embedder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recollect.recall import order_weights
from recollect.recall.scoring import Floats

MAX_LOGIT: Final = 50.0
LEFT_OUT_SHARE: Final = 0.63  # of what the models expect is found on sets that they were not fitted on
LEADERS: Final = 10  # best messages that say how far the best one is ahead
CROWD: Final = 150  # candidates: among fewer, each is likelier to be the right one
NEIGHBOURHOOD: Final = 5  # nearest messages whose mean cosine is compared with the nearest

# Recall returns nothing below these, unless it is asked to. They are low: a hit too many costs little there.
MIN_QUESTION: Final = 0.05
MIN_HIT: Final = 0.0025
# A prompt quotes nothing below these: what it quotes costs tokens. The less surely the question bears on memory, the
# more relevant must a message be.
MIN_QUOTED_QUESTION: Final = 0.08
MIN_QUOTED: Final = 0.0006


@dataclass(frozen=True, slots=True)
class Relevance:
    """Estimates from 0 to 1: that anything bears on the question, and that each candidate does, if anything does."""

    question: float
    messages: Floats

    def of_hits(self) -> Floats:
        """Return the relevance of each candidate."""
        shares: Floats = self.messages * np.float32(LEFT_OUT_SHARE * self.question)
        return shares

    def of_quotes(self) -> Floats:
        """Return the relevance of each candidate in a prompt: there, small talk must not cost tokens."""
        shares: Floats = self.of_hits() * np.float32(self.question)
        return shares


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of recall: it leaves out what is surely unrelated or, with `min_relevance`, all hits below that."""

    min_relevance: float | None = None

    def select(self, relevance: Relevance) -> NDArray[np.bool_]:
        """Return which candidates are hits."""
        hits = relevance.of_hits()
        if self.min_relevance is not None:
            return hits >= self.min_relevance
        return (hits >= MIN_HIT) & (relevance.question >= MIN_QUESTION)


class PromptFloor(Floor):
    """The floor of a prompt: it leaves out what is not worth its tokens."""

    def select(self, relevance: Relevance) -> NDArray[np.bool_]:
        """Return which candidates may be quoted."""
        return (relevance.of_quotes() >= MIN_QUOTED) & (relevance.question >= MIN_QUOTED_QUESTION)


def fade(gap: float) -> float:
    """Return the share of relevance that is left so far below the best score of the same message."""
    return math.exp(order_weights.MESSAGE["gap"] * gap)


def estimate(
    features: Mapping[str, Floats],
    scores: Floats,
    question_model: Mapping[str, float] = order_weights.QUESTION,
    message_model: Mapping[str, float] = order_weights.MESSAGE,
) -> Relevance:
    """Return the relevance of candidates, given their features and scores."""
    logit = question_model["constant"]
    for name, value in describe_question(features, scores).items():
        logit += question_model[name] * value
    logits = np.full(len(scores), message_model["constant"], np.float32)
    for name, values in describe_messages(features, scores).items():
        logits += np.float32(message_model[name]) * values
    return Relevance(float(_logistic(np.float64(logit))), _logistic(logits).astype(np.float32))


def describe_question(features: Mapping[str, Floats], scores: Floats) -> dict[str, float]:
    """Return numbers that say whether anything in the scope bears on the question."""
    nearest = np.sort(features["nearest"])
    leaders = np.sort(scores)[-LEADERS:]
    best = int(np.argmax(scores))
    return {
        "nearest": float(nearest[-1]),
        "nearest_lead": float(features["nearest_lead"].max()),
        "nearest_five": float(nearest[-NEIGHBOURHOOD:].mean()),
        "sure_coverage": float(features["sure_coverage"].max()),
        "matched": float((features["coverage"] * features["nearest"]).max()),
        "lead": float(scores[best] - scores.mean()),
        "lead_of_ten": float(leaders[-1] - leaders[0]),
        "session_nearest": float(features["session_nearest"][best]),
        "speaker": float(features["speaker"].max()),
        "near_instruction": float(features["near_instruction"].max()),
        "words": float(features["question_words"][0]),
        "unknown": float(features["question_unknown"][0]),
        "self": float(features["question_self"][0]),
        "asks": float(features["question_asks"][0]),
        "scope": float(features["question_scope"][0]),
    }


def describe_messages(features: Mapping[str, Floats], scores: Floats) -> dict[str, Floats]:
    """Return numbers that say how relevant each message is, if anything is."""
    best, count = scores.max(), len(scores)
    ranks = np.empty(count, np.float32)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(count)
    return {
        "gap": best - scores,
        "lead": np.full(count, best - scores.mean(), np.float32),
        "rank": np.log1p(ranks),
        "crowd": np.full(count, min(count, CROWD) / CROWD, np.float32),
        "nearest": features["nearest"],
        "nearest_lead": features["nearest_lead"],
        "coverage": features["coverage"],
    }


def _logistic(values: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(values, -MAX_LOGIT, MAX_LOGIT)))
