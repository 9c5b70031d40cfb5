"""All derived work of a memory: which chores there are, in which order, and how much of each at a time.

There are two workers: a model that writes briefs may take minutes, and neither words nor vectors nor topics may wait
for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Final

from recollect.admin.compose import Parts
from recollect.admin.current_settings import CurrentSettings, SettingsBook
from recollect.brief.compression import Compressing, Writer, active
from recollect.core.models import OPERATOR, Done
from recollect.core.protocols import Tokenizer
from recollect.jobs.audit import AuditLog
from recollect.jobs.chores import CountTokens, FinishErasures, FreeLeases, IndexWords, TidyStore
from recollect.jobs.leases import new_holder
from recollect.jobs.metrics import RecallMetrics
from recollect.jobs.worker import Track, Upkeep, Worker
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.embedding import EmbedMessages
from recollect.settings import Settings
from recollect.topics.assignment import PlaceMessages
from recollect.topics.fold import FoldTopics

COUNTER: Final = "o200k_base"
FOLDED: Final = 1_000_000  # messages of a conversation that are looked at together for its brief


class Background:
    """Both workers as one."""

    def __init__(
        self,
        parts: Parts,
        book: SettingsBook,
        settings: CurrentSettings,
        embedding: EmbedMessages,
        metrics: RecallMetrics,
        audit: AuditLog,
    ) -> None:
        """How the workers themselves go about it is as in `settings`; each person's work follows that person's own."""
        store, clock = parts.store, parts.clock
        self._settings, self._book = settings, book
        holder = new_holder(clock.now())

        def lease() -> timedelta:
            return timedelta(seconds=settings.now.worker_lease_seconds)

        def tokenizer() -> Tokenizer:
            return tokenizer_for(COUNTER)

        def writer() -> Writer:
            from recollect.brief.writer import BriefWriter  # its rules take a while to read

            return BriefWriter(parts.model, hosted=parts.hosted, tokenizer=tokenizer)

        def topic_writer(of: Settings) -> Writer | None:
            """A model tells topics where they stand in for the brief; elsewhere it has written that already."""
            return None if parts.model is None or active(of) else writer()

        def must_wait() -> bool:
            """Without a model, folding needs the processor that the built-in embedder needs too, which comes first."""
            return parts.model is None and parts.embedder is None and self.indexing.is_busy

        self.compressing = Compressing(
            store,
            clock,
            writer,
            settings=book.now,
            tokenizer=tokenizer,
            holder=holder,
            must_wait=must_wait,
        )
        self.placing = PlaceMessages(store, clock, settings=book.now)
        self.folding = FoldTopics(store, clock, settings=book.now, tokenizer=tokenizer, writer=topic_writer)
        tracks = [
            Track("worked", [IndexWords(store), CountTokens(store, tokenizer)]),
            Track("embedded", [embedding], slice=128, side_by_side=2, whole=False),
            Track("topiced", [self.placing], slice=128, side_by_side=4),
        ]
        upkeep: list[Upkeep] = [
            FinishErasures(store), FreeLeases(store), TidyStore(store, clock), metrics, audit, embedding,
        ]  # fmt: skip
        slow = [
            Track("briefed", [self.compressing], slice=FOLDED, side_by_side=2, whole=False),
            Track("folded", [self.folding], slice=FOLDED, side_by_side=2, whole=False),
        ]
        tending: list[Upkeep] = [self.compressing, self.folding]
        worker = partial(Worker, store, clock, holder=holder, lease=lease, prepare=book.prepare)
        self.indexing = worker(tracks=tracks, upkeep=upkeep)
        self.briefing = worker(tracks=slow, upkeep=tending)
        self._workers = (self.indexing, self.briefing)

    def notify(self) -> None:
        for worker in self._workers:
            worker.notify()

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    async def run(self) -> None:
        """Until stopped."""
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(self._run(worker))

    async def _run(self, worker: Worker) -> None:
        await worker.run(lambda: self._settings.now.worker_poll_seconds, before=self._look)

    async def _look(self) -> None:
        await self._settings.refresh()
        await self._book.prepare(OPERATOR)

    async def drain(self, timeout: float | None = None, *, briefs: bool = True) -> Done:
        """All that is missing, by both workers side by side; then what the one had to leave to the other."""
        deadline = None if timeout is None else time.monotonic() + timeout
        workers = self._workers if briefs else (self.indexing,)
        done = list(await asyncio.gather(*(worker.drain(timeout) for worker in workers)))
        if briefs:  # topics are folded when messages have been placed
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done.append(await self.briefing.drain(left))
        counts: Counter[str] = Counter()
        failed: dict[str, str] = {}
        for one in done:
            counts.update(one.counts)
            failed |= one.failed
        complete = done[0].complete and done[-1].complete
        return Done(dict(counts), failed, complete)
