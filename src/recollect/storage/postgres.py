"""The PostgreSQL driver: a few threads, each with a connection of its own.

PostgreSQL shares commits between connections by itself, so there is no single writer here. Jobs that meet a deadlock
or a serialization failure run again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row

from recollect.core.errors import InvalidInput, RecollectError, StoreUnavailable
from recollect.core.models import Finding
from recollect.storage import migrations as schema
from recollect.storage.driver import Handler, I, Job, Params, Purged, Row, T, Transaction, generations_in
from recollect.storage.group_commit import Together
from recollect.storage.log_copy import copy_log
from recollect.storage.queries import load, postgres_spelling
from recollect.storage.sqlite import SqliteDriver, upgraded_copy
from recollect.storage.sqlite_file import new_file

log = logging.getLogger(__name__)

_TRIES: Final = 8
_MIGRATION_LOCK: Final = 0x5245434F4C4C4543  # "RECOLLEC": one migrator at a time
_READING: Final = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
VACUUMED: Final = (
    "entries", "vectors", "recalls", "message_tokens", "brief_entries", "briefs", "feedback", "topic_messages",
    "topics", "archived", "blocks", "dictionaries", "texts", "messages", "conversations", "settings",
    "profiles", "consents", "audit", "requests", "stops",
)  # fmt: skip
_WRITING: Final = sql.SQL("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")

# Transactions that began before this one. Other vacuums are none: PostgreSQL cleans up regardless of them.
_OLDER: Final = sql.SQL(
    "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
    " AND greatest(age(backend_xmin), age(backend_xid)) >= age(CAST(%(xid)s AS xid))"
    " AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum) LIMIT 1"
)
_PATIENCE: Final = 1.0  # seconds that an erase waits for them

Connection = psycopg.Connection[Row]


def _text(query: str) -> sql.SQL:
    """Our own files are the only source of SQL text."""
    return sql.SQL(query)


class PostgresTransaction:
    def __init__(self, connection: Connection, queries: dict[str, sql.SQL]) -> None:
        self._connection = connection
        self._queries = queries

    def all(self, query: str, **params: Any) -> list[Row]:
        return self._connection.execute(self._queries[query], params).fetchall()

    def one(self, query: str, **params: Any) -> Row | None:
        return self._connection.execute(self._queries[query], params).fetchone()

    def run(self, query: str, **params: Any) -> int:
        return self._connection.execute(self._queries[query], params).rowcount

    def many(self, query: str, rows: Sequence[Params]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(self._queries[query], rows)


class PostgresDriver:
    dialect = "postgres"
    inline = False

    def __init__(self, dsn: str, *, connections: int = 8, migrations: Sequence[schema.Migration] | None = None) -> None:
        try:
            psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its message would repeat parts of the address, perhaps the password
            raise InvalidInput("invalid_location", "The PostgreSQL address cannot be read.") from None
        self._dsn = dsn
        self._migrations = schema.load("postgres") if migrations is None else tuple(migrations)
        self._queries = {name: _text(postgres_spelling(query.sql)) for name, query in load("postgres").items()}
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="recollect-postgres")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open_connections: set[Connection] = set()
        self._together = Together(self._handle, self._start)

    # Opening and closing

    def open(self, now: int) -> None:
        with _translated():
            connection = self._connect()
            try:
                self._migrate(connection, now)
            finally:
                self._drop(connection)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        for connection in tuple(self._open_connections):
            self._drop(connection)

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(
            self._dsn, autocommit=True, row_factory=dict_row, connect_timeout=10, application_name="recollect"
        )
        connection.execute("SET synchronous_commit = on")
        with self._lock:
            self._open_connections.add(connection)
        return connection

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            self._open_connections.discard(connection)
        with suppress(psycopg.Error):
            connection.close()

    def _migrate(self, connection: Connection, now: int) -> None:
        if not schema.outstanding(self._applied(connection), self._migrations):
            return
        connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
        try:
            for migration in schema.outstanding(self._applied(connection), self._migrations):
                with connection.transaction():
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY,"
                        " name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)"
                    )
                    # A writer that has just found the older version holds this up until it is through.
                    connection.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")
                    connection.execute(_text(migration.sql))
                    connection.execute(
                        "INSERT INTO schema_migrations VALUES (%s, %s, %s, %s)",
                        (migration.version, migration.name, migration.sha256, now),
                    )
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_MIGRATION_LOCK,))

    def _applied(self, connection: Connection) -> dict[int, str]:
        found = connection.execute("SELECT to_regclass('schema_migrations') IS NOT NULL AS there").fetchone()
        if not found or not found["there"]:
            return {}
        rows = connection.execute("SELECT version, sha256 FROM schema_migrations").fetchall()
        return {row["version"]: row["sha256"] for row in rows}

    # Reading and writing

    def read_inline(self) -> None:
        """A server elsewhere keeps one waiting: nothing changes."""

    def read(self, job: Job[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        return self._submit(lambda connection: self._run(connection, _READING, job))

    def forget(self) -> None:
        """Nothing is kept."""

    def write(self, job: Job[T]) -> Future[T]:
        return self._submit(lambda connection: self._run(connection, _WRITING, self._checked(job)))

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        return self._together.add(handler, item)

    def _checked(self, job: Job[T]) -> Job[T]:
        """A newer process may have migrated the database under us; then this one must not write any more."""

        def run(tx: Any) -> T:
            row = tx.one("schema_version")
            if row is None or row["version"] != len(self._migrations):
                raise StoreUnavailable(
                    "schema_changed",
                    "Another process changed the schema of the database. Restart this one.",
                    retryable=False,
                )
            return job(tx)

        return run

    def _run(self, connection: Connection, begin: sql.SQL, job: Job[T]) -> T:
        for attempt in range(_TRIES):
            try:
                connection.execute(begin)
                result = job(PostgresTransaction(connection, self._queries))
                connection.execute("COMMIT")
            except (errors.SerializationFailure, errors.DeadlockDetected):
                connection.execute("ROLLBACK")
                if attempt == _TRIES - 1:
                    raise
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
            else:
                return result
        raise AssertionError("unreachable")  # pragma: no cover

    def _submit(self, work: Callable[[Connection], T]) -> Future[T]:
        return self._start(lambda: self._on_connection(work))

    def _start(self, work: Callable[[], T]) -> Future[T]:
        try:
            return self._pool.submit(work)
        except RuntimeError:  # the pool is shut down
            raise StoreUnavailable("store_closed", "This memory is closed.", retryable=False) from None

    def _on_connection(self, work: Callable[[Connection], T]) -> T:
        """Run on this thread's connection. If that one broke while it was idle, on a new one."""
        with _translated():
            connection = getattr(self._local, "connection", None)
            if connection is not None and not connection.closed:
                try:
                    connection.execute("SELECT 1")
                except psycopg.OperationalError:
                    self._drop(connection)
                    connection = None
            if connection is None or connection.closed:
                connection = self._local.connection = self._connect()
            return work(connection)

    def _handle(self, handler: Handler[Any, Any], items: Sequence[Any]) -> Sequence[Any]:
        job = self._checked(lambda tx: handler(tx, items))
        return self._on_connection(lambda connection: self._run(connection, _WRITING, job))

    # Upkeep

    def purge(self) -> Future[Purged]:
        return self._submit(self._purge)

    def _purge(self, connection: Connection) -> Purged:
        """Vacuum once nobody can see the deleted rows any more; a transaction that stays too long leaves them pending.

        Asked before the vacuum, not after: whoever held the rows while it ran might be gone a moment later.
        """
        now = connection.execute("SELECT pg_current_xact_id()::xid::text AS xid").fetchone()
        deadline = time.monotonic() + _PATIENCE
        while held := connection.execute(_OLDER, now).fetchone() is not None:
            if time.monotonic() > deadline:
                break
            time.sleep(_PATIENCE / 50)
        for table in VACUUMED:
            connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table)))
        settings = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('archive_mode', 'max_wal_size')"
        ).fetchall()
        shown = {row["name"]: row["setting"] for row in settings}
        kept = [f"write-ahead log: until recycled (about {shown.get('max_wal_size')} MB of further writes)"]
        if shown.get("archive_mode") != "off":
            kept.append("archived write-ahead log: until your archive's retention removes it")
        kept.append("base backups and dumps made before: until you delete them")
        return Purged(pending=held, kept_elsewhere=tuple(kept))

    def tidy(self) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def examine(self) -> Future[list[Finding]]:
        return self._submit(self._examine)

    def _examine(self, connection: Connection) -> list[Finding]:
        row = connection.execute("SELECT version() AS version, pg_is_in_recovery() AS standby").fetchone()
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        findings = [Finding("postgresql", "ok", str(row["version"]).split(" on ")[0])]
        if row["standby"]:
            findings.append(Finding("standby", "error", "this server is read-only", "connect to the primary"))
        sync = connection.execute("SHOW fsync").fetchone()
        if sync and sync["fsync"] != "on":
            findings.append(Finding("fsync", "error", "fsync is off: a crash may lose messages", "set fsync = on"))
        return findings

    def backup(self, target: str) -> Future[None]:
        return self._submit(lambda connection: self._backup(connection, target))

    def _backup(self, connection: Connection, target: str) -> None:
        self._run(connection, _READING, lambda tx: _write_out(tx, target))

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[None]:
        return self._submit(lambda connection: self._restore(connection, source, now, epoch, save_to))

    def _restore(self, connection: Connection, source: str, now: int, epoch: str, save_to: str | None) -> None:
        with upgraded_copy(source, now) as path:
            file = SqliteDriver(path, readers=1, saves=False)
            file.open(now)
            try:

                def copy(target: Transaction) -> None:
                    target.run("lock_everything")
                    if save_to is not None:
                        _write_out(target, save_to)
                    file.read(lambda there: copy_log(there, target)).result()
                    target.run("change_generations", by=generations_in(epoch))
                    target.run("put_setting", person="", name="epoch", value=epoch, now=now)

                self._run(connection, _WRITING, self._checked(copy))
            finally:
                file.close()


def _write_out(source: Transaction, target: str) -> None:
    """Everything that a transaction sees, to a new SQLite file."""
    with new_file(target) as draft:
        file = SqliteDriver(draft, readers=0)
        file.open(0)
        try:
            file.write(lambda there: copy_log(source, there)).result()
            file.settle()
        finally:
            file.close()


class _translated:  # noqa: N801 - reads as a word: `with _translated():`
    """Turns psycopg's exceptions into ours, in one place."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, RecollectError) or not isinstance(error, psycopg.Error):
            return
        for kinds, code, message, retryable in _CODES:
            if isinstance(error, kinds):
                raise StoreUnavailable(code, message, retryable=retryable) from error


_CODES: Final[tuple[tuple[type[psycopg.Error], str, str, bool], ...]] = (
    (errors.DiskFull, "disk_full", "The database server's disk is full; nothing was stored.", True),
    (errors.InvalidPassword, "store_denied", "The database refused the user or password.", False),
    (errors.InsufficientPrivilege, "store_denied", "The database user lacks a privilege.", False),
    (errors.ReadOnlySqlTransaction, "store_readonly", "The database server is read-only.", False),
    (errors.SerializationFailure, "store_busy", "Too many writers touched the same rows.", True),
    (errors.DeadlockDetected, "store_busy", "Too many writers touched the same rows.", True),
    (errors.IntegrityError, "store_conflict", "Another writer changed the same rows; try again.", True),
    (psycopg.OperationalError, "store_unreachable", "The database server does not answer.", True),
    (psycopg.InterfaceError, "store_unreachable", "The connection to the database broke.", True),
)
