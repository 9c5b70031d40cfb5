"""Finds weights for recall: a grid search over alpha, beta and gamma for NDCG@5 on labelled questions.

With the default weights, recall uses the learned order. Weights found here are for the plain sum, and putting them in
force puts the plain sum in its place, so the learned order is the first thing they are compared with.

Before its session counts, a message's score is a sum in which each of the three weights counts in proportion. So four
searches (with none of the weights, then with each alone) give all that the grid needs; each point of the grid then
costs a few additions.
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
from recollect.recall.evaluation import NDCG_CUTOFF, Judged, Labelled, ndcg, resolve_labels
from recollect.recall.ranked_messages import RankedMessages
from recollect.recall.recaller import Recaller
from recollect.recall.scoring import ArmWeights
from recollect.settings import Settings

Floats = NDArray[np.float32]
Point = tuple[float, float, float]  # alpha, beta, gamma

WEIGHT_SETTINGS: Final = ("rag_rerank_alpha", "rag_rerank_beta", "rag_rerank_gamma")
CORNERS: Final[tuple[Point, ...]] = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
MIN_STEP: Final = 0.02
SHOWN_POINTS: Final = 10  # points of the grid that the result lists
MAX_TRIES: Final = 3  # a search is repeated if messages came in meanwhile
COMPARED_DIGITS: Final = 9  # two means that are equal in so many digits count as equal


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
        """Return whether the best weights rank better than those in force."""
        return self.after > self.before

    @property
    def holds(self) -> bool:
        """Return whether the gain is also there for questions that the weights were not chosen by."""
        return self.improves and self.held_out is not None and self.held_out > self.before


def make_grid(step: float, current: Point) -> list[Point]:
    """Return the weights in force, then all weights in such steps that add up to 1."""
    parts = round(1 / step) if isinstance(step, int | float) and MIN_STEP <= step <= 1 else 0
    if not parts or not math.isclose(parts * step, 1, abs_tol=1e-6):
        raise InvalidInput("invalid_step", f"`step` divides 1 and is at least {MIN_STEP}, as 0.1 or 0.05.")
    points = [
        (round(a / parts, 4), round(b / parts, 4), round((parts - a - b) / parts, 4))
        for a, b in itertools.product(range(parts + 1), repeat=2)
        if a + b <= parts
    ]
    return [current, *(point for point in points if point != current)]


@dataclass(frozen=True, slots=True)
class QuestionArms:
    """A question's scores, taken apart by the weights."""

    ranked: RankedMessages
    fixed: Floats  # the part of each score that does not depend on the weights
    by_weight: tuple[Floats, Floats, Floats]  # what each weight adds if it is 1
    here: Floats  # the part for the conversation asked about, which is added last

    def total(self, point: Point) -> Floats:
        """Return the score of each message with these weights."""
        total = self.fixed.copy()
        for weight, arm in zip(point, self.by_weight, strict=True):
            total += np.float32(weight) * arm
        session = ArmWeights().session * scoring.score_sessions(self.ranked.scope, total)
        with_session: Floats = (total + session + self.here).astype(np.float32)
        return with_session

    def rates(self, question: Judged, in_force: RankedMessages, points: Sequence[Point]) -> list[float]:
        """Return the NDCG@5 of the order in force, which may be the learned one, and of each other point."""
        scope, answers = self.ranked.scope, len(question.relevant)
        orders = [in_force.ranked[:NDCG_CUTOFF]]
        orders += [scoring.largest_indices(self.total(point), NDCG_CUTOFF) for point in points[1:]]
        return [ndcg(question.marks(scope, order), answers) for order in orders]


class Tuner:
    """Searches as recall does, with any weights."""

    def __init__(self, recaller: Recaller, settings: Settings) -> None:
        self._settings, self._weights = settings, CORNERS[0]
        self._recaller = recaller.with_settings(self._with_weights)

    def _with_weights(self) -> Settings:
        return self._settings.model_copy(update=dict(zip(WEIGHT_SETTINGS, self._weights, strict=True)))

    @property
    def current(self) -> Point:
        """Return the weights in force."""
        alpha, beta, gamma = (float(getattr(self._settings, name)) for name in WEIGHT_SETTINGS)
        return alpha, beta, gamma

    async def tune(self, principal: Principal, questions: Sequence[Labelled], *, step: float) -> Tuned:
        """Search the grid with such steps for the weights that rank the answers of the questions best."""
        points = make_grid(step, self.current)
        judged, unknown = await resolve_labels(self._recaller, principal, questions)
        rates = []
        for question in judged:
            arms = await self.take_apart(principal, question)
            in_force = await self._find(principal, question, self.current)
            rates.append(await asyncio.to_thread(arms.rates, question, in_force, points))
        return summarise_rates(points, np.array(rates, np.float64).T, unknown)

    async def take_apart(self, principal: Principal, question: Judged) -> QuestionArms:
        """Return a question's scores by weight. All searches must see the same messages."""
        for _ in range(MAX_TRIES):
            corners = [await self._find(principal, question, corner) for corner in CORNERS]
            if all(corner.scope.marks == corners[0].scope.marks for corner in corners):
                return _to_arms(corners)
        raise Conflict("memory_changed", "Messages keep coming in meanwhile; try again when it is quiet.")

    async def _find(self, principal: Principal, question: Judged, weights: Point) -> RankedMessages:
        self._weights = weights
        ranked = await self._recaller.find(principal, question.scope(principal), question.query)
        if ranked.degraded:
            reason = "The embedder does not answer, and weights found without it would be wrong; try again later."
            raise ProviderUnavailable("embedder_unavailable", reason)
        return ranked


def _to_arms(corners: Sequence[RankedMessages]) -> QuestionArms:
    fixed, *totals = (_sum_before_session(ranked) for ranked in corners)
    alpha, beta, gamma = (total - fixed for total in totals)
    parts = corners[0].scores.parts
    here = parts["here"].weighted() if "here" in parts else np.zeros_like(fixed)
    return QuestionArms(corners[0], fixed, (alpha, beta, gamma), here)


def _sum_before_session(ranked: RankedMessages) -> Floats:
    """Return the sum of all parts but the session's and those that are added after it."""
    parts = [part for name, part in ranked.scores.parts.items() if name not in ("session", "here")]
    return scoring.sum_parts(parts, len(ranked.scope))


def summarise_rates(points: Sequence[Point], rates: NDArray[np.float64], unknown: int = 0) -> Tuned:
    """Summarise the rates of all points (rows) on all questions (columns). The first point is the one in force."""
    means = rates.mean(axis=1)
    order = _order_points(points, means)
    best = order[0]
    change = np.round(rates[best] - rates[0], COMPARED_DIGITS)
    return Tuned(
        queries=rates.shape[1],
        before=_round(means[0]),
        after=_round(means[best]),
        held_out=_rate_held_out(points, rates),
        settings=dict(zip(WEIGHT_SETTINGS, points[best], strict=True)),
        current=dict(zip(WEIGHT_SETTINGS, points[0], strict=True)),
        top=tuple(_to_row(points[index], means[index], is_current=index == 0) for index in order[:SHOWN_POINTS]),
        points=len(points),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        unknown=unknown,
    )


def _order_points(points: Sequence[Point], means: NDArray[np.float64]) -> list[int]:
    """Return the indices of the points, best first; of equally good ones, the nearest to the weights in force first."""
    distances = np.round(np.linalg.norm(np.subtract(points, points[0]), axis=1), COMPARED_DIGITS)
    order: list[int] = np.lexsort((distances, -np.round(means, COMPARED_DIGITS))).tolist()
    return order


def _rate_held_out(points: Sequence[Point], rates: NDArray[np.float64]) -> float | None:
    """Return the mean rate of each question by the weights that are best for all others; None for one question."""
    count = rates.shape[1]
    if count < 2:
        return None
    totals = rates.sum(axis=1)
    held_out = [
        rates[_order_points(points, (totals - rates[:, question]) / (count - 1))[0], question]
        for question in range(count)
    ]
    return _round(sum(held_out) / count)


def _round(value: float) -> float:
    return round(float(value), 4)


def _to_row(point: Point, mean: float, *, is_current: bool) -> JsonObject:
    return {**dict(zip(("alpha", "beta", "gamma"), point, strict=True)), "ndcg": _round(mean), "current": is_current}
