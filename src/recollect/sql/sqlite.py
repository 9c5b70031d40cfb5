"""The SQLite driver: one writer thread that commits in groups, and a few reader threads.

Owns pragmas, locking, the translation of SQLite's errors, and everything about the file itself. Several processes
on one file are normal use: writers take the lock up front (BEGIN IMMEDIATE) and wait in line for it.
"""

from __future__ import annotations

import logging
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import apsw

from recollect.core.errors import InvalidInput, RecollectError, StoreUnavailable
from recollect.sql import migrations as schema
from recollect.sql.driver import Finding, Handler, I, Job, Params, Purged, Row, T
from recollect.sql.queries import Query, load
from recollect.sql.sqlite_file import (
    Safeguard,
    checkpoint,
    copy_database,
    examine,
    merge_full_text,
    overwrite,
    snapshot,
)

log = logging.getLogger(__name__)

BUSY_SECONDS: Final = 30.0
GROUP_LIMIT: Final = 512  # jobs that share one commit
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


class SqliteTransaction:
    def __init__(self, connection: apsw.Connection, queries: dict[str, Query]) -> None:
        self._connection = connection
        self._queries = queries

    def all(self, query: str, **params: Any) -> list[Row]:
        cursor = self._connection.execute(self._queries[query].sql, params)
        names: list[str] | None = None
        rows = []
        for row in cursor:
            if names is None:
                names = [column[0] for column in cursor.get_description()]
            rows.append(dict(zip(names, row, strict=True)))
        return rows

    def one(self, query: str, **params: Any) -> Row | None:
        rows = self.all(query, **params)
        return rows[0] if rows else None

    def run(self, query: str, **params: Any) -> int:
        self._connection.execute(self._queries[query].sql, params)
        return self._connection.changes()

    def many(self, query: str, rows: Sequence[Params]) -> None:
        self._connection.executemany(self._queries[query].sql, cast("Sequence[dict[str, Any]]", rows))


@dataclass(slots=True, eq=False)
class _Task:
    future: Future[Any]


@dataclass(slots=True, eq=False)
class _Job(_Task):
    """Runs in the group's transaction."""

    job: Callable[[Any], Any]


@dataclass(slots=True, eq=False)
class _Item(_Task):
    """Runs in the group's transaction, together with the other items of its handler."""

    handler: Callable[[Any, Sequence[Any]], Sequence[Any]]
    item: Any


@dataclass(slots=True, eq=False)
class _Alone(_Task):
    """Runs outside any transaction, with the connection itself."""

    job: Callable[[apsw.Connection], Any]


class SqliteDriver:
    dialect = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        readers: int = 4,
        vfs: str | None = None,
        migrations: Sequence[schema.Migration] | None = None,
        sqlite_version: int | None = None,
    ) -> None:
        """`path` may be ":memory:". With `readers=0` reads share the writer's connection."""
        self.path = path
        self._vfs = vfs
        self._migrations = schema.load("sqlite") if migrations is None else tuple(migrations)
        self._queries = load("sqlite")
        self._readers = 0 if path == ":memory:" else readers
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._writer: apsw.Connection | None = None
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._open_connections: list[apsw.Connection] = []
        self._asides: list[threading.Thread] = []
        self._closed = False
        self.guard = Safeguard(path, sqlite_version or apsw.SQLITE_VERSION_NUMBER)

    # Opening and closing

    def open(self, now: int) -> None:
        with _translated():
            if self.path != ":memory:":
                _create_private(Path(self.path))
            self._writer = self._connect()
            _enter_wal(self._writer)
            self._migrate(self._writer, now)
        if self.guard.active:
            log.warning("SQLite %s has the WAL-reset race; checkpoints run one at a time", apsw.sqlite_lib_version())
        self._thread = threading.Thread(target=self._write_loop, name="recollect-writer", daemon=True)
        self._thread.start()
        if self._readers:
            self._pool = ThreadPoolExecutor(self._readers, thread_name_prefix="recollect-reader")

    def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        for aside in self._asides:
            aside.join()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
        for connection in self._open_connections:
            with suppress(apsw.Error):
                connection.close()

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
        due = schema.outstanding(_applied(connection), self._migrations)
        if due and due[0].version > 1 and self.path != ":memory:":
            target = f"{self.path}.before-schema-{due[-1].version:04}.backup"
            if not Path(target).exists():
                snapshot(connection, target)
                log.info("backed up the database before migrating: %s", target)
        while due:
            _apply(connection, self._migrations, now)
            due = schema.outstanding(_applied(connection), self._migrations)

    # Reading

    def read(self, job: Job[T]) -> Future[T]:
        if self._pool is None:
            return self._submit(job)
        try:
            return self._pool.submit(self._read, job)
        except RuntimeError:  # the pool is shut down
            raise _is_closed() from None

    def _read(self, job: Job[T]) -> T:
        with _translated():
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                return job(SqliteTransaction(connection, self._queries))
            finally:
                connection.execute("ROLLBACK")

    # Writing

    def write(self, job: Job[T]) -> Future[T]:
        return self._submit(job)

    def write_together(self, handler: Handler[I, T], item: I) -> Future[T]:
        return self._queue(_Item(Future(), handler, item))

    def _submit(self, job: Callable[[Any], T], *, alone: bool = False) -> Future[T]:
        return self._queue(_Alone(Future(), job) if alone else _Job(Future(), job))

    def _queue(self, task: _Task) -> Future[Any]:
        if self._closed or self._thread is None:
            raise _is_closed()
        self._tasks.put(task)
        return task.future

    def _write_loop(self) -> None:
        """Runs on the writer thread until a None comes."""
        assert self._writer is not None  # noqa: S101 - the thread starts after the connection
        held: _Task | None = None
        while True:
            task = held or self._tasks.get()
            held = None
            if task is None:
                return
            if isinstance(task, _Alone):
                self._run_alone(self._writer, task)
            else:
                held = self._run_group(self._writer, task)

    def _run_alone(self, connection: apsw.Connection, task: _Alone) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            with _translated():
                result = task.job(connection)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
            task.future.set_exception(error)
        else:
            task.future.set_result(result)

    def _run_group(self, connection: apsw.Connection, first: _Task) -> _Task | None:
        """Run everything that waits in one transaction, and acknowledge it after the commit.

        Returns a task that was found waiting but must run by itself.
        """
        group = [first]
        held = None
        done: list[tuple[_Task, Any]] = []
        try:
            with _translated():
                connection.execute("BEGIN IMMEDIATE")  # late comers join while we wait for the lock
                held = self._gather(group)
                group = [task for task in group if task.future.set_running_or_notify_cancel()]
                self._check_schema(connection)
                self._run_all(connection, group, done)
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - nothing of the group is durable: everyone is told
            if connection.in_transaction:
                with suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            for task in group:
                if not task.future.done():
                    task.future.set_exception(error)
        else:
            for task, result in done:
                task.future.set_result(result)
        return held

    def _gather(self, group: list[_Task]) -> _Task | None:
        while len(group) < GROUP_LIMIT:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                return None
            if task is None:  # closing: finish this group first
                self._tasks.put(None)
                return None
            if isinstance(task, _Alone):
                return task
            group.append(task)
        return None

    def _run_all(self, connection: apsw.Connection, group: list[_Task], done: list[tuple[_Task, Any]]) -> None:
        tx = SqliteTransaction(connection, self._queries)
        items = [task for task in group if isinstance(task, _Item)]
        for handler in dict.fromkeys(item.handler for item in items):
            alike = [item for item in items if item.handler == handler]
            self._run_alike(connection, tx, alike, done)
        for task in group:
            if isinstance(task, _Job):
                self._guarded(connection, [task], lambda task=task: [task.job(tx)], done)  # type: ignore[misc]

    def _run_alike(
        self, connection: apsw.Connection, tx: SqliteTransaction, alike: list[_Item], done: list[tuple[_Task, Any]]
    ) -> None:
        """All at once; if that fails, one by one, so that a failure stays with the item that caused it."""
        handler = alike[0].handler
        try:
            with _savepoint(connection):
                results = handler(tx, [item.item for item in alike])
        except BaseException:
            if not connection.in_transaction:
                raise
            for item in alike:
                self._guarded(connection, [item], lambda item=item: handler(tx, [item.item]), done)  # type: ignore[misc]
        else:
            done.extend(zip(alike, results, strict=True))

    def _guarded(
        self,
        connection: apsw.Connection,
        tasks: Sequence[_Task],
        run: Callable[[], Sequence[Any]],
        done: list[tuple[_Task, Any]],
    ) -> None:
        """One task in a savepoint: its failure is its own, unless SQLite gave up the whole transaction."""
        try:
            with _savepoint(connection):
                results = run()
        except BaseException as error:
            if not connection.in_transaction:
                raise
            for task in tasks:
                task.future.set_exception(_translate(error))
        else:
            done.extend(zip(tasks, results, strict=True))

    def _check_schema(self, connection: apsw.Connection) -> None:
        """A newer process may have migrated the file under us; then this one must not write any more."""
        if connection.pragma("user_version") != len(self._migrations):
            raise StoreUnavailable(
                "schema_changed",
                "Another process changed the schema of the database. Restart this one.",
                retryable=False,
            )

    # Full text

    def match(self, scopes: Sequence[str], words: Sequence[str]) -> str:
        held = [f'scope:"{scope}"' for scope in scopes]
        asked = " OR ".join(f'"{word}"' for word in words)
        return " AND ".join([*held, f"body:({asked})"])

    def word_parts(self, words: Sequence[str]) -> list[str]:
        return [" ".join(words)]

    # The file. These take long, so each runs on a thread and a connection of its own, as another process would.

    def purge(self) -> Future[Purged]:
        return self._aside(self._purge)

    def _purge(self, connection: apsw.Connection) -> Purged:
        merge_full_text(connection)
        if self.path == ":memory:":
            return Purged()
        with self.guard.checkpointing():
            moved = checkpoint(connection, "TRUNCATE", seconds=2.0)
        here = Path(self.path)
        files = tuple(str(here) + end for end in ("", "-wal", "-shm") if Path(str(here) + end).exists())
        copies = tuple(str(file) for file in sorted(here.parent.glob(here.name + ".*.backup")))
        return Purged(files, pending=not moved, kept_elsewhere=copies)

    def tidy(self) -> Future[None]:
        return self._aside(self._tidy)

    def _tidy(self, connection: apsw.Connection) -> None:
        if self.path != ":memory:":
            with self.guard.checkpointing():
                checkpoint(connection, "PASSIVE")

    def examine(self) -> Future[list[Finding]]:
        return self._aside(lambda connection: [*self.guard.findings(), *examine(connection, self.path)])

    def backup(self, target: str) -> Future[None]:
        return self._aside(lambda connection: snapshot(connection, target))

    def restore(self, source: str, now: int) -> Future[None]:
        """Page by page into this very file, as one transaction: other processes go on with the new contents."""

        def job(connection: apsw.Connection) -> None:
            with upgraded_copy(source, now) as path:
                copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
                try:
                    overwrite(connection, copy)
                finally:
                    copy.close()

        return self._aside(job)

    def settle(self) -> None:
        """Leave one whole file behind, with nothing in a log beside it."""
        self._submit(lambda connection: connection.execute("PRAGMA journal_mode = DELETE"), alone=True).result()

    def _aside(self, job: Callable[[apsw.Connection], T]) -> Future[T]:
        if not self._readers:
            return self._submit(job, alone=True)
        if self._closed:
            raise _is_closed()
        future: Future[T] = Future()

        def run() -> None:
            try:
                with _translated():
                    connection = self._connect()
                    try:
                        future.set_result(job(connection))
                    finally:
                        self._open_connections.remove(connection)
                        connection.close()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
                future.set_exception(error)

        thread = threading.Thread(target=run, name="recollect-aside", daemon=True)
        self._asides = [*(t for t in self._asides if t.is_alive()), thread]
        thread.start()
        return future


@contextmanager
def upgraded_copy(source: str, now: int) -> Iterator[str]:
    """A private copy of a backup, checked and brought to today's schema. The backup itself is not touched."""
    if not Path(source).is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    with tempfile.TemporaryDirectory(prefix="recollect-restore-", dir=Path(source).parent) as folder:
        copy = Path(folder) / "copy.db"
        copy_database(source, str(copy))
        driver = SqliteDriver(str(copy), readers=0)
        driver.open(now)
        try:
            damage = [one.detail for one in driver.examine().result() if one.state == "error"]
            if damage:
                raise StoreUnavailable("backup_damaged", f"The backup is damaged: {damage[0]}", retryable=False)
            driver.settle()
        finally:
            driver.close()
        yield str(copy)


def _create_private(path: Path) -> None:
    """A new database can be read by its owner alone."""
    if not path.parent.is_dir():
        raise StoreUnavailable("store_cannot_open", f"The folder {path.parent} does not exist.", retryable=False)
    with suppress(OSError):
        path.touch(mode=0o600, exist_ok=True)


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
    exists = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'").fetchone()
    if not exists:
        return {}
    rows: list[Any] = connection.execute("SELECT version, sha256 FROM schema_migrations").fetchall()
    return dict(rows)


def _apply(connection: apsw.Connection, known: Sequence[schema.Migration], now: int) -> None:
    """The next migration in one transaction, chosen under the lock: another process may have been quicker."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations "
            "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL)"
            " STRICT"
        )
        for migration in schema.outstanding(_applied(connection), known)[:1]:
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, ?, ?)",
                (migration.version, migration.name, migration.sha256, now),
            )
            connection.execute(f"PRAGMA user_version = {migration.version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _savepoint(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT job")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        raise
    connection.execute("RELEASE job")


def _is_closed() -> StoreUnavailable:
    return StoreUnavailable("store_closed", "This memory is closed.", retryable=False)


class _translated:  # noqa: N801 - reads as a word: `with _translated():`
    """Turns SQLite's exceptions into ours, in one place."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            translated = _translate(error)
            if translated is not error:
                raise translated from error


_CODES: Final[tuple[tuple[type[apsw.Error], str, str, bool], ...]] = (
    (apsw.BusyError, "store_busy", "Another process holds the database's write lock too long.", True),
    (apsw.LockedError, "store_busy", "The database is locked.", True),
    (
        apsw.FullError,
        "disk_full",
        "The disk is full; nothing was stored. Free some space and try again.",
        True,
    ),
    (apsw.IOError, "disk_error", "The disk refused to read or write; nothing was stored.", True),
    (apsw.ReadOnlyError, "store_readonly", "The database file cannot be written to.", False),
    (apsw.CantOpenError, "store_cannot_open", "The database file cannot be opened.", False),
    (apsw.NotADBError, "not_a_database", "The file is not a Recollect database.", False),
    (
        apsw.CorruptError,
        "store_corrupt",
        "The database is damaged. Run `recollect doctor`; restore a backup.",
        False,
    ),
    (apsw.NoMemError, "out_of_memory", "Out of memory.", True),
)


def _translate(error: BaseException) -> BaseException:
    if isinstance(error, RecollectError) or not isinstance(error, apsw.Error):
        return error
    for kind, code, message, retryable in _CODES:
        if isinstance(error, kind):
            translated = StoreUnavailable(code, message, retryable=retryable)
            translated.__cause__ = error
            return translated
    return error
