"""The SQLite driver: one writer, a few reader threads, and side connections for what takes long.

Owns pragmas, locking, the translation of SQLite's errors, and everything about the file itself. Several processes
on one file are normal use: writers take the lock up front (BEGIN IMMEDIATE) and wait in line for it.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import apsw

from recollect.core.errors import InvalidInput, StoreUnavailable
from recollect.core.models import Finding
from recollect.storage import migrations as schema
from recollect.storage.driver import Handler, I, Job, Purged, T
from recollect.storage.queries import Query, load
from recollect.storage.sqlite_errors import closed_error, translated
from recollect.storage.sqlite_file import (
    Safeguard,
    begin_epoch,
    checkpoint,
    clear_drafts,
    copies_beside,
    copy_database,
    examine,
    give_back_pages,
    overwrite,
    rewrite,
    snapshot,
)
from recollect.storage.sqlite_writer import SqliteTransaction, SqliteWriter

log = logging.getLogger(__name__)

KNOWN: Final = 1024  # answers that are kept until somebody writes
BUSY_SECONDS: Final = 120.0  # an erase holds the lock while it rewrites the file
JSONB_VERSION: Final = 3_051_000  # the first with jsonb_each, which is three times as fast here
HALVED: Final = 5  # the migration that takes texts out of the rows of messages, and leaves pages half empty
_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA temp_store = MEMORY",  # no text in temporary files
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 33554432",
)


class SqliteDriver:
    dialect = "sqlite"
    inline = False

    def __init__(
        self,
        path: str,
        *,
        readers: int = 4,
        vfs: str | None = None,
        migrations: Sequence[schema.Migration] | None = None,
        sqlite_version: int | None = None,
        saves: bool = True,
    ) -> None:
        """`path` may be ":memory:". With `readers=0` reads share the writer's connection.

        Unless `saves` is off, a database that must be migrated is backed up first.
        """
        self.path = path if path == ":memory:" else os.path.realpath(path)  # the process may change its folder
        self._vfs = vfs
        self._migrations = schema.load("sqlite") if migrations is None else tuple(migrations)
        self._queries = queries_for(sqlite_version or apsw.SQLITE_VERSION_NUMBER)
        self._readers = 0 if path == ":memory:" else readers
        self._saves = saves and path != ":memory:"
        self._writer: apsw.Connection | None = None
        self._group: SqliteWriter | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._open_connections: list[apsw.Connection] = []
        self._asides: list[threading.Thread] = []
        self._gate = threading.Lock()
        self._reading = threading.Lock()  # held by who reads inline; nobody waits for it but who closes or forgets
        self._counted: tuple[apsw.Connection, Any, dict[Hashable, Any]] | None = None  # answers by name
        self._closed = False
        self.guard = Safeguard(self.path, sqlite_version or apsw.SQLITE_VERSION_NUMBER)

    # Opening and closing

    def open(self, now: int) -> None:
        try:
            with translated():
                if self.path != ":memory:":
                    _create_private(Path(self.path))
                    clear_drafts(self.path)
                self._writer = self._connect()
                _refuse_foreign(self._writer)
                _enter_wal(self._writer)
                self._migrate(self._writer, now)
        except BaseException:
            self._disconnect()
            raise
        if self.guard.active:
            log.warning("SQLite %s has the WAL-reset race; checkpoints run one at a time", apsw.sqlite_lib_version())
        self._group = SqliteWriter(self._writer, self._queries, self._check_schema)
        if self._readers:
            self._pool = ThreadPoolExecutor(self._readers, thread_name_prefix="recollect-reader")

    def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        with self._gate:
            self._closed = True
        for aside in self._asides:
            aside.join()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        if self._group is not None:
            self._group.close()
        with self._reading:
            self._disconnect()

    def _disconnect(self) -> None:
        while self._open_connections:
            with suppress(apsw.Error):
                self._open_connections.pop().close()

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(self.path, flags=flags, vfs=self._vfs)
        self._open_connections.append(connection)
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        if self.path != ":memory:" and self._vfs is None:
            connection.setlk_timeout(int(BUSY_SECONDS * 1000), 0)  # wait for the lock in the kernel, not by polling
        else:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        if self.guard.active:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    def _migrate(self, connection: apsw.Connection, now: int) -> None:
        """All that is outstanding, in one transaction. Other processes wait for it, and find nothing left to do."""
        if not schema.outstanding(_applied(connection), self._migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            due = schema.outstanding(_applied(connection), self._migrations)
            if due and due[0].version > 1 and self._saves:
                self._save_before(due[-1].version)
            for migration in due:
                _apply(connection, migration, now)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if due and due[0].version in range(2, HALVED + 1) and due[-1].version >= HALVED:
            with suppress(apsw.BusyError, apsw.FullError, apsw.IOError):  # else the file stays larger than it need be
                rewrite(connection)

    def _save_before(self, version: int) -> None:
        """A backup by a second connection: the first holds the lock, so nobody can migrate or write meanwhile."""
        target = f"{self.path}.before-schema-{version:04}.backup"
        with self._second_connection() as other:
            snapshot(other, target, replace=True)
        log.info("backed up the database before migrating: %s", target)

    @contextmanager
    def _second_connection(self) -> Iterator[apsw.Connection]:
        connection = self._connect()
        try:
            yield connection
        finally:
            self._open_connections.remove(connection)
            connection.close()

    # Reading

    def read_inline(self) -> None:
        self.inline = bool(self._readers)

    def read(self, job: Job[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        if self._pool is None:
            return self.write(job)
        if short and self.inline:
            with self._reading:
                if self._closed:
                    raise closed_error()
                try:
                    return _done(self._read(job, waits=False, name=name))
                except StoreUnavailable as error:
                    if error.code != "store_busy":
                        raise
        try:
            return self._pool.submit(self._read, job)
        except RuntimeError:  # the pool is shut down
            raise closed_error() from None

    def _read(self, job: Job[T], *, waits: bool = True, name: Hashable = None) -> T:
        """On this thread's own connection. One that does not wait is refused where others would wait for a lock."""
        with translated():
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
                if not waits:
                    connection.set_busy_timeout(0)
                    connection.setlk_timeout(0, 0)
            answers = None if name is None else self._answers_on(connection)
            if answers is not None and name in answers:
                found: T = answers[name]
                return found
            connection.execute("BEGIN")
            try:
                found = job(SqliteTransaction(connection, self._queries))
            finally:
                if connection.in_transaction:  # after some errors it is over already
                    connection.execute("ROLLBACK")
            if answers is not None:
                if len(answers) >= KNOWN:
                    answers.clear()
                answers[name] = found
            return found

    def _answers_on(self, connection: apsw.Connection) -> dict[Hashable, Any]:
        """What was read there since anybody last wrote: the database counts that for each connection. What is read
        while somebody writes may be newer than the count, and goes at the next look."""
        version = connection.pragma("data_version")
        if self._counted is None or self._counted[:2] != (connection, version):
            self._counted = (connection, version, {})
        return self._counted[2]

    def forget(self) -> None:
        with self._reading:
            self._counted = None

    # Writing

    def write(self, job: Job[T]) -> Future[T]:
        return self._running().job(job)

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        return self._running().item(handler, item)

    def _running(self) -> SqliteWriter:
        if self._group is None:
            raise closed_error()
        return self._group

    def _check_schema(self, connection: apsw.Connection) -> None:
        """A newer process may have migrated the file under us; then this one must not write any more."""
        if connection.pragma("user_version") != len(self._migrations):
            raise StoreUnavailable(
                "schema_changed",
                "Another process changed the schema of the database. Restart this one.",
                retryable=False,
            )

    # The file. These take long, so each runs on a thread and a connection of its own, as another process would.

    def purge(self) -> Future[Purged]:
        return self._aside(self._purge)

    def _purge(self, connection: apsw.Connection) -> Purged:
        if self.path == ":memory:":
            return Purged()
        try:
            rewrite(connection)
            with self.guard.checkpointing():
                gone = checkpoint(connection, "TRUNCATE", seconds=2.0)
        except (apsw.BusyError, apsw.FullError, apsw.IOError) as error:
            log.warning("erased rows may still be in the file: %s", type(error).__name__)
            gone = False
        here = Path(self.path)
        files = tuple(str(here) + end for end in ("", "-wal") if Path(str(here) + end).exists())
        return Purged(files, pending=not gone, kept_elsewhere=tuple(sorted(map(str, copies_beside(here)))))

    def tidy(self) -> Future[None]:
        return self._aside(self._tidy)

    def _tidy(self, connection: apsw.Connection) -> None:
        if self.path != ":memory:":
            give_back_pages(connection)
            with self.guard.checkpointing():
                checkpoint(connection, "PASSIVE")

    def examine(self) -> Future[list[Finding]]:
        return self._aside(lambda connection: [*self.guard.findings(), *examine(connection, self.path)])

    def backup(self, target: str) -> Future[None]:
        return self._aside(lambda connection: snapshot(connection, target))

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[None]:
        """Page by page into this very file, as one transaction: other processes go on with the new contents."""

        def job(connection: apsw.Connection) -> None:
            with upgraded_copy(source, now) as path:
                copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
                try:
                    begin_epoch(copy, epoch, now)
                    overwrite(connection, copy, before=lambda: self._save(save_to))
                finally:
                    copy.close()

        return self._aside(job)

    def _save(self, target: str | None) -> None:
        if target is not None:
            with self._second_connection() as other:
                snapshot(other, target)

    def settle(self) -> None:
        """Leave one whole file behind, with nothing in a log beside it."""
        self._running().alone(lambda connection: connection.execute("PRAGMA journal_mode = DELETE")).result()

    def _aside(self, job: Callable[[apsw.Connection], T]) -> Future[T]:
        if not self._readers:
            return self._running().alone(job)
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                with translated(), self._second_connection() as connection:
                    result = job(connection)
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        thread = threading.Thread(target=run, name="recollect-aside", daemon=True)
        with self._gate:
            if self._closed:
                raise closed_error()
            self._asides = [*(t for t in self._asides if t.is_alive()), thread]
            thread.start()
        return future


def _done(result: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(result)
    return future


@contextmanager
def upgraded_copy(source: str, now: int) -> Iterator[str]:
    """A private copy of a backup, checked and brought to today's schema. The backup itself is not touched."""
    if not Path(source).is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    beside = Path(source).parent
    place = beside if os.access(beside, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="recollect-restore-", dir=place) as folder:
        copy = Path(folder) / "copy.db"
        with translated():
            copy_database(source, str(copy))
            if not _is_ours(copy):
                raise InvalidInput("not_a_backup", f"{source} is not a backup of Recollect.")
        driver = SqliteDriver(str(copy), readers=0, saves=False)
        driver.open(now)
        try:
            damage = [one.detail for one in driver.examine().result() if one.state == "error"]
            if damage:
                raise StoreUnavailable("backup_damaged", f"The backup is damaged: {damage[0]}", retryable=False)
            driver.settle()
        finally:
            driver.close()
        yield str(copy)


def _is_ours(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    try:
        return bool(_applied(connection))
    finally:
        connection.close()


def queries_for(version: int) -> dict[str, Query]:
    """The queries in the words that this SQLite knows; rows travel in binary JSON where it can take that apart."""
    found = load("sqlite")
    if version >= JSONB_VERSION:
        return found
    return {name: replace(query, sql=query.sql.replace("jsonb_each", "json_each")) for name, query in found.items()}


def _create_private(path: Path) -> None:
    """A new database can be read by its owner alone."""
    if not path.parent.is_dir():
        raise StoreUnavailable("store_cannot_open", f"The folder {path.parent} does not exist.", retryable=False)
    with suppress(OSError):
        path.touch(mode=0o600, exist_ok=True)


def _refuse_foreign(connection: apsw.Connection) -> None:
    """An SQLite file of another program must not be taken over."""
    if not _has_schema(connection) and connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        raise StoreUnavailable("not_a_database", "The file is an SQLite database of another program.", retryable=False)


def _enter_wal(connection: apsw.Connection) -> None:
    """Two processes that create one file at the same moment may find it locked: wait for each other."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if not connection.pragma("page_count"):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _applied(connection: apsw.Connection) -> dict[int, str]:
    if not _has_schema(connection):
        return {}
    rows: list[Any] = connection.execute("SELECT version, sha256 FROM schema_migrations").fetchall()
    return dict(rows)


def _has_schema(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'").fetchone())


def _apply(connection: apsw.Connection, migration: schema.Migration, now: int) -> None:
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
