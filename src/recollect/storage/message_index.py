"""Stores what is derived from each message alone: the words by which recall finds it, and its token count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from recollect.core import word_index
from recollect.core.models import Principal
from recollect.storage.append import save_word_rows
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.jobs import Cursor, RewindTarget
from recollect.storage.rows import MadeOf, read_if_unchanged
from recollect.storage.segments import drop_segments
from recollect.storage.texts import Texts
from recollect.storage.topics import ASSIGNED


def _rewind(tx: Transaction, target: RewindTarget) -> None:
    """Delete token counts and let words be made again. Words of single people stay findable until they are replaced."""
    if target.is_everybody:
        tx.run("delete_all_entries")  # they may be damaged
    target.run(tx, "delete_tokens", everybody="delete_all_tokens")
    target.run(tx, "rewind_index", everybody="rewind_all_index")


CURSOR: Final = Cursor("unindexed_conversations", "mark_indexed", _rewind)


class MessageIndex:
    """Reads messages that lack words or token counts, and stores what was made of them."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    async def replace_words(
        self, principal: Principal, conversation: str, made_of: MadeOf, *, after: int, through: int, last: int
    ) -> int:
        """Make the words of a stretch of a conversation again. Return for how many messages.

        The old ones go and the new ones come in one transaction, so that each message can always be found.
        """
        params = {"person": principal.person, "conversation": conversation, "after": after, "limit": through - after}
        page = await self._read(lambda tx: self._texts.fill(tx, tx.all("page", **params)))
        messages = [message for message in page if message["seq"] <= through]
        encoded = await asyncio.to_thread(
            lambda: [
                word_index.encode_row(row["content"], row["name"], row["model_variant"], role=row["role"])
                for row in messages
            ]
        )

        def replace_rows(tx: Transaction) -> int:
            where = {"person": principal.person, "conversation": conversation}
            if tx.one("lock_conversation", **where) is None or read_if_unchanged(tx, where, made_of) is None:
                return 0
            key = made_of[0]
            tx.run("delete_entries", key=key, after=after, through=through)
            still_stored = {row["seq"] for row in tx.all("page", **params)}  # others were erased meanwhile
            pairs = [
                (row | {"key": key}, words)
                for row, words in zip(messages, encoded, strict=True)
                if row["seq"] in still_stored
            ]
            save_word_rows(tx, pairs)
            # Earlier versions embedded system messages and gave them topics.
            tx.run("empty_system_vectors", key=key, after=after, through=through, empty=b"")
            if through >= last:
                tx.run("mark_words", key=key, version=word_index.VERSION)
                drop_segments(tx, key)
                if tx.one("system_message_in_topic", key=key) is not None:
                    tx.run("begin_generation", **where)
                    ASSIGNED.rewind(tx, RewindTarget(principal.person, conversation))
            return len(pairs)

        return await self._write(replace_rows)

    async def uncounted(self, principal: Principal, conversation: str, *, after: int, through: int) -> list[Row]:
        """Return the messages of a stretch that have no token count yet."""
        params = {"person": principal.person, "conversation": conversation, "after": after, "through": through}
        return await self._read(lambda tx: self._texts.fill(tx, tx.all("uncounted_messages", **params)))

    async def save_tokens(self, principal: Principal, conversation: str, made_of: MadeOf, rows: Sequence[Row]) -> None:
        """Store token counts, unless the conversation is another one by now."""
        where = {"person": principal.person, "conversation": conversation}

        def store_counts(tx: Transaction) -> None:
            if read_if_unchanged(tx, where, made_of) is not None:
                tx.many("save_tokens", rows)

        await self._write(store_counts)
