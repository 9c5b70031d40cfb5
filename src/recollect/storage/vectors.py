"""Vectors in the store, and the embedders that made them: one is in force, those of others are outdated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from recollect.core import times
from recollect.core.models import Principal
from recollect.storage.driver import Row, Run, Transaction
from recollect.storage.rows import MadeOf, unchanged
from recollect.storage.texts import Texts


class Vectors:
    def __init__(self, read: Run, write: Run, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    async def use(self, name: str, dimensions: int, *, passages: int, now: datetime, backfill: bool = True) -> Row:
        """The row of this embedder, which is in force from now on. Another one's vectors are then outdated.

        Without `backfill` only messages that come from now on get vectors.
        """
        asked = {"name": name, "dimensions": dimensions, "passages": passages}

        def job(tx: Transaction) -> Row:
            tx.run("lock_embedders")
            newest = tx.one("newest_embedder")
            if newest is not None and asked.items() <= newest.items():
                return newest
            tx.run("insert_embedder", **asked, now=times.to_micros(now))
            tx.run("outdate_vectors" if backfill else "skip_vectors")
            made = tx.one("newest_embedder")
            assert made is not None  # noqa: S101 - inserted in this transaction
            return made

        newest = await self._read(lambda tx: tx.one("newest_embedder"))
        if newest is not None and asked.items() <= newest.items():
            return newest  # the rule; nothing is written for it
        return await self._write(job)

    async def in_force(self) -> Row | None:
        return await self._read(lambda tx: tx.one("newest_embedder"))

    async def embedders(self) -> list[Row]:
        return await self._read(lambda tx: tx.all("every_embedder"))

    async def unembedded(
        self, principal: Principal, conversation: str, *, embedder: int, after: int, through: int
    ) -> list[Row]:
        scope = {"person": principal.person, "conversation": conversation, "after": after, "through": through}
        return await self._read(
            lambda tx: self._texts.fill(tx, tx.all("unembedded_messages", **scope, embedder=embedder))
        )

    async def save(
        self,
        principal: Principal,
        conversation: str,
        made_of: MadeOf,
        rows: Sequence[tuple[int, bytes]],
        *,
        embedder: Mapping[str, Any],
        after: int,
        through: int,
    ) -> bool:
        """Vectors by seq. When none are missing any more, they serve, and those of other embedders go.

        False if another embedder is in force by now: then nothing is saved.
        """

        def job(tx: Transaction) -> bool:
            scope = unchanged(tx, {"person": principal.person, "conversation": conversation}, made_of)
            newest = tx.one("newest_embedder")
            if newest != embedder:
                return False
            if scope is None:
                return True
            own = embedder["key"]
            key, generation = made_of
            made = [{"key": key, "seq": seq, "embedder": own, "vectors": blob} for seq, blob in rows]
            tx.many("save_vectors", made)
            tx.run("mark_embedded", key=key, after=after, through=through, generation=generation)
            complete = through >= scope["last_seq"]
            if complete and scope["embedder_key"] not in (None, own):  # without backfill, the old ones go on serving
                made_now = tx.one("count_vectors", key=key, embedder=own) or {"n": 0}
                complete = made_now["n"] >= scope["messages"]
            if complete or scope["embedder_key"] is None:
                tx.run("serve_vectors", key=key, embedder=own)
            if complete and scope["embedder_key"] not in (None, own):
                tx.run("delete_other_vectors", key=key, embedder=own)
            return True

        return await self._write(job)
