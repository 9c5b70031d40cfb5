"""The newest brief of a conversation, kept in memory until it is another one."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from recollect.core import analysis
from recollect.core.brief import Brief, CorruptBrief
from recollect.core.models import Hit, Principal
from recollect.sql.store import SqlStore

log = logging.getLogger(__name__)

REMEMBERED: Final = 64
BEARS: Final = 0.5  # of the question's words that a brief has, to be worth telling
TOLD: Final = 3  # statements of a brief that a hit quotes


class LatestBriefs:
    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], tuple[object, Brief | None]] = OrderedDict()

    async def get(self, principal: Principal, conversation: str) -> tuple[Brief | None, tuple[str, ...]]:
        """The brief, and names of what is wrong with it."""
        standing = await self._store.briefs.standing(principal, conversation)
        if standing is None or not standing.version:
            return None, ()
        place, mark = (principal.person, conversation), (standing.key, standing.mark)
        if place not in self._known or self._known[place][0] != mark:
            try:
                self._known[place] = (mark, await self._store.briefs.get(principal, conversation))
            except CorruptBrief as error:
                log.warning("%s; it is made anew from the log", error)
                await self._store.briefs.drop(principal, conversation)
                return None, ("brief",)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(place)
        brief = self._known[place][1]
        return brief, ("summarizer",) if brief is not None and brief.degraded else ()


def hit_of(brief: Brief, question: str) -> Hit | None:
    """What a brief says to a question: the statements that have most of its words, if it has half of them."""
    asked = set(analysis.words(question))
    if not asked:
        return None
    shared = [asked.intersection(analysis.words(one.text)) for one in brief.statements]
    covered = len(set().union(*shared)) / len(asked)
    if covered < BEARS:
        return None
    best = sorted(range(len(shared)), key=lambda place: (-len(shared[place]), place))[:TOLD]
    text = " ".join(brief.statements[place].text for place in sorted(best) if shared[place])
    why = {"bm25": round(covered, 4)}
    return Hit(None, brief.conversation, None, "assistant", text, brief.created_at, covered, "brief", why)
