"""Named queries: SQL lives in .sql files, is read once, and is asked for by name.

`common.sql` holds what both databases understand; `sqlite.sql` and `postgres.sql` hold the rest under equal names.
A query begins with `-- name: …`. Parameters are written `:name`; PostgreSQL's spelling is made here.
Every query names `:person` or `:key` of something already found under a person; what works for the whole store says
`-- system: why` (a test holds this).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_SYSTEM: Final = re.compile(r"^-- system: (.+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement. `system` gives the reason when it is not bound to a person."""

    name: str
    sql: str
    system: str | None

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(_PARAMETER.findall(self.sql))


def parse(text: str) -> dict[str, Query]:
    parts = _NAME.split(text)[1:]
    queries: dict[str, Query] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"query {name} stands twice")
        reason = _SYSTEM.search(body)
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        sql = "\n".join(lines).strip().rstrip(";")
        queries[name] = Query(name, sql, reason.group(1) if reason else None)
    return queries


@cache
def load(dialect: str) -> dict[str, Query]:
    """All queries of one dialect: the common ones, and those written for it alone."""
    folder = resources.files("recollect.storage")
    common = parse(folder.joinpath("common.sql").read_text("utf-8"))
    own = parse(folder.joinpath(f"{dialect}.sql").read_text("utf-8"))
    twice = common.keys() & own.keys()
    if twice:
        raise ValueError(f"common and {dialect} both define {sorted(twice)}")
    return common | own


def postgres_spelling(sql: str) -> str:
    """`:name` → `%(name)s`; a literal percent sign is doubled."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
