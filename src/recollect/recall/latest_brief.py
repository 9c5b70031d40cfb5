"""Keeps the newest brief of each conversation asked about lately, and its ledger with entries found since."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from recollect.core.compression import ledger
from recollect.core.compression.brief import Brief, CorruptBrief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import ShorterNarratives
from recollect.core.compression.summary import Summary
from recollect.core.extract import extract
from recollect.core.language import analyser
from recollect.core.models import Hit, Principal
from recollect.storage.briefs import BriefState
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

CACHED_CONVERSATIONS: Final = 64
CACHED_ENTRIES: Final = 200_000  # ledger entries of all cached conversations together
MAX_UNREAD_MESSAGES: Final = 256  # messages since the brief that are searched for entries
INLINE_SIZE: Final = 1000  # characters plus entries; more are searched on a thread
MIN_HIT_RELEVANCE: Final = 0.5  # share of the question's words that a brief must have to be a hit
MAX_HIT_STATEMENTS: Final = 3  # statements of a brief that one hit quotes

CacheKey = tuple[str, str]  # person and conversation


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """The summary of a conversation's older messages, as a prompt needs it.

    `ledger` has the entries of the summary and those of messages that came since. `shorter` caches shorter forms of
    the narrative. `brief_version` is None if there is no brief.
    """

    summary: Summary = field(default_factory=Summary)
    ledger: Sequence[Entry] = ()
    brief_version: int | None = None
    shorter: ShorterNarratives = field(default_factory=dict)
    degraded: tuple[str, ...] = ()

    def before(self, seq: int) -> ConversationSummary:
        """Return the summary without entries of the message with this seq and of later ones."""
        return replace(self, ledger=[entry for entry in self.ledger if entry.seq < seq])


@dataclass(frozen=True, slots=True)
class _CachedBrief:
    mark: object  # changes with another version, and after an erase or a restore
    zone: str
    brief: Brief | None
    ledger: Sequence[Entry]
    read_through: int  # the last seq that was searched for entries
    shorter: ShorterNarratives = field(default_factory=dict)


class LatestBriefs:
    """Keeps the briefs asked for lately. Only new messages are read."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._briefs: OrderedDict[CacheKey, _CachedBrief] = OrderedDict()
        self._locks: WeakValueDictionary[CacheKey, asyncio.Lock] = WeakValueDictionary()

    def forget(self, person: str | None = None) -> None:
        """Forget all briefs, or those of a person."""
        for key in [key for key in self._briefs if person in (None, key[0])]:
            del self._briefs[key]

    async def get_brief(
        self, principal: Principal, conversation: str, state: BriefState | None
    ) -> tuple[Brief | None, tuple[str, ...]]:
        """Return the newest brief, and names of what is wrong with it. `state` was read in the same moment."""
        async with self._lock(principal, conversation):
            cached, degraded = await self._refresh(principal, conversation, state)
        return (None if cached is None else cached.brief), degraded

    async def get_summary(
        self, principal: Principal, conversation: str, state: BriefState | None
    ) -> ConversationSummary:
        """Return the brief as a summary, and the ledger up to now. `state` was read in the same moment."""
        async with self._lock(principal, conversation):
            cached, degraded = await self._refresh(principal, conversation, state)
            if cached is None or state is None:
                return ConversationSummary()
            if cached.read_through < state.last_seq:
                cached = await self._with_new_entries(principal, conversation, cached, state.last_seq)
                self._keep(principal, conversation, cached)
        brief = cached.brief
        return ConversationSummary(
            summary=Summary() if brief is None else brief.summary,
            ledger=cached.ledger,
            brief_version=None if brief is None else brief.version,
            shorter=cached.shorter,
            degraded=degraded,
        )

    def _lock(self, principal: Principal, conversation: str) -> asyncio.Lock:
        """Return the lock of a conversation: many who ask at once are served by one read."""
        return self._locks.setdefault((principal.person, conversation), asyncio.Lock())

    async def _refresh(
        self, principal: Principal, conversation: str, state: BriefState | None
    ) -> tuple[_CachedBrief | None, tuple[str, ...]]:
        """Return the cached brief, read anew if the brief or its log has changed; and names of what is wrong."""
        if state is None:
            return None, ()
        mark = (state.key, state.zone, state.mark)
        degraded: tuple[str, ...] = ()
        cached = self._briefs.get((principal.person, conversation))
        if cached is None or cached.mark != mark or cached.read_through > state.last_seq:
            brief, degraded = await self._read(principal, conversation, state.version)
            entries, through = (brief.entries, brief.through_seq) if brief else ((), 0)
            cached = _CachedBrief(mark, state.zone, brief, entries, through)
        self._keep(principal, conversation, cached)
        if cached.brief is not None and cached.brief.degraded:
            degraded = (*degraded, "summarizer")
        return cached, degraded

    def _keep(self, principal: Principal, conversation: str, cached: _CachedBrief) -> None:
        key = (principal.person, conversation)
        self._briefs[key] = cached
        self._briefs.move_to_end(key)
        while len(self._briefs) > 1 and (
            len(self._briefs) > CACHED_CONVERSATIONS
            or sum(len(other.ledger) for other in self._briefs.values()) > CACHED_ENTRIES
        ):
            self._briefs.popitem(last=False)

    async def _read(
        self, principal: Principal, conversation: str, version: int
    ) -> tuple[Brief | None, tuple[str, ...]]:
        """Read the newest brief. One that cannot be read is dropped; the worker makes it anew from the log."""
        try:
            return (await self._store.briefs.get(principal, conversation) if version else None), ()
        except CorruptBrief as error:
            log.warning("%s; it is made anew from the log", error)
            await self._store.briefs.drop(principal, conversation)
            return None, ("brief",)

    async def _with_new_entries(
        self, principal: Principal, conversation: str, cached: _CachedBrief, last_seq: int
    ) -> _CachedBrief:
        """Return the cached brief with the entries of messages that came since.

        So important data is known before it is compressed. Each new message is searched once.
        """
        # The message before the new ones is read again: a new one may confirm what the assistant said in it.
        after = max(cached.read_through - 1, last_seq - MAX_UNREAD_MESSAGES, 0)
        messages = await self._store.log.page(principal, conversation, after=after, limit=MAX_UNREAD_MESSAGES)

        def merge_entries() -> list[Entry]:
            new = [one for one in messages if one.seq > cached.read_through or one.role == "assistant"]
            own = [message for message in new if not message.only_quotes]
            return ledger.merge(cached.ledger, extract(own, cached.zone))

        size = sum(len(message.content) for message in messages) + len(cached.ledger)
        entries = merge_entries() if size < INLINE_SIZE else await asyncio.to_thread(merge_entries)
        return replace(cached, ledger=entries, read_through=messages[-1].seq if messages else last_seq)


def find_brief_hits(brief: Brief | None, question: str) -> list[Hit]:
    """Return the brief as a hit if it has half of the question's words: the statements with most of them."""
    words = set(analyser.words(question))
    if brief is None or not words:
        return []
    shared = [words.intersection(analyser.words(statement.text)) for statement in brief.statements]
    relevance = len(set().union(*shared)) / len(words)
    if relevance < MIN_HIT_RELEVANCE:
        return []
    best = sorted(range(len(shared)), key=lambda index: (-len(shared[index]), index))[:MAX_HIT_STATEMENTS]
    text = " ".join(brief.statements[index].text for index in sorted(best) if shared[index])
    why = {"bm25": round(relevance, 4)}
    return [Hit(None, brief.conversation, None, "assistant", text, brief.created_at, relevance, "brief", why)]
