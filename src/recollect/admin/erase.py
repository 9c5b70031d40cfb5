"""Erases a scope from the rows to the bytes, and checks that no piece of the erased texts is left in the files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from recollect.core.errors import StoreUnavailable
from recollect.core.models import Principal, Receipt
from recollect.core.scope import Scope
from recollect.runtime.ids import new_id
from recollect.storage.audit import LIBRARY
from recollect.storage.driver import PurgeResult
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

PIECE_CHARACTERS: Final = 32
MIN_PIECE_CHARACTERS: Final = 12  # a shorter line may be in other texts too


async def erase(
    store: SqlStore,
    principal: Principal,
    scope: Scope,
    *,
    now: datetime,
    when_deleted: Callable[[], None],
    actor: str = LIBRARY,
) -> Receipt:
    """Delete the rows of a scope, then what the files still hold of them. Return a receipt.

    `when_deleted` is called between the two: to clean the files may take a minute.

    Only for the program that holds the files are they searched for remains of the text. Whoever asks over the network
    would learn from a find what others said: a guess that is stored, erased and still found stands somewhere else.
    """
    receipt_id = new_id(now)
    counts, samples = await store.erase(principal, scope, id=receipt_id, now=now, actor=actor)
    when_deleted()
    try:
        purged = await store.purge()
    except StoreUnavailable as error:  # the rows are deleted; the worker finishes the rest
        log.warning("erased rows may still be in the files: %s", error.code)
        purged = PurgeResult(pending=True)
    files = purged.files if actor == LIBRARY else ()
    remaining = await count_remaining(store, files, samples)
    pending = purged.pending or remaining > 0
    if not pending:
        await store.finish_erasures([receipt_id])
    return Receipt(
        id=receipt_id, scope=scope.to_dict(), counts=counts, at=now, files=files,
        remaining=remaining, pending=pending, kept_elsewhere=purged.kept_elsewhere,
    )  # fmt: skip


def make_pieces(texts: Iterable[str]) -> list[str]:
    """Return for each text the middle of its longest line. Texts without a long enough line are left out."""
    pieces = []
    for text in texts:
        line = max(text.splitlines(), key=len, default="").strip()
        start = max(0, (len(line) - PIECE_CHARACTERS) // 2)
        if len(line) >= MIN_PIECE_CHARACTERS:
            pieces.append(line[start : start + PIECE_CHARACTERS])
    return list(dict.fromkeys(pieces))


async def count_remaining(store: SqlStore, files: Sequence[str], texts: Iterable[str]) -> int:
    """Count the pieces of erased texts that the files still contain, and that are in no stored text."""
    remaining = 0
    for piece in await store.find_in_files(files, make_pieces(texts)):
        if not await store.still_contains(piece):
            remaining += 1
    return remaining
