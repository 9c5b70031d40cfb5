"""Reads the tables of either database without our own code."""

from __future__ import annotations

from typing import Any

import apsw
import psycopg

from support.pooler import direct


def ask(location: str, question: str) -> list[tuple[Any, ...]]:
    """Run SQL on either database and return its rows."""
    if location.startswith("postgresql:"):
        with psycopg.connect(direct(location)) as connection:
            answer = connection.execute(question.encode())
            return answer.fetchall() if answer.description else []
    connection = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(10_000)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def stored_entries(location: str) -> dict[tuple[str, int], bytes]:
    """Return the stored words of messages by conversation and seq."""
    rows = ask(
        location, "SELECT c.name, e.seq, e.words FROM entries e JOIN conversations c ON c.key = e.conversation_key"
    )
    return {(name, seq): words for name, seq, words in rows}


def stored_vectors(location: str) -> dict[tuple[str, int], list[tuple[str, bytes]]]:
    """Return the names of embedders and their vectors of messages, by conversation and seq."""
    rows = ask(
        location,
        "SELECT c.name, v.seq, m.name, v.vectors FROM vectors v JOIN conversations c ON c.key = v.conversation_key"
        " JOIN embedders m ON m.key = v.embedder_key ORDER BY v.embedder_key",
    )
    found: dict[tuple[str, int], list[tuple[str, bytes]]] = {}
    for name, seq, embedder, vectors in rows:
        found.setdefault((name, seq), []).append((embedder, vectors))
    return found


def wrong_counts(location: str) -> list[tuple[Any, ...]]:
    """Return topics whose stored counts of messages or archived messages are wrong."""
    return ask(
        location,
        "SELECT t.key, t.messages, count(o.seq), t.archived, count(a.message_key) FROM topics t"
        " LEFT JOIN topic_messages o ON o.topic_key = t.key"
        " LEFT JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq"
        " LEFT JOIN archived a ON a.message_key = m.key GROUP BY t.key, t.messages, t.archived"
        " HAVING t.messages <> count(o.seq) OR t.archived <> count(a.message_key)",
    )
