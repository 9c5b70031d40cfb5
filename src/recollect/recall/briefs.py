"""The newest brief of a conversation, kept in memory until it is another one."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from recollect.core.brief import Brief, CorruptBrief
from recollect.core.models import Principal
from recollect.sql.store import SqlStore

log = logging.getLogger(__name__)

REMEMBERED: Final = 64


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
