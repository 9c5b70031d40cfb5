"""The SQLite driver: one writer, a few reader threads, and side connections for what takes long.

Owns connections, pragmas and locking. Several processes on one file are normal use: a writer takes the lock up front
(BEGIN IMMEDIATE) and waits for it. `sqlite_writer.py` has the writer thread, `sqlite_file.py` what concerns the file,
`sqlite_schema.py` the migrations.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from recollect.core.errors import StoreUnavailable
from recollect.core.models import Finding
from recollect.runtime.forks import HomeProcess
from recollect.storage import migrations as schema
from recollect.storage.backup_file import upgraded_copy
from recollect.storage.driver import Handler, I, PurgeResult, T, TxFunction
from recollect.storage.file_drafts import clear_drafts, copies_beside
from recollect.storage.page_restore import PageRestore
from recollect.storage.private_folder import clear_abandoned, private_files
from recollect.storage.queries import load_for_sqlite
from recollect.storage.shared_purges import SharedPurges
from recollect.storage.sqlite_errors import closed_error, translated
from recollect.storage.sqlite_file import (
    BUSY_SECONDS,
    CheckpointGuard,
    checkpoint,
    create_private,
    enter_wal,
    examine,
    find_in_files,
    read_blocks,
    release_free_pages,
    rewrite,
    snapshot,
)
from recollect.storage.sqlite_forks import carry_never, forget_connection, refuse_carried
from recollect.storage.sqlite_schema import check_schema, is_own_file, migrate, refuse_foreign
from recollect.storage.sqlite_writer import SqliteTransaction, SqliteWriter

log = logging.getLogger(__name__)

CACHED_ANSWERS: Final = 1024  # results of named reads, kept until something is written
PURGE_WAIT_SECONDS: Final = 2.0  # how long a purge waits for readers of the write-ahead log
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
    """Implements `Driver` on an SQLite file, or in memory."""

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
        backs_up: bool = True,
    ) -> None:
        """Prepare a driver. `path` may be ":memory:". With `readers=0` reads share the writer's connection.

        Unless `backs_up` is off, a database that must be migrated is backed up first.
        """
        self.path = path if path == ":memory:" else os.path.realpath(path)  # the process may change its folder
        self._vfs = vfs
        self._migrations = schema.load("sqlite") if migrations is None else tuple(migrations)
        self._queries = load_for_sqlite(sqlite_version or apsw.SQLITE_VERSION_NUMBER)
        self._readers = 0 if path == ":memory:" else readers
        self._backs_up = backs_up and path != ":memory:"
        self._write_connection: apsw.Connection | None = None
        self._writer: SqliteWriter | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._open_connections: list[apsw.Connection] = []
        self._side_threads: list[threading.Thread] = []
        self._closing_lock = threading.Lock()
        self._inline_lock = threading.Lock()  # held during an inline read; `close` and `forget` wait for it
        self._answers: tuple[apsw.Connection, Any, dict[Hashable, Any]] | None = None  # with their data_version
        self._closed = False
        self._home: HomeProcess | None = None  # set when it is opened
        self._searching = threading.Lock()  # one search of the files at a time leaves room for others
        self._purges = SharedPurges(self._purge, self._run_aside, self._queries)
        self.guard = CheckpointGuard(self.path, sqlite_version or apsw.SQLITE_VERSION_NUMBER)

    # Opening and closing

    def has_schema(self) -> bool:
        if self.path == ":memory:" or not Path(self.path).exists():
            return False
        refuse_carried(self.path)
        with translated():
            return is_own_file(Path(self.path))

    def open(self, now: int) -> None:
        refuse_carried(self.path)
        self._home = HomeProcess()
        try:
            with translated():
                if self.path != ":memory:":
                    create_private(Path(self.path))
                    clear_drafts(self.path)
                    clear_abandoned(self.path)
                self._write_connection = self._connect()
                refuse_foreign(self._write_connection)
                enter_wal(self._write_connection)
                back_up = self._back_up_before if self._backs_up else None
                migrate(self._write_connection, self._migrations, now, back_up=back_up)
        except BaseException:
            self._disconnect()
            raise
        if self.guard.active:
            log.warning("SQLite %s has the WAL-reset race; checkpoints run one at a time", apsw.sqlite_lib_version())
        self._writer = SqliteWriter(self._write_connection, self._queries, self._check_schema)
        if self._readers:
            self._pool = ThreadPoolExecutor(self._readers, thread_name_prefix="recollect-reader")

    def hurry(self) -> None:
        """Do nothing: a file does not hang."""

    def close(self) -> None:
        """Finish what is queued, then release the file. In a forked child, do nothing."""
        if self._home is not None and self._home.is_elsewhere:
            return
        with self._closing_lock:
            self._closed = True
        self._purges.close()
        for thread in self._side_threads:
            thread.join()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        if self._writer is not None:
            self._writer.close()
        with self._inline_lock:
            self._disconnect()

    def _disconnect(self) -> None:
        while self._open_connections:
            connection = self._open_connections.pop()
            with suppress(apsw.Error):
                connection.close()
            forget_connection(connection)

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(self.path, flags=flags, vfs=self._vfs)
        carry_never(connection, self.path)
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

    def _back_up_before(self, version: int) -> None:
        """Back up by a second connection. The first one holds the lock, so no process can write meanwhile."""
        target = f"{self.path}.before-schema-{version:04}.backup"
        with self._second_connection() as connection:
            snapshot(connection, target, replace=True)
        log.info("backed up the database before migrating: %s", target)

    @contextmanager
    def _second_connection(self) -> Iterator[apsw.Connection]:
        connection = self._connect()
        try:
            yield connection
        finally:
            self._open_connections.remove(connection)
            connection.close()
            forget_connection(connection)

    # Reading

    def enable_inline_reads(self) -> None:
        self.inline = bool(self._readers)

    def read(self, function: TxFunction[T], *, short: bool = False, name: Hashable = None) -> Future[T]:
        if self._pool is None:
            return self.write(function)
        self._check_process()
        if short and self.inline:
            with self._inline_lock:
                if self._closed:
                    raise closed_error()
                try:
                    return _resolved(self._read(function, may_wait=False, name=name))
                except StoreUnavailable as error:
                    if error.code != "store_busy":
                        raise
        try:
            return self._pool.submit(self._read, function)
        except RuntimeError:  # the pool is shut down
            raise closed_error() from None

    def _read(self, function: TxFunction[T], *, may_wait: bool = True, name: Hashable = None) -> T:
        """Read on this thread's own connection. Without `may_wait`, fail with "store_busy" instead of waiting."""
        with translated():
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
                if not may_wait:
                    connection.set_busy_timeout(0)
                    connection.setlk_timeout(0, 0)
            answers = None if name is None else self._answers_on(connection)
            if answers is not None and name in answers:
                answer: T = answers[name]
                return answer
            connection.execute("BEGIN")
            try:
                answer = function(SqliteTransaction(connection, self._queries))
            finally:
                if connection.in_transaction:  # after some errors it is over already
                    connection.execute("ROLLBACK")
            if answers is not None:
                if len(answers) >= CACHED_ANSWERS:
                    answers.clear()
                answers[name] = answer
            return answer

    def _answers_on(self, connection: apsw.Connection) -> dict[Hashable, Any]:
        """Return the cached answers of a connection. They are dropped when the database's data_version changes.

        An answer that is read while another connection writes may be newer than the version. It is dropped next time.
        """
        version = connection.pragma("data_version")
        if self._answers is None or self._answers[:2] != (connection, version):
            self._answers = (connection, version, {})
        return self._answers[2]

    def forget(self) -> None:
        self._check_process()  # the lock may be held for ever in a forked child
        with self._inline_lock:
            self._answers = None

    # Writing

    def write(self, function: TxFunction[T]) -> Future[T]:
        return self._open_writer().run(function)

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        return self._open_writer().handle(handler, item)

    def _open_writer(self) -> SqliteWriter:
        self._check_process()
        if self._writer is None:
            raise closed_error()
        return self._writer

    def _check_process(self) -> None:
        if self._home is not None:
            self._home.check()

    def _check_schema(self, connection: apsw.Connection) -> None:
        check_schema(connection, self._migrations)

    # The file. These take long, so each runs on a thread and a connection of its own, as another process would.

    def purge(self, *, may_wait: bool = True) -> Future[PurgeResult]:
        """Rewrite the file and empty its log. Erases that wait share a rewrite."""
        if not self._readers:
            return self._run_aside(self._purge)
        return self._purges.request(may_wait=may_wait)

    def _purge(self, connection: apsw.Connection) -> PurgeResult:
        if self.path == ":memory:":
            return PurgeResult()
        try:
            with self._purges.pace.rewriting(connection):
                rewrite(connection)
            with self.guard.checkpointing():
                is_gone = checkpoint(connection, "TRUNCATE", seconds=PURGE_WAIT_SECONDS)
        except (apsw.BusyError, apsw.FullError, apsw.IOError) as error:
            log.warning("erased rows may still be in the file: %s", type(error).__name__)
            is_gone = False
        path = Path(self.path)
        files = tuple(str(path) + end for end in ("", "-wal") if Path(str(path) + end).exists())
        copies = sorted(map(str, (*copies_beside(path), *private_files(self.path))))
        return PurgeResult(files, pending=not is_gone, kept_elsewhere=tuple(copies))

    def find_in_files(self, files: Sequence[str], texts: Sequence[str]) -> list[str]:
        with self._searching:
            return find_in_files(files, texts)

    def read_start(self, path: str) -> bytes:
        return next(read_blocks(path), b"")

    def maintain(self) -> Future[None]:
        return self._run_aside(self._maintain)

    def _maintain(self, connection: apsw.Connection) -> None:
        if self.path != ":memory:":
            release_free_pages(connection)
            with self.guard.checkpointing():
                checkpoint(connection, "PASSIVE")

    def examine(self) -> Future[list[Finding]]:
        return self._run_aside(lambda connection: [*self.guard.findings(), *examine(connection, self.path)])

    def backup(self, target: str) -> Future[None]:
        return self._run_aside(lambda connection: snapshot(connection, target))

    def restore(self, source: str, now: int, *, epoch: str, save_to: str | None = None) -> Future[dict[str, int]]:
        """Copy the pages of a backup into this file, as one transaction. Other processes go on with the new rows."""
        beside = None if self.path == ":memory:" else self.path

        def replace_pages(connection: apsw.Connection) -> dict[str, int]:
            with upgraded_copy(source, now, beside=beside, make_driver=_open_alone) as copy:
                connect = self._second_connection if self._readers else None
                restore = PageRestore(connection, copy, self._queries, connect)
                return restore.run(epoch, now, save=lambda: self._back_up_to(save_to))

        return self._run_aside(replace_pages)

    def _back_up_to(self, target: str | None) -> None:
        if target is not None:
            with self._second_connection() as connection:
                snapshot(connection, target)

    def leave_wal(self) -> None:
        """Move everything into the one file, and keep no write-ahead log beside it."""
        leave = "PRAGMA journal_mode = DELETE"
        self._open_writer().run_alone(lambda connection: connection.execute(leave).fetchall()).result()

    def inspect(self, function: Callable[[apsw.Connection], T]) -> T:
        """Return what the function finds on a connection of its own, outside any transaction."""
        return self._run_aside(function).result()

    def compact(self) -> None:
        """Write the file again from its live rows."""
        self._open_writer().run_alone(rewrite).result()

    def _run_aside(self, function: Callable[[apsw.Connection], T]) -> Future[T]:
        """Run a function outside any transaction, on a connection and a thread of its own."""
        self._check_process()
        if not self._readers:
            return self._open_writer().run_alone(function)
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                with translated(), self._second_connection() as connection:
                    result = function(connection)
            except BaseException as error:  # noqa: BLE001 - handed to those who wait for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        thread = threading.Thread(target=run, name="recollect-aside", daemon=True)
        with self._closing_lock:
            if self._closed:
                raise closed_error()
            self._side_threads = [*(other for other in self._side_threads if other.is_alive()), thread]
            thread.start()
        return future


def _resolved(result: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(result)
    return future


def _open_alone(path: str) -> SqliteDriver:
    return SqliteDriver(path, readers=0, backs_up=False)
