"""Schemas on a PostgreSQL server, for tests. A schema is as good as a database, and ten times quicker to make."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from recollect.storage.postgres import PostgresDriver
from recollect.storage.tables import TABLES

# Columns, indexes, constraints and triggers of a schema, as one text.
_SHAPE = """
SELECT md5(
    (SELECT string_agg(concat_ws(' ', c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull), ','
                       ORDER BY c.relname, a.attnum)
     FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = CAST(%(schema)s AS regnamespace))
    || (SELECT string_agg(concat(r.relname, conname), ',' ORDER BY r.relname, conname)
        FROM pg_constraint JOIN pg_class r ON r.oid = conrelid WHERE connamespace = CAST(%(schema)s AS regnamespace))
    || (SELECT concat(count(*), min(t.tgenabled), max(t.tgenabled), count(*) FILTER (WHERE t.tgisinternal))
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = CAST(%(schema)s AS regnamespace)))
"""
# Whether somebody else still works on tables of a schema.
_IN_USE = """
SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
WHERE c.relnamespace = CAST(%(schema)s AS regnamespace) AND l.pid <> pg_backend_pid() LIMIT 1
"""


@contextmanager
def new_schema(server: str) -> Iterator[str]:
    """Yield the DSN of an empty schema, and drop it afterwards."""
    name = f"recollect_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        yield _dsn(server, name)
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


class SchemaPool:
    """Lends schemas that have our tables, without rows.

    To make the tables takes longer than most tests. So a schema that a test left in shape is emptied and lent again.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._connection = psycopg.connect(server, autocommit=True)
        self._free: list[str] = []
        self._shape: object = None
        self._migrations: object = None  # of a schema that was just made

    def close(self) -> None:
        """Drop the schemas and release the server."""
        for name in self._free:
            self._drop(name)
        self._connection.close()

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Yield the DSN of a schema that nobody else uses meanwhile."""
        name = self._free.pop() if self._free else self._make()
        yield _dsn(self._server, name)
        if self._can_be_lent_again(name):
            self._empty(name)
            self._free.append(name)
        else:
            self._drop(name)

    def _can_be_lent_again(self, name: str) -> bool:
        return (
            self._connection.execute(_IN_USE, {"schema": name}).fetchone() is None
            and self._shape_of(name) == self._shape
            and self._migrations_of(name) == self._migrations
        )

    def _drop(self, name: str) -> None:
        self._connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))

    def _make(self) -> str:
        name = f"recollect_{uuid.uuid4().hex[:12]}"
        self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        driver = PostgresDriver(_dsn(self._server, name), connections=1)
        driver.open(0)
        driver.close()
        self._shape, self._migrations = self._shape_of(name), self._migrations_of(name)
        return name

    def _shape_of(self, name: str) -> object:
        return self._connection.execute(_SHAPE, {"schema": name}).fetchone()

    def _migrations_of(self, name: str) -> object:
        applied = sql.SQL("SELECT version, sha256 FROM {}.schema_migrations ORDER BY version")
        return self._connection.execute(applied.format(sql.Identifier(name))).fetchall()

    def _empty(self, name: str) -> None:
        """Delete all rows, conversations first, and let every key begin again."""
        schema = sql.Identifier(name)
        sequences = self._connection.execute(
            "SELECT sequencename FROM pg_sequences WHERE schemaname = %s AND last_value IS NOT NULL", (name,)
        ).fetchall()
        deletes = [sql.SQL("DELETE FROM {}.{}").format(schema, sql.Identifier(table.name)) for table in TABLES]
        resets = [sql.SQL("ALTER SEQUENCE {}.{} RESTART").format(schema, sql.Identifier(key)) for (key,) in sequences]
        self._connection.execute(sql.SQL("; ").join([*deletes, *resets]))


@contextmanager
def guest_role(dsn: str) -> Iterator[str]:
    """Yield the DSN of a schema for a role that may read and write all tables, and owns none."""
    name, schema = f"guest_{uuid.uuid4().hex[:12]}", sql.Identifier(schema_of(dsn))
    role = sql.Identifier(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(name)))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
        for rights, kind in (("SELECT, INSERT, UPDATE, DELETE", "TABLES"), ("USAGE", "SEQUENCES")):
            grant = sql.SQL("GRANT {} ON ALL {} IN SCHEMA {} TO {}")
            connection.execute(grant.format(sql.SQL(rights), sql.SQL(kind), schema, role))
        yield as_role(dsn, name, name)
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


def as_role(dsn: str, user: str, password: str) -> str:
    """Return an address with another user and password."""
    start, _, rest = dsn.partition("://")
    return f"{start}://{user}:{password}@{rest.rpartition('@')[2]}"


def _dsn(server: str, schema: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema}"


def schema_of(dsn: str) -> str:
    """Return the schema that a DSN of this module names."""
    return dsn.rpartition("%3D")[2]
