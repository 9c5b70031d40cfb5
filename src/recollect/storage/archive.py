"""The archive as a whole: texts that move into it, the dictionaries that pack them, and whether all of it can be read.

What happens to single blocks inside a transaction stands in `archiving`; reading through the archive, in `texts`.
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
from recollect.core.drafts import to_json
from recollect.core.models import Finding, Principal
from recollect.storage.archive_blocks import are_in, pack, save_block, tainted_dictionaries
from recollect.storage.driver import Row, Run, Transaction
from recollect.storage.texts import Texts, packed_keys
from recollect.storage.topics import Standing, standing_of

BLOCKS: Final = 200  # that are looked at together,
PLACES: Final = 2000  # and messages in them


@dataclass(frozen=True, slots=True)
class Folded:
    """Texts on their way into the archive: a block that takes the place of the one it extends."""

    extended: int | None  # the block that goes
    said: Mapping[int, str]  # all of the new block, by the keys of the messages
    fresh: Sequence[int]  # of them, those whose text is not archived yet
    body: bytes
    dictionary: Dictionary
    through: int  # all that the topic has up to this seq is archived then, but for the conversation's first message


@dataclass(frozen=True, slots=True)
class Sample:
    """What a dictionary is learned from."""

    keys: Sequence[int]
    texts: Sequence[str]
    epoch: str | None  # of the store when it was read


class Archive:
    def __init__(self, read: Run, write: Run, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    # Folding

    async def block(self, principal: Principal, key: int | None) -> dict[int, str] | None:
        """The texts of a block that can be extended, by the keys of their messages."""

        def job(tx: Transaction) -> dict[int, str] | None:
            said = None if key is None else self._texts.unpack(tx, [key]).get(key)
            return said if key is not None and said is not None and len(are_in(tx, said, key)) == len(said) else None

        return await self._read(job)

    async def dictionary(self, principal: Principal) -> Dictionary:
        """The one that packs best for the person: the newest they have, or the shipped one."""

        def job(tx: Transaction) -> Dictionary:
            newest = (tx.one("newest_dictionary", person=principal.person) or {}).get("key")
            with suppress(KeyError, Damaged):
                return archive.shipped() if newest is None else self._texts.dictionary(tx, newest)
            return archive.shipped()

        return await self._read(job)

    async def save_folded(self, principal: Principal, standing: Standing, folded: Folded, root: int) -> int | None:
        """The texts leave the hot table, if all is still as it was when they were packed. The key of their block."""

        def job(tx: Transaction) -> int | None:
            tx.one("lock_conversation", person=principal.person, conversation=standing.conversation)
            now = standing_of(tx, principal, standing.conversation)
            if now is None or not now.same_rows(standing):
                return None
            fresh, old = to_json(folded.fresh), [key for key in folded.said if key not in set(folded.fresh)]
            there = {row["message_key"]: row["content"] for row in tx.all("texts_of", rows=fresh)}
            if there != {key: folded.said[key] for key in folded.fresh} or not self._knows(tx, folded.dictionary):
                return None
            if folded.extended is not None and are_in(tx, old, folded.extended) != old:
                return None
            block = save_block(tx, standing.key, folded.said, folded.body, folded.dictionary.id)
            tx.run("delete_texts", rows=fresh)
            if folded.extended is not None:
                tx.run("delete_block", key=folded.extended)
            for row in tx.all("topics_among", rows=fresh):  # where they belong by now
                tx.run("count_archived", key=row["topic_key"], messages=row["messages"])
            tx.run("extend_topic", key=root, block=block, through=folded.through)
            return block

        return await self._write(job)

    # Dictionaries

    async def size(self, principal: Principal) -> tuple[int, int]:
        """Bytes of the person's archived text, and what they were when the newest dictionary was learned."""
        row = await self._read(lambda tx: tx.one("archive_size", person=principal.person)) or {}
        return int(row.get("text_bytes") or 0), int(row.get("learned_at") or 0)

    async def sample(self, principal: Principal, *, most: int) -> Sample:
        """Some of the person's archived messages, spread over all of them: about so many bytes."""

        def job(tx: Transaction) -> Sample:
            keys = [row["message_key"] for row in tx.all("archived_keys", person=principal.person)]
            total = int((tx.one("archive_size", person=principal.person) or {"text_bytes": 0})["text_bytes"])
            chosen = keys[:: max(1, total // most)]
            rows = self._texts.fill(tx, [{"key": key, "content": None} for key in chosen])
            kept = [row for row in rows if row["content"]]
            return Sample([row["key"] for row in kept], [row["content"] for row in kept], _epoch(tx))

        return await self._read(job)

    async def save_dictionary(
        self, principal: Principal, body: bytes, learned_from: Sample, *, text_bytes: int, now: datetime
    ) -> int | None:
        """The key of the new dictionary; None if one of the messages is gone by now."""

        def job(tx: Transaction) -> int | None:
            tx.all("lock_conversations", person=principal.person)
            if _epoch(tx) != learned_from.epoch:
                return None  # after a restore, keys may be those of other messages
            learned = {"text_bytes": text_bytes, "now": times.to_micros(now), "body": archive.pack(body)}
            learned["learned_from"] = packed_keys(sorted(learned_from.keys))
            row = tx.one("insert_dictionary", person=principal.person, **learned)
            assert row is not None  # noqa: S101 - inserted just now
            key = int(row["key"])
            if key in tainted_dictionaries(tx, principal.person):
                tx.run("delete_dictionary", key=key, person=principal.person)
                return None
            return key

        return await self._write(job)

    async def repack(self, principal: Principal, dictionary: Dictionary, *, after: int, limit: int) -> tuple[int, int]:
        """Pack some blocks of the person anew with this dictionary. The key to go on after (0: done), and how many."""

        def find(tx: Transaction) -> list[tuple[Row, dict[int, str] | None]]:
            asked = {"person": principal.person, "dictionary": dictionary.id, "after": after, "limit": limit}
            rows = tx.all("blocks_of_others", **asked)
            said = self._texts.unpack(tx, [row["key"] for row in rows])
            return [(row, said.get(row["key"])) for row in rows]

        found = await self._read(find)
        readable = [(row, said) for row, said in found if said is not None]
        bodies = await asyncio.to_thread(lambda: [pack(said, dictionary) for _, said in readable])
        packed = [(row, said, body) for (row, said), body in zip(readable, bodies, strict=True)]
        better = [one for one in packed if len(one[2]) < len(one[0]["body"])]

        def job(tx: Transaction) -> int:
            for key in sorted({row["conversation_key"] for row, _, _ in better}):
                tx.run("lock_conversation_key", key=key)
            if not self._knows(tx, dictionary):
                return 0
            return sum(_swap(tx, row, said, body, dictionary.id) for row, said, body in better)

        done = await self._write(job) if better else 0
        return (int(found[-1][0]["key"]) if len(found) == limit else 0), done

    async def drop_unused_dictionaries(self, principal: Principal) -> None:
        def job(tx: Transaction) -> None:
            tx.all("lock_conversations", person=principal.person)  # a fold may just be using one
            for row in tx.all("unused_dictionaries", person=principal.person):
                tx.run("delete_dictionary", key=row["key"], person=principal.person)

        if await self._read(lambda tx: tx.all("unused_dictionaries", person=principal.person)):
            await self._write(job)

    def _knows(self, tx: Transaction, dictionary: Dictionary) -> bool:
        """Whether a dictionary is still the one that the store has: an erase may have taken it, a restore replaced."""
        if dictionary.id < archive.LEARNED:
            return True
        row = tx.one("get_dictionary", key=dictionary.id)
        with suppress(Damaged):
            if row is not None and archive.unpack(row["body"]) == dictionary.body:
                return True
        self._texts.forget()
        return False

    # The whole of it, of everybody

    async def holds(self, piece: str) -> bool:
        """Whether some archived text, of whomever, holds this piece."""
        after = 0
        while True:

            def job(tx: Transaction, after: int = after) -> tuple[int, bool]:
                rows = tx.all("every_block", after=after, limit=BLOCKS)
                unpacked = self._texts.unpack(tx, [row["key"] for row in rows]).values()
                held = any(piece in text for said in unpacked if said is not None for text in said.values())
                return (rows[-1]["key"] if rows else 0), held

            after, held = await self._read(job)
            if held or not after:
                return held

    async def examine(self) -> Finding:
        """Unpacks every block, from the disk."""
        self._texts.forget()
        after, count, damaged = 0, 0, list[int]()
        while True:

            def job(tx: Transaction, after: int = after) -> dict[int, dict[int, str] | None]:
                rows = tx.all("every_block", after=after, limit=BLOCKS)
                return self._texts.unpack(tx, [row["key"] for row in rows])

            unpacked = await self._read(job)
            if not unpacked:
                break
            after, count = max(unpacked), count + len(unpacked)
            damaged += [key for key, said in unpacked.items() if said is None]
        lost = int((await self._read(lambda tx: tx.one("count_lost_texts")) or {"n": 0})["n"])
        lost += await self._count_misplaced()
        if damaged or lost:
            named = ", ".join(map(str, damaged[:10])) + (", …" if len(damaged) > 10 else "")
            detail = f"{len(damaged)} of {count} blocks are damaged ({named or 'none'}); {lost} messages have no text"
            return Finding("archive", "error", detail, "recollect restore, from a backup made before")
        return Finding("archive", "ok", f"{count} blocks, each unpacks")

    async def _count_misplaced(self) -> int:
        """Messages whose text is not in the block where it should be."""
        after, lost = 0, 0
        while True:

            def job(tx: Transaction, after: int = after) -> tuple[int, int]:
                rows = tx.all("every_place", after=after, limit=PLACES)
                unpacked = self._texts.unpack(tx, {row["block_key"] for row in rows})
                missing = sum(row["message_key"] not in (unpacked.get(row["block_key"]) or {}) for row in rows)
                return (rows[-1]["message_key"] if rows else 0), missing

            after, missing = await self._read(job)
            lost += missing
            if not after:
                return lost


def _swap(tx: Transaction, row: Row, said: Mapping[int, str], body: bytes, dictionary: int) -> bool:
    """The same texts in another block, if the old one is still as it was."""
    there = tx.all("get_blocks", rows=to_json([row["key"]]))
    if not said or [one["body"] for one in there] != [row["body"]] or len(are_in(tx, said, row["key"])) != len(said):
        return False
    save_block(tx, row["conversation_key"], said, body, dictionary)
    tx.run("delete_block", key=row["key"])
    return True


def _epoch(tx: Transaction) -> str | None:
    """Another one after each restore."""
    return next((row["value"] for row in tx.all("get_settings", person="") if row["name"] == "epoch"), None)
