"""The plan of derived work: which jobs there are, in which order, and which worker does them.

There are two workers. A model that writes briefs may take minutes, and neither words nor vectors nor topics may wait
for it. A new kind of derived work is a job in a file of its own and one line here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from recollect.admin.compose import Components
from recollect.admin.current_settings import CurrentSettings, SettingsBook
from recollect.brief.job import CompressBriefs
from recollect.brief.step import Writer
from recollect.brief.turn_sizes import active_triggers
from recollect.core.models import OPERATOR, Done
from recollect.core.protocols import Tokenizer
from recollect.jobs.audit import AuditLog
from recollect.jobs.job import Job, Maintenance
from recollect.jobs.leases import LeaseKeeper, new_holder
from recollect.jobs.maintenance import FinishErasures, FreeLeases, TidyStore
from recollect.jobs.message_index import IndexMessages
from recollect.jobs.metrics import RecallMetrics
from recollect.jobs.prompt_sizes import PromptSizes
from recollect.jobs.worker import Worker
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.segment_job import PackSegments
from recollect.recall.vector_job import EmbedMessages
from recollect.settings import Settings
from recollect.storage.jobs import Rewind
from recollect.topics.assignment import AssignMessages
from recollect.topics.fold import FoldTopics

ENCODING: Final = "o200k_base"  # counts the tokens of stored messages and briefs


class DerivedWork:
    """All derived work of a memory. Two workers do it; callers see them as one."""

    def __init__(
        self,
        components: Components,
        book: SettingsBook,
        settings: CurrentSettings,
        embedding: EmbedMessages,
        metrics: RecallMetrics,
        audit: AuditLog,
        prompt_sizes: PromptSizes,
    ) -> None:
        """`settings` say how often the workers look; each person's work follows that person's own, from `book`."""
        store, clock = components.store, components.clock
        self._settings, self._book = settings, book
        leases = LeaseKeeper(store.jobs, clock, new_holder(clock.now()), self._lease_duration)

        def tokenizer() -> Tokenizer:
            return tokenizer_for(ENCODING)

        def make_writer() -> Writer:
            from recollect.brief.writer import BriefWriter  # its rules take a while to load

            return BriefWriter(components.model, hosted=components.hosted, tokenizer=tokenizer)

        def topic_writer(person_settings: Settings) -> Writer | None:
            """Return a writer with a model where topics stand in for briefs; elsewhere briefs have used it already."""
            return None if components.model is None or active_triggers(person_settings) else make_writer()

        def must_wait() -> bool:
            """Say whether compressing must leave the processor to the built-in embedder, which comes first."""
            return components.model is None and components.embedder is None and self.indexing.is_busy

        self.briefs = CompressBriefs(
            store,
            clock,
            leases,
            make_writer=make_writer,
            settings=book.now,
            tokenizer=tokenizer,
            prompt_sizes=prompt_sizes,
            must_wait=must_wait,
        )
        self.assignment = AssignMessages(store, clock, settings=book.now)
        folding = FoldTopics(store, clock, settings=book.now, tokenizer=tokenizer, writer=topic_writer)
        quick: list[Job] = [IndexMessages(store, tokenizer), embedding, self.assignment, PackSegments(store)]
        slow: list[Job] = [self.briefs, folding]
        quick_maintenance: list[Maintenance] = [
            FinishErasures(store), FreeLeases(store), TidyStore(store, clock), metrics, audit, prompt_sizes,
            embedding,
        ]  # fmt: skip
        slow_maintenance: list[Maintenance] = [self.briefs, folding]
        worker = partial(Worker, leases, prepare=book.prepare)
        self.indexing = worker(jobs=quick, maintenance=quick_maintenance)
        self.summarising = worker(jobs=slow, maintenance=slow_maintenance)
        self._workers = (self.indexing, self.summarising)
        self._jobs = (*quick, *slow)

    def _lease_duration(self) -> timedelta:
        return timedelta(seconds=self._settings.now.worker_lease_seconds)

    @property
    def rewinds(self) -> Sequence[Rewind]:
        """Return what a rebuild runs for each job."""
        return [job.rewind for job in self._jobs]

    def notify(self) -> None:
        """Make both workers look now."""
        for worker in self._workers:
            worker.notify()

    def stop(self) -> None:
        """End both workers as soon as their jobs can be interrupted."""
        for worker in self._workers:
            worker.stop()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(self._run(worker))

    async def _run(self, worker: Worker) -> None:
        await worker.run(lambda: self._settings.now.worker_poll_seconds, before=self._refresh_settings)

    async def _refresh_settings(self) -> None:
        await self._settings.refresh()
        await self._book.prepare(OPERATOR)

    async def drain(self, timeout: float | None = None, *, briefs: bool = True) -> Done:
        """Do all that is missing, for at most `timeout` seconds; without `briefs`, only what recall needs."""
        deadline = None if timeout is None else time.monotonic() + timeout
        workers = self._workers if briefs else (self.indexing,)
        results = list(await asyncio.gather(*(worker.drain(timeout) for worker in workers)))
        if briefs:  # topics are folded only after their messages are assigned
            seconds_left = None if deadline is None else max(0.0, deadline - time.monotonic())
            results.append(await self.summarising.drain(seconds_left))
        counts: Counter[str] = Counter()
        failed: dict[str, str] = {}
        for done in results:
            counts.update(done.counts)
            failed |= done.failed
        return Done(dict(counts), failed, complete=results[0].complete and results[-1].complete)
