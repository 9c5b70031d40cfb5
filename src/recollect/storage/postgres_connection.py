"""Connections to PostgreSQL, direct or through a pooler that lends a server connection for one transaction.

Behind such a pooler (pgbouncer in transaction mode, Supabase's port 6543) nothing may outlive a transaction: a setting
or a lock of the session would stay with a server connection that the next client gets. So all that we set is set inside
each transaction, with the statement that begins it. Statements are prepared only where no pooler stands between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row

from recollect.core.errors import InvalidInput, StoreUnavailable
from recollect.storage.driver import Row

Connection = psycopg.Connection[Row]

CONNECT_TIMEOUT_SECONDS: Final = 5  # a connection that is being made cannot be cut, and a server ends within ten
PREPARE_THRESHOLD: Final = 5  # a statement is prepared when it is executed for the sixth time: saves a third of an add
MAX_SCHEMA_BYTES: Final = 63  # a longer name would be cut by the server
_SCHEMA_PARAMETER: Final = "schema="
_BEGIN_READ: Final = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_BEGIN_WRITE: Final = sql.SQL(
    "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL synchronous_commit = on"
)  # without it a server may acknowledge what a crash loses
# Backups and migrations take as long as they take; pg_dump lifts the same limits. Older servers lack some of them.
_WITHOUT_LIMITS: Final = sql.SQL(
    "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('statement_timeout',"
    " 'transaction_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout')"
)

# What a server says to a prepared statement of another session: a pooler stands between, and we did not notice.
POOLER_ERRORS: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)


class Address(NamedTuple):
    """Where a database is: the part that libpq reads, and the schema of our tables, if the address names one."""

    dsn: str
    schema: str | None

    def begin(self, *, write: bool, is_long: bool = False) -> sql.Composed:
        """Return the statements that begin a transaction. What they set ends with it.

        The limits that a role or a database sets for statements and transactions do not hold for one that `is_long`.
        """
        statements: list[sql.Composable] = [_BEGIN_WRITE if write else _BEGIN_READ]
        if is_long:
            statements.append(_WITHOUT_LIMITS)
        if self.schema is not None:
            statements.append(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(self.schema)))
        return sql.SQL("; ").join(statements)

    def table(self, name: str) -> sql.Identifier:
        """Return the name of a table for a statement that runs outside of a transaction."""
        return sql.Identifier(name) if self.schema is None else sql.Identifier(self.schema, name)


def read_address(location: str) -> Address:
    """Split `postgresql://…?schema=NAME` into what libpq understands and the schema. Raise InvalidInput for others."""
    start, _, query = location.partition("?")
    parameters = [parameter for parameter in query.split("&") if parameter]
    schemas = [parameter for parameter in parameters if parameter.startswith(_SCHEMA_PARAMETER)]
    others = "&".join(parameter for parameter in parameters if parameter not in schemas)
    dsn = f"{start}?{others}" if others else start
    schema = unquote(schemas[-1].removeprefix(_SCHEMA_PARAMETER)) if schemas else None
    try:
        psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # its message would repeat parts of the address, perhaps the password
        raise InvalidInput("invalid_location", "The PostgreSQL address cannot be read.") from None
    if schema is not None and ("\x00" in schema or not 0 < len(schema.encode()) <= MAX_SCHEMA_BYTES):
        raise InvalidInput("invalid_location", f"The name of a schema has 1 to {MAX_SCHEMA_BYTES} bytes, and no NUL.")
    if schema is not None and schema.startswith("pg_"):
        raise InvalidInput("invalid_location", "PostgreSQL keeps names of schemas that begin with pg_ for itself.")
    return Address(dsn, schema)


def connect(address: Address, *, accept: Callable[[Connection], None] = lambda _: None) -> Connection:
    """Return a new connection. It leaves nothing behind in the server's session, unless it is the only user of it.

    `accept` is called with it before anything is asked of the server.
    """
    try:
        connection: Connection = psycopg.connect(
            address.dsn,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            application_name="recollect",
            prepare_threshold=None,
        )
    except psycopg.OperationalError as error:
        if "unsupported startup parameter" in str(error):
            raise StoreUnavailable(
                "store_refused_parameter",
                "The pooler refuses a parameter of the address. Leave out `options`, and write ?schema=… for a schema.",
                retryable=False,
            ) from None
        raise
    try:
        accept(connection)
        if not is_pooled(connection):
            connection.prepare_threshold = PREPARE_THRESHOLD
    except BaseException:
        connection.close()
        raise
    return connection


def is_pooled(connection: Connection) -> bool:
    """Say whether a pooler answers in place of the server: then the process it named is not the one that works for us.

    Poolers cannot pass on the number of a server process, because it changes with each transaction.
    """
    row = connection.execute("SELECT pg_backend_pid() AS pid").fetchone()
    return row is None or row["pid"] != connection.info.backend_pid
