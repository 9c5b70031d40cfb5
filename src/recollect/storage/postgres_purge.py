"""Removes deleted rows from the tables of a PostgreSQL server, as far as a client can, and says what is out of reach.

VACUUM makes the space of deleted rows free, and does not overwrite it. Only VACUUM FULL writes the pages anew. It locks
each table against everybody as long as it runs, so that is left to the operator.
"""

from __future__ import annotations

import time
from typing import Final

from psycopg import sql
from psycopg.errors import Diagnostic

from recollect.core.models import Finding
from recollect.storage import tables
from recollect.storage.driver import PurgeResult
from recollect.storage.postgres_connection import Address, Connection
from recollect.storage.private_folder import private_files

_PURGE_WAIT_SECONDS: Final = 1.0  # how long a purge waits for older transactions
_MAINTAIN_VERSION: Final = 170_000  # the first server with the privilege MAINTAIN

# Finds a transaction that began before this one. Other vacuums do not count: PostgreSQL cleans up regardless of them.
_FIND_OLDER: Final = sql.SQL(
    "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
    " AND greatest(age(backend_xmin), age(backend_xid)) >= age(CAST(%(xid)s AS xid))"
    " AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum) LIMIT 1"
)
# Counts the tables that this role may not vacuum: it owns neither them nor the database.
_COUNT_OF_OTHERS: Final = (
    "SELECT count(*) AS n FROM pg_class"
    " WHERE oid IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST(%s AS text[])) AS name)"
    " AND NOT pg_has_role(relowner, 'USAGE')"
    " AND NOT (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database())"
)
_NOT_MAINTAINED: Final = " AND NOT has_table_privilege(oid, 'MAINTAIN')"


def purge(connection: Connection, address: Address) -> PurgeResult:
    """Vacuum when no older transaction can see the deleted rows. One that stays too long leaves them pending.

    Older transactions are looked for before the vacuum: one that held rows while it ran may be gone afterwards.
    """
    own_id = connection.execute("SELECT pg_current_xact_id()::xid::text AS xid").fetchone()
    deadline = time.monotonic() + _PURGE_WAIT_SECONDS
    while is_held := connection.execute(_FIND_OLDER, own_id, prepare=False).fetchone() is not None:
        if time.monotonic() > deadline:
            break
        time.sleep(_PURGE_WAIT_SECONDS / 50)
    is_complete = _vacuum(connection, address)
    kept = () if is_complete else ("rows of tables that this role may not vacuum: until their owner runs VACUUM",)
    return PurgeResult(pending=is_held or not is_complete, kept_elsewhere=(*kept, *_find_copies(connection)))


def _vacuum(connection: Connection, address: Address) -> bool:
    """Vacuum all tables that may hold text. Return False if the server left some out: that is no error to it."""
    warnings: list[Diagnostic] = []

    def note(notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(notice)

    connection.add_notice_handler(note)
    try:
        for table in tables.VACUUMED:
            connection.execute(sql.SQL("VACUUM {}").format(address.table(table)))
    finally:
        connection.remove_notice_handler(note)
    return not warnings


def _find_copies(connection: Connection) -> list[str]:
    """Return where deleted text may still be, and until when."""
    rows = connection.execute(
        "SELECT name, setting FROM pg_settings WHERE name IN ('archive_mode', 'max_wal_size')"
    ).fetchall()
    values = {row["name"]: row["setting"] for row in rows}
    copies = [
        "unused space of the tables' pages: until overwritten by later rows, or until you run VACUUM FULL",
        f"write-ahead log: until recycled (about {values.get('max_wal_size')} MB of further writes)",
    ]
    if values.get("archive_mode") != "off":
        copies.append("archived write-ahead log: until your archive's retention removes it")
    copies.append("base backups and dumps made before: until you delete them")
    return [*copies, *map(str, private_files(None))]


def examine_ownership(connection: Connection, address: Address) -> list[Finding]:
    """Return a warning if this role may not vacuum the tables. Then erases stay pending."""
    names = [address.table(name).as_string(connection) for name in tables.VACUUMED]
    may_be_granted = connection.info.server_version >= _MAINTAIN_VERSION
    query = sql.SQL(_COUNT_OF_OTHERS + (_NOT_MAINTAINED if may_be_granted else ""))
    row = connection.execute(query, (names,)).fetchone()
    if not row or not row["n"]:
        return []
    detail = f"this role may not vacuum {row['n']} of our tables: erased text stays in them, and erases stay pending"
    return [Finding("ownership", "warning", detail, "connect as the role that owns the tables")]
