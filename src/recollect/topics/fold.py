"""Folding topics: what is older than their last few messages goes into the archive, told in a summary that grows.

It happens after the turn, off the request path. A topic that was brought back stays whole while it is the active one. A
topic that faded leaves, when there are more than enough of them; nothing of it is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from recollect.brief.compression import Fold, Writer
from recollect.core import archive, times
from recollect.core.archive import Dictionary
from recollect.core.compression import brief
from recollect.core.compression.brief import Body
from recollect.core.compression.narrative import Length, Statement, narrative
from recollect.core.models import OPERATOR, Message, Principal
from recollect.core.protocols import Clock, Tokenizer
from recollect.core.topics import FAINT, Aging, Group, from_stored, to_stored
from recollect.core.turns import turns_of
from recollect.jobs.worker import Interrupted, Work
from recollect.settings import Settings
from recollect.storage.archive import Folded
from recollect.storage.archive_blocks import pack
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore
from recollect.storage.topics import Standing

log = logging.getLogger(__name__)

BLOCK_MESSAGES: Final = 50  # of a block that is still extended
BLOCK_BYTES: Final = 1 << 15  # about: above it a block takes tens of milliseconds to pack, and reading it longer
SHORTER: Final = 2  # times: what a summary is, of what it tells,
SHORTEST: Final = 40  # but it may have so many tokens
TOLD_AT_ONCE: Final = 60  # messages that one step of a summary takes in
LOOK_AGAIN: Final = timedelta(hours=1)  # whether topics have faded where nothing is said
SAMPLE: Final = 1 << 21  # bytes of text that a dictionary is learned from
REPACKED: Final = 32  # blocks in one step


def aging(settings: Settings) -> Aging:
    return Aging(
        timedelta(seconds=settings.base_half_life_seconds),
        timedelta(seconds=settings.max_half_life_seconds),
        settings.access_threshold_for_lt,
    )


class FoldTopics:
    """The chore, and an upkeep too: topics fade although nothing is said."""

    name = "folded"

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        *,
        settings: Callable[[Principal], Settings],
        tokenizer: Callable[[], Tokenizer],
        writer: Callable[[Settings], Writer | None],
    ) -> None:
        """The writer is a model's, where topics stand in for the brief; without one summaries are built in."""
        self._store, self._clock, self._settings = store, clock, settings
        self._tokenizer, self._writer = tokenizer, writer
        self._looked: datetime | None = None

    async def tend(self) -> int:
        now = self._clock.now()
        if self._looked is None or abs(now - self._looked) >= LOOK_AGAIN:
            self._looked = now
            given = await self._store.given_settings("max_topics")
            most = min([self._settings(OPERATOR).max_topics, *(int(value) for value in given if value.isdigit())])
            await self._store.topics.look_again(most=most)
        return 0

    async def do(self, work: Work) -> int:
        """Returns how many messages went into the archive."""

        def check() -> None:
            if work.is_stopped() or work.is_over():
                raise Interrupted(done)

        done = 0
        found = await self._store.topics.all(work.principal, work.conversation)
        settings = self._settings(work.principal)
        fading = partial(self._fading, settings)
        if found is not None and fading(found[1], found[0]):
            await self._store.topics.cool(work.principal, found[0], fading)
            found = await self._store.topics.all(work.principal, work.conversation)
        if found is None:
            return 0
        standing, groups = found
        dictionary: Dictionary | None = None
        for group in groups:
            check()
            is_cold, restored = bool(group.root["cold"]), bool(group.root["restored"])
            if group.hot > (0 if is_cold else settings.max_messages_per_topic) and not restored:
                dictionary = dictionary or await self._store.archive.dictionary(work.principal)
                keep = 0 if is_cold else settings.recent_message_keep
                done += await self._fold(work.principal, standing, group, keep, dictionary)
            elif not _is_untold(group):
                continue
            await self._tell(work.principal, standing, group, check)
        if done:
            await self._learn(work.principal, check)
        return done

    def _fading(self, settings: Settings, groups: Sequence[Group], standing: Standing) -> list[Group]:
        """Topics to leave, lowest first, until there are no more than enough: never the active one or one that is
        pinned."""
        warm = [group for group in groups if not group.root["cold"] and not group.waits]
        now, how = times.to_micros(self._clock.now()), aging(settings)
        faint = [
            (priority, group.root["opened_seq"], group)
            for group in warm
            if (priority := group.priority(now, how)) < FAINT and not group.pinned and not standing.is_active(group)
        ]
        over = max(0, len(warm) - settings.max_topics)
        return [group for _, _, group in sorted(faint, key=lambda one: one[:2])[:over]]

    async def _fold(
        self, principal: Principal, standing: Standing, group: Group, keep: int, dictionary: Dictionary
    ) -> int:
        """All but the last `keep` messages; the one that gives the conversation its title stays at hand, too."""
        rows, opening = await self._store.topics.hot(principal, standing, group)
        leaving = [row for row in rows[: max(0, len(rows) - keep)] if row["seq"] != opening]
        block: int | None = group.root["block_key"]
        for some in _portions(leaving, await self._room(principal, block)):
            before = await self._store.archive.block(principal, block) if some.extends else None
            fresh = {row["key"]: row["content"] for row in some.rows}
            said = (before or {}) | fresh
            body = await asyncio.to_thread(pack, said, dictionary)
            folded = Folded(block if before else None, said, list(fresh), body, dictionary, some.rows[-1]["seq"])
            saved = await self._store.archive.save_folded(principal, standing, folded, group.root["key"])
            if saved is None:
                raise Interrupted  # something was erased meanwhile: the next look sees what is there then
            block = saved
        return len(leaving)

    async def _room(self, principal: Principal, block: int | None) -> tuple[int, int]:
        """Messages and bytes that the open block still takes."""
        open_block = await self._store.archive.block(principal, block)
        if open_block is None:
            return 0, 0
        return BLOCK_MESSAGES - len(open_block), BLOCK_BYTES - sum(map(len, open_block.values()))

    # Telling

    async def _tell(self, principal: Principal, standing: Standing, group: Group, check: Callable[[], None]) -> None:
        """The summary grows by what has gone into the archive since it was told."""
        root = group.root
        statements = from_stored(root["summary"])
        after = abs(root["summary_seq"]) if statements else 0
        members = await self._store.topics.members(principal, standing, group, after=after)
        hot, _ = await self._store.topics.hot(principal, standing, group)
        kept = {row["seq"] for row in hot}
        news = [one for one in members if one.seq not in kept and not one.only_quotes]
        if not news:
            return
        for start in range(0, len(news), TOLD_AT_ONCE):
            check()
            some = news[start : start + TOLD_AT_ONCE]
            statements = await self._told(some, statements, standing, self._settings(principal), check)
            through = some[-1].seq if some[-1] is news[-1] else -some[-1].seq
            summary = to_stored(statements)
            if not await self._store.topics.tell(principal, standing, root["key"], summary, through=through):
                raise Interrupted  # the next look sees what there is then

    async def _told(
        self,
        news: Sequence[Message],
        before: Sequence[Statement],
        standing: Standing,
        settings: Settings,
        check: Callable[[], None],
    ) -> list[Statement]:
        writer, most = self._writer(settings), settings.topic_summary_token_cap
        if writer is None:
            return await asyncio.to_thread(self._built_in, news, before, standing.zone, most)
        tokenizer, now = await asyncio.to_thread(self._tokenizer), self._clock.now()
        old = brief.of_body(
            Body(tuple(before), (), {}, brief.BUILT_IN, tokenizer.count(narrative(before))),
            standing.conversation, 1, through=0, messages=0, now=now,
        )  # fmt: skip
        size = sum(tokenizer.count(one.content) for one in news)
        shorter = {"memory_summary_token_cap": max(most, 50), "narrative_policy": "tokens"}
        fold = Fold(
            standing.conversation, old if before else None, turns_of(news), 2 if before else 1, standing.zone, now,
            size, settings.model_copy(update=shorter),
        )  # fmt: skip
        return list((await writer.write(fold, check)).statements)

    def _built_in(self, news: Sequence[Message], before: Sequence[Statement], zone: str, cap: int) -> list[Statement]:
        from recollect.brief.writer import Pause
        from recollect.core.compression.summariser import summarise  # its rules take a while to read

        count = self._tokenizer().count
        told = count(narrative(before)) + sum(count(one.content) for one in news) // SHORTER
        most = min(cap, max(SHORTEST, told))
        length = Length(most // 2, most, count)
        return list(summarise(turns_of(news), old=before, length=length, zone=zone, known=[], pause=Pause()))

    # Learning

    async def _learn(self, principal: Principal, check: Callable[[], None]) -> None:
        """A dictionary of the person's own archive, when there is enough of it, and again when it has grown."""
        now_bytes, then_bytes = await self._store.archive.size(principal)
        size = archive.dictionary_size(now_bytes)
        if not size or now_bytes < then_bytes * archive.LEARN_AGAIN:
            return
        sample = await self._store.archive.sample(principal, most=SAMPLE)
        try:
            body = await asyncio.to_thread(archive.train, sample.texts, size)
        except ValueError as error:
            log.info("no dictionary is learned: %s", error)
            return
        key = await self._store.archive.save_dictionary(
            principal, body, sample, text_bytes=now_bytes, now=self._clock.now()
        )
        if key is not None:
            await self._repack(principal, Dictionary(key, body), check)

    async def _repack(self, principal: Principal, dictionary: Dictionary, check: Callable[[], None]) -> None:
        """All older blocks; then dictionaries that none of them needs any more go."""
        after, more = 0, True
        while more:
            check()
            after, _ = await self._store.archive.repack(principal, dictionary, after=after, limit=REPACKED)
            more = after > 0
        await self._store.archive.drop_unused_dictionaries(principal)


def _is_untold(group: Group) -> bool:
    """Whether something went into the archive that the summary does not know of: telling it was interrupted."""
    told = group.root["summary_seq"] if group.root["summary"] is not None else 0
    return bool(group.total("archived")) and (told <= 0 or group.root["folded_seq"] > told)


class _Portion:
    """Messages that go into one block, and whether it extends the one before."""

    __slots__ = ("extends", "rows")

    def __init__(self, rows: list[Row], extends: bool) -> None:
        self.rows, self.extends = rows, extends


def _portions(rows: Sequence[Row], room: tuple[int, int]) -> Iterator[_Portion]:
    """In order; the first fill up the open block, if it has room."""
    messages, size = room
    extends = messages > 0 and size > 0
    if not extends:
        messages, size = BLOCK_MESSAGES, BLOCK_BYTES
    some: list[Row] = []
    for row in rows:
        if some and (messages <= 0 or size < len(row["content"])):
            yield _Portion(some, extends)
            some, extends, messages, size = [], False, BLOCK_MESSAGES, BLOCK_BYTES
        some.append(row)
        messages, size = messages - 1, size - len(row["content"])
    if some:
        yield _Portion(some, extends)
