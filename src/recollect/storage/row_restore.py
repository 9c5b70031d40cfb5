"""Restores a backup into a PostgreSQL database: the rows of a prepared copy replace all rows, in one transaction.

What the database must keep (`kept_state.py`) is applied to the copy before the tables are locked, because erasing may
take long. Under the lock it is applied again; then only what changed meanwhile is left to do. The database may run the
transaction again, so each step bears to be repeated.
"""

from __future__ import annotations

from collections import Counter

from recollect.storage.backup_file import FileDriver
from recollect.storage.database_copy import copy_everything
from recollect.storage.driver import Transaction, generation_step
from recollect.storage.file_drafts import new_file
from recollect.storage.kept_state import KeptState, apply_kept, read_kept
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.texts import Texts


class RowRestore:
    """One restore from a private copy. `left_out` counts the rows that were erased since the backup was made.

    With `save_to`, what is replaced is written to a new file of that name. `now` is in microseconds.
    """

    def __init__(self, copy: FileDriver, now: int, epoch: str, save_to: str | None) -> None:
        self._copy, self._now, self._epoch, self._save_to = copy, now, epoch, save_to
        self._has_saved = False
        self.left_out: Counter[str] = Counter()  # an erase counts once: when it is repeated, nothing is left to count

    def prepare(self, kept: KeptState) -> None:
        """Apply to the copy what the target keeps."""
        self.left_out.update(self._copy.write(lambda tx: apply_kept(tx, kept, Texts(), now=self._now)).result())

    def replace_everything(self, target: Transaction) -> None:
        """Replace all rows of the target, while other writers wait."""
        target.run("lock_everything")
        if self._save_to is not None:
            copy_to_file(target, self._save_to, replace=self._has_saved)
            self._has_saved = True
        kept = read_kept(target)
        self.prepare(kept)
        self._copy.read(lambda source: copy_everything(source, target)).result()
        target.insert("sessions", kept.sessions)
        target.run("change_generations", by=generation_step(self._epoch))
        target.run("put_setting", person="", name="epoch", value=self._epoch, now=self._now)


def open_copy(path: str) -> SqliteDriver:
    """Return a driver for the private copy of a backup."""
    return SqliteDriver(path, readers=1, backs_up=False)


def copy_to_file(source: Transaction, target: str, *, replace: bool = False) -> None:
    """Copy everything that a transaction sees to a new SQLite file. One that exists is replaced only with `replace`."""
    with new_file(target, replace=replace) as draft:
        file = SqliteDriver(draft, readers=0)
        file.open(0)
        try:
            file.write(lambda tx: copy_everything(source, tx)).result()
            file.leave_wal()
        finally:
            file.close()
