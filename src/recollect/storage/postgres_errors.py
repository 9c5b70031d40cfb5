"""Turns the errors of psycopg into our own.

The server gives a SQLSTATE with each error of a statement. libpq keeps none of a failed connection, so those are told
apart by their English text. A text in another language counts as a server that does not answer.
"""

from __future__ import annotations

import logging
import re
from typing import Final, NamedTuple

import psycopg
from psycopg import errors

from recollect.core.errors import RecollectError, StoreUnavailable

log = logging.getLogger(__name__)


class NotBegunError(psycopg.OperationalError):
    """Raised if a transaction could not even begin: nothing was done, so it can be tried on another connection."""


class _Failure(NamedTuple):
    """Describes a kind of error to the caller."""

    code: str
    message: str
    retryable: bool


class server_errors_translated:  # noqa: N801 - reads as a word: `with server_errors_translated():`
    """Raises our own exception in place of psycopg's, for everything in the block.

    While a database is being opened, a statement that does not fit its tables means that they are another program's.
    """

    def __init__(self, *, while_opening: bool = False) -> None:
        self._while_opening = while_opening

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, RecollectError) or not isinstance(error, psycopg.Error):
            return
        reason = error.__cause__ if isinstance(error, NotBegunError) else error
        if not isinstance(reason, psycopg.Error):
            reason = error
        failure = _sort(reason)
        if failure is None:
            failure = _IN_USE if self._while_opening and isinstance(reason, _OF_OTHERS) else _FAILED
        _log_once(failure, reason)
        # A store that refused one statement is not unavailable: of a group, one item may be at fault.
        error_class = RecollectError if failure is _FAILED else StoreUnavailable
        raise error_class(failure.code, failure.message, retryable=failure.retryable) from error


def _sort(error: psycopg.Error) -> _Failure | None:
    """Return what to say about an error; None for one that depends on what was being done."""
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        text = str(error)
        for pattern, failure in _CONNECTION_FAILURES:
            if pattern.search(text):
                return failure
    return next((failure for kinds, failure in _FAILURES if isinstance(error, kinds)), None)


_logged: Final[set[tuple[str, str, str | None]]] = set()


def _log_once(failure: _Failure, error: psycopg.Error) -> None:
    """Log class and SQLSTATE of an error, each once in a process. Its text may hold addresses and what people wrote."""
    known = (failure.code, type(error).__name__, error.sqlstate)
    if known not in _logged:
        _logged.add(known)
        log.warning("%s: %s, SQLSTATE %s", *known)


_BUSY: Final = _Failure("store_busy", "Too many writers touched the same rows.", True)
_DENIED: Final = _Failure("store_denied", "The database refused the user or password.", False)
_NO_DATABASE: Final = _Failure("store_not_found", "The server has no database of this name. Create it first.", False)
_FULL: Final = _Failure("store_too_many_connections", "The database server accepts no more connections now.", True)
_TLS: Final = _Failure(
    "store_tls", "No encrypted connection to the database: check sslmode and the certificates in the address.", False
)
_REFUSED_PARAMETER: Final = _Failure(
    "store_refused_parameter", "The address has a parameter, or a value of one, that is refused. Correct it.", False
)
_NO_SCHEMA: Final = _Failure(
    "store_not_found", "The search_path of the role names no schema that exists. Create it, or write ?schema=…", False
)
_IN_USE: Final = _Failure(
    "schema_in_use",
    "Another program has tables of the same names in this schema. Give Recollect its own: write ?schema=recollect",
    False,
)
_OF_OTHERS: Final = (errors.UndefinedColumn, errors.DuplicateTable, errors.DuplicateObject, errors.WrongObjectType)
_IDLE: Final = _Failure(
    "store_timeout", "The database ended a transaction that took longer than its settings allow.", True
)
_FAILED: Final = _Failure(
    "store_failed", "The database refused a statement. The log names the error's class and SQLSTATE.", False
)
_UNREACHABLE: Final = _Failure("store_unreachable", "The database server does not answer.", True)

_FAILURES: Final[tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], _Failure], ...]] = (
    (errors.DiskFull, _Failure("disk_full", "The database server's disk is full; nothing was stored.", True)),
    ((errors.InvalidPassword, errors.InvalidAuthorizationSpecification), _DENIED),
    (errors.InsufficientPrivilege, _Failure("store_denied", "The database user lacks a privilege.", False)),
    (errors.InvalidCatalogName, _NO_DATABASE),
    (errors.InvalidSchemaName, _NO_SCHEMA),
    (errors.TooManyConnections, _FULL),
    (errors.ReadOnlySqlTransaction, _Failure("store_readonly", "The database server is read-only.", False)),
    ((errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable), _BUSY),
    (errors.QueryCanceled, _Failure("store_timeout", "The database cancelled a statement that took too long.", True)),
    (errors.IdleInTransactionSessionTimeout, _IDLE),
    (getattr(errors, "TransactionTimeout", errors.IdleInTransactionSessionTimeout), _IDLE),  # older psycopg lacks it
    (
        psycopg.IntegrityError,
        _Failure("store_conflict", "Another writer changed the same rows; try again.", True),
    ),
    (psycopg.OperationalError, _UNREACHABLE),
    (psycopg.InterfaceError, _Failure("store_unreachable", "The connection to the database broke.", True)),
)

# What libpq, the server and pgbouncer say when a connection cannot be made. The first that fits counts. A connection
# that breaks may say "SSL error: unexpected eof" or "SSL SYSCALL error": that is no fault of the certificates.
_CONNECTION_FAILURES: Final = (
    (re.compile(r"too many (connections|clients)|connection slots are reserved|no more connections"), _FULL),
    (re.compile(r"invalid sslmode value|unrecognized configuration parameter|invalid value for"), _REFUSED_PARAMETER),
    (re.compile(r"authentication failed|no password supplied|FATAL: +role |pg_hba\.conf|no such user"), _DENIED),
    (re.compile(r"permission denied for database"), _DENIED),
    (re.compile(r"FATAL: +database .* does not exist|no such database"), _NO_DATABASE),
    (re.compile(r"not support SSL|SSL required|certificate|wrong version number|SSL error: .* alert"), _TLS),
)
