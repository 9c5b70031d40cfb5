"""How recall fares: one small row per question, without its words, buffered here and written by the worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from recollect.core import times
from recollect.core.drafts import to_json
from recollect.core.models import JsonObject, Principal
from recollect.core.protocols import Clock
from recollect.jobs.buffer import Buffered
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

KEPT: Final = timedelta(days=30)


class RecallMetrics(Buffered[Row]):
    name = "metrics"
    kept = KEPT

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        async def forget(before: datetime) -> int:
            return await store.forget_recalls(before=before)

        super().__init__(clock, save=store.save_recalls, forget=forget)

    def note(self, principal: Principal, metrics: JsonObject, now: datetime) -> None:
        self._hold({"person": principal.person, "at": times.to_micros(now), "metrics": to_json(metrics)})


def summarise(rows: Sequence[JsonObject]) -> JsonObject:
    """What document E wants to see: hit rate, latencies by stage, sources, flags, budget use."""
    stages = sorted({stage for row in rows for stage in row["ms"]})
    budgets = [row["tokens"] / row["budget"] for row in rows if row.get("budget") and row.get("tokens") is not None]
    tops = [row["top"][0] for row in rows if row["top"]]
    names = sorted({name for row in rows for name in row["sources"]})
    return {
        "queries": len(rows),
        "hit_rate": _mean([row["hits"] > 0 for row in rows]),
        "ms": {stage: _percentiles([row["ms"][stage] for row in rows if stage in row["ms"]]) for stage in stages},
        "top_score": _mean(tops),
        "sources": {name: sum(row["sources"].get(name, 0) for row in rows) for name in names},
        "flags": {flag: _mean([bool(row["flags"][flag]) for row in rows]) for flag in ("hybrid", "chunking")},
        "budget_use": _mean(budgets),
        "degraded": sum(bool(row["degraded"]) for row in rows),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _percentiles(values: Sequence[float]) -> JsonObject:
    ordered = sorted(values)
    return {
        f"p{share}": round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 3) for share in (50, 95, 99)
    }
