"""The order of derived work: people take turns, so that one with much to do does not keep the others waiting.

A job lists its units by their keys. Here they are put into another order: one unit of each person, then the next one of
each. Units of one person also take turns, so that one whose work fails does not stand in the way of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

from recollect.jobs.job import Job, Work

MAX_LOOK_UNITS: Final = 10_000  # units that are read at once
LOOKED_PER_DONE: Final = 100  # so many units may be read for each one that is done: then the look costs little


class Turns:
    """The turns of one job. Remembers who was next when the last sweep ended."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: deque[Work] = deque()
        self._after = 0  # the key where the next look begins
        self._last_keys: dict[str, int] = {}  # of each person: the unit that had its turn last

    async def pages(self) -> AsyncIterator[list[Work]]:
        """Yield the units that are due, as many at a time as the job does at once.

        First come those that were left when the last sweep ended, as they were then; after that each unit at most once.
        Somebody whose work becomes due meanwhile is among them after one turn of each other person, or after a
        hundredth of what was due, whichever takes longer.
        """
        seen: set[int] = set()
        has_looked = False
        while self._waiting or (has_looked := await self._look(seen)):
            page = [self._waiting.popleft() for _ in range(min(self._job.pace.parallel, len(self._waiting)))]
            seen.update(work.key for work in page if has_looked)
            self._last_keys.update((work.principal.person, work.key) for work in page)
            yield page

    async def _look(self, seen: set[int]) -> bool:
        """Read which units are due and put those that were not `seen` in order. Return whether there are any."""
        start, has_wrapped = self._after, self._after == 0
        while not self._waiting:
            works = await self._job.due(after=self._after, limit=MAX_LOOK_UNITS)
            self._waiting.extend(self._order([work for work in works if work.key not in seen]))
            is_last = len(works) < MAX_LOOK_UNITS
            self._after = 0 if is_last else works[-1].key
            if has_wrapped and (is_last or self._after >= start > 0):
                break  # everything was looked at
            has_wrapped = has_wrapped or is_last
        return bool(self._waiting)

    def _order(self, works: Sequence[Work]) -> Iterable[Work]:
        """Return units by turns: as many as there are people, or a hundredth of all if that is more."""
        by_person: dict[str, list[Work]] = {}
        for work in works:
            by_person.setdefault(work.principal.person, []).append(work)
        self._last_keys = {person: self._last_keys.get(person, 0) for person in by_person}
        for person, own in by_person.items():
            own.sort(key=lambda work: (work.key <= self._last_keys[person], work.key))
        rounds = chain.from_iterable(zip_longest(*by_person.values()))
        count = max(len(by_person), len(works) // LOOKED_PER_DONE, self._job.pace.parallel)
        return islice((work for work in rounds if work is not None), count)
