"""Stores vectors, and the embedders that made them. One embedder is current; vectors of others are outdated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from recollect.core import times
from recollect.core.models import Principal
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.jobs import Cursor, RewindTarget
from recollect.storage.rows import MadeOf, read_if_unchanged
from recollect.storage.segments import drop_segments
from recollect.storage.texts import Texts


def _rewind(tx: Transaction, target: RewindTarget) -> None:
    target.run(tx, "delete_vectors", everybody="delete_all_vectors")
    target.run(tx, "rewind_vectors", everybody="rewind_all_vectors")


CURSOR: Final = Cursor("unembedded_conversations", None, _rewind)  # moves with the vectors: the embedder may change


class VectorStore:
    """The vectors and embedders of the store."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction, texts: Texts) -> None:
        self._read, self._write, self._texts = read, write, texts

    async def use_embedder(
        self, name: str, dimensions: int, *, passages: int, now: datetime, backfill: bool = True
    ) -> Row:
        """Make an embedder the current one and return its row. Vectors of another one are outdated then.

        Without `backfill` only messages that come from now on get vectors.
        """
        values = {"name": name, "dimensions": dimensions, "passages": passages}

        def make_current(tx: Transaction) -> Row:
            tx.run("lock_embedders")
            newest = tx.one("newest_embedder")
            if newest is not None and values.items() <= newest.items():
                return newest
            tx.run("insert_embedder", **values, now=times.to_micros(now))
            tx.run("outdate_vectors" if backfill else "skip_vectors")
            inserted = tx.one("newest_embedder")
            assert inserted is not None  # noqa: S101 - inserted in this transaction
            return inserted

        newest = await self._read(lambda tx: tx.one("newest_embedder"))
        if newest is not None and values.items() <= newest.items():
            return newest  # the usual case: nothing is written
        return await self._write(make_current)

    async def current_embedder(self) -> Row | None:
        """Return the row of the current embedder."""
        return await self._read(lambda tx: tx.one("newest_embedder"))

    async def embedders(self) -> list[Row]:
        """Return the rows of all embedders that were ever used, oldest first."""
        return await self._read(lambda tx: tx.all("every_embedder"))

    async def to_embed(
        self,
        principal: Principal,
        conversation: str,
        *,
        embedder: int,
        earlier: int | None = None,
        after: int,
        through: int,
    ) -> list[Row]:
        """Return the messages of a stretch, each with the vectors of this embedder and of an `earlier` one."""
        params = {"person": principal.person, "conversation": conversation, "after": after, "through": through}
        params |= {"embedder": embedder, "earlier": earlier}
        return await self._read(lambda tx: self._texts.fill(tx, tx.all("messages_to_embed", **params)))

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
        """Store vectors by seq. Return False, and store nothing, if another embedder is current by now.

        A stretch that ends where it begins has part of the vectors of its first message. They are stored only if no
        other process has moved the cursor, since that one has stored all of them.

        When no message lacks vectors of this embedder, recall uses them, and those of other embedders are deleted.
        """

        def store_vectors(tx: Transaction) -> bool:
            where = {"person": principal.person, "conversation": conversation}
            row = read_if_unchanged(tx, where, made_of)
            newest = tx.one("newest_embedder")
            if newest != embedder:
                return False
            if row is None:
                return True
            embedder_key = embedder["key"]
            key, generation = made_of
            has_moved = tx.run("mark_embedded", key=key, after=after, through=through, generation=generation)
            if after == through and not has_moved:
                return True
            tx.many(
                "save_vectors",
                [{"key": key, "seq": seq, "embedder": embedder_key, "vectors": blob} for seq, blob in rows],
            )
            replaces_others = row["embedder_key"] not in (None, embedder_key)
            is_complete = through >= row["last_seq"]
            if is_complete and replaces_others:  # without backfill the old vectors stay in use
                stored = tx.one("count_vectors", key=key, embedder=embedder_key) or {"n": 0}
                is_complete = stored["n"] >= row["messages"]
            if is_complete or row["embedder_key"] is None:
                tx.run("serve_vectors", key=key, embedder=embedder_key)
            if is_complete and replaces_others:
                tx.run("delete_other_vectors", key=key, embedder=embedder_key)
                drop_segments(tx, key)
            return True

        return await self._write(store_vectors)
