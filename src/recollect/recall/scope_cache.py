"""Keeps scopes in memory: a scope is read when it is first asked for, and brought up to date for every question."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from recollect.core.errors import RecollectError
from recollect.core.models import Principal
from recollect.core.scope import ConversationScope, PersonScope, Scope
from recollect.recall.scope_index import ScopeIndex
from recollect.storage.scope_updates import ConversationState, ScopeUpdate
from recollect.storage.segments import Stretch
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

CACHE_BYTES: Final = 512 * 1024 * 1024  # the scopes used longest ago go when all take more
CACHE_SCOPES: Final = 1000
INLINE_ROWS: Final = 200  # a larger update is taken in on a thread

CacheKey = tuple[str, str | None]  # person and conversation; None for all of the person's conversations

# The kinds of scopes that recall searches, and the conversation that each names.
CONVERSATION_OF: Final[dict[type[Scope], Callable[[Any], str | None]]] = {
    PersonScope: lambda _: None,
    ConversationScope: lambda scope: scope.conversation,
}


def conversation_of(scope: Scope) -> str | None:
    """Return the conversation that a scope names; None for all conversations of a person."""
    return CONVERSATION_OF[type(scope)](scope)


class ScopeCache:
    """Scopes by person and conversation, as they are now. Keeps those used last."""

    def __init__(self, store: SqlStore, max_bytes: int = CACHE_BYTES) -> None:
        self._store, self._max_bytes = store, max_bytes
        self._scopes: OrderedDict[CacheKey, ScopeIndex] = OrderedDict()
        self._sizes: dict[CacheKey, int] = {}  # bytes, when last asked for
        self._total_size = 0
        self._locks: defaultdict[CacheKey, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.embedders: dict[int, tuple[str, int]] = {}  # name and dimensions by embedder key

    async def get(self, principal: Principal, scope: Scope) -> ScopeIndex:
        """Return the index of a scope as it is now."""
        return (await self.get_with_state(principal, scope))[0]

    async def get_with_state(self, principal: Principal, scope: Scope) -> tuple[ScopeIndex, ConversationState]:
        """Return the index of a scope as it is now, and the state of its conversation, read in the same moment."""
        conversation = conversation_of(scope)
        key = (principal.person, conversation)
        async with self._locks[key]:  # a scope that many ask for at once is read once
            index = self._scopes.get(key, ScopeIndex())
            update, state = await self._store.load_scope(principal, conversation, index.marks, index.state)
            if update is not None:
                index = await self._apply(index, update)
                if update.damaged_segments:
                    await self._drop_damaged(principal, update.damaged_segments)
            if len(index):
                self._scopes[key] = index
                self._scopes.move_to_end(key)
                self._measure(key, index.nbytes)
        if not len(index):
            self._drop(key)
        self._shrink()
        return index, state

    async def _apply(self, index: ScopeIndex, update: ScopeUpdate) -> ScopeIndex:
        if update.is_complete or {mark.embedder for mark in update.marks.values()} - {None, *self.embedders}:
            rows = await self._store.vectors.embedders()
            self.embedders = {row["key"]: (row["name"], row["dimensions"]) for row in rows}
        dimensions = {key: size for key, (_, size) in self.embedders.items()}
        if update.row_count <= INLINE_ROWS:
            return index.updated(update, dimensions)
        return await asyncio.to_thread(index.updated, update, dimensions)

    async def _drop_damaged(self, principal: Principal, damaged: Sequence[tuple[int, Stretch]]) -> None:
        """Let the worker pack damaged segments again. The question was answered from rows, so it must not fail here."""
        log.warning("%d damaged segments are packed again", len(damaged))
        with suppress(RecollectError):
            await self._store.segments.drop(principal, damaged)

    def _shrink(self) -> None:
        while (self._total_size > self._max_bytes or len(self._scopes) > CACHE_SCOPES) and len(self._scopes) > 1:
            self._drop(next(iter(self._scopes)))

    def _measure(self, key: CacheKey, size: int) -> None:
        self._total_size += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _drop(self, key: CacheKey) -> None:
        self._scopes.pop(key, None)
        self._locks.pop(key, None)
        self._total_size -= self._sizes.pop(key, 0)

    def forget(self, person: str | None = None) -> None:
        """Forget all scopes, or those of a person. They hold texts, and some changes are not seen by their counts."""
        for key in [key for key in self._scopes if person in (None, key[0])]:
            self._total_size -= self._sizes.pop(key, 0)
            del self._scopes[key]
