"""An erase, from the rows to the bytes, and its proof: no piece of the erased text is left in the database files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from recollect.core import times
from recollect.core.errors import StoreUnavailable
from recollect.core.models import JsonObject, Principal, Receipt
from recollect.runtime.ids import new_id
from recollect.storage.audit import LIBRARY
from recollect.storage.driver import Purged
from recollect.storage.sqlite_file import blocks
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

PIECE = 32
SHORTEST = 12


async def erase(
    store: SqlStore, principal: Principal, scope: JsonObject, *, now: datetime, actor: str = LIBRARY
) -> Receipt:
    """Delete the rows that the scope names, then what the files still hold of them."""
    receipt, day = new_id(now), scope.get("day")
    counts, samples = await store.erase(
        principal,
        id=receipt,
        now=now,
        conversation=scope.get("conversation"),
        message=scope.get("message"),
        day=None if day is None else times.parse_day(day),
        topic=scope.get("topic"),
        profile="profile" in scope,
        actor=actor,
    )
    try:
        purged = await store.purge()
    except StoreUnavailable as error:  # the rows are gone all the same: say so, and let the worker finish
        log.warning("erased rows may still be in the files: %s", error.code)
        purged = Purged(pending=True)
    remaining = await count_remaining(store, purged.files, samples)
    pending = purged.pending or remaining > 0
    if not pending:
        await store.finish_erasures([receipt])
    return Receipt(
        id=receipt, scope=scope, counts=counts, at=now, files=purged.files,
        remaining=remaining, pending=pending, kept_elsewhere=purged.kept_elsewhere,
    )  # fmt: skip


def pieces(texts: Iterable[str]) -> list[str]:
    """A stretch from the middle of each text that is long enough to tell it from others."""
    found = []
    for text in texts:
        line = max(text.splitlines(), key=len, default="").strip()
        start = max(0, (len(line) - PIECE) // 2)
        if len(line) >= SHORTEST:
            found.append(line[start : start + PIECE])
    return list(dict.fromkeys(found))


async def count_remaining(store: SqlStore, files: Sequence[str], texts: Iterable[str]) -> int:
    """How many pieces of erased text the files still hold, apart from those that other messages say too."""
    remaining = 0
    for piece in await asyncio.to_thread(_found_in, files, pieces(texts)):
        if not await store.still_said(piece):
            remaining += 1
    return remaining


def _found_in(files: Sequence[str], wanted: list[str]) -> list[str]:
    needles = {piece: piece.encode() for piece in wanted}
    overlap = max((len(needle) for needle in needles.values()), default=1) - 1
    found: set[str] = set()
    for file in files:
        rest = b""
        for block in blocks(file) if needles and Path(file).exists() else ():
            window = rest + block
            found.update(piece for piece, needle in needles.items() if needle in window)
            rest = window[-overlap:] if overlap else b""
    return [piece for piece in wanted if piece in found]
