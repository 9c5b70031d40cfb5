"""Looking at a database file with SQLite alone: is it whole, and does its full text say what its rows say?"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import apsw

from recollect.core import analysis

LOG = {
    "conversations": "person, name, title, tags, zone, created_at, last_seq, messages, first_at, last_at",
    "messages": "conversation_key, seq, id, role, content, at, source, name, model_variant, tool_calls, tool_call_id,"
    " metadata, importance, replaced",
}


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
    """Whether the schema is there: a process killed early may leave a file without one."""
    return bool(rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'messages'"))


def check_sound(connection: apsw.Connection) -> None:
    assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
    assert rows(connection, "PRAGMA foreign_key_check") == []
    connection.execute("INSERT INTO message_words(message_words, rank) VALUES ('integrity-check', 1)")


@lru_cache(maxsize=50_000)
def _words(content: str) -> Counter[str]:
    return Counter(analysis.words(content))


def check_words(connection: apsw.Connection) -> None:
    """The index holds exactly the words of the rows, each as often as it is said, and none of any other row."""
    connection.execute("CREATE VIRTUAL TABLE temp.indexed USING fts5vocab(main, message_words, instance)")
    try:
        found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for doc, column, term, times in connection.execute(
            "SELECT doc, col, term, count(*) FROM temp.indexed GROUP BY doc, col, term"
        ):
            found[doc, column][term] = times
    finally:
        connection.execute("DROP TABLE temp.indexed")
    expected: dict[tuple[int, str], Counter[str]] = {}
    for key, person, conversation, content in connection.execute(
        "SELECT m.key, c.person, c.key, m.content FROM messages m JOIN conversations c ON c.key = m.conversation_key"
    ):
        scopes = (analysis.person_scope(person), analysis.conversation_scope(conversation))
        expected[key, "scope"] = Counter(scope.removeprefix("@") for scope in scopes)
        if words := _words(content):
            expected[key, "body"] = words
    wrong = [at for at in found.keys() | expected.keys() if found.get(at) != expected.get(at)]
    assert not wrong, f"{len(wrong)} entries of the full text differ from the rows: {sorted(wrong)[:5]}"


def check_counters(connection: apsw.Connection) -> None:
    """What a conversation says about itself is what its rows say; without an erase its seq has no gap."""
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
    """By conversation and id: seq, content and metadata."""
    found: dict[str, dict[str, tuple[int, str, Any]]] = defaultdict(dict)
    for conversation, name, seq, content, metadata in connection.execute(
        "SELECT c.name, m.id, m.seq, m.content, m.metadata"
        " FROM messages m JOIN conversations c ON c.key = m.conversation_key ORDER BY c.key, m.seq"
    ):
        assert name not in found[conversation], f"{name} is there twice"
        found[conversation][name] = (seq, content, None if metadata is None else json.loads(metadata))
    return dict(found)


def log_hash(connection: apsw.Connection) -> str:
    """One number for everything people said, whatever the schema's version."""
    digest = hashlib.sha256()
    for table, columns in LOG.items():
        for row in connection.execute(f"SELECT key, {columns} FROM {table} ORDER BY key"):  # noqa: S608 - our own names
            digest.update(repr(row).encode())
    return digest.hexdigest()


def check_file(path: str | Path) -> None:
    """Everything that must hold of any file at any time."""
    with connected(path) as connection:
        if has_log(connection):
            check_sound(connection)
            check_words(connection)
            check_counters(connection)
