"""The writer: one thread that owns the write connection and commits what waits in groups.

A commit with full sync costs more than the insert, so everything that is queued by the time the lock is held shares
one. Whoever waits is told after the commit, never before.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import apsw

from recollect.storage.driver import Handler, I, Job, Params, Row, T
from recollect.storage.queries import Query
from recollect.storage.sqlite_errors import closed_error, translate, translated

GROUP_LIMIT: Final = 512  # tasks that share one commit


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


class SqliteWriter:
    """`check` runs at the start of every transaction and may refuse it."""

    def __init__(
        self, connection: apsw.Connection, queries: dict[str, Query], check: Callable[[apsw.Connection], None]
    ) -> None:
        self._connection, self._queries, self._check = connection, queries, check
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop, name="recollect-writer", daemon=True)
        self._thread.start()

    def job(self, job: Job[T]) -> Future[T]:
        return self._queue(_Job(Future(), job))

    def item(self, handler: Handler[I, T], item: I) -> Future[T]:
        return self._queue(_Item(Future(), handler, item))

    def alone(self, job: Callable[[apsw.Connection], T]) -> Future[T]:
        return self._queue(_Alone(Future(), job))

    def _queue(self, task: _Task) -> Future[Any]:
        with self._gate:  # nothing may be queued behind the None that ends the thread
            if self._closed or os.getpid() != self._process:
                raise closed_error()  # a fork has the object, but not the thread
            self._tasks.put(task)
        return task.future

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._tasks.put(None)
        self._thread.join()

    def _loop(self) -> None:
        """Runs on the writer thread until a None comes."""
        held: _Task | None = None
        while True:
            task = held or self._tasks.get()
            held = None
            if task is None:
                return
            if isinstance(task, _Alone):
                self._run_alone(self._connection, task)
            else:
                held = self._run_group(self._connection, task)

    def _run_alone(self, connection: apsw.Connection, task: _Alone) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            with translated():
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
            with translated():
                connection.execute("BEGIN IMMEDIATE")  # late comers join while we wait for the lock
                held = self._gather(group)
                group = [task for task in group if task.future.set_running_or_notify_cancel()]
                self._check(connection)
                self._run_all(connection, group, done)
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - nothing of the group is durable: everyone is told
            if connection.in_transaction:
                with suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            for task in group:
                with suppress(InvalidStateError):  # told already, or cancelled meanwhile
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
                self._guarded(connection, task, partial(task.job, tx), done)

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
                self._guarded(connection, item, partial(_handle_one, handler, tx, item.item), done)
        else:
            done.extend(zip(alike, results, strict=True))

    def _guarded(
        self,
        connection: apsw.Connection,
        task: _Task,
        run: Callable[[], Any],
        done: list[tuple[_Task, Any]],
    ) -> None:
        """One task in a savepoint: its failure is its own, unless SQLite gave up the whole transaction."""
        try:
            with _savepoint(connection):
                result = run()
        except BaseException as error:
            if not connection.in_transaction:
                raise
            task.future.set_exception(translate(error))
        else:
            done.append((task, result))


def _handle_one(handler: Handler[Any, Any], tx: SqliteTransaction, item: object) -> object:
    return handler(tx, [item])[0]


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
