"""Translates SQLite's exceptions into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from recollect.core.errors import RecollectError, StoreUnavailable


def closed_error() -> StoreUnavailable:
    """Return the error for a store that is used after `close`."""
    return StoreUnavailable("store_closed", "This memory is closed.", retryable=False)


class translated:  # noqa: N801 - reads as a word: `with translated():`
    """Raises our own exception in place of SQLite's, for everything in the block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            own_error = translate(error)
            if own_error is not error:
                raise own_error from error


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
        "The database is damaged. Move it aside and restore a backup under its name.",
        False,
    ),
    (apsw.NoMemError, "out_of_memory", "Out of memory.", True),
)


def translate(error: BaseException) -> BaseException:
    """Return our own exception for one of SQLite's. Return any other one unchanged."""
    if isinstance(error, RecollectError) or not isinstance(error, apsw.Error):
        return error
    for kind, code, message, retryable in _CODES:
        if isinstance(error, kind):
            own_error = StoreUnavailable(code, message, retryable=retryable)
            own_error.__cause__ = error
            return own_error
    return error


@contextmanager
def reading_backup(*further: type[Exception]) -> Iterator[None]:
    """Say that the backup is damaged if the block fails in a way in which our own backups never do.

    Tables or columns may be missing or have other types. `further` are errors of the database that it is read into.
    """
    errors: tuple[type[Exception], ...] = (apsw.SQLError, UnicodeError, KeyError, TypeError, ValueError, *further)
    try:
        yield
    except errors as error:
        raise backup_damaged(f"it holds what no backup has ({type(error).__name__})") from error


def backup_damaged(reason: str) -> StoreUnavailable:
    """Return the error for a backup that cannot be restored."""
    return StoreUnavailable("backup_damaged", f"The backup is damaged: {reason}", retryable=False)
