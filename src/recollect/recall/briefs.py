"""What is remembered of a conversation beside its passages: the newest brief, and what the ledger would have by now."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from recollect.core import analysis, ledger
from recollect.core.brief import Brief, CorruptBrief
from recollect.core.extract import extract
from recollect.core.ledger import Entry
from recollect.core.models import Hit, Principal
from recollect.sql.store import SqlStore

log = logging.getLogger(__name__)

REMEMBERED: Final = 64  # conversations
LOOKED_AT: Final = 256  # messages that are not folded yet, in which entries are looked for
INLINE: Final = 10_000  # characters that are read without a thread
BEARS: Final = 0.5  # of the question's words that a brief has, to be worth telling
TOLD: Final = 3  # statements of a brief that a hit quotes


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest brief of a conversation, and its ledger with what was said since."""

    brief: Brief | None = None
    entries: Sequence[Entry] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    mark: object
    brief: Brief | None
    entries: Sequence[Entry]
    seen: int  # seq up to which entries were looked for


class LatestBriefs:
    """Keeps the briefs that were asked for lately, and reads only what is new."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    async def get(self, principal: Principal, conversation: str) -> Remembered:
        standing = await self._store.briefs.standing(principal, conversation)
        if standing is None:
            return Remembered()
        place, mark = (principal.person, conversation), (standing.key, standing.mark)
        known = self._known.get(place)
        degraded: tuple[str, ...] = ()
        if known is None or known.mark != mark:
            brief, degraded = await self._read(principal, conversation, standing.version)
            since = max(standing.through_seq if brief else 0, standing.last_seq - LOOKED_AT)
            known = _Known(mark, brief, brief.entries if brief else (), since)
        if known.seen < standing.last_seq:
            known = await self._with_news(principal, conversation, known, standing.last_seq)
        self._known[place] = known
        self._known.move_to_end(place)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        if known.brief is not None and known.brief.degraded:
            degraded = (*degraded, "summarizer")
        return Remembered(known.brief, known.entries, degraded)

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
        messages = await self._store.page(principal, conversation, after=known.seen, limit=LOOKED_AT)
        if sum(len(message.content) for message in messages) < INLINE:
            found = extract(messages)
        else:
            found = await asyncio.to_thread(extract, messages)
        seen = messages[-1].seq if messages else last
        return replace(known, entries=ledger.merge(known.entries, found), seen=seen)


def hits_of(brief: Brief | None, question: str) -> list[Hit]:
    """What a brief says to a question: the statements that have most of its words, if it has half of them."""
    asked = set(analysis.words(question))
    if brief is None or not asked:
        return []
    shared = [asked.intersection(analysis.words(one.text)) for one in brief.statements]
    covered = len(set().union(*shared)) / len(asked)
    if covered < BEARS:
        return []
    best = sorted(range(len(shared)), key=lambda place: (-len(shared[place]), place))[:TOLD]
    text = " ".join(brief.statements[place].text for place in sorted(best) if shared[place])
    why = {"bm25": round(covered, 4)}
    return [Hit(None, brief.conversation, None, "assistant", text, brief.created_at, covered, "brief", why)]
