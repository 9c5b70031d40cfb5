"""Finding weights for recall: a grid search over alpha, beta and gamma for NDCG@5 on labelled questions.

Before its session is looked at, a message's score is a sum in which each of the three weights counts in proportion. So
four questions (none of the weights, then each alone) give all that the grid needs; the rest is a few additions a point.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.core.errors import Conflict, InvalidInput, ProviderUnavailable
from recollect.core.models import JsonObject, Principal, Record
from recollect.recall import scoring
from recollect.recall.evaluation import RANKED, Judged, Labelled, judge, ndcg
from recollect.recall.recaller import Found, Recaller
from recollect.recall.scoring import Weights
from recollect.settings import Settings

Floats = NDArray[np.float32]
Point = tuple[float, float, float]  # alpha, beta, gamma

NAMES: Final = ("rag_rerank_alpha", "rag_rerank_beta", "rag_rerank_gamma")
CORNERS: Final[tuple[Point, ...]] = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
FINEST: Final = 0.02
SHOWN: Final = 10  # points of the grid in the result
TRIES: Final = 3
SAME: Final = 9  # digits in which two means must differ to be different


@dataclass(frozen=True, slots=True)
class Tuned(Record):
    """The best weights of a grid for some labelled questions, as `settings`, and whether to believe it.

    `before` and `after` are the mean NDCG@5 of the settings in force and of the best. `held_out` is the mean when each
    question is ranked by the weights that are best for all others: if it is not above `before`, the gain is chance.
    `top` are the best points; `better` and `worse` count questions, `unknown` labels that name no stored message.
    """

    queries: int
    before: float
    after: float
    held_out: float | None
    settings: dict[str, float]
    current: dict[str, float]
    top: tuple[JsonObject, ...]
    points: int
    better: int
    worse: int
    unknown: int = 0
    applied: bool = False

    @property
    def improves(self) -> bool:
        return self.after > self.before

    @property
    def holds(self) -> bool:
        """Whether the gain is also there for questions that the weights were not chosen by."""
        return self.improves and self.held_out is not None and self.held_out > self.before


def grid(step: float, current: Point) -> list[Point]:
    """The weights in force, then all that add up to 1 in such steps."""
    parts = round(1 / step) if isinstance(step, int | float) and FINEST <= step <= 1 else 0
    if not parts or not math.isclose(parts * step, 1, abs_tol=1e-6):
        raise InvalidInput("invalid_step", f"`step` divides 1 and is at least {FINEST}, as 0.1 or 0.05.")
    found = [
        (round(a / parts, 4), round(b / parts, 4), round((parts - a - b) / parts, 4))
        for a, b in itertools.product(range(parts + 1), repeat=2)
        if a + b <= parts
    ]
    return [current, *(point for point in found if point != current)]


@dataclass(frozen=True, slots=True)
class Arms:
    """A question's scores apart from the weights: what is there anyway, what each weight brings, what comes last."""

    found: Found
    fixed: Floats
    weighed: tuple[Floats, Floats, Floats]
    here: Floats

    def total(self, point: Point) -> Floats:
        so_far = self.fixed.copy()
        for weight, arm in zip(point, self.weighed, strict=True):
            so_far += np.float32(weight) * arm
        session = Weights().session * scoring.sessions(self.found.scope, so_far)
        total: Floats = (so_far + session + self.here).astype(np.float32)
        return total

    def rates(self, question: Judged, points: Sequence[Point]) -> list[float]:
        """NDCG@5 of each point."""
        scope, answers = self.found.scope, len(question.relevant)
        return [ndcg(question.marks(scope, scoring.largest(self.total(point), RANKED)), answers) for point in points]


class Tuner:
    """Asks as recall does, with any weights."""

    def __init__(self, recaller: Recaller, settings: Settings) -> None:
        self._settings, self._weights = settings, CORNERS[0]
        self._recaller = recaller.weighed(self._weighed)

    def _weighed(self) -> Settings:
        return self._settings.model_copy(update=dict(zip(NAMES, self._weights, strict=True)))

    @property
    def current(self) -> Point:
        alpha, beta, gamma = (float(getattr(self._settings, name)) for name in NAMES)
        return alpha, beta, gamma

    async def tune(self, principal: Principal, questions: Sequence[Labelled], *, step: float) -> Tuned:
        points = grid(step, self.current)
        judged, unknown = await judge(self._recaller, principal, questions)
        rates = []
        for question in judged:
            arms = await self.arms(principal, question)
            rates.append(await asyncio.to_thread(arms.rates, question, points))
        return summarised(points, np.array(rates, np.float64).T, unknown)

    async def arms(self, principal: Principal, question: Judged) -> Arms:
        for _ in range(TRIES):
            corners = [await self._find(principal, question, corner) for corner in CORNERS]
            if all(one.scope.seen == corners[0].scope.seen for one in corners):
                return _arms(corners)
        raise Conflict("memory_changed", "Messages keep coming in meanwhile; try again when it is quiet.")

    async def _find(self, principal: Principal, question: Judged, weights: Point) -> Found:
        self._weights = weights
        found = await self._recaller.find(principal, question.query, conversation=question.conversation)
        if found.degraded:
            reason = "The embedder does not answer, and weights found without it would be wrong; try again later."
            raise ProviderUnavailable("embedder_unavailable", reason)
        return found


def _arms(corners: Sequence[Found]) -> Arms:
    fixed, *each = (_summed(found) for found in corners)
    alpha, beta, gamma = (one - fixed for one in each)
    parts = corners[0].scores.parts
    here = parts["here"].weighed() if "here" in parts else np.zeros_like(fixed)
    return Arms(corners[0], fixed, (alpha, beta, gamma), here)


def _summed(found: Found) -> Floats:
    """All parts but those that are added after the session was looked at."""
    parts = [part for name, part in found.scores.parts.items() if name not in ("session", "here")]
    return scoring.summed(parts, len(found.scope))


def summarised(points: Sequence[Point], rates: NDArray[np.float64], unknown: int = 0) -> Tuned:
    """What the rates of all points (rows) on all questions (columns) come to. The first point is the one in force."""
    means = rates.mean(axis=1)
    order = _order(points, means)
    chosen = order[0]
    change = np.round(rates[chosen] - rates[0], SAME)
    return Tuned(
        queries=rates.shape[1],
        before=_rounded(means[0]),
        after=_rounded(means[chosen]),
        held_out=_held_out(points, rates),
        settings=dict(zip(NAMES, points[chosen], strict=True)),
        current=dict(zip(NAMES, points[0], strict=True)),
        top=tuple(_row(points[one], means[one], is_current=one == 0) for one in order[:SHOWN]),
        points=len(points),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        unknown=unknown,
    )


def _order(points: Sequence[Point], means: NDArray[np.float64]) -> list[int]:
    """The points, best first; of several that are equally good, first the one nearest to the weights in force."""
    distances = np.round(np.linalg.norm(np.subtract(points, points[0]), axis=1), SAME)
    found: list[int] = np.lexsort((distances, -np.round(means, SAME))).tolist()
    return found


def _held_out(points: Sequence[Point], rates: NDArray[np.float64]) -> float | None:
    """Each question by the weights that are best for all others; nothing for a single question."""
    count = rates.shape[1]
    if count < 2:
        return None
    totals = rates.sum(axis=1)
    kept = [rates[_order(points, (totals - rates[:, one]) / (count - 1))[0], one] for one in range(count)]
    return _rounded(sum(kept) / count)


def _rounded(value: float) -> float:
    return round(float(value), 4)


def _row(point: Point, mean: float, *, is_current: bool) -> JsonObject:
    return {**dict(zip(("alpha", "beta", "gamma"), point, strict=True)), "ndcg": _rounded(mean), "current": is_current}
