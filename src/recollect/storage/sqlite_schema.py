"""The schema of an SQLite file: tells our own files from others, and applies migrations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw

from recollect.core.errors import StoreUnavailable
from recollect.storage.migrations import Migration, find_outstanding
from recollect.storage.sqlite_errors import backup_damaged
from recollect.storage.sqlite_file import BUSY_SECONDS, rewrite

_SPELLING: Final = re.compile(r"[\s\"`\[\]]+")  # SQLite's versions write altered definitions differently
_STATISTICS: Final = re.compile(r"sqlite_stat[134]")  # somebody ran ANALYZE
TEXTS_MIGRATION: Final = 5  # moves texts out of the rows of messages, and leaves pages half empty


def migrate(
    connection: apsw.Connection,
    migrations: Sequence[Migration],
    now: int,
    *,
    back_up: Callable[[int], None] | None = None,
) -> None:
    """Apply all outstanding migrations in one transaction. Other processes wait, then find nothing left to do.

    A database that has a schema already is first handed to `back_up`, with the number of its new schema.
    """
    if not find_outstanding(_read_applied(connection), migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        due = find_outstanding(_read_applied(connection), migrations)
        if due and due[0].version > 1 and back_up is not None:
            back_up(due[-1].version)
        for migration in due:
            _apply(connection, migration, now)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if due and due[0].version in range(2, TEXTS_MIGRATION + 1) and due[-1].version >= TEXTS_MIGRATION:
        with suppress(apsw.BusyError, apsw.FullError, apsw.IOError):  # else the file stays larger than it need be
            rewrite(connection)


def check_schema(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    """Raise StoreUnavailable if a newer process migrated the file: this process must not write to it any more."""
    if connection.pragma("user_version") != len(migrations):
        raise StoreUnavailable(
            "schema_changed",
            "Another process changed the schema of the database. Restart this one.",
            retryable=False,
        )


def refuse_foreign(connection: apsw.Connection) -> None:
    """Raise StoreUnavailable for an SQLite file of another program, so that it is not taken over."""
    if not _has_schema(connection) and connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        raise StoreUnavailable("not_a_database", "The file is an SQLite database of another program.", retryable=False)


def is_own_file(path: Path) -> bool:
    """Say whether a file is a database of Recollect. Changes nothing, and creates nothing in an empty file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        return bool(_read_applied(connection))
    finally:
        connection.close()


def refuse_changed_schema(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    """Raise StoreUnavailable for a backup whose schema is not exactly the one that our migrations make.

    A trigger could keep rows from being erased, a view in place of a table could be endless, a foreign key without
    cascade could keep derived rows. So nothing is read of such a file but its schema.
    """
    version = int(connection.pragma("user_version"))
    if version > len(migrations):
        find_outstanding({version: ""}, migrations)  # raises: the schema is newer than ours
    expected = apsw.Connection(":memory:")
    try:
        for migration in migrations[:version]:
            _apply(expected, migration, 0)
        differing = _read_schema(connection) ^ _read_schema(expected)
    finally:
        expected.close()
    if differing:
        kind, name = min(differing)[:2]
        raise backup_damaged(f"its schema was changed ({kind} {name[:60]!r})")
    if connection.pragma("encoding") != "UTF-8":
        raise backup_damaged("its texts are not stored as UTF-8")


def _read_schema(connection: apsw.Connection) -> set[tuple[str, str, str, str]]:
    """Return type, name, table and definition of everything in a schema. Blanks and quotes do not count."""
    rows: list[Any] = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (str(kind), str(name), str(table), _SPELLING.sub("", str(sql)).lower())
        for kind, name, table, sql in rows
        if not _STATISTICS.fullmatch(str(name))
    }


def is_own_database(connection: apsw.Connection) -> bool:
    """Say whether a database has, or claims to have, a schema of Recollect."""
    return _has_schema(connection)


def _read_applied(connection: apsw.Connection) -> dict[int, str]:
    """Return the hashes of applied migrations by version."""
    if not _has_schema(connection):
        return {}
    rows: list[Any] = connection.execute("SELECT version, sha256 FROM schema_migrations").fetchall()
    return dict(rows)


def _has_schema(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'").fetchone())


def _apply(connection: apsw.Connection, migration: Migration, now: int) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations "
        "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    connection.execute(migration.sql)
    connection.execute(
        "INSERT INTO schema_migrations VALUES (?, ?, ?, ?)",
        (migration.version, migration.name, migration.sha256, now),
    )
    connection.execute(f"PRAGMA user_version = {migration.version}")
