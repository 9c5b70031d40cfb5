"""The archive as a whole: texts that move into it, the dictionaries that pack them, and a check that all can be read.

`archive_blocks.py` writes single blocks inside a transaction, `texts.py` reads texts through the archive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core import archive, times
from recollect.core.archive import Damaged, Dictionary
from recollect.core.json_text import to_json
from recollect.core.models import Finding, Principal
from recollect.storage.archive_blocks import (
    TextsByKey,
    find_tainted_dictionaries,
    keys_in_block,
    pack,
    save_block,
)
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.storage.texts import Texts, pack_keys
from recollect.storage.topics import TopicsState, read_topics_state

BLOCKS_PER_READ: Final = 200
MESSAGES_PER_READ: Final = 2000
MAX_NAMED_BLOCKS: Final = 10  # damaged blocks that a finding names


@dataclass(frozen=True, slots=True)
class FoldedBlock:
    """A packed block on its way into the archive. It may replace a block that it extends."""

    replaces: int | None  # the key of the block that is deleted
    texts: TextsByKey  # everything in the new block
    new_keys: Sequence[int]  # the messages whose text is not archived yet
    body: bytes
    dictionary: Dictionary
    through: int  # the topic is archived up to this seq then, except the conversation's first user message


@dataclass(frozen=True, slots=True)
class Sample:
    """Archived messages that a dictionary is learned from."""

    keys: Sequence[int]
    texts: Sequence[str]
    epoch: str | None  # of the store when they were read


class ArchiveStore:
    """Folds texts into blocks, learns dictionaries, and examines the archive."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    # Folding

    async def block_texts(self, principal: Principal, key: int | None) -> dict[int, str] | None:
        """Return the texts of a block by message key; None if the block cannot be extended.

        A block that is damaged, or that holds texts of erased messages, cannot be extended.
        """

        def read_block(tx: Transaction) -> dict[int, str] | None:
            texts = None if key is None else self._texts.unpack(tx, [key]).get(key)
            if key is None or texts is None or len(keys_in_block(tx, texts, key)) != len(texts):
                return None
            return texts

        return await self._read(read_block)

    async def best_dictionary(self, principal: Principal) -> Dictionary:
        """Return the dictionary that packs best for the person: their newest one, or the shipped one."""

        def read_dictionary(tx: Transaction) -> Dictionary:
            newest = (tx.one("newest_dictionary", person=principal.person) or {}).get("key")
            with suppress(KeyError, Damaged):
                return shipped_dictionary() if newest is None else self._texts.dictionary(tx, newest)
            return shipped_dictionary()

        return await self._read(read_dictionary)

    async def save_fold(self, principal: Principal, state: TopicsState, folded: FoldedBlock, root: int) -> int | None:
        """Store a block and delete its texts from the table of texts. Return the key of the block.

        `root` is the key of the topic. Return None, and change nothing, if topics, texts or dictionary changed since
        the block was packed.
        """

        def move_into_block(tx: Transaction) -> int | None:
            tx.one("lock_conversation", person=principal.person, conversation=state.conversation)
            current = read_topics_state(tx, principal, state.conversation)
            if current is None or not current.has_same_topics(state) or not self._is_packed_from_current(tx, folded):
                return None
            block = save_block(tx, state.key, folded.texts, folded.body, folded.dictionary.id)
            new_keys = to_json(folded.new_keys)
            tx.run("delete_texts", rows=new_keys)
            if folded.replaces is not None:
                tx.run("delete_block", key=folded.replaces)
            for row in tx.all("topics_among", rows=new_keys):  # the topics they are assigned to by now
                tx.run("count_archived", key=row["topic_key"], messages=row["messages"])
            tx.run("extend_topic", key=root, block=block, through=folded.through)
            return block

        return await self._write(move_into_block)

    def _is_packed_from_current(self, tx: Transaction, folded: FoldedBlock) -> bool:
        """Say whether texts, dictionary and replaced block are still what the block was packed from."""
        new_keys = set(folded.new_keys)
        stored = {row["message_key"]: row["content"] for row in tx.all("texts_of", rows=to_json(folded.new_keys))}
        if stored != {key: folded.texts[key] for key in folded.new_keys}:
            return False
        if not self._is_stored(tx, folded.dictionary):
            return False
        old_keys = [key for key in folded.texts if key not in new_keys]
        return folded.replaces is None or keys_in_block(tx, old_keys, folded.replaces) == old_keys

    # Dictionaries

    async def archived_bytes(self, principal: Principal) -> tuple[int, int]:
        """Return the bytes of the person's archived text, now and when their newest dictionary was learned."""
        row = await self._read(lambda tx: tx.one("archive_size", person=principal.person)) or {}
        return int(row.get("text_bytes") or 0), int(row.get("learned_at") or 0)

    async def sample(self, principal: Principal, *, max_bytes: int) -> Sample:
        """Return archived messages of the person, spread over all of them: about `max_bytes` of text."""

        def read_sample(tx: Transaction) -> Sample:
            keys = [row["message_key"] for row in tx.all("archived_keys", person=principal.person)]
            total = int((tx.one("archive_size", person=principal.person) or {"text_bytes": 0})["text_bytes"])
            chosen = keys[:: max(1, total // max_bytes)]
            rows = self._texts.fill(tx, [{"key": key, "content": None} for key in chosen])
            readable = [row for row in rows if row["content"]]
            return Sample([row["key"] for row in readable], [row["content"] for row in readable], _read_epoch(tx))

        return await self._read(read_sample)

    async def save_dictionary(
        self, principal: Principal, body: bytes, learned_from: Sample, *, text_bytes: int, now: datetime
    ) -> int | None:
        """Store a learned dictionary. Return its key; None if one of the sampled messages is gone by now."""

        def insert_dictionary(tx: Transaction) -> int | None:
            tx.all("lock_conversations", person=principal.person)
            if _read_epoch(tx) != learned_from.epoch:
                return None  # after a restore, other messages may have these keys
            packed = archive.pack_dictionary(body, shipped_dictionary())
            values = {"text_bytes": text_bytes, "now": times.to_micros(now), "body": packed}
            values["learned_from"] = pack_keys(sorted(learned_from.keys))
            row = tx.one("insert_dictionary", person=principal.person, **values)
            assert row is not None  # noqa: S101 - inserted just now
            key = int(row["key"])
            if key in find_tainted_dictionaries(tx, principal.person):
                tx.run("delete_dictionary", key=key, person=principal.person)
                return None
            return key

        return await self._write(insert_dictionary)

    async def repack(self, principal: Principal, dictionary: Dictionary, *, after: int, limit: int) -> tuple[int, int]:
        """Pack up to `limit` blocks of the person again with this dictionary, where that makes them smaller.

        Return the key of the last block looked at (0 if there are no more), and how many were replaced.
        """

        def read_blocks(tx: Transaction) -> list[tuple[Row, dict[int, str] | None]]:
            params = {"person": principal.person, "dictionary": dictionary.id, "after": after, "limit": limit}
            rows = tx.all("blocks_of_others", **params)
            texts = self._texts.unpack(tx, [row["key"] for row in rows])
            return [(row, texts.get(row["key"])) for row in rows]

        blocks = await self._read(read_blocks)
        readable = [(row, texts) for row, texts in blocks if texts is not None]
        bodies = await asyncio.to_thread(lambda: [pack(texts, dictionary) for _, texts in readable])
        packed = [(row, texts, body) for (row, texts), body in zip(readable, bodies, strict=True)]
        smaller = [(row, texts, body) for row, texts, body in packed if len(body) < len(row["body"])]

        def replace_blocks(tx: Transaction) -> int:
            for key in sorted({row["conversation_key"] for row, _, _ in smaller}):
                tx.run("lock_conversation_key", key=key)
            if not self._is_stored(tx, dictionary):
                return 0
            return sum(_replace_block(tx, row, texts, body, dictionary.id) for row, texts, body in smaller)

        replaced = await self._write(replace_blocks) if smaller else 0
        return (int(blocks[-1][0]["key"]) if len(blocks) == limit else 0), replaced

    async def drop_unused_dictionaries(self, principal: Principal) -> None:
        """Delete dictionaries of the person that pack no block, except the newest one."""

        def delete_unused(tx: Transaction) -> None:
            tx.all("lock_conversations", person=principal.person)  # a fold may be using one
            for row in tx.all("unused_dictionaries", person=principal.person):
                tx.run("delete_dictionary", key=row["key"], person=principal.person)

        if await self._read(lambda tx: tx.all("unused_dictionaries", person=principal.person)):
            await self._write(delete_unused)

    def _is_stored(self, tx: Transaction, dictionary: Dictionary) -> bool:
        """Say whether the store still has this dictionary: an erase may have deleted it, a restore replaced it."""
        if dictionary.id < archive.FIRST_LEARNED_ID:
            return True
        row = tx.one("get_dictionary", key=dictionary.id)
        with suppress(Damaged):
            if row is not None and archive.unpack_dictionary(row["body"], shipped_dictionary()) == dictionary.body:
                return True
        self._texts.forget()
        return False

    # The archive of everybody

    async def contains(self, piece: str) -> bool:
        """Say whether any archived text contains this piece, of any person."""
        after = 0
        while True:

            def search_blocks(tx: Transaction, after: int = after) -> tuple[int, bool]:
                rows = tx.all("every_block", after=after, limit=BLOCKS_PER_READ)
                blocks = self._texts.unpack(tx, [row["key"] for row in rows]).values()
                is_found = any(piece in text for texts in blocks if texts is not None for text in texts.values())
                return (rows[-1]["key"] if rows else 0), is_found

            after, is_found = await self._read(search_blocks)
            if is_found or not after:
                return is_found

    async def examine(self) -> Finding:
        """Unpack every block as it is on the disk. Return what is damaged or missing."""
        self._texts.forget()
        after, count, damaged = 0, 0, list[int]()
        while True:

            def unpack_blocks(tx: Transaction, after: int = after) -> dict[int, dict[int, str] | None]:
                rows = tx.all("every_block", after=after, limit=BLOCKS_PER_READ)
                return self._texts.unpack(tx, [row["key"] for row in rows])

            unpacked = await self._read(unpack_blocks)
            if not unpacked:
                break
            after, count = max(unpacked), count + len(unpacked)
            damaged += [key for key, texts in unpacked.items() if texts is None]
        lost = int((await self._read(lambda tx: tx.one("count_lost_texts")) or {"n": 0})["n"])
        lost += await self._count_missing_texts()
        if damaged or lost:
            keys = ", ".join(map(str, damaged[:MAX_NAMED_BLOCKS])) + (", …" if len(damaged) > MAX_NAMED_BLOCKS else "")
            detail = f"{len(damaged)} of {count} blocks are damaged ({keys or 'none'}); {lost} messages have no text"
            return Finding("archive", "error", detail, "recollect restore, from a backup made before")
        return Finding("archive", "ok", f"{count} blocks, each unpacks")

    async def _count_missing_texts(self) -> int:
        """Return how many archived messages have no text in the block that should hold it."""
        after, total = 0, 0
        while True:

            def count_missing(tx: Transaction, after: int = after) -> tuple[int, int]:
                rows = tx.all("every_archived_message", after=after, limit=MESSAGES_PER_READ)
                unpacked = self._texts.unpack(tx, {row["block_key"] for row in rows})
                missing = sum(row["message_key"] not in (unpacked.get(row["block_key"]) or {}) for row in rows)
                return (rows[-1]["message_key"] if rows else 0), missing

            after, missing = await self._read(count_missing)
            total += missing
            if not after:
                return total


def _replace_block(tx: Transaction, row: Row, texts: Mapping[int, str], body: bytes, dictionary: int) -> bool:
    """Store the texts of a block in a new one, if the old one is still as it was read. Return whether it was."""
    stored = tx.all("get_blocks", rows=to_json([row["key"]]))
    is_same = [block["body"] for block in stored] == [row["body"]]
    if not texts or not is_same or len(keys_in_block(tx, texts, row["key"])) != len(texts):
        return False
    save_block(tx, row["conversation_key"], texts, body, dictionary)
    tx.run("delete_block", key=row["key"])
    return True


def _read_epoch(tx: Transaction) -> str | None:
    """Return the epoch of the store. It is another one after each restore."""
    return next((row["value"] for row in tx.all("get_settings", person="") if row["name"] == "epoch"), None)
