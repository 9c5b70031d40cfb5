"""Metrics of recall: one small row for each question, without its words, and their summary.

Rows are buffered here and written by the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from recollect.core import times
from recollect.core.json_text import to_json
from recollect.core.models import JsonObject, Principal
from recollect.core.protocols import Clock
from recollect.jobs.buffer import BufferedRows
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

METRICS_RETENTION: Final = timedelta(days=30)
_FLAGS: Final = ("hybrid", "chunking", "summary_frequency")  # settings whose share of the questions is told


class RecallMetrics(BufferedRows[Row]):
    """Stores the metrics of each question."""

    name = "metrics"
    retention = METRICS_RETENTION

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        async def delete_old(before: datetime) -> int:
            return await store.forget_recalls(before=before)

        super().__init__(clock, save=store.save_recalls, delete_old=delete_old)

    def note(self, principal: Principal, metrics: JsonObject, now: datetime) -> None:
        """Buffer the metrics of a question."""
        self._buffer({"person": principal.person, "at": times.to_micros(now), "metrics": to_json(metrics)})


def summarise_recalls(rows: Sequence[JsonObject]) -> JsonObject:
    """Return the hit rate, milliseconds by stage, sources, types, flags and use of the budget over all rows.

    `flags` has for each flag the share of questions that were asked with it on. `overflows` is the share of prompts in
    which some passages had no room. A mean or share is None if no row has the value.
    """
    stages = sorted({stage for row in rows for stage in row["ms"]})
    budgets = [row["tokens"] / row["budget"] for row in rows if row.get("budget") and row.get("tokens") is not None]
    top_scores = [row["top"][0] for row in rows if row["top"]]
    similarities = [row["similarities"][0] for row in rows if row.get("similarities")]
    return {
        "queries": len(rows),
        "hit_rate": _mean([row["hits"] > 0 for row in rows]),
        "ms": {stage: _percentiles([row["ms"][stage] for row in rows if stage in row["ms"]]) for stage in stages},
        "top_score": _mean(top_scores),
        "top_similarity": _mean(similarities),
        "sources": _add_up([row["sources"] for row in rows]),
        "types": _add_up([row.get("types", {}) for row in rows]),
        "flags": {flag: _mean([bool(row["flags"].get(flag)) for row in rows]) for flag in _FLAGS},
        "budget_use": _mean(budgets),
        "overflows": _mean([row["overflow"] > 0 for row in rows if "overflow" in row]),
        "degraded": sum(bool(row["degraded"]) for row in rows),
    }


def _add_up(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each count, by name."""
    names = sorted({name for row in counts for name in row})
    return {name: sum(row.get(name, 0) for row in counts) for name in names}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _percentiles(values: Sequence[float]) -> JsonObject:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {f"p{percent}": round(ordered[min(last, len(ordered) * percent // 100)], 3) for percent in (50, 95, 99)}
