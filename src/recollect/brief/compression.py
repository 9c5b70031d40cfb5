"""Folding older turns into the brief: after the turn, off the request path, one at a time for each conversation.

What is due is decided in `core.triggers`; a writer makes the next version, with a model or without; the store takes it
only if the brief still stands where it stood. A failure costs nothing: the turns stay uncompressed, and in the prompt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.compression import triggers
from recollect.core.compression.brief import Body, Brief, CorruptBrief, of_body
from recollect.core.compression.triggers import Situation, TurnSize
from recollect.core.errors import Conflict, NotFound, RecollectError, StoreUnavailable
from recollect.core.models import OPERATOR, Message, Principal
from recollect.core.protocols import Clock, Tokenizer
from recollect.core.turns import turns_of
from recollect.jobs.chores import FreeLeases, as_message
from recollect.jobs.worker import Interrupted, Work
from recollect.providers.tokenizer import count_message
from recollect.settings import Settings
from recollect.storage.briefs import Standing
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

UNANSWERED: Final = "timeout"  # why a model wrote no brief
STEP: Final = 6000  # tokens that are folded at once, beyond what a trigger's own threshold lets come together
REMEMBERED: Final = 1024  # conversations whose system prompt's size is known
STRETCH: Final = 500  # messages among which one step looks for its turns
UNCOUNTED: Final = 4000  # messages without tokens, of which another chore is at work
OTHERS_FIRST: Final = 10  # seconds that a fold waits for other work
INLINE: Final = 500  # messages that are grouped without a thread
EVERYTHING: Final = 2**62
LOOK: Final = 0.05  # seconds between looks whether another process is through
PATIENCE: Final = 3.0  # seconds that a memory which is closed waits for those inside
LOOK_AGAIN: Final = timedelta(hours=1)  # where days are folded: zones end theirs at any hour
RECENT: Final = timedelta(days=3)  # what was said before that was looked at since the start


@dataclass(frozen=True, slots=True)
class Fold:
    """What a writer gets: the last brief, the turns that go into the next, and what it may take."""

    conversation: str
    old: Brief | None
    turns: Sequence[Sequence[Message]]
    version: int
    zone: str
    now: datetime
    tokens: int  # of the turns
    settings: Settings
    ask_model: bool = True

    @property
    def messages(self) -> list[Message]:
        return [message for turn in self.turns for message in turn]


@dataclass(slots=True)
class _Run:
    """Steps that belong together: through which seq they go on, whatever the triggers say of the rest, and whether a
    model is still asked. One that did not answer once would be waited for at each step of a long history."""

    target: int = 0
    ask_model: bool = True


class Writer(Protocol):
    """Makes the next version of a brief. It may ask a model; it never fails for want of one."""

    async def write(self, fold: Fold, check: Callable[[], None]) -> Body: ...


class Compressing:
    """The chore that keeps briefs up to date, and the same at once for who asks."""

    name = "briefs"

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        writer: Callable[[], Writer],
        *,
        settings: Callable[[Principal], Settings],
        tokenizer: Callable[[], Tokenizer],
        holder: str,
        must_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        """Folds of the worker wait while they `must_wait`, but not for ever."""
        self._must_wait = must_wait
        self._store, self._clock, self._settings = store, clock, settings
        self._writer: Writer | None = None
        self._make_writer = writer  # when first needed
        self._tokenizer, self._holder = tokenizer, holder
        self._busy: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._prompts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._looked: datetime | None = None
        self._made: tuple[tuple[int, tuple[object, ...]], Brief] | None = None  # the last one made here
        self._waiting: set[asyncio.Task[Any]] = set()
        self._stopped = False

    def note_prompt(self, principal: Principal, conversation: str, tokens: int) -> None:
        """How large the system prompt of a conversation is: the trigger of tokens counts it too, in this process."""
        self._prompts[principal.person, conversation] = tokens
        self._prompts.move_to_end((principal.person, conversation))
        while len(self._prompts) > REMEMBERED:
            self._prompts.popitem(last=False)

    async def tend(self) -> int:
        """Where days are folded, the worker looks again when one may have ended, whether or not anything was said."""
        now = self._clock.now()
        if self._looked is None or abs(now - self._looked) >= LOOK_AGAIN:
            since = times.EARLIEST if self._looked is None else now - RECENT
            wanted = self._settings(OPERATOR).compress_daily
            if wanted or "true" in await self._store.given_settings("compress_daily"):
                self._looked = now
                await self._store.briefs.look_again(since=since)
        return 0

    async def do(self, work: Work) -> int:
        """Fold whatever is due, step by step."""

        made, run = 0, _Run()

        def check() -> None:
            if work.is_stopped() or work.is_over():
                raise Interrupted(made)

        if not await self._is_due(work.principal, work.conversation):
            return 0  # the rule: nothing is written for it
        while True:
            await self._turn_comes(check)
            async with self._alone(work.key, wait=False):  # for one step: others need not wait while this one does
                if not await self._step(work.principal, work.conversation, run, check=check):
                    return made
            made += 1

    async def _turn_comes(self, check: Callable[[], None]) -> None:
        until, pause = time.monotonic() + OTHERS_FIRST, 0.002
        while self._must_wait() and time.monotonic() < until:
            check()
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.1)
        check()

    async def compress(self, principal: Principal, conversation: str, *, force: bool = False) -> Brief | None:
        """All that is due now; with `force`, all but the newest turns. The newest brief, if there is a newer one."""
        before = await self._store.briefs.standing(principal, conversation)
        if before is None:
            return None
        async with self._noted(), self._alone(before.key, wait=True):
            await self._fold_all(principal, conversation, force=force)
        after = await self._store.briefs.standing(principal, conversation)
        if after is None or after.version == before.version:
            return None
        return await self._store.briefs.get(principal, conversation)

    async def brief(self, principal: Principal, conversation: str, version: int | None = None) -> Brief | None:
        """A stored version. If the newest cannot be read, all are made anew from the log."""
        standing = await self._store.briefs.standing(principal, conversation)
        if standing is None:
            return None
        try:
            return await self._store.briefs.get(principal, conversation, version)
        except CorruptBrief as error:
            if version is not None and version != standing.version:
                told = f"Version {version} of this brief cannot be read; `recollect rebuild` makes all of them anew."
                raise NotFound("brief_damaged", told) from error
            log.warning("%s; it is made anew from the log", error)
        async with self._noted(), self._alone(standing.key, wait=True):
            await self._store.briefs.drop(principal, conversation)
            await self._fold_all(principal, conversation)
        return await self._store.briefs.get(principal, conversation, version)

    def stop(self) -> None:
        """Nobody waits for a fold any more."""
        self._stopped = True

    async def ended(self) -> None:
        """When those who waited know it."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=PATIENCE)

    @asynccontextmanager
    async def _noted(self) -> AsyncIterator[None]:
        """Whoever waits here is told when the memory is closed."""
        own = asyncio.current_task()
        assert own is not None  # noqa: S101 - a coroutine runs in a task
        self._waiting.add(own)
        try:
            yield
        finally:
            self._waiting.discard(own)

    def _check(self) -> None:
        if self._stopped:
            raise StoreUnavailable("store_closed", "This memory was closed meanwhile.", retryable=False)

    async def _fold_all(self, principal: Principal, conversation: str, *, force: bool = False) -> None:
        """Step by step. If something is erased meanwhile, once more."""
        for last in (False, False, True):
            run = _Run()
            try:
                while await self._step(principal, conversation, run, force=force, check=self._check):
                    pass
                return
            except Interrupted as error:
                if last:
                    told = "The conversation changes too often to be folded now: try again."
                    raise Conflict("brief_changed", told, retryable=True) from error

    async def _is_due(self, principal: Principal, conversation: str) -> bool:
        if not active(self._settings(principal)):
            return False
        standing = await self._store.briefs.standing(principal, conversation)
        if standing is None:
            return False
        turns = await self._sizes(principal, conversation, standing, patient=True)
        return bool(self._due(turns, standing, principal, conversation, force=False)[1])

    @asynccontextmanager
    async def _alone(self, key: int, *, wait: bool) -> AsyncIterator[None]:
        """Nobody else folds this conversation meanwhile, here or in another process.

        The lease is renewed as long as a model thinks; whoever may not wait is interrupted if another has it.
        """
        name = f"brief:{key}"
        lock = self._busy.setdefault(key, asyncio.Lock())
        if lock.locked() and not wait:
            raise Interrupted
        async with lock:
            while not await self._take(name):
                if not wait:
                    raise Interrupted
                await FreeLeases(self._store).tend()  # of a process that was killed
                self._check()
                await asyncio.sleep(LOOK)
            done = asyncio.Event()
            renewing = asyncio.create_task(self._renew(name, done))
            try:
                yield
            finally:
                done.set()
                await renewing  # or a renewal that is on its way would outlive the release
                await self._store.release_lease(name, holder=self._holder)

    async def _take(self, name: str) -> bool:
        now = self._clock.now()
        return await self._store.take_lease(name, holder=self._holder, now=now, until=now + self._lease)

    async def _renew(self, name: str, done: asyncio.Event) -> None:
        while not done.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), self._lease.total_seconds() / 3)
                return
            with suppress(RecollectError):  # the next time, perhaps; what is saved is checked in any case
                await self._take(name)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._settings(OPERATOR).worker_lease_seconds)

    async def _step(
        self,
        principal: Principal,
        conversation: str,
        run: _Run,
        *,
        force: bool = False,
        check: Callable[[], None],
    ) -> bool:
        """One fold, if one is due: read, let the writer think (no transaction is open), save."""
        began = time.perf_counter()
        before = await self._store.briefs.standing(principal, conversation)
        if before is None:
            return False
        sizes = await self._sizes(principal, conversation, before, limit=STRETCH if run.target else 0)
        reason, run.target = self._due(sizes, before, principal, conversation, force=force, target=run.target)
        if not run.target:
            return False
        settings = self._settings(principal)
        through = _reached(sizes, run.target, settings)
        old = await self._last(principal, conversation, before)
        check()
        messages = await self._store.briefs.messages(principal, conversation, after=before.through_seq, through=through)
        turns = turns_of([one for one in messages if not one.only_quotes])
        tokens = sum(turn.size.tokens for turn in sizes if turn.last <= through)
        now = self._clock.now()
        fold = Fold(conversation, old, turns, before.version + 1, before.zone, now, tokens, settings, run.ask_model)
        if self._writer is None:
            self._writer = await asyncio.to_thread(self._make_writer)
        body = await self._writer.write(fold, check)
        saved = await self._store.briefs.save(
            principal, conversation, before, body, through=through, count=len(messages), now=now
        )
        log.info(
            "brief: version=%d trigger=%s turns=%d messages=%d tokens_before=%d tokens_after=%d ms=%d model=%s "
            "dropped=%d saved=%s degraded=%s",
            fold.version, reason, len(turns), len(messages), tokens + before.tokens,
            body.tokens, (time.perf_counter() - began) * 1000, body.model_used,
            body.dropped, saved, body.degraded,
        )  # fmt: skip
        if not saved:
            raise Interrupted  # the log or the brief changed meanwhile: the next look sees what is due then
        made = of_body(
            body, conversation, fold.version, through=through, messages=before.messages + len(messages), now=now
        )
        self._made = ((before.key, (fold.version, through, times.to_micros(now), *before.mark[3:])), made)
        run.ask_model = body.degraded != UNANSWERED
        return True

    async def _last(self, principal: Principal, conversation: str, standing: Standing) -> Brief | None:
        """The newest brief. One that cannot be read goes: the log has everything."""
        if self._made is not None and self._made[0] == (standing.key, standing.mark):
            return self._made[1]  # by the step before: a long ledger is not read again for each
        try:
            old = await self._store.briefs.get(principal, conversation)
        except CorruptBrief as error:
            log.warning("%s; it is made anew from the log", error)
            await self._store.briefs.drop(principal, conversation)
            raise Interrupted from error
        if (old.version if old else 0) != standing.version:
            raise Interrupted  # made, or erased, between the two reads
        return old

    async def _sizes(
        self,
        principal: Principal,
        conversation: str,
        before: Standing,
        *,
        limit: int = 0,
        patient: bool = False,
    ) -> list[_Turn]:
        """The turns that are not folded yet: all, or those that are whole within the next `limit` messages.

        Whoever is `patient` waits until another chore has counted the tokens of a long import.
        """
        scope = (principal, conversation)
        rows = await self._store.briefs.sizes(*scope, after=before.through_seq, limit=limit or EVERYTHING)
        missing = sum(row["tokens"] is None for row in rows)
        if patient and missing > UNCOUNTED:
            raise Interrupted
        turns = (
            await asyncio.to_thread(self._grouped, rows, ZoneInfo(before.zone))
            if missing or len(rows) > INLINE
            else self._grouped(rows, ZoneInfo(before.zone))
        )
        if not limit or len(rows) < limit:
            return turns
        return turns[:-1] or await self._sizes(*scope, before)  # a turn longer than that is read whole

    def _grouped(self, rows: Sequence[Row], zone: ZoneInfo) -> list[_Turn]:
        self._count(rows)
        return [_turn(list(group), zone) for _, group in groupby(rows, key=_TurnNumber())]

    def _count(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row["tokens"] is None:
                row["tokens"] = count_message(as_message(row), self._tokenizer())

    def _due(
        self,
        turns: Sequence[_Turn],
        before: Standing,
        principal: Principal,
        conversation: str,
        *,
        force: bool,
        target: int = 0,
    ) -> tuple[str, int]:
        """Why to fold, and through which seq; 0 for not at all."""
        settings = self._settings(principal)
        sizes = [turn.size for turn in turns]
        if turns and turns[0].last <= target:
            return "rest", target
        if force:
            reason, due = "asked", max(0, len(turns) - settings.memory_k_raw_turns)
        else:
            today = self._clock.now().astimezone(ZoneInfo(before.zone)).date()
            prompt = self._prompts.get((principal.person, conversation), 0)
            situation = Situation(sizes, before.tokens, prompt, today)
            reason, due = triggers.first_due(active(settings), situation)
        return (reason, turns[due - 1].last) if due else ("", 0)


def active(settings: Settings) -> list[triggers.Trigger]:
    """The triggers that the settings switch on."""
    found: list[triggers.Trigger] = []
    if settings.compress_messages_at:
        found.append(triggers.ManyMessages(settings.compress_messages_at, settings.compress_messages_keep))
    if settings.compress_tokens_above:
        until = settings.compress_tokens_until or None
        found.append(triggers.ManyTokens(settings.compress_tokens_above, settings.compress_tokens_keep, until))
    if settings.compress_daily:
        found.append(triggers.NewDay())
    if settings.memory_chunk_summarize_threshold:
        found.append(triggers.Chunk(settings.memory_chunk_summarize_threshold, settings.memory_k_raw_turns))
    if settings.rag_summary_frequency:
        found.append(triggers.EveryAnswers(settings.rag_summary_frequency))
    return found


@dataclass(frozen=True, slots=True)
class _Turn:
    size: TurnSize
    last: int  # seq


def _reached(turns: Sequence[_Turn], target: int, settings: Settings) -> int:
    """How far one step goes: a model reads no more at once."""
    due = [turn.size for turn in turns if turn.last <= target]
    most = max(STEP, settings.memory_chunk_summarize_threshold)
    return turns[triggers.within(due, len(due), most) - 1].last


class _TurnNumber:
    """Numbers rows by the turn they belong to, as `core.turns` does it for messages."""

    def __init__(self) -> None:
        self._turn = 0

    def __call__(self, row: Row) -> int:
        self._turn += row["role"] == "user"
        return self._turn


def _turn(rows: Sequence[Row], zone: ZoneInfo) -> _Turn:
    day: date = times.from_micros(rows[0]["at"]).astimezone(zone).date()
    answers = sum(row["role"] == "assistant" for row in rows)
    is_done = rows[-1]["role"] == "assistant" and not rows[-1]["calls"]
    return _Turn(TurnSize(len(rows), sum(row["tokens"] for row in rows), answers, day, is_done), rows[-1]["seq"])
