"""Evaluating recall: metrics of past questions, measurements on labelled ones, and the search for better weights."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from recollect.core import arguments
from recollect.core.models import JsonObject
from recollect.jobs.metrics import METRICS_RETENTION, summarise_recalls
from recollect.memory.admin import AdminMixin

if TYPE_CHECKING:
    from recollect.recall.evaluation import Labels, Measured
    from recollect.recall.tuner import Tuned


class EvaluateMixin(AdminMixin):
    """Measure recall and tune its weights."""

    async def metrics(self, *, since: datetime | str | None = None) -> JsonObject:
        """Return how recall did in the last 30 days: counts, times, hit rate, use of the budget, briefs written."""
        start = arguments.parse_optional_moment(since, "since") or self._clock.now() - METRICS_RETENTION
        await self._ready()
        await self._metrics.flush()
        rows = await self._store.recalls(self._principal, since=start)
        briefs = await self._store.briefs.count_written(self._principal, since=start)
        return summarise_recalls([json.loads(row["metrics"]) for row in rows]) | {"briefs": briefs}

    async def tune(self, labelled: Labels, *, apply: bool = False, step: float = 0.1) -> Tuned:
        """Search for weights that rank labelled questions better, by NDCG@5. `apply` puts better ones in force.

        `labelled` are mappings, or a file, with `query`, `relevant` (ids of messages) and perhaps `conversation`. The
        weights are alpha, beta and gamma of recall. All combinations that add up to 1 in steps of `step` are tried.
        """
        from recollect.recall import evaluation
        from recollect.recall import tuner as tuning

        questions = await asyncio.to_thread(evaluation.read_labels, labelled)
        evaluation.require_vectors(await self.drain())
        tuner = tuning.Tuner(self._recaller, self._current.now)
        tuned = await tuner.tune(self._principal, questions, step=step)
        if not (apply and tuned.improves):
            return tuned
        await self.change_settings(**tuned.settings)
        return replace(tuned, applied=True)

    async def bench(self, labelled: Labels | None = None, *, sample: int = 100) -> Measured:
        """Measure how well recall finds what it should, beside simpler methods, and how long it takes.

        `labelled` is what `tune` takes. Without it, questions are made of rare words of up to `sample` own messages.
        That shows whether messages are found by their words, not whether questions in other words are answered.
        """
        from recollect.recall import evaluation

        arguments.check_number(sample, "sample", minimum=1, required=True)
        questions = None if labelled is None else await asyncio.to_thread(evaluation.read_labels, labelled)
        await self.drain()
        if questions is None:
            return await evaluation.measure_known_items(self._recaller, self._principal, sample)
        return await evaluation.measure(self._recaller, self._principal, questions)
