"""Large stores for benches of speed: real words, plausible vectors, made in a minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import apsw
import numpy as np
from numpy.typing import NDArray

from bench.data import Texts
from recollect import Memory
from recollect.providers.minilm import MiniLM
from recollect.recall.vectors import pack

Floats = NDArray[np.float32]

TALK: Final = 600  # messages of a conversation
POOL: Final = 2000  # real embeddings that others are mixed from
NOISE: Final = 0.4  # length of what is added to a mixed vector
SITTING: Final = 20  # messages of a day
BEGIN: Final = datetime(2000, 1, 1, 9, tzinfo=UTC)
STRIDE: Final = 10_000_000  # between the keys of a conversation and of its copies


class MixedEmbedder:
    """Vectors in no time: each a mixture of two real ones and noise. It passes for the built-in embedder."""

    name, dimensions = MiniLM.name, MiniLM.dimensions

    def __init__(self, pool: Floats, seed: int = 11) -> None:
        self._pool, self._chance = pool, np.random.default_rng(seed)

    @classmethod
    def of(cls, texts: Texts, size: int = POOL) -> MixedEmbedder:
        return cls(MiniLM().encode([texts.text(120) for _ in range(size)]))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        found: list[list[float]] = self.encode(texts).tolist()
        return found

    def encode(self, texts: Sequence[str]) -> Floats:
        return self.some(len(texts))

    def some(self, count: int) -> Floats:
        one, other = self._chance.integers(len(self._pool), size=(2, count))
        share = self._chance.random((count, 1), np.float32)
        noise = self._chance.standard_normal((count, self.dimensions), np.float32) * (NOISE / self.dimensions**0.5)
        mixed = self._pool[one] * share + self._pool[other] * (1 - share) + noise
        unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return unit

    def blobs(self, count: int) -> list[bytes]:
        """Vectors as they are stored, for so many messages of one passage."""
        width = self.dimensions + 4
        packed = pack(self.some(count))
        return [packed[place * width : (place + 1) * width] for place in range(count)]


def fill(path: Path, texts: Sequence[str], embedder: MixedEmbedder, talk: int = TALK) -> list[str]:
    """A store of one person with all derived rows, through the public API. Returns the conversations' names."""
    names = []
    with Memory(path, worker=False, embedder=embedder) as memory:
        for start in range(0, len(texts), talk):
            names.append(f"chat-{start // talk}")
            memory.add_many(
                names[-1], [_message(start + i, text) for i, text in enumerate(texts[start : start + talk])]
            )
        done = memory.drain()
        if not done.complete:
            raise RuntimeError(f"not everything could be indexed: {done.failed}")
    return names


def _message(place: int, text: str) -> dict[str, str]:
    """Two take turns, ten turns a day."""
    at = BEGIN + timedelta(days=place // SITTING, minutes=place % SITTING)
    return {"role": ("user", "assistant")[place % 2], "content": text, "at": at.isoformat()}


def multiply(path: Path, times: int, embedder: MixedEmbedder) -> None:
    """Give the same messages to more people, with vectors of their own: `times` as many messages as before."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous = OFF")
    keys = [row[0] for row in connection.execute("SELECT key FROM conversations ORDER BY key")]
    for copy in range(1, times):
        connection.execute("BEGIN IMMEDIATE")
        for table in ("conversations", "messages", "texts", "blocks", "archived", "entries", "message_tokens"):
            _copy_rows(connection, table, copy)
        for key in keys:
            _copy_vectors(connection, key, copy, embedder)
        connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _copy_rows(connection: apsw.Connection, table: str, copy: int) -> None:
    columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
    step = copy * STRIDE
    changed = {name: f"{name} + {step}" for name in ("key", "conversation_key", "message_key", "block_key")}
    changed["active_topic"] = "NULL"  # topics are not copied
    changed |= {"person": f"'person-{copy}'"} | ({"name": f"name || '-{copy}'"} if table == "conversations" else {})
    values = ", ".join(changed.get(name, name) for name in columns)
    mark = next(name for name in ("key", "conversation_key", "message_key") if name in columns)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} "  # noqa: S608 - our own names
        f"WHERE {mark} < {STRIDE} ORDER BY {mark}"
    )


def _copy_vectors(connection: apsw.Connection, key: int, copy: int, embedder: MixedEmbedder) -> None:
    known = connection.execute("SELECT seq, embedder_key FROM vectors WHERE conversation_key = ? ORDER BY seq", (key,))
    places = list(known)
    rows = [
        (key + copy * STRIDE, seq, by, blob)
        for (seq, by), blob in zip(places, embedder.blobs(len(places)), strict=True)
    ]
    connection.executemany(
        "INSERT INTO vectors (conversation_key, seq, embedder_key, vectors) VALUES (?, ?, ?, ?)", rows
    )


def unite(path: Path) -> None:
    """All people of a multiplied store become one."""
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE conversations SET person = 'local'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
