"""Restores a backup into an SQLite file that others have open: the pages of a prepared copy replace all pages.

What the file must keep (`kept_state.py`) is read and applied to the copy before the lock is taken, because erasing may
take long. Under the lock it is read again. If it changed, somebody erased or revoked something meanwhile, and the copy
is prepared once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import apsw

from recollect.core.errors import StoreUnavailable
from recollect.storage.backup_file import FileDriver
from recollect.storage.kept_state import KeptState, apply_kept, read_kept
from recollect.storage.queries import Query
from recollect.storage.sqlite_errors import reading_backup
from recollect.storage.sqlite_file import begin_epoch, overwrite
from recollect.storage.sqlite_writer import SqliteTransaction
from recollect.storage.texts import Texts

MAX_ATTEMPTS: Final = 8


class _KeptStateChanged(Exception):
    """Something was erased, or a key was made or revoked, while the copy was prepared."""


class PageRestore:
    """One restore. `target` is the connection that writes, `connect` opens another one to read the same file.

    Without `connect` the target has no other user.
    """

    def __init__(
        self,
        target: apsw.Connection,
        copy: FileDriver,
        queries: dict[str, Query],
        connect: Callable[[], AbstractContextManager[apsw.Connection]] | None,
    ) -> None:
        self._target, self._copy, self._queries, self._connect = target, copy, queries, connect
        self._left_out: dict[str, int] = {}

    def run(self, epoch: str, now: int, *, save: Callable[[], None]) -> dict[str, int]:
        """Replace all pages of the target. `save` runs under the lock, before anything is changed.

        Return how many rows of each table were left out because they were erased since the backup was made.
        """
        for _ in range(MAX_ATTEMPTS):
            kept = self._read_kept(self._target)
            path = self._prepare(kept, now)
            try:
                self._overwrite(path, epoch, now, before=partial(self._check_and_save, kept, save))
            except _KeptStateChanged:
                continue
            return self._left_out
        raise StoreUnavailable("store_busy", "Others keep erasing or changing keys. Try the restore again.")

    def _read_kept(self, connection: apsw.Connection) -> KeptState:
        connection.execute("BEGIN")
        try:
            return read_kept(SqliteTransaction(connection, self._queries))
        finally:
            connection.execute("ROLLBACK")

    def _prepare(self, kept: KeptState, now: int) -> str:
        """Apply what is kept to the copy. Return its path: one file, without a byte of what was left out."""
        with reading_backup():
            left_out = self._copy.write(lambda tx: apply_kept(tx, kept, Texts(), now=now)).result()
        for name, count in left_out.items():
            self._left_out[name] = self._left_out.get(name, 0) + count
        if left_out:
            self._copy.compact()
        self._copy.leave_wal()
        return self._copy.path

    def _overwrite(self, path: str, epoch: str, now: int, *, before: Callable[[], None]) -> None:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            begin_epoch(connection, epoch, now)
            overwrite(self._target, connection, before=before)
        finally:
            connection.close()

    def _check_and_save(self, kept: KeptState, save: Callable[[], None]) -> None:
        if self._connect is not None:
            with self._connect() as connection:
                if self._read_kept(connection) != kept:
                    raise _KeptStateChanged
        save()
