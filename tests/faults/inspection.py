"""Inspects a database file with SQLite alone: is it whole, and do derived rows agree with the log?"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import apsw
import psycopg

from recollect.core import archive, word_index
from recollect.core.language import passages
from recollect.storage.segments import Stretch, checksum_of
from recollect.storage.shipped_dictionary import learned_dictionary, shipped_dictionary
from support.scopes import pack_rows

CONVERSATION = "person, name, title, tags, zone, created_at, last_seq, messages, first_at, last_at"
MESSAGE = (
    "m.key, m.conversation_key, m.seq, m.id, m.role, content, m.at, m.source, m.name, m.model_variant, m.tool_calls,"
    " m.tool_call_id, m.metadata, m.importance, m.replaced"
)
CONTENT = 5  # its index in a row


@contextmanager
def connected(path: str | Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(10_000)
        yield connection
    finally:
        connection.close()


def rows(connection: apsw.Connection, question: str) -> list[Any]:
    return connection.execute(question).fetchall()


def has_log(connection: apsw.Connection) -> bool:
    """Say whether the file has a schema: a process that is killed early may leave one without."""
    return bool(rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'messages'"))


def texts_apart(ask: Callable[[str], list[Any]]) -> bool:
    """Say whether texts have a table of their own, which they have since schema 5."""
    try:
        ask("SELECT content FROM messages LIMIT 0")
    except (apsw.SQLError, psycopg.Error):
        return True
    return False


def messages(ask: Callable[[str], list[Any]]) -> list[tuple[Any, ...]]:
    """Return all messages with their texts, archived or not. The columns are those of MESSAGE."""
    if not texts_apart(ask):
        return ask(f"SELECT {MESSAGE} FROM messages m ORDER BY m.key")  # noqa: S608 - our own names
    found = ask(f"SELECT {MESSAGE} FROM messages m LEFT JOIN texts x ON x.message_key = m.key ORDER BY m.key")  # noqa: S608
    places = dict(ask("SELECT message_key, block_key FROM archived"))
    dictionaries = {key: bytes(body) for key, body in ask("SELECT key, body FROM dictionaries")}
    blocks = {key: unpacked(body, dictionaries) for key, body in ask("SELECT key, body FROM blocks")}
    rows = []
    for row in found:
        assert (row[CONTENT] is None) == (row[0] in places), f"message {row[0]} has its text twice or nowhere"
        text = row[CONTENT] if row[CONTENT] is not None else blocks[places[row[0]]][row[0]]
        rows.append((*row[:CONTENT], text, *row[CONTENT + 1 :]))
    return rows


def unpacked(body: bytes, dictionaries: Mapping[int, bytes]) -> dict[int, str]:
    """Return the texts of a block by message key. Its first text lists the keys, each as its distance from the last."""

    def find(id: int) -> archive.Dictionary:
        if id not in dictionaries:
            return shipped_dictionary()
        return learned_dictionary(id, archive.unpack_dictionary(dictionaries[id], shipped_dictionary()))

    keys, *texts = archive.decode(bytes(body), find)
    return dict(zip(accumulate(map(int, keys.split())), texts, strict=True))


def check_sound(connection: apsw.Connection) -> None:
    assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
    assert rows(connection, "PRAGMA foreign_key_check") == []


@lru_cache(maxsize=50_000)
def _entry(content: str, name: str | None, role: str) -> bytes:
    return word_index.encode_row(content, name, role=role)


def wrong_entries(ask: Callable[[str], list[Any]]) -> list[tuple[int, int]]:
    """Return where the stored words are not those of the message, or one of the two is missing.

    Words that the worker has still to make need not be there.
    """
    found = {
        (key, seq): (at, role, bytes(words))
        for key, seq, at, role, words in ask("SELECT conversation_key, seq, at, role, words FROM entries")
    }
    versions = dict(ask("SELECT key, words_version FROM conversations"))
    expected = {
        (key, seq): (at, word_index.ROLE_NUMBERS[role], _entry(content, name, role))
        for _, key, seq, _, role, content, at, _, name, *_ in messages(ask)
        if versions[key] == word_index.VERSION or (key, seq) in found
    }
    return sorted(at for at in found.keys() | expected.keys() if found.get(at) != expected.get(at))


def check_words(connection: apsw.Connection) -> None:
    """Check that each message has exactly its own words in the index, and that there are no others."""
    if rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'entries'"):  # since schema 3
        wrong = wrong_entries(lambda question: rows(connection, question))
        assert not wrong, f"{len(wrong)} entries differ from the rows: {wrong[:5]}"


def check_vectors(connection: apsw.Connection) -> None:
    """Check that each passage has a vector of its embedder, none is missing, and one embedder is in use."""
    sizes = dict(rows(connection, "SELECT key, dimensions FROM embedders"))
    newest = max(sizes, default=None)
    made = {
        (key, seq, embedder): len(vectors)
        for key, seq, embedder, vectors in connection.execute(
            "SELECT conversation_key, seq, embedder_key, vectors FROM vectors"
        )
    }
    served = {
        key: (embedder, through)
        for key, embedder, through in rows(connection, "SELECT key, embedder_key, embedded_seq FROM conversations")
    }
    for _, key, seq, _, _, content, *_ in messages(lambda question: rows(connection, question)):
        serving, through = served[key]
        for embedder, dimensions in sizes.items():
            size = made.get((key, seq, embedder))
            assert size in (None, len(passages.split(content)) * (dimensions + 4)), (key, seq)
        if seq <= through:
            assert (key, seq, newest) in made, f"{key}/{seq} is said to have vectors"
            assert serving in sizes


def check_segments(connection: apsw.Connection) -> None:
    """Check that each segment holds exactly what its rows hold, and that no two overlap."""
    if not rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'segments'"):
        return
    columns = "conversation_key, first_seq, last_seq, embedder_key, checksum, body"
    sizes, last_key, last_end = dict(rows(connection, "SELECT key, dimensions FROM embedders")), 0, 0
    for key, first, last, embedder, checksum, body in rows(
        connection,
        f"SELECT {columns} FROM segments ORDER BY conversation_key, first_seq",  # noqa: S608 - our own names
    ):
        assert key > last_key or first > last_end
        last_key, last_end = key, last
        bounds = f"conversation_key = {key} AND seq BETWEEN {first} AND {last}"
        entries = rows(connection, f"SELECT conversation_key, seq, at, role, words FROM entries WHERE {bounds}")  # noqa: S608
        vectors = rows(connection, f"SELECT seq, vectors FROM vectors WHERE {bounds} AND embedder_key = {embedder}")  # noqa: S608
        word_rows = [dict(zip(("conversation_key", "seq", "at", "role", "words"), row, strict=True)) for row in entries]
        vector_rows = [dict(zip(("seq", "vectors"), row, strict=True)) for row in vectors]
        assert body == pack_rows(word_rows, vector_rows, embedder, sizes[embedder]), (key, first, last)
        assert checksum == checksum_of(key, Stretch(first - 1, last), embedder, body), (key, first, last)


def check_counters(connection: apsw.Connection) -> None:
    """Check the counts of each conversation against its rows. Without an erase its seq has no gap."""
    assert (
        rows(
            connection,
            "SELECT c.name, c.last_seq, max(m.seq), c.messages, count(m.key)"
            " FROM conversations c LEFT JOIN messages m ON m.conversation_key = c.key GROUP BY c.key"
            " HAVING c.last_seq <> max(m.seq) OR c.messages <> count(m.key) OR count(m.key) <> c.last_seq"
            " OR c.first_at IS NOT min(m.at) OR c.last_at IS NOT max(m.at)",
        )
        == []
    )


def stored(connection: apsw.Connection) -> dict[str, dict[str, tuple[int, str, Any]]]:
    """Return seq, content and metadata of all messages by conversation and id."""
    found: dict[str, dict[str, tuple[int, str, Any]]] = defaultdict(dict)
    names = dict(rows(connection, "SELECT key, name FROM conversations"))
    for row in sorted(messages(lambda question: rows(connection, question)), key=lambda row: row[1:3]):
        conversation, seq, name, content, metadata = names[row[1]], row[2], row[3], row[CONTENT], row[12]
        assert name not in found[conversation], f"{name} is there twice"
        found[conversation][name] = (seq, content, None if metadata is None else json.loads(metadata))
    return dict(found)


def log_hash(connection: apsw.Connection) -> str:
    """Return a hash of the whole log that does not depend on the schema's version."""
    digest = hashlib.sha256()
    for row in connection.execute(f"SELECT key, {CONVERSATION} FROM conversations ORDER BY key"):  # noqa: S608
        digest.update(repr(row).encode())
    for row in messages(lambda question: rows(connection, question)):
        digest.update(repr(row).encode())
    return digest.hexdigest()


def check_file(path: str | Path) -> None:
    """Check everything that must hold for any file at any time."""
    with connected(path) as connection:
        if has_log(connection):
            check_sound(connection)
            check_words(connection)
            check_counters(connection)
            check_vectors(connection)
            check_segments(connection)
