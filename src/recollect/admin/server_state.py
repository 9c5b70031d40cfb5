"""Keeps what the processes of a server share through the database: stop marks and idempotency keys.

Server and chat use this instead of the store. API keys and sessions are in `admin/access.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from recollect.core.message import Anchor
from recollect.core.models import Principal
from recollect.core.protocols import Clock
from recollect.core.text import hash_name
from recollect.storage.store import SqlStore

ConversationKey = tuple[str, str]  # person, name of the conversation


class StoredMemory(Protocol):
    """The part of `AsyncMemory` that admin needs. A protocol, because memory imports admin."""

    @property
    def principal(self) -> Principal: ...

    @property
    def store(self) -> SqlStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def key_secret(self) -> str | None: ...


class SharedServerState:
    """The stop marks and idempotency keys in the database of a memory. Writes are for the memory's person."""

    def __init__(self, memory: StoredMemory) -> None:
        self._principal, self._clock = memory.principal, memory.clock
        self._store, self._rows = memory.store, memory.store.server_state

    async def first_fingerprint(self, idempotency_key: str, fingerprint: bytes) -> bytes:
        """Return the fingerprint that the key was first used with; store this one if the key is new."""
        return await self._rows.first_fingerprint(self._principal, idempotency_key, fingerprint, now=self._clock.now())

    async def mark_stopped(self, conversation: str) -> None:
        """Ask every process to stop the answers that it is writing in a conversation now.

        Only a digest of the name is stored, so that a temporary conversation leaves no name behind.
        """
        await self._rows.mark_stopped(self._principal, hash_name(conversation), now=self._clock.now())

    async def find_erased(self, anchors: Sequence[Anchor]) -> set[Anchor]:
        """Return those of these anchors, of any people, of which a message was erased by any process."""
        return await self._store.find_erased(anchors)

    async def stop_times(
        self, conversations: Iterable[ConversationKey], *, since: datetime
    ) -> dict[ConversationKey, datetime]:
        """Return the moment of the last stop mark for each of these conversations that has one after `since`."""
        marks = {(person, name_digest): at for person, name_digest, at in await self._rows.stops_since(since=since)}
        if not marks:
            return {}
        keys = {(person, hash_name(name)): (person, name) for person, name in conversations}
        return {keys[mark]: at for mark, at in marks.items() if mark in keys}
