"""Reads a backup: makes a private copy, refuses what is no backup of ours, and brings it to the current schema.

The file may come from anywhere. Its schema is compared with ours before anything else is read of it, and its values
with what ours can be, before anything is replaced by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import apsw

from recollect.core.errors import InvalidInput
from recollect.core.models import Finding
from recollect.storage import migrations as schema
from recollect.storage.backup_values import find_foreign_column
from recollect.storage.driver import Driver
from recollect.storage.private_folder import private_folder
from recollect.storage.sqlite_errors import backup_damaged, reading_backup, translated
from recollect.storage.sqlite_file import copy_database, find_wrong_number, stream_rows
from recollect.storage.sqlite_schema import is_own_database, refuse_changed_schema

T = TypeVar("T")


class FileDriver(Driver, Protocol):
    """The driver of an SQLite file."""

    path: str

    def leave_wal(self) -> None:
        """Move everything into the one file, and keep no write-ahead log beside it."""
        ...

    def inspect(self, function: Callable[[apsw.Connection], T]) -> T:
        """Return what the function finds on a connection of its own, outside any transaction."""
        ...

    def compact(self) -> None:
        """Write the file again from its live rows."""
        ...


OpenFile = Callable[[str], FileDriver]  # makes the driver of a file, which nobody else uses


@contextmanager
def upgraded_copy(source: str, now: int, *, beside: str | None, make_driver: OpenFile) -> Iterator[FileDriver]:
    """Yield an open private copy of a backup, checked and brought to the current schema. The backup is not changed.

    The copy lies in the private folder of the database `beside`, and is deleted afterwards. Raise InvalidInput if the
    source is no backup, StoreUnavailable if it is damaged.
    """
    if not Path(source).is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    with private_folder(beside) as folder:
        copy = folder / "copy.db"
        with translated():
            copy_database(source, str(copy))
            _check_schema(copy, source)
        driver = make_driver(str(copy))
        with reading_backup():
            driver.open(now)
        try:
            _check_contents(driver.examine().result())
            driver.inspect(_check_values)
            yield driver
        finally:
            driver.close()


def _check_schema(copy: Path, source: str) -> None:
    connection = apsw.Connection(str(copy))
    try:
        with reading_backup():
            if not is_own_database(connection):
                raise InvalidInput("not_a_backup", f"{source} is not a backup of Recollect.")
            refuse_changed_schema(connection, schema.load("sqlite"))
    finally:
        connection.close()


def _check_contents(findings: list[Finding]) -> None:
    damage = [finding.detail for finding in findings if finding.state == "error"]
    if damage:
        raise backup_damaged(damage[0])


def _check_values(connection: apsw.Connection) -> None:
    """Refuse values that nothing of ours writes. The error names table and column, never the value."""
    with translated(), reading_backup():
        column = find_foreign_column(lambda table, names: stream_rows(connection, table, names))
        column = column or find_wrong_number(connection)
    if column is not None:
        raise backup_damaged(f"{column} holds a value that Recollect never writes")
