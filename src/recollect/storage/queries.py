"""Named queries: SQL lives in the files of `storage/sql`, is read once, and is asked for by name.

`sqlite.sql` and `postgres.sql` hold what one database needs alone, under equal names; all other files are understood by
both. A query begins with `-- name: …`. Parameters are written `:name`; PostgreSQL's spelling is made here. Columns of a
message are written `{message_columns}` and the like, and made from `core.message.FIELDS`; `{all_tables}` and
`{restored_tables}` are names of tables. The queries of `tables.sql`
are templates: each one is made for every table of `storage/tables.py` that has one of the owners it names.

Every query names `:person` or the `:key` of something that was found under a person; one that works for the whole store
says why (`-- system: …`). A test holds this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from recollect.core.message import FIELDS
from recollect.storage.tables import TABLES

DIALECTS: Final = ("sqlite", "postgres")
JSONB_VERSION: Final = 3_051_000  # the first SQLite with jsonb_each, which is three times as fast here
TEMPLATES: Final = "tables.sql"
_NAME: Final = re.compile(r"^-- name: (\S+)\s*$", re.MULTILINE)
_SYSTEM: Final = re.compile(r"^-- system: (.+)$", re.MULTILINE)
_OWNERS: Final = re.compile(r"^-- for tables of: (.+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_POSTGRES_TYPES: Final = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "TEXT": "TEXT"}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement. `system` gives the reason if it is not bound to a person."""

    name: str
    sql: str
    system: str | None

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of its parameters."""
        return frozenset(_PARAMETER.findall(self.sql))


def parse(text: str) -> dict[str, Query]:
    """Return the queries of a file by name. Raise ValueError if two have the same name."""
    parts = _NAME.split(text)[1:]
    queries: dict[str, Query] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"two queries are named {name}")
        reason = _SYSTEM.search(body)
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        sql = "\n".join(lines).strip().rstrip(";")
        queries[name] = Query(name, _fill_in(sql), reason.group(1) if reason else None)
    return queries


@cache
def load(dialect: str) -> dict[str, Query]:
    """Return all queries of a dialect: those that both databases understand, and those written for it alone."""
    folder = resources.files("recollect.storage").joinpath("sql")
    others = {f"{other}.sql" for other in DIALECTS if other != dialect}
    queries: dict[str, Query] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql") and file.name not in others:
            text = file.read_text("utf-8")
            own = parse(expand(text) if file.name == TEMPLATES else text)
            if twice := queries.keys() & own.keys():
                raise ValueError(f"{file.name} and another file both define {sorted(twice)}")
            queries |= own
    return queries


def expand(templates: str) -> str:
    """Return the text of templates with each one repeated for every table that has one of its owners."""
    texts = []
    for start, end in pairwise([*(match.start() for match in _NAME.finditer(templates)), len(templates)]):
        template = templates[start:end]
        owners = _OWNERS.search(template)
        if owners is None:
            raise ValueError(f"a template does not say for which tables it is: {template[:60]}")
        named = owners.group(1).split(", ")
        texts += [template.replace("{table}", table.name) for table in TABLES if table.owner in named]
    return "".join(texts)


def insert_statement(table: str, columns: Iterable[str]) -> str:
    """Return the statement that inserts rows with these columns. Both names must come from our own schema."""
    names = list(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"  # noqa: S608


def load_for_sqlite(version: int) -> dict[str, Query]:
    """Return the queries for a version of SQLite. An older one takes rows as JSON text instead of binary JSON."""
    queries = load("sqlite")
    if version >= JSONB_VERSION:
        return queries
    return {name: replace(query, sql=query.sql.replace("jsonb_each", "json_each")) for name, query in queries.items()}


def postgres_spelling(sql: str) -> str:
    """Write `:name` as `%(name)s`, and double a literal percent sign."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def _fill_in(sql: str) -> str:
    """Put columns and tables in place of `{message_…}` and `{…_tables}`."""
    for name, names in _PLACEHOLDERS.items():
        sql = sql.replace(f"{{{name}}}", names)
    return sql


def _message_columns() -> Mapping[str, str]:
    columns = {field.name: field.column for field in FIELDS if field.column is not None}
    return {
        "message_columns": ", ".join(columns),
        "message_json_values": ", ".join(f"value ->> '{name}'" for name in columns),
        "message_record_values": ", ".join(f"r.{name}" for name in columns),
        "message_record_columns": ", ".join(f"{name} {_POSTGRES_TYPES[kind]}" for name, kind in columns.items()),
    }


def _table_names() -> Mapping[str, str]:
    """Return all tables, as texts, and those that a restore must lock against writers."""
    restored = [table.name for table in TABLES if table.owner in ("person", "store") and table.copied != "no"]
    return {
        "all_tables": ", ".join(f"'{table.name}'" for table in TABLES),
        "restored_tables": ", ".join([*restored, "messages"]),
    }


_PLACEHOLDERS: Final = {**_message_columns(), **_table_names()}
