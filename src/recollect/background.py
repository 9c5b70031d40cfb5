"""All derived work of a memory: which chores the worker does, in which order, and how much of each at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from recollect.chores import CountTokens, FinishErasures, FreeLeases, IndexWords, TidyStore
from recollect.compose import Parts
from recollect.current_settings import CurrentSettings
from recollect.embedding import EmbedMessages
from recollect.holders import new_holder
from recollect.metrics import RecallMetrics
from recollect.providers.tokenizer import tokenizer_for
from recollect.worker import Track, Worker

COUNTER: Final = "o200k_base"


def make_worker(parts: Parts, settings: CurrentSettings, embedding: EmbedMessages, metrics: RecallMetrics) -> Worker:
    store, clock = parts.store, parts.clock
    return Worker(
        store,
        clock,
        holder=new_holder(clock.now()),
        tracks=[
            Track("worked", [IndexWords(store), CountTokens(store, lambda: tokenizer_for(COUNTER))]),
            Track("embedded", [embedding], slice=128, side_by_side=2, whole=False),
        ],
        upkeep=[FinishErasures(store), FreeLeases(store), TidyStore(store, clock), metrics, embedding],
        lease=lambda: timedelta(seconds=settings.now.worker_lease_seconds),
    )
