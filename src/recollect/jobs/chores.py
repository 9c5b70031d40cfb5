"""The derived work there is today: words of the full-text index, token counts, unfinished erasures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta

from recollect.core import word_index
from recollect.core.models import JsonObject
from recollect.core.protocols import Clock, Tokenizer
from recollect.jobs.leases import is_gone
from recollect.jobs.worker import Work
from recollect.providers.tokenizer import count_message
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

TIDY_EVERY = timedelta(seconds=30)


class IndexWords:
    """Entries are written with their message; only another analyser or a rebuild makes them anew."""

    name = "words"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def do(self, work: Work) -> int:
        if work.words_version == word_index.VERSION:
            return 0
        return await self._store.reindex(
            work.principal, work.conversation, work.made_of, after=work.after, through=work.through, last=work.last
        )


class CountTokens:
    """What each message costs in a prompt, counted once."""

    name = "tokens"

    def __init__(self, store: SqlStore, tokenizer: Callable[[], Tokenizer]) -> None:
        """The tokenizer is asked for when it is first needed: its tables take a moment to load."""
        self._store, self._tokenizer = store, tokenizer

    async def do(self, work: Work) -> int:
        rows = await self._store.uncounted(work.principal, work.conversation, after=work.after, through=work.through)
        if rows:
            counted = await asyncio.to_thread(self._count, rows)
            await self._store.save_tokens(work.principal, work.conversation, work.made_of, counted)
        return len(rows)

    def _count(self, rows: list[Row]) -> list[Row]:
        tokenizer = self._tokenizer()
        return [
            {"key": row["key"], "counter": tokenizer.name, "tokens": count_message(as_message(row), tokenizer)}
            for row in rows
        ]


def as_message(row: Row) -> JsonObject:
    calls = row["tool_calls"]
    message = {"role": row["role"], "content": row["content"], "name": row["name"]}
    return message if calls is None else message | {"tool_calls": json.loads(calls)}


class FinishErasures:
    """Erased rows whose bytes another process kept in the file."""

    name = "erasures"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def tend(self) -> int:
        pending = await self._store.pending_erasures()
        if not pending or (await self._store.purge()).pending:
            return 0
        await self._store.finish_erasures(pending)
        return len(pending)


class FreeLeases:
    """Leases of processes of this machine that were killed: what they held need not wait until it runs out."""

    name = "leases"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def tend(self) -> int:
        """Never counts as work done: see TidyStore."""
        gone = [holder for holder in await self._store.lease_holders() if is_gone(holder)]
        if gone:
            await self._store.free_leases(gone)
        return 0


class TidyStore:
    """Keeps the write-ahead log short, and forgets what is over of sessions and requests, now and then."""

    name = "tidied"

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._last: datetime | None = None

    async def tend(self) -> int:
        """Never counts as work done: a drain would not end."""
        now = self._clock.now()
        if self._last is None or abs(now - self._last) >= TIDY_EVERY:
            self._last = now
            await self._store.tidy()
            await self._store.serving.tidy(now=now)
        return 0
