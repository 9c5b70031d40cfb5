"""Builds databases of an older schema, and folders of migrations that go beyond the current ones."""

from __future__ import annotations

from pathlib import Path

from faults import inspection
from faults.victim import text_of
from recollect.storage import migrations
from recollect.storage.sqlite import SqliteDriver

# Seconds, about: until the copy of a few thousand messages is made, and until the slow migrations are done.
COPIED = 0.1
SLOWEST = 0.3

_PLAIN = "CREATE TABLE later (key INTEGER PRIMARY KEY);"
_SLOW = (
    """
    ALTER TABLE messages ADD COLUMN digest TEXT;
    UPDATE messages SET digest = (SELECT hex(content) FROM texts WHERE message_key = messages.key);
    CREATE INDEX messages_digest ON messages (digest);
    """,
    """
    CREATE TABLE numbers AS
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) SELECT i, hex(i) AS h FROM n;
    DROP INDEX messages_digest;
    UPDATE messages SET digest = NULL;
    """,
)


def write_migrations(folder: Path, *, slow: bool = False) -> Path:
    """Write the current migrations of both dialects to a folder, and some that come after them."""
    for dialect in ("sqlite", "postgres"):
        known = migrations.load(dialect)
        (folder / dialect).mkdir(parents=True)
        for one in known:
            (folder / dialect / f"{one.version:04}_{one.name}.sql").write_text(one.sql, "utf-8")
        for number, text in enumerate(_SLOW if slow and dialect == "sqlite" else [_PLAIN], len(known) + 1):
            (folder / dialect / f"{number:04}_later.sql").write_text(text, "utf-8")
    return folder


def build_older(path: Path, *, messages: int) -> str:
    """Build a database of schema 1 with messages in three conversations. Return the hash of its log."""
    driver = SqliteDriver(str(path), migrations=migrations.load("sqlite")[:1])
    driver.open(1)
    driver.leave_wal()
    driver.close()
    with inspection.connected(path) as connection, connection:
        for key in (1, 2, 3):
            count = len(range(key, messages + 1, 3))
            connection.execute(
                "INSERT INTO conversations (key, person, name, created_at, last_seq, messages, first_at, last_at)"
                " VALUES (?, 'local', ?, 1, ?, ?, 1, ?)",
                (key, f"c{key}", count, count, count),
            )
        for number in range(messages):
            key, seq, text = number % 3 + 1, number // 3 + 1, text_of(f"old-{number}")
            connection.execute(
                "INSERT INTO messages (key, conversation_key, seq, id, role, content, at, source)"
                " VALUES (?, ?, ?, ?, 'user', ?, ?, 'typed')",
                (number + 1, key, seq, f"old-{number}", text, seq),
            )
            connection.execute(
                "INSERT INTO message_words (rowid, scope, body) VALUES (?, '@plocal', ?)",
                (number + 1, text.casefold()),
            )
    with inspection.connected(path) as connection:
        return inspection.log_hash(connection)
