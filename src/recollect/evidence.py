"""Proof of an erase: looking for pieces of the erased text in the bytes of the database files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from recollect.sql.sqlite_file import blocks
from recollect.sql.store import SqlStore

PIECE = 32
SHORTEST = 12


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
