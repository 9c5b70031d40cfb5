"""Numbered migrations: plain SQL files, one folder per dialect, with the hash of each in the database.

An applied migration never changes: a hash that differs means the files and the database do not belong together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from recollect.core.errors import StoreUnavailable

_FILE: Final = re.compile(r"^(\d{4})_(\w+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load(dialect: str, folder: Traversable | None = None) -> tuple[Migration, ...]:
    """All migrations of a dialect in their order; `folder` holds one folder per dialect."""
    folder = folder or resources.files("recollect.storage").joinpath("migrations")
    found = []
    for file in folder.joinpath(dialect).iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations of {dialect} are not numbered 1, 2, 3, …")
    return tuple(found)


def outstanding(applied: Mapping[int, str], known: Sequence[Migration]) -> tuple[Migration, ...]:
    """What is still to be applied, given the hashes of what was; refuses a schema that is not ours to touch."""
    newest = max(applied, default=0)
    if newest > len(known):
        raise StoreUnavailable(
            "schema_too_new",
            f"The database has schema {newest}, this version knows {len(known)}. Upgrade Recollect.",
            retryable=False,
        )
    for migration in known[:newest]:
        if applied.get(migration.version) != migration.sha256:
            raise StoreUnavailable(
                "schema_differs",
                f"Migration {migration.version:04} of the database is not the one shipped here.",
                retryable=False,
            )
    return tuple(known[newest:])
