"""The scopes that are kept in memory: read when first asked for, brought up to date for every question."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from typing import Final

from recollect.core.models import Principal
from recollect.recall.scope_index import Scope
from recollect.storage.scope_updates import Beside, News
from recollect.storage.store import SqlStore

ROOM: Final = 512 * 1024 * 1024  # bytes; the scopes used longest ago go when there is not enough
MOST: Final = 1000  # scopes
INLINE: Final = 200  # rows that are taken in without a thread

Name = tuple[str, str | None]


class Scopes:
    def __init__(self, store: SqlStore, room: int = ROOM) -> None:
        self._store, self._room = store, room
        self._kept: OrderedDict[Name, Scope] = OrderedDict()
        self._sizes: dict[Name, int] = {}  # as they were when last asked for
        self._size = 0  # of all of them
        self._locks: defaultdict[Name, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.embedders: dict[int, tuple[str, int]] = {}

    async def get(self, principal: Principal, conversation: str | None) -> Scope:
        """The scope as it is now."""
        return (await self.look(principal, conversation))[0]

    async def look(self, principal: Principal, conversation: str | None) -> tuple[Scope, Beside]:
        """The scope as it is now, and what stands beside it."""
        name = (principal.person, conversation)
        async with self._locks[name]:  # a scope that many ask for at once is read once
            scope = self._kept.get(name, Scope())
            news, beside = await self._store.load_scope(principal, conversation, scope.seen, scope.state)
            if news is not None:
                scope = await self._take(scope, news)
            if len(scope):
                self._kept[name] = scope
                self._kept.move_to_end(name)
                self._measure(name, scope.nbytes)
        if not len(scope):
            self._drop(name)
        self._make_room()
        return scope, beside

    async def _take(self, scope: Scope, news: News) -> Scope:
        if news.fresh or {seen.embedder for seen in news.seen.values()} - {None, *self.embedders}:
            rows = await self._store.vectors.embedders()
            self.embedders = {row["key"]: (row["name"], row["dimensions"]) for row in rows}
        dimensions = {key: size for key, (_, size) in self.embedders.items()}
        if len(news.entries) + len(news.vectors) <= INLINE:
            return scope.grown(news, dimensions)
        return await asyncio.to_thread(scope.grown, news, dimensions)

    def _make_room(self) -> None:
        while (self._size > self._room or len(self._kept) > MOST) and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _measure(self, name: Name, size: int) -> None:
        self._size += size - self._sizes.get(name, 0)
        self._sizes[name] = size

    def _drop(self, name: Name) -> None:
        self._kept.pop(name, None)
        self._locks.pop(name, None)
        self._size -= self._sizes.pop(name, 0)

    def forget(self, person: str | None = None) -> None:
        """Read everything anew, or all of a person: something changed that no count shows, or texts must go."""
        for name in [name for name in self._kept if person in (None, name[0])]:
            self._size -= self._sizes.pop(name, 0)
            del self._kept[name]
