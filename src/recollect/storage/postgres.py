"""The PostgreSQL driver: a few threads, each with a connection of its own.

PostgreSQL shares commits between connections by itself, so there is no single writer here. A function that meets a
deadlock or a serialization failure runs again.
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

from recollect.core.errors import StoreUnavailable
from recollect.core.models import Finding
from recollect.runtime.forks import HomeProcess
from recollect.storage import migrations as schema
from recollect.storage.backup_file import upgraded_copy
from recollect.storage.driver import Handler, I, Params, PurgeResult, Row, T, Transaction, TxFunction
from recollect.storage.group_commit import GroupCommit
from recollect.storage.kept_state import read_kept
from recollect.storage.open_connections import OpenConnections
from recollect.storage.postgres_connection import POOLER_ERRORS, Connection, read_address
from recollect.storage.postgres_errors import NotBegunError, server_errors_translated
from recollect.storage.postgres_purge import examine_ownership, purge
from recollect.storage.private_folder import clear_abandoned
from recollect.storage.queries import insert_statement, load, postgres_spelling
from recollect.storage.row_restore import RowRestore, copy_to_file, open_copy
from recollect.storage.sqlite_errors import reading_backup
from recollect.storage.sqlite_file import read_blocks

log = logging.getLogger(__name__)

MAX_CHECK_SECONDS: Final = 5.0  # a connection that broke says so at once; a server that hangs would hang again
_MAX_ATTEMPTS: Final = 8
_MIGRATION_LOCK: Final = 0x5245434F4C4C4543  # "RECOLLEC": one migrator at a time
_COMMIT: Final = sql.SQL("COMMIT")
_ROLLBACK: Final = sql.SQL("ROLLBACK")


def _to_sql(query: str) -> sql.SQL:
    """Return SQL text of our own files as a query. There is no other source of it."""
    return sql.SQL(query)


class PostgresTransaction:
    """Implements `Transaction` on a connection whose transaction has begun."""

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

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_to_sql(postgres_spelling(insert_statement(table, rows[0]))), rows)


class PostgresDriver:
    """Implements `Driver` on a PostgreSQL server."""

    dialect = "postgres"
    inline = False

    def __init__(self, dsn: str, *, connections: int = 8, migrations: Sequence[schema.Migration] | None = None) -> None:
        """Prepare a driver for an address, in which `?schema=NAME` names the schema of our tables."""
        self._address = read_address(dsn)
        self._begin_read, self._begin_write = (self._address.begin(write=write) for write in (False, True))
        self._begin_copy, self._begin_change = (
            self._address.begin(write=write, is_long=True) for write in (False, True)
        )
        self._migrations = schema.load("postgres") if migrations is None else tuple(migrations)
        self._queries = {name: _to_sql(postgres_spelling(query.sql)) for name, query in load("postgres").items()}
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="recollect-postgres")
        self._local = threading.local()
        self._connections = OpenConnections(self._address)
        self._group_commit = GroupCommit(self._handle, self._start)
        self._home: HomeProcess | None = None  # set when it is opened

    # Opening and closing

    def has_schema(self) -> bool:
        with server_errors_translated(while_opening=True):
            connection = self._connections.connect()
            try:
                return self._run(connection, self._begin_read, lambda tx: bool(self._read_applied(connection)))
            finally:
                self._connections.drop(connection)

    def open(self, now: int) -> None:
        self._home = HomeProcess()
        clear_abandoned(None)
        with server_errors_translated(while_opening=True):
            connection = self._connections.connect()
            try:
                self._migrate(connection, now)
            finally:
                self._connections.drop(connection)

    def hurry(self) -> None:
        self._connections.hurry()

    def close(self) -> None:
        """Finish what is queued, as long as the server answers, then disconnect. In a forked child, do nothing."""
        if self._home is not None and self._home.is_elsewhere:
            return
        self._connections.hurry()  # so that the threads end
        self._pool.shutdown(wait=True)
        self._connections.close()

    def _migrate(self, connection: Connection, now: int) -> None:
        """Apply outstanding migrations, each in a transaction of its own."""

        def find_outstanding(tx: Transaction) -> Sequence[schema.Migration]:
            return schema.find_outstanding(self._read_applied(connection), self._migrations)

        def apply_next(tx: Transaction) -> bool:
            """Apply one migration, and return whether there may be more. The locks end with the transaction."""
            self._lock_schema(connection)
            outstanding = find_outstanding(tx)  # another process may have applied it while we waited
            for migration in outstanding[:1]:
                connection.execute(_to_sql(migration.sql), prepare=False)
                connection.execute(
                    "INSERT INTO schema_migrations VALUES (%s, %s, %s, %s)",
                    (migration.version, migration.name, migration.sha256, now),
                )
            return len(outstanding) > 1

        if self._run(connection, self._begin_read, find_outstanding):
            while self._run(connection, self._begin_change, apply_next):
                pass

    def _lock_schema(self, connection: Connection) -> None:
        """Wait for other migrators and for writers that have just read the older version, and keep new ones out.

        Without the lock on the table, a session that waited for the other one may still believe that there is no table.
        """
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        name = self._address.schema
        if name and not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY,"
            " name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)"
        )
        connection.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")

    def _read_applied(self, connection: Connection) -> dict[int, str]:
        """Return the hashes of applied migrations by version."""
        row = connection.execute("SELECT to_regclass('schema_migrations') IS NOT NULL AS has_schema").fetchone()
        if not row or not row["has_schema"]:
            return {}
        rows = connection.execute("SELECT version, sha256 FROM schema_migrations").fetchall()
        return {row["version"]: row["sha256"] for row in rows}

    # Reading and writing

    def enable_inline_reads(self) -> None:
        """Change nothing: a read from a server would block the caller's thread for too long."""

    def read(self, function: TxFunction[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        return self._submit(lambda connection: self._run(connection, self._begin_read, function))

    def forget(self) -> None:
        """Do nothing: no results are cached."""

    def find_in_files(self, files: Sequence[str], texts: Sequence[str]) -> list[str]:
        return []  # the server's files are out of reach

    def read_start(self, path: str) -> bytes:
        return next(read_blocks(path), b"")

    def write(self, function: TxFunction[T]) -> Future[T]:
        return self._submit(
            lambda connection: self._run(connection, self._begin_write, self._with_schema_check(function))
        )

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        self._check_process()
        return self._group_commit.add(handler, item)

    def _with_schema_check(self, function: TxFunction[T]) -> TxFunction[T]:
        """Return a function that first raises if a newer process migrated the database: this one must not write."""

        def check_and_run(tx: Any) -> T:
            row = tx.one("schema_version")
            if row is None or row["version"] != len(self._migrations):
                raise StoreUnavailable(
                    "schema_changed",
                    "Another process changed the schema of the database. Restart this one.",
                    retryable=False,
                )
            return function(tx)

        return check_and_run

    def _run(self, connection: Connection, begin: sql.Composed, function: TxFunction[T]) -> T:
        """Run a function in a transaction, again if the database could not order it among others."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                connection.execute(begin, prepare=False)
            except psycopg.OperationalError as error:
                raise NotBegunError(str(error)) from error
            try:
                result = function(PostgresTransaction(connection, self._queries))
                connection.execute(_COMMIT, prepare=False)
            except (errors.SerializationFailure, errors.DeadlockDetected, *POOLER_ERRORS) as error:
                connection.execute(_ROLLBACK, prepare=False)
                if isinstance(error, POOLER_ERRORS):
                    connection.prepare_threshold = None
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute(_ROLLBACK, prepare=False)
                raise
            else:
                return result
        raise AssertionError("unreachable")  # pragma: no cover

    def _submit(self, function: Callable[[Connection], T]) -> Future[T]:
        return self._start(lambda: self._on_connection(function))

    def _check_process(self) -> None:
        if self._home is not None:
            self._home.check()

    def _start(self, function: Callable[[], T]) -> Future[T]:
        self._check_process()
        try:
            return self._pool.submit(function)
        except RuntimeError:  # the pool is shut down
            raise StoreUnavailable("store_closed", "This memory is closed.", retryable=False) from None

    def _on_connection(self, function: Callable[[Connection], T]) -> T:
        """Run a function on this thread's connection, or on a new one if that broke while it was idle."""
        with server_errors_translated():
            connection = self._find_connection()
            try:
                with self._connections.using(connection):
                    return function(connection)
            except NotBegunError:  # a pooler may have lost its server, or been restarted, since the last statement
                self._connections.drop(connection)
                connection = self._local.connection = self._connections.connect()
            with self._connections.using(connection):
                return function(connection)

    def _find_connection(self) -> Connection:
        """Return this thread's connection, or a new one if that broke. Whoever waited in vain does not wait again."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.closed:
            start = time.monotonic()
            try:
                with self._connections.using(connection):
                    connection.execute("SELECT 1", prepare=False)
                return connection
            except psycopg.OperationalError:
                self._connections.drop(connection)
                if time.monotonic() - start > MAX_CHECK_SECONDS:
                    raise
        connection = self._local.connection = self._connections.connect()
        return connection

    def _handle(self, handler: Handler[Any, Any], items: Sequence[Any]) -> Sequence[Any]:
        handle_items = self._with_schema_check(lambda tx: handler(tx, items))
        return self._on_connection(lambda connection: self._run(connection, self._begin_write, handle_items))

    # Maintenance

    def purge(self, *, may_wait: bool = True) -> Future[PurgeResult]:
        return self._submit(lambda connection: purge(connection, self._address))

    def maintain(self) -> Future[None]:
        """Do nothing: the server maintains its own files."""
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
        return [*findings, *examine_ownership(connection, self._address)]

    def backup(self, target: str) -> Future[None]:
        return self._submit(lambda connection: self._backup(connection, target))

    def _backup(self, connection: Connection, target: str) -> None:
        self._run(connection, self._begin_copy, lambda tx: copy_to_file(tx, target))

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[dict[str, int]]:
        return self._submit(lambda connection: self._restore(connection, source, now, epoch, save_to))

    def _restore(
        self, connection: Connection, source: str, now: int, epoch: str, save_to: str | None
    ) -> dict[str, int]:
        with upgraded_copy(source, now, beside=None, make_driver=open_copy) as copy:
            restore = RowRestore(copy, now, epoch, save_to)
            with reading_backup(psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError):
                restore.prepare(self._run(connection, self._begin_copy, self._with_schema_check(read_kept)))
                self._run(connection, self._begin_change, self._with_schema_check(restore.replace_everything))
        return dict(restore.left_out)
