"""The job that indexes messages: their words, and their count of tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final

from recollect.core import word_index
from recollect.core.models import JsonObject
from recollect.core.protocols import Tokenizer
from recollect.jobs.job import ConversationJob, ConversationWork, Pace, Step, StopSignal
from recollect.providers.token_counts import count_message
from recollect.storage import message_index
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

TURN_BYTES: Final = 1 << 20  # of text that is indexed in one turn


class IndexMessages(ConversationJob):
    """A job of two steps that share one cursor. Both are quick and cannot fail for want of a model."""

    name = "index"
    cursor = message_index.CURSOR
    pace = Pace(max_bytes=TURN_BYTES)

    def __init__(self, store: SqlStore, tokenizer: Callable[[], Tokenizer]) -> None:
        """`tokenizer` is called when the first message is counted: its tables take a moment to load."""
        super().__init__(store)
        self._steps = (IndexWords(store), CountTokens(store, tokenizer))

    @property
    def steps(self) -> Sequence[Step[ConversationWork]]:
        return self._steps


class IndexWords:
    """Makes the words of messages again after a rebuild or with a new analyser. New messages bring theirs along."""

    name = "words"

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Replace the words of a slice if another analyser made them. Return for how many messages."""
        if work.words_version == word_index.VERSION:
            return 0
        return await self._store.index.replace_words(
            work.principal, work.conversation, work.made_of, after=work.after, through=work.through, last=work.last
        )


class CountTokens:
    """Counts what each message costs in a prompt."""

    name = "tokens"

    def __init__(self, store: SqlStore, tokenizer: Callable[[], Tokenizer]) -> None:
        self._store, self._tokenizer = store, tokenizer

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Count the messages of a slice that were not counted yet. Return how many there were."""
        rows = await self._store.index.uncounted(
            work.principal, work.conversation, after=work.after, through=work.through
        )
        if rows:
            counts = await asyncio.to_thread(self._count, rows)
            await self._store.index.save_tokens(work.principal, work.conversation, work.made_of, counts)
        return len(rows)

    def _count(self, rows: list[Row]) -> list[Row]:
        tokenizer = self._tokenizer()
        return [
            {"key": row["key"], "counter": tokenizer.name, "tokens": count_message(as_message(row), tokenizer)}
            for row in rows
        ]


def as_message(row: Row) -> JsonObject:
    """Return a row of a message in the form in which providers count it."""
    calls = row["tool_calls"]
    message = {"role": row["role"], "content": row["content"], "name": row["name"]}
    return message if calls is None else message | {"tool_calls": json.loads(calls)}
