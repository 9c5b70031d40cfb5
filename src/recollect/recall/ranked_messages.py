"""The outcome of a search: messages of a scope in the order of their scores, before any text is read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import times
from recollect.recall.order import Ordered
from recollect.recall.question import ParsedQuestion
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import Scores
from recollect.storage.scope_updates import ConversationState

GOOD_HIT_COSINE: Final = 0.3  # similarity of a good hit
GOOD_HIT_WORD_SHARE: Final = 0.4  # or its share of the score of an average passage with every word of the question


@dataclass(slots=True)
class StageTimer:
    """Measures how long each stage takes, in milliseconds."""

    started: float = field(default_factory=time.perf_counter)
    stages: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to a stage."""
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self._last) * 1000
        self._last = now

    def add(self, parts: Mapping[str, float]) -> None:
        """Add milliseconds that were measured inside a stage. They are part of that stage too."""
        for name, ms in parts.items():
            self.stages[name] = self.stages.get(name, 0.0) + ms

    def total(self) -> float:
        """Return the milliseconds since the start."""
        return (time.perf_counter() - self.started) * 1000


@dataclass(frozen=True, slots=True)
class RankedMessages:
    """Messages of a scope, ranked for a question. `ranked` are their indices, best first."""

    question: ParsedQuestion
    scope: ScopeIndex  # the scope that was searched in the end
    scores: Scores
    ordered: Ordered  # the candidates that were looked at more closely
    ranked: NDArray[np.int64]
    degraded: tuple[str, ...]
    timer: StageTimer
    own_scope: ScopeIndex  # of the conversation asked about, if one was; `scope` may be wider
    conversation_state: ConversationState
    is_calibrated: bool  # relevance means what it says

    def quote_relevance(self, indices: NDArray[np.int64]) -> Sequence[float | None]:
        """Return how surely some messages are worth quoting; None for all where that cannot be said."""
        return self.ordered.quote_relevance(indices) if self.is_calibrated else [None] * len(indices)


def find_good(scores: Scores) -> NDArray[np.bool_]:
    """Return which messages are good hits: similar in meaning, or with enough of the question's words."""
    has_words = (scores.lexical >= GOOD_HIT_WORD_SHARE * scores.full_match) & (scores.full_match > 0)
    mask: NDArray[np.bool_] = (scores.dense >= GOOD_HIT_COSINE) | has_words
    return mask


def find_in_period(scope: ScopeIndex, since: datetime | None, until: datetime | None) -> NDArray[np.bool_]:
    """Return which messages are from `since` on and before `until`."""
    mask = np.ones(len(scope), np.bool_)
    if since is not None:
        mask &= scope.at >= times.to_micros(since)
    if until is not None:
        mask &= scope.at < times.to_micros(until)
    return mask
