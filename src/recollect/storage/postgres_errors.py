"""Turns the errors of psycopg into our own."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from recollect.core.errors import RecollectError, StoreUnavailable


class NotBegunError(psycopg.OperationalError):
    """Raised if a transaction could not even begin: nothing was done, so it can be tried on another connection."""


class server_errors_translated:  # noqa: N801 - reads as a word: `with server_errors_translated():`
    """Raises our own exception in place of psycopg's, for everything in the block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, RecollectError) or not isinstance(error, psycopg.Error):
            return
        for kinds, code, message, retryable in _CODES:
            if isinstance(error, kinds):
                raise StoreUnavailable(code, message, retryable=retryable) from error


_CODES: Final[tuple[tuple[type[psycopg.Error], str, str, bool], ...]] = (
    (errors.DiskFull, "disk_full", "The database server's disk is full; nothing was stored.", True),
    (errors.InvalidPassword, "store_denied", "The database refused the user or password.", False),
    (errors.InsufficientPrivilege, "store_denied", "The database user lacks a privilege.", False),
    (errors.ReadOnlySqlTransaction, "store_readonly", "The database server is read-only.", False),
    (errors.SerializationFailure, "store_busy", "Too many writers touched the same rows.", True),
    (errors.DeadlockDetected, "store_busy", "Too many writers touched the same rows.", True),
    (errors.IntegrityError, "store_conflict", "Another writer changed the same rows; try again.", True),
    (psycopg.OperationalError, "store_unreachable", "The database server does not answer.", True),
    (psycopg.InterfaceError, "store_unreachable", "The connection to the database broke.", True),
)
