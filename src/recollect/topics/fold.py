"""The job that folds topics: it moves their older messages into the archive and extends their summaries.

It runs after the turn, off the request path. A topic with many messages keeps only the newest ones outside the archive.
A topic that came back stays whole for as long as it is the active one. When there are too many topics, those that faded
go cold: all their messages are archived. Nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from recollect.brief.step import CompressionStep, Writer
from recollect.core import archive, times
from recollect.core.archive import Dictionary
from recollect.core.compression.narrative import Length, Statement, render_narrative
from recollect.core.compression.summary import Summary
from recollect.core.message import Message
from recollect.core.models import OPERATOR, Principal
from recollect.core.protocols import Clock, Tokenizer
from recollect.core.topics import FADED_PRIORITY, Aging, TopicGroup
from recollect.core.turns import split_into_turns
from recollect.jobs.job import ConversationJob, ConversationWork, Interrupted, Pace, StopSignal
from recollect.runtime.breather import Breather
from recollect.settings import Settings
from recollect.storage import topics as topic_storage
from recollect.storage.archive import FoldedBlock
from recollect.storage.archive_blocks import pack
from recollect.storage.driver import Row
from recollect.storage.shipped_dictionary import learned_dictionary
from recollect.storage.store import SqlStore
from recollect.storage.topic_summary import pack_statements, unpack_statements
from recollect.storage.topics import TopicsState

log = logging.getLogger(__name__)

MAX_BLOCK_MESSAGES: Final = 50
MAX_BLOCK_CHARACTERS: Final = 1 << 15  # a larger block takes tens of milliseconds to pack, and longer to read
TOKENS_PER_SUMMARY_TOKEN: Final = 2  # for so many tokens of new messages, a summary may grow by one
MIN_SUMMARY_TOKENS: Final = 40  # a summary may always have so many
MESSAGES_PER_SUMMARY_STEP: Final = 60
FADE_CHECK_INTERVAL: Final = timedelta(hours=1)  # how often to check for topics that faded while nothing was said
SAMPLE_BYTES: Final = 1 << 21  # text from which a dictionary is learned
BLOCKS_PER_REPACK: Final = 32  # blocks that are packed again in one step


def aging_from(settings: Settings) -> Aging:
    """Return the settings by which topics fade."""
    return Aging(
        timedelta(seconds=settings.base_half_life_seconds),
        timedelta(seconds=settings.max_half_life_seconds),
        settings.access_threshold_for_lt,
    )


class FoldTopics(ConversationJob):
    """Folds topics that grew long or went cold. Its maintenance looks for topics that faded while nothing was said."""

    name = "folded"
    cursor = topic_storage.FOLDED
    pace = Pace(messages=1_000_000, parallel=2)  # a conversation is looked at as a whole

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        *,
        settings: Callable[[Principal], Settings],
        tokenizer: Callable[[], Tokenizer],
        writer: Callable[[Settings], Writer | None],
    ) -> None:
        """`writer` returns what asks a model for summaries, or None to use the built-in summariser."""
        super().__init__(store)
        self._clock, self._settings = clock, settings
        self._tokenizer, self._writer = tokenizer, writer
        self._fading_checked_at: datetime | None = None

    async def tend(self) -> int:
        """Make conversations with many topics due again, every `FADE_CHECK_INTERVAL`. Return 0: see `Maintenance`."""
        now = self._clock.now()
        if self._fading_checked_at is None or abs(now - self._fading_checked_at) >= FADE_CHECK_INTERVAL:
            self._fading_checked_at = now
            stored_limits = await self._store.setting_values("max_topics")
            limits = [int(value) for value in stored_limits if value.isdigit()]
            await self._store.topics.recheck_crowded(max_topics=min([self._settings(OPERATOR).max_topics, *limits]))
        return 0

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Fold what is due. Return how many messages went into the archive."""
        archived = 0

        def check() -> None:
            stop.check(archived)

        settings = self._settings(work.principal)
        state_and_groups = await self._cool_faded(work, settings)
        if state_and_groups is None:
            return 0
        state, groups = state_and_groups
        dictionary: Dictionary | None = None
        for group in groups:
            check()
            if _is_too_long(group, settings):
                dictionary = dictionary or await self._store.archive.best_dictionary(work.principal)
                keep = 0 if group.root["cold"] else settings.recent_message_keep
                archived += await self._archive(work.principal, state, group, keep, dictionary)
            elif not _is_summary_behind(group):
                continue
            await self._extend_summary(work.principal, state, group, check)
        if archived:
            await self._update_dictionary(work.principal, check)
        return archived

    # Topics that faded

    async def _cool_faded(
        self, work: ConversationWork, settings: Settings
    ) -> tuple[TopicsState, list[TopicGroup]] | None:
        """Let topics that faded go cold, if there are too many. Return the topics as they are then."""
        state_and_groups = await self._store.topics.load(work.principal, work.conversation)
        if state_and_groups is None:
            return None
        choose = partial(self._choose_faded, settings)
        state, groups = state_and_groups
        if not choose(groups, state):
            return state_and_groups
        await self._store.topics.make_cold(work.principal, state, choose)
        return await self._store.topics.load(work.principal, work.conversation)

    def _choose_faded(self, settings: Settings, groups: Sequence[TopicGroup], state: TopicsState) -> list[TopicGroup]:
        """Return the topics that go cold, lowest priority first, until `max_topics` are left.

        The active topic and pinned ones never do. A topic that has not faded stays, however many there are.
        """
        warm = [group for group in groups if not group.root["cold"] and not group.awaits_assignment]
        now, aging = times.to_micros(self._clock.now()), aging_from(settings)
        priorities = [(group.priority(now, aging), group) for group in warm]
        faded = [
            (priority, group)
            for priority, group in priorities
            if priority < FADED_PRIORITY and not group.pinned and not state.is_active(group)
        ]
        faded.sort(key=lambda item: (item[0], item[1].root["opened_seq"]))
        return [group for _, group in faded[: max(0, len(warm) - settings.max_topics)]]

    # Into the archive

    async def _archive(
        self, principal: Principal, state: TopicsState, group: TopicGroup, keep: int, dictionary: Dictionary
    ) -> int:
        """Move all but the last `keep` messages of a topic into the archive. Return how many were moved.

        The message that gives the conversation its title is never moved.
        """
        rows, opening_seq = await self._store.topics.unarchived_members(principal, state, group)
        moved = [row for row in rows[: max(0, len(rows) - keep)] if row["seq"] != opening_seq]
        block_key: int | None = group.root["block_key"]
        for part in _split_into_blocks(moved, await self._room_in_block(principal, block_key)):
            old_texts = await self._store.archive.block_texts(principal, block_key) if part.extends else None
            new_texts = {row["key"]: row["content"] for row in part.rows}
            texts = (old_texts or {}) | new_texts
            body = await asyncio.to_thread(pack, texts, dictionary)
            extended_key = block_key if old_texts else None
            folded = FoldedBlock(extended_key, texts, list(new_texts), body, dictionary, part.rows[-1]["seq"])
            block_key = await self._store.archive.save_fold(principal, state, folded, group.root["key"])
            if block_key is None:
                raise Interrupted  # something was erased meanwhile: the next look sees what is there then
        return len(moved)

    async def _room_in_block(self, principal: Principal, block_key: int | None) -> _Room:
        """Return how much the newest block of a topic still takes: nothing, if there is none."""
        texts = await self._store.archive.block_texts(principal, block_key)
        if texts is None:
            return _Room(0, 0)
        return _Room(MAX_BLOCK_MESSAGES - len(texts), MAX_BLOCK_CHARACTERS - sum(map(len, texts.values())))

    # Summaries

    async def _extend_summary(
        self, principal: Principal, state: TopicsState, group: TopicGroup, check: Callable[[], None]
    ) -> None:
        """Extend the summary of a topic by the messages that were archived since it was written, step by step.

        Each step stores the seq through which the summary reaches. It is negated while further steps are due.
        """
        root = group.root
        statements = unpack_statements(root["summary"])
        after = abs(root["summary_seq"]) if statements else 0
        messages = await self._store.topics.members(principal, state, group, after=after)
        unarchived, _ = await self._store.topics.unarchived_members(principal, state, group)
        unarchived_seqs = {row["seq"] for row in unarchived}
        archived = [message for message in messages if message.seq not in unarchived_seqs and not message.only_quotes]
        settings = self._settings(principal)
        for start in range(0, len(archived), MESSAGES_PER_SUMMARY_STEP):
            check()
            step = archived[start : start + MESSAGES_PER_SUMMARY_STEP]
            statements = await self._summarise(step, statements, state, settings, check)
            through = step[-1].seq if step[-1] is archived[-1] else -step[-1].seq
            summary = pack_statements(statements)
            if not await self._store.topics.save_summary(principal, state, root["key"], summary, through=through):
                raise Interrupted  # the topics were changed meanwhile: the next look sees what is due then

    async def _summarise(
        self,
        messages: Sequence[Message],
        old: Sequence[Statement],
        state: TopicsState,
        settings: Settings,
        check: Callable[[], None],
    ) -> list[Statement]:
        """Return the summary of the old statements and new messages, by a model or by the built-in summariser."""
        writer, max_tokens = self._writer(settings), settings.topic_summary_token_cap
        if writer is None:
            return await asyncio.to_thread(self._summarise_built_in, messages, old, state.zone, max_tokens)
        tokenizer, now = await asyncio.to_thread(self._tokenizer), self._clock.now()
        old_summary = Summary(tuple(old), tokens=tokenizer.count(render_narrative(old)), created_at=now)
        length = {
            "memory_summary_token_cap": max(max_tokens, 50),  # its minimum
            "narrative_policy": "tokens",
            "narrative_form": "prose",
        }
        step = CompressionStep(
            state.conversation,
            old_summary if old else None,
            split_into_turns(messages),
            version=2 if old else 1,  # a writer only asks whether it is the first
            zone=state.zone,
            now=now,
            tokens=sum(tokenizer.count(message.content) for message in messages),
            settings=settings.model_copy(update=length),
        )
        return list((await writer.write(step, check)).statements)

    def _summarise_built_in(
        self, messages: Sequence[Message], old: Sequence[Statement], zone: str, max_tokens: int
    ) -> list[Statement]:
        from recollect.core.compression.summariser import summarise  # its rules take a while to load

        count = self._tokenizer().count
        new_tokens = sum(count(message.content) for message in messages)
        target = count(render_narrative(old)) + new_tokens // TOKENS_PER_SUMMARY_TOKEN
        tokens = min(max_tokens, max(MIN_SUMMARY_TOKENS, target))
        length, turns = Length(tokens // 2, tokens, count), split_into_turns(messages)
        return list(summarise(turns, old=old, length=length, zone=zone, already_shown=[], pause=Breather()))

    # Dictionaries

    async def _update_dictionary(self, principal: Principal, check: Callable[[], None]) -> None:
        """Learn a dictionary from the person's archive when it is large enough, and again when it has grown."""
        text_bytes, bytes_when_learned = await self._store.archive.archived_bytes(principal)
        dictionary_bytes = archive.dictionary_size(text_bytes)
        if not dictionary_bytes or text_bytes < bytes_when_learned * archive.RELEARN_GROWTH:
            return
        sample = await self._store.archive.sample(principal, max_bytes=SAMPLE_BYTES)
        try:
            body = await asyncio.to_thread(archive.train, sample.texts, dictionary_bytes)
        except ValueError as error:
            log.info("no dictionary is learned: %s", error)
            return
        key = await self._store.archive.save_dictionary(
            principal, body, sample, text_bytes=text_bytes, now=self._clock.now()
        )
        if key is not None:
            await self._repack(principal, learned_dictionary(key, body), check)

    async def _repack(self, principal: Principal, dictionary: Dictionary, check: Callable[[], None]) -> None:
        """Pack all older blocks with this dictionary. Then delete dictionaries that no block needs any more."""
        after, more = 0, True
        while more:
            check()
            after, _ = await self._store.archive.repack(principal, dictionary, after=after, limit=BLOCKS_PER_REPACK)
            more = after > 0
        await self._store.archive.drop_unused_dictionaries(principal)


def _is_too_long(group: TopicGroup, settings: Settings) -> bool:
    """Say whether messages of a topic must be archived. A cold topic may keep none, one that came back keeps all."""
    limit = 0 if group.root["cold"] else settings.max_messages_per_topic
    return group.unarchived > limit and not group.root["restored"]


def _is_summary_behind(group: TopicGroup) -> bool:
    """Say whether messages were archived that the summary does not cover: its last step was interrupted."""
    summarised_seq = group.root["summary_seq"] if group.root["summary"] is not None else 0
    is_unfinished = summarised_seq <= 0  # see `_extend_summary`
    return bool(group.total("archived")) and (is_unfinished or group.root["folded_seq"] > summarised_seq)


class _Room(NamedTuple):
    """The messages and characters that a block still takes."""

    messages: int
    characters: int


class _BlockPart(NamedTuple):
    """Messages that go into one block. Where it `extends`, they join the texts of the topic's newest block."""

    rows: list[Row]
    extends: bool


def _split_into_blocks(rows: Sequence[Row], room: _Room) -> Iterator[_BlockPart]:
    """Yield the messages in order, a block at a time. The first part fills up the newest block, if it has room."""
    messages_left, characters_left = room
    extends = messages_left > 0 and characters_left > 0
    if not extends:
        messages_left, characters_left = MAX_BLOCK_MESSAGES, MAX_BLOCK_CHARACTERS
    part: list[Row] = []
    for row in rows:
        if part and (messages_left <= 0 or characters_left < len(row["content"])):
            yield _BlockPart(part, extends)
            part, extends = [], False
            messages_left, characters_left = MAX_BLOCK_MESSAGES, MAX_BLOCK_CHARACTERS
        part.append(row)
        messages_left, characters_left = messages_left - 1, characters_left - len(row["content"])
    if part:
        yield _BlockPart(part, extends)
