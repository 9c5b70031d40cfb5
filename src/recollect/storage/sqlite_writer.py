"""The writer: one thread that owns the write connection and commits waiting tasks in groups.

A commit with full sync costs more than an insert. So all tasks that are queued by the time the lock is held share one
commit. Their futures resolve after the commit, never before.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import apsw

from recollect.runtime.forks import HomeProcess
from recollect.storage.driver import Handler, I, Params, Row, T, TxFunction
from recollect.storage.queries import Query, insert_statement
from recollect.storage.sqlite_errors import closed_error, translate, translated

MAX_GROUP_TASKS: Final = 512  # at most so many tasks per commit


class SqliteTransaction:
    """Implements `Transaction` on a connection whose transaction has begun."""

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

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.executemany(insert_statement(table, rows[0]), rows)


@dataclass(slots=True, eq=False)
class _Task:
    """Something that waits for the writer."""

    future: Future[Any]


@dataclass(slots=True, eq=False)
class _FunctionTask(_Task):
    """A function that runs in the group's transaction."""

    function: Callable[[Any], Any]


@dataclass(slots=True, eq=False)
class _ItemTask(_Task):
    """An item that is handled in the group's transaction, together with the other items of its handler."""

    handler: Callable[[Any, Sequence[Any]], Sequence[Any]]
    item: Any


@dataclass(slots=True, eq=False)
class _LoneTask(_Task):
    """A function that runs outside any transaction, with the connection itself."""

    function: Callable[[apsw.Connection], Any]


class SqliteWriter:
    """Runs tasks on one thread, in groups that share a transaction."""

    def __init__(
        self, connection: apsw.Connection, queries: dict[str, Query], check: Callable[[apsw.Connection], None]
    ) -> None:
        """Start the thread.

        `check` runs at the start of every transaction. It raises if the schema is not the one that this version writes.
        Then nothing is written and all tasks of the transaction fail.
        """
        self._connection, self._queries, self._check = connection, queries, check
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._closing_lock = threading.Lock()
        self._closed = False
        self._home = HomeProcess()  # a fork copies this object, but not its thread
        self._thread = threading.Thread(target=self._loop, name="recollect-writer", daemon=True)
        self._thread.start()

    def run(self, function: TxFunction[T]) -> Future[T]:
        """Run a function in a transaction that it may share with others."""
        return self._queue(_FunctionTask(Future(), function))

    def handle(self, handler: Handler[I, T], item: I) -> Future[T]:
        """Handle an item, together with other items that wait for the same handler."""
        return self._queue(_ItemTask(Future(), handler, item))

    def run_alone(self, function: Callable[[apsw.Connection], T]) -> Future[T]:
        """Run a function outside any transaction, with the write connection."""
        return self._queue(_LoneTask(Future(), function))

    def _queue(self, task: _Task) -> Future[Any]:
        self._home.check()
        with self._closing_lock:  # nothing may be queued after the None that ends the thread
            if self._closed:
                raise closed_error()
            self._tasks.put(task)
        return task.future

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        with self._closing_lock:
            if not self._closed:
                self._closed = True
                self._tasks.put(None)
        self._thread.join()

    def _loop(self) -> None:
        """Run tasks on the writer thread until a None comes."""
        next_task: _Task | None = None
        while True:
            task = next_task or self._tasks.get()
            next_task = None
            if task is None:
                return
            if isinstance(task, _LoneTask):
                self._run_lone(self._connection, task)
            else:
                next_task = self._run_group(self._connection, task)

    def _run_lone(self, connection: apsw.Connection, task: _LoneTask) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            with translated():
                result = task.function(connection)
        except BaseException as error:  # noqa: BLE001 - handed to the caller that waits for the future
            task.future.set_exception(error)
        else:
            task.future.set_result(result)

    def _run_group(self, connection: apsw.Connection, first: _Task) -> _Task | None:
        """Run all waiting tasks in one transaction, and resolve their futures after the commit.

        Return a waiting task that must run alone, if one was met.
        """
        group = [first]
        lone_task = None
        done: list[tuple[_Task, Any]] = []
        try:
            with translated():
                connection.execute("BEGIN IMMEDIATE")  # further tasks arrive while it waits for the lock
                lone_task = self._gather(group)
                group = [task for task in group if task.future.set_running_or_notify_cancel()]
                self._check(connection)
                self._run_all(connection, group, done)
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - nothing of the group is durable: all its tasks fail
            if connection.in_transaction:
                with suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            for task in group:
                with suppress(InvalidStateError):  # failed before, or cancelled meanwhile
                    task.future.set_exception(error)
        else:
            for task, result in done:
                task.future.set_result(result)
        return lone_task

    def _gather(self, group: list[_Task]) -> _Task | None:
        """Add waiting tasks to the group. Return the first one that must run alone, and stop there."""
        while len(group) < MAX_GROUP_TASKS:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                return None
            if task is None:  # closing: finish this group first
                self._tasks.put(None)
                return None
            if isinstance(task, _LoneTask):
                return task
            group.append(task)
        return None

    def _run_all(self, connection: apsw.Connection, group: list[_Task], done: list[tuple[_Task, Any]]) -> None:
        tx = SqliteTransaction(connection, self._queries)
        item_tasks = [task for task in group if isinstance(task, _ItemTask)]
        for handler in dict.fromkeys(task.handler for task in item_tasks):
            own_tasks = [task for task in item_tasks if task.handler == handler]
            self._run_items(connection, tx, own_tasks, done)
        for task in group:
            if isinstance(task, _FunctionTask):
                self._run_guarded(connection, task, partial(task.function, tx), done)

    def _run_items(
        self, connection: apsw.Connection, tx: SqliteTransaction, tasks: list[_ItemTask], done: list[tuple[_Task, Any]]
    ) -> None:
        """Handle the items of one handler at once.

        If that fails, handle them one by one, so that one bad item does not fail the others.
        """
        handler = tasks[0].handler
        try:
            with _savepoint(connection):
                results = handler(tx, [task.item for task in tasks])
        except BaseException:
            if not connection.in_transaction:
                raise
            for task in tasks:
                self._run_guarded(connection, task, partial(_handle_one, handler, tx, task.item), done)
        else:
            done.extend(zip(tasks, results, strict=True))

    def _run_guarded(
        self,
        connection: apsw.Connection,
        task: _Task,
        run: Callable[[], Any],
        done: list[tuple[_Task, Any]],
    ) -> None:
        """Run one task in a savepoint. On failure only its own future fails, unless SQLite ended the transaction."""
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
    connection.execute("SAVEPOINT task")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO task")
            connection.execute("RELEASE task")
        raise
    connection.execute("RELEASE task")
