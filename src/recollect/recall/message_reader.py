"""Reads messages of scopes by their index: from memory where they are kept, else from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from recollect.core.message import Message
from recollect.core.models import Principal
from recollect.core.profile import Profile
from recollect.recall.scope_index import ScopeIndex
from recollect.storage.store import SHORT_READ_MESSAGES, SqlStore

Position = tuple[int, int]  # conversation key and seq


class MessageReader:
    """Reads messages. A message that a scope keeps is not read again: a scope is never older than the question."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def read(self, principal: Principal, scope: ScopeIndex, indices: Sequence[int]) -> dict[int, Message]:
        """Return messages of a scope by their index. Those erased since are missing."""
        request = _Request(scope, indices)
        positions = _to_positions([request])
        return request.complete(await self._store.messages_at(principal, positions) if positions else {})

    async def read_with_profile(
        self, principal: Principal, *requested: tuple[ScopeIndex, Sequence[int]]
    ) -> tuple[list[dict[int, Message]], Profile]:
        """Return messages of several scopes, and the profile as consent allows it now.

        All is read in one go: a change of threads costs more than the reading.
        """
        requests = [_Request(scope, indices) for scope, indices in requested]
        stored, profile = await self._store.messages_and_profile(principal, _to_positions(requests))
        return [request.complete(stored) for request in requests], profile


class _Request:
    """Messages of a scope that are asked for: those kept in memory, and the indices of the others."""

    def __init__(self, scope: ScopeIndex, indices: Iterable[int]) -> None:
        self._scope = scope
        self._messages = {index: scope.texts.get(index) for index in indices}
        self.missing = [index for index, message in self._messages.items() if message is None]
        self.ahead: list[int] = []  # further ones that later questions will ask for

    def read_ahead(self, limit: int) -> None:
        if self.missing:
            chosen = self._scope.texts.choose_ahead(self._scope.word_counts, limit)
            self.ahead = [index for index in chosen if index not in self._messages]

    def positions(self) -> list[Position]:
        return self._positions_of(self.missing) + self._positions_of(self.ahead)

    def complete(self, stored: Mapping[Position, Message]) -> dict[int, Message]:
        """Return the messages, with those just read, and keep these in memory. A missing one was erased."""
        texts = self._scope.texts
        for index, position in zip(self.ahead, self._positions_of(self.ahead), strict=True):
            if (message := stored.get(position)) is not None:
                texts.keep_ahead(index, message)
        for index, position in zip(self.missing, self._positions_of(self.missing), strict=True):
            message = self._messages[index] = stored.get(position)
            if message is not None:
                texts.keep(index, message)
        return {index: message for index, message in self._messages.items() if message is not None}

    def _positions_of(self, indices: list[int]) -> list[Position]:
        return list(
            zip(self._scope.conversation_keys[indices].tolist(), self._scope.seqs[indices].tolist(), strict=True)
        )


def _to_positions(requests: Sequence[_Request]) -> list[Position]:
    """Return the positions to read, each once. Messages are added to read ahead, as many as cost no more time."""
    limit = SHORT_READ_MESSAGES - sum(len(request.missing) for request in requests)
    for request in requests:
        request.read_ahead(limit)
        limit -= len(request.ahead)
    return list(dict.fromkeys(position for request in requests for position in request.positions()))
