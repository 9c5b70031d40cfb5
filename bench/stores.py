"""Builds large stores for benches of speed within a minute: real words, plausible vectors."""

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

CONVERSATION_MESSAGES: Final = 600
POOL_SIZE: Final = 2000  # real embeddings that others are mixed from
NOISE_LENGTH: Final = 0.4  # of the noise that is added to a mixed vector
MESSAGES_PER_DAY: Final = 20
FIRST_MESSAGE_AT: Final = datetime(2000, 1, 1, 9, tzinfo=UTC)
KEY_STRIDE: Final = 10_000_000  # between the keys of a conversation and of its copies


class MixedEmbedder:
    """An embedder that takes no time: a vector is a mixture of two real ones and noise, whatever the text.

    It has the name of the built-in embedder.
    """

    name, dimensions = MiniLM.name, MiniLM.dimensions

    def __init__(self, pool: Floats, seed: int = 11) -> None:
        self._pool, self._random = pool, np.random.default_rng(seed)

    @classmethod
    def from_texts(cls, texts: Texts, size: int = POOL_SIZE) -> MixedEmbedder:
        """Make an embedder whose real vectors are those of so many texts."""
        return cls(MiniLM().encode([texts.text(120) for _ in range(size)]))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a mixed vector for each text."""
        vectors: list[list[float]] = self.encode(texts).tolist()
        return vectors

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return a mixed vector for each text, as rows."""
        return self.mix(len(texts))

    def mix(self, count: int) -> Floats:
        """Return so many mixed vectors of length 1."""
        first, second = self._random.integers(len(self._pool), size=(2, count))
        share = self._random.random((count, 1), np.float32)
        noise = self._random.standard_normal((count, self.dimensions), np.float32) * (
            NOISE_LENGTH / self.dimensions**0.5
        )
        mixed = self._pool[first] * share + self._pool[second] * (1 - share) + noise
        unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return unit

    def blobs(self, count: int) -> list[bytes]:
        """Return vectors as they are stored, for so many messages of one passage each."""
        width = self.dimensions + 4
        packed = pack(self.mix(count))
        return [packed[index * width : (index + 1) * width] for index in range(count)]


def fill_store(path: Path, texts: Sequence[str], embedder: MixedEmbedder) -> list[str]:
    """Fill a store of one person, with all derived rows, through the public API. Return the conversations' names."""
    names = []
    with Memory(path, worker=False, embedder=embedder) as memory:
        for start in range(0, len(texts), CONVERSATION_MESSAGES):
            names.append(f"chat-{start // CONVERSATION_MESSAGES}")
            part = texts[start : start + CONVERSATION_MESSAGES]
            memory.add_many(names[-1], [_message(start + index, text) for index, text in enumerate(part)])
        done = memory.drain()
        if not done.complete:
            raise RuntimeError(f"not everything could be indexed: {done.failed}")
    return names


def _message(number: int, text: str) -> dict[str, str]:
    """Return a message: user and assistant take turns, ten turns a day."""
    at = FIRST_MESSAGE_AT + timedelta(days=number // MESSAGES_PER_DAY, minutes=number % MESSAGES_PER_DAY)
    return {"role": ("user", "assistant")[number % 2], "content": text, "at": at.isoformat()}


def copy_to_more_people(path: Path, times: int, embedder: MixedEmbedder) -> None:
    """Copy all messages to more people, with vectors of their own: `times` as many messages as before."""
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
    step = copy * KEY_STRIDE
    changed = {name: f"{name} + {step}" for name in ("key", "conversation_key", "message_key", "block_key")}
    changed["active_topic"] = "NULL"  # topics are not copied
    changed["packed_seq"] = "0"  # neither are segments
    changed |= {"person": f"'person-{copy}'"} | ({"name": f"name || '-{copy}'"} if table == "conversations" else {})
    values = ", ".join(changed.get(name, name) for name in columns)
    key_column = next(name for name in ("key", "conversation_key", "message_key") if name in columns)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} "  # noqa: S608 - our own names
        f"WHERE {key_column} < {KEY_STRIDE} ORDER BY {key_column}"
    )


def _copy_vectors(connection: apsw.Connection, key: int, copy: int, embedder: MixedEmbedder) -> None:
    stored = list(
        connection.execute("SELECT seq, embedder_key FROM vectors WHERE conversation_key = ? ORDER BY seq", (key,))
    )
    rows = [
        (key + copy * KEY_STRIDE, seq, embedder_key, blob)
        for (seq, embedder_key), blob in zip(stored, embedder.blobs(len(stored)), strict=True)
    ]
    connection.executemany(
        "INSERT INTO vectors (conversation_key, seq, embedder_key, vectors) VALUES (?, ?, ?, ?)", rows
    )


def unite_people(path: Path) -> None:
    """Give the conversations of all people to one person."""
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE conversations SET person = 'local'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
