"""What is remembered of a conversation beside its passages: the newest brief, and what the ledger would have by now."""

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
from recollect.core.compression.narrative import Shorter
from recollect.core.extract import extract
from recollect.core.language import analyser
from recollect.core.models import Hit, Principal
from recollect.storage.briefs import Standing
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

REMEMBERED: Final = 64  # conversations
LOOKED_AT: Final = 256  # messages that are not folded yet, in which entries are looked for
INLINE: Final = 1000  # characters and entries that are looked at without a thread
MOST: Final = 200_000  # entries of all conversations together
BEARS: Final = 0.5  # of the question's words that a brief has, to be worth telling
TOLD: Final = 3  # statements of a brief that a hit quotes


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest brief of a conversation, and its ledger with what was said since."""

    brief: Brief | None = None
    entries: Sequence[Entry] = ()
    degraded: tuple[str, ...] = ()
    shorter: Shorter = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    mark: object
    zone: str
    brief: Brief | None
    entries: Sequence[Entry]
    seen: int  # seq up to which entries were looked for
    shorter: Shorter = field(default_factory=dict)


class LatestBriefs:
    """Keeps the briefs that were asked for lately, and reads only what is new."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def forget(self) -> None:
        self._known.clear()

    async def latest(
        self, principal: Principal, conversation: str, standing: Standing | None
    ) -> tuple[Brief | None, tuple[str, ...]]:
        """The newest brief alone, and names of what is wrong with it."""
        async with self._alone(principal, conversation):
            known, _, degraded = await self._current(principal, conversation, standing)
        return (None if known is None else known.brief), degraded

    async def get(self, principal: Principal, conversation: str, standing: Standing | None) -> Remembered:
        """The brief and the ledger; `standing` is what was read of the brief just now."""
        async with self._alone(principal, conversation):
            known, last, degraded = await self._current(principal, conversation, standing)
            if known is None:
                return Remembered()
            if known.seen < last:
                known = await self._with_news(principal, conversation, known, last)
                self._keep(principal, conversation, known)
        return Remembered(known.brief, known.entries, degraded, known.shorter)

    def _alone(self, principal: Principal, conversation: str) -> asyncio.Lock:
        """Many who ask at once are served by one reading."""
        return self._locks.setdefault((principal.person, conversation), asyncio.Lock())

    async def _current(
        self, principal: Principal, conversation: str, standing: Standing | None
    ) -> tuple[_Known | None, int, tuple[str, ...]]:
        """What is known of a conversation, read anew if its brief or its log is another one; and its last seq."""
        if standing is None:
            return None, 0, ()
        mark = (standing.key, standing.zone, standing.mark)
        degraded: tuple[str, ...] = ()
        known = self._known.get((principal.person, conversation))
        if known is None or known.mark != mark or known.seen > standing.last_seq:
            brief, degraded = await self._read(principal, conversation, standing.version)
            since = brief.through_seq if brief else 0
            known = _Known(mark, standing.zone, brief, brief.entries if brief else (), since)
        self._keep(principal, conversation, known)
        if known.brief is not None and known.brief.degraded:
            degraded = (*degraded, "summarizer")
        return known, standing.last_seq, degraded

    def _keep(self, principal: Principal, conversation: str, known: _Known) -> None:
        place = (principal.person, conversation)
        self._known[place] = known
        self._known.move_to_end(place)
        while len(self._known) > 1 and (
            len(self._known) > REMEMBERED or sum(len(one.entries) for one in self._known.values()) > MOST
        ):
            self._known.popitem(last=False)

    async def _read(
        self, principal: Principal, conversation: str, version: int
    ) -> tuple[Brief | None, tuple[str, ...]]:
        """The newest brief. One that cannot be read goes, and the worker makes it anew from the log."""
        try:
            return (await self._store.briefs.get(principal, conversation) if version else None), ()
        except CorruptBrief as error:
            log.warning("%s; it is made anew from the log", error)
            await self._store.briefs.drop(principal, conversation)
            return None, ("brief",)

    async def _with_news(self, principal: Principal, conversation: str, known: _Known, last: int) -> _Known:
        """What must not be lost is known before it is folded: rules read each new message once."""
        after = max(known.seen, last - LOOKED_AT)
        messages = await self._store.page(principal, conversation, after=after, limit=LOOKED_AT)

        def merged() -> list[Entry]:
            own = [one for one in messages if not one.only_quotes]
            return ledger.merge(known.entries, extract(own, known.zone))

        size = sum(len(message.content) for message in messages)
        entries = merged() if size + len(known.entries) < INLINE else await asyncio.to_thread(merged)
        return replace(known, entries=entries, seen=messages[-1].seq if messages else last)


def hits_of(brief: Brief | None, question: str) -> list[Hit]:
    """What a brief says to a question: the statements that have most of its words, if it has half of them."""
    asked = set(analyser.words(question))
    if brief is None or not asked:
        return []
    shared = [asked.intersection(analyser.words(one.text)) for one in brief.statements]
    covered = len(set().union(*shared)) / len(asked)
    if covered < BEARS:
        return []
    best = sorted(range(len(shared)), key=lambda place: (-len(shared[place]), place))[:TOLD]
    text = " ".join(brief.statements[place].text for place in sorted(best) if shared[place])
    why = {"bm25": round(covered, 4)}
    return [Hit(None, brief.conversation, None, "assistant", text, brief.created_at, covered, "brief", why)]
