"""The active topic in a prompt: recall leans to it a little, and what is told of it joins the summary."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

import numpy as np

from recollect.core import times
from recollect.core.compression import brief
from recollect.core.compression.brief import Body
from recollect.core.compression.narrative import Shorter
from recollect.core.models import Principal
from recollect.core.topics import from_stored
from recollect.recall.latest_brief import Remembered
from recollect.recall.scope_index import Scope
from recollect.recall.scoring import Part
from recollect.storage.topics import Active

LEAN: Final = 0.01  # what a message is worth more if it belongs to the active topic: enough to part equals
REMEMBERED: Final = 64  # conversations


class ActiveTopics:
    def __init__(self) -> None:
        self._shorter: OrderedDict[tuple[str, str], tuple[object, Shorter]] = OrderedDict()

    def joined(self, principal: Principal, conversation: str, known: Remembered, active: Active | None) -> Remembered:
        """The brief with what is told of the active topic; where there is no brief, that stands in its place."""
        told = from_stored(active.summary) if active is not None else []
        if active is None or not told:
            return known
        base = known.brief or brief.of_body(
            Body((), (), {}, brief.BUILT_IN, 0), conversation, 0, through=0, messages=0, now=times.EARLIEST
        )
        sources = {source for one in base.statements for source in one.sources}
        news = [one for one in told if not sources.intersection(one.sources)]
        if not news:
            return known
        mark = (base.version, base.created_at, active.key, active.summary)
        shorter = self._known(principal, conversation, mark)
        return replace(known, brief=replace(base, statements=(*base.statements, *news)), shorter=shorter)

    def _known(self, principal: Principal, conversation: str, mark: object) -> Shorter:
        """Shorter narratives that were made of the same statements before."""
        place = (principal.person, conversation)
        found = self._shorter.pop(place, None)
        if found is None or found[0] != mark:
            found = (mark, {})
        self._shorter[place] = found
        while len(self._shorter) > REMEMBERED:
            self._shorter.popitem(last=False)
        return found[1]

    def forget(self) -> None:
        self._shorter.clear()


def lean(scope: Scope, active: Active) -> Part:
    """1 for what belongs to the active topic."""
    seqs = np.array(active.seqs, np.int64)
    places = scope.index(np.full(len(seqs), active.conversation, np.int64), seqs)
    own = np.zeros(len(scope), np.float32)
    own[places[places >= 0]] = 1
    return Part(LEAN, own)
