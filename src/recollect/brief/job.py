"""The job that compresses older turns into the brief: after the turn, off the request path, one at a time.

`core.compression.triggers` decide what is due. A writer makes the next version, with a model or without. The store
takes it only if the brief and the messages are still as they were read. A failure loses nothing: the turns stay
uncompressed and in the prompt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

from recollect.brief.step import MODEL_TIMED_OUT, CompressionStep, DoesNotPay, Writer
from recollect.brief.turn_sizes import (
    MeasuredTurn,
    active_triggers,
    end_of_step,
    expected_brief_tokens,
    last_seq_before_tail,
    measure_turns,
    sum_tokens,
)
from recollect.core import times
from recollect.core.compression import triggers
from recollect.core.compression.brief import Brief, BriefBody, CorruptBrief, to_brief
from recollect.core.compression.triggers import Situation
from recollect.core.errors import Conflict, NotFound, StoreUnavailable
from recollect.core.models import OPERATOR, Principal
from recollect.core.protocols import Clock, Tokenizer
from recollect.core.turns import split_into_turns
from recollect.jobs.job import ConversationJob, ConversationWork, Interrupted, Pace, StopSignal
from recollect.jobs.leases import LeaseKeeper
from recollect.jobs.maintenance import FreeLeases
from recollect.jobs.prompt_sizes import PromptSizes
from recollect.settings import Settings
from recollect.storage import briefs
from recollect.storage.briefs import BriefState
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

MIN_REPLACED_TOKENS: Final = 100  # fewer tokens of turns could not pay for the frame of a brief
MAX_PUT_OFF: Final = 1024  # conversations of which it is known that a model's brief did not pay
STRETCH_MESSAGES: Final = 500  # each further step reads so many to find its turns
MAX_UNCOUNTED: Final = 4000  # messages without token counts; above, the job that counts them comes first
MAX_YIELD_SECONDS: Final = 10  # a step waits at most so long for work that goes first
INLINE_MESSAGES: Final = 500  # up to so many are measured without a thread
ALL_MESSAGES: Final = 2**62
LOCK_POLL_SECONDS: Final = 0.05
CLOSE_TIMEOUT_SECONDS: Final = 3.0  # closing a memory waits so long for callers inside `compress`
DAY_CHECK_INTERVAL: Final = timedelta(hours=1)  # where days are compressed: zones end theirs at any hour
DAY_CHECK_RANGE: Final = timedelta(days=3)  # older conversations were looked at since the start


class _Owner(NamedTuple):
    """A conversation and its person: the first arguments of every call to the store."""

    principal: Principal
    conversation: str


@dataclass(slots=True)
class _Run:
    """Steps that belong together.

    They go on through the seq `target`, whatever the triggers say of the rest. A model that did not answer once is not
    asked again within the run: each step of a long history would wait for it.
    """

    target: int = 0
    before_tail: int = 0  # turns up to this seq leave the prompt when they are compressed; newer ones are in the tail
    ask_model: bool = True


class CompressBriefs(ConversationJob):
    """Keeps briefs up to date in the background, and compresses at once for callers who ask."""

    name = "briefs"
    cursor = briefs.CURSOR
    pace = Pace(messages=1_000_000, parallel=2)  # a conversation is looked at as a whole

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        leases: LeaseKeeper,
        *,
        make_writer: Callable[[], Writer],
        settings: Callable[[Principal], Settings],
        tokenizer: Callable[[], Tokenizer],
        prompt_sizes: PromptSizes,
        must_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        """`make_writer` is called when the first brief is due. Background steps wait while `must_wait()` is true."""
        super().__init__(store)
        self._clock, self._leases, self._settings, self._tokenizer = clock, leases, settings, tokenizer
        self._make_writer, self._must_wait, self._prompt_sizes = make_writer, must_wait, prompt_sizes
        self._writer: Writer | None = None
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._put_off: dict[int, int] = {}  # by key: tokens of turns for which a model's brief did not pay
        self._days_checked_at: datetime | None = None
        self._last_made: tuple[tuple[int, tuple[object, ...]], Brief] | None = None  # by key and mark
        self._callers: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def forget(self, person: str | None = None) -> None:
        """Drop the brief that is kept in memory."""
        self._last_made = None
        self._put_off.clear()

    # In the background

    async def tend(self) -> int:
        """Make conversations due again whose day may have ended, where days are compressed. Return 0."""
        now = self._clock.now()
        if self._days_checked_at is None or abs(now - self._days_checked_at) >= DAY_CHECK_INTERVAL:
            since = times.EARLIEST if self._days_checked_at is None else now - DAY_CHECK_RANGE
            is_wanted = self._settings(OPERATOR).compress_daily
            if is_wanted or "true" in await self._store.setting_values("compress_daily"):
                self._days_checked_at = now
                await self._store.briefs.recheck(since=since)
        return 0

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Compress what is due, step by step. Return how many versions were made."""
        steps, run = 0, _Run()
        owner = _Owner(work.principal, work.conversation)

        def check() -> None:
            stop.check(steps)

        if not await self._is_due(owner):
            return 0  # nothing is written for it
        while True:
            await self._wait_for_others(check)
            async with self._alone(work.key, wait=False):  # for one step, so that callers get in between
                if not await self._step(owner, run, check=check):
                    return steps
            steps += 1

    async def _wait_for_others(self, check: Callable[[], None]) -> None:
        deadline, pause = time.monotonic() + MAX_YIELD_SECONDS, 0.002
        while self._must_wait() and time.monotonic() < deadline:
            check()
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.1)
        check()

    async def _is_due(self, owner: _Owner) -> bool:
        if not active_triggers(self._settings(owner.principal)):
            return False
        state = await self._store.briefs.state(*owner)
        if state is None:
            return False
        turns = await self._turns(owner, state, may_defer=True)
        return await self._choose_target(owner, state, turns, _Run(), force=False) != ""

    # For callers

    async def compress(self, principal: Principal, conversation: str, *, force: bool = False) -> Brief | None:
        """Compress what is due now; with `force`, all but the newest turns. Return the newest brief if it is new."""
        owner = _Owner(principal, conversation)
        before = await self._store.briefs.state(*owner)
        if before is None:
            return None
        async with self._as_caller(), self._alone(before.key, wait=True):
            await self._compress_all(owner, force=force)
        after = await self._store.briefs.state(*owner)
        if after is None or after.version == before.version:
            return None
        return await self._store.briefs.get(*owner)

    async def brief(self, principal: Principal, conversation: str, version: int | None = None) -> Brief | None:
        """Return a stored version, the newest by default. If the newest is damaged, make all again from the log."""
        owner = _Owner(principal, conversation)
        state = await self._store.briefs.state(*owner)
        if state is None:
            return None
        try:
            return await self._store.briefs.get(*owner, version)
        except CorruptBrief as error:
            if version is not None and version != state.version:
                message = f"Version {version} of this brief is damaged; `recollect rebuild` makes all versions again."
                raise NotFound("brief_damaged", message) from error
            log.warning("%s; it is made anew from the log", error)
        async with self._as_caller(), self._alone(state.key, wait=True):
            await self._store.briefs.drop(*owner)
            await self._compress_all(owner)
        return await self._store.briefs.get(*owner, version)

    async def _compress_all(self, owner: _Owner, *, force: bool = False) -> None:
        """Compress step by step. Begin again, twice at most, if something is erased meanwhile."""
        for is_last_try in (False, False, True):
            run = _Run()
            try:
                while await self._step(owner, run, force=force, check=self._check_open):
                    pass
                return
            except Interrupted as error:
                if is_last_try:
                    message = "The conversation changes too often to be compressed now: try again."
                    raise Conflict("brief_changed", message, retryable=True) from error

    def stop(self) -> None:
        """End the work of all callers: the memory is being closed."""
        self._is_closed = True

    async def ended(self) -> None:
        """Wait until callers have seen that the memory is closed."""
        if self._callers:
            await asyncio.wait(self._callers, timeout=CLOSE_TIMEOUT_SECONDS)

    @asynccontextmanager
    async def _as_caller(self) -> AsyncIterator[None]:
        """Note that this task is inside, so that closing waits for it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._callers.add(task)
        try:
            yield
        finally:
            self._callers.discard(task)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("store_closed", "This memory was closed meanwhile.", retryable=False)

    # One step

    @asynccontextmanager
    async def _alone(self, key: int, *, wait: bool) -> AsyncIterator[None]:
        """Hold the right to compress a conversation, against other tasks and other processes.

        Without `wait`, raise `Interrupted` if another task or process has it.
        """
        lease = self._leases.named(f"brief:{key}")
        lock = self._locks.setdefault(key, asyncio.Lock())
        if lock.locked() and not wait:
            raise Interrupted
        async with lock:
            while not await self._leases.take(lease):
                if not wait:
                    raise Interrupted
                await FreeLeases(self._store).tend()  # the holder may be a process that was killed
                self._check_open()
                await asyncio.sleep(LOCK_POLL_SECONDS)
            async with self._leases.kept(lease):
                yield

    async def _step(self, owner: _Owner, run: _Run, *, force: bool = False, check: Callable[[], None]) -> bool:
        """Make one version, if one is due: read, let the writer work (no transaction is open), save."""
        began = time.perf_counter()
        before = await self._store.briefs.state(*owner)
        if before is None:
            return False
        measured = await self._turns(owner, before, limit=STRETCH_MESSAGES if run.target else 0)
        reason = await self._choose_target(owner, before, measured, run, force=force)
        if not reason:
            return False
        settings = self._settings(owner.principal)
        through = end_of_step(measured, run.target, settings)
        old = await self._newest(owner, before)
        check()
        messages = await self._store.briefs.messages(*owner, after=before.through_seq, through=through)
        step = CompressionStep(
            owner.conversation,
            None if old is None else old.summary,
            split_into_turns([message for message in messages if not message.only_quotes]),
            version=before.version + 1,
            zone=before.zone,
            now=self._clock.now(),
            tokens=sum_tokens(measured, min(through, run.before_tail)),
            settings=settings,
            ask_model=run.ask_model,
            must_pay=settings.compress_must_pay and not force,
        )
        body = await self._write(step, before, check)
        if body is None:
            return False
        written = time.perf_counter()
        saved = await self._store.briefs.save(*owner, before, body, through=through, count=len(messages), now=step.now)
        now = time.perf_counter()
        log.info(
            "brief: version=%d trigger=%s turns=%d messages=%d tokens_before=%d tokens_after=%d ms=%d call_ms=%d "
            "save_ms=%d model=%s dropped=%d saved=%s degraded=%s",
            step.version, reason, len(step.turns), len(messages), step.tokens_before, body.tokens,
            (now - began) * 1000, body.call_ms, (now - written) * 1000, body.model_used, body.dropped, saved,
            body.degraded,
        )  # fmt: skip
        if not saved:
            raise Interrupted  # the log or the brief changed meanwhile: the next look sees what is due then
        total = before.messages + len(messages)
        made = to_brief(body, owner.conversation, step.version, through=through, messages=total, now=step.now)
        mark = (step.version, through, times.to_micros(step.now), *before.mark[3:])
        self._last_made = ((before.key, mark), made)
        run.ask_model = body.degraded != MODEL_TIMED_OUT
        return True

    async def _write(self, step: CompressionStep, before: BriefState, check: Callable[[], None]) -> BriefBody | None:
        """Return the next version, or None if it would make prompts longer.

        If a model was asked in vain, it is asked again when twice as many tokens can be compressed, not at every turn.
        """
        if self._writer is None:
            self._writer = await asyncio.to_thread(self._make_writer)
        try:
            body = await self._writer.write(step, check)
        except DoesNotPay as error:
            log.debug("brief: version=%d put off, tokens_before=%d", step.version, step.tokens_before)
            if error.asked_model:
                while len(self._put_off) >= MAX_PUT_OFF:
                    del self._put_off[next(iter(self._put_off))]
                self._put_off[before.key] = step.tokens
            return None
        self._put_off.pop(before.key, None)
        return body

    async def _newest(self, owner: _Owner, state: BriefState) -> Brief | None:
        """Return the newest brief. Drop one that is damaged and interrupt: the log has everything."""
        if self._last_made is not None and self._last_made[0] == (state.key, state.mark):
            return self._last_made[1]  # of the step before: a long ledger is not read again for each step
        try:
            brief = await self._store.briefs.get(*owner)
        except CorruptBrief as error:
            log.warning("%s; it is made anew from the log", error)
            await self._store.briefs.drop(*owner)
            raise Interrupted from error
        if (brief.version if brief else 0) != state.version:
            raise Interrupted  # made, or erased, between the two reads
        return brief

    async def _turns(
        self, owner: _Owner, state: BriefState, *, limit: int = 0, may_defer: bool = False
    ) -> list[MeasuredTurn]:
        """Return the turns that are not compressed yet: all, or those that are whole within the next `limit` messages.

        With `may_defer`, interrupt while the tokens of a long import are still being counted by another job.
        """
        rows = await self._store.briefs.sizes(*owner, after=state.through_seq, limit=limit or ALL_MESSAGES)
        uncounted = sum(row["tokens"] is None for row in rows)
        if may_defer and uncounted > MAX_UNCOUNTED:
            raise Interrupted
        measuring = (rows, ZoneInfo(state.zone), self._tokenizer)
        if uncounted or len(rows) > INLINE_MESSAGES:
            turns = await asyncio.to_thread(measure_turns, *measuring)
        else:
            turns = measure_turns(*measuring)
        if not limit or len(rows) < limit:
            return turns
        return turns[:-1] or await self._turns(owner, state)  # a turn longer than the limit is read whole

    async def _choose_target(
        self, owner: _Owner, state: BriefState, turns: Sequence[MeasuredTurn], run: _Run, *, force: bool
    ) -> str:
        """Return why to compress, and set through which seq; "" for not at all."""
        if turns and turns[0].last_seq <= run.target:
            return "rest"
        settings = self._settings(owner.principal)
        run.target, run.before_tail = 0, last_seq_before_tail(turns, settings.memory_k_raw_turns)
        if force:
            reason, due = "asked", max(0, len(turns) - settings.memory_k_raw_turns)
        else:
            situation = Situation(
                [turn.size for turn in turns],
                min(state.tokens, settings.memory_brief_token_budget),
                await self._prompt_sizes.get(*owner) if settings.compress_tokens_above else 0,
                self._clock.now().astimezone(ZoneInfo(state.zone)).date(),
                expected_brief_tokens(state.version + 1, settings),
            )
            reason, due = triggers.largest_due(active_triggers(settings), situation)
        if not due:
            return ""
        target = turns[due - 1].last_seq
        replaced = sum_tokens(turns, min(target, run.before_tail))
        must_pay = settings.compress_must_pay and not force
        if must_pay and replaced < max(MIN_REPLACED_TOKENS, 2 * self._put_off.get(state.key, 0)):
            return ""  # nothing is lost: these turns stay in the prompt, and are looked at again after the next one
        run.target = target
        return reason
