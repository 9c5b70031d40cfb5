"""Numbered migrations: plain SQL files, one folder per dialect, with the hash of each in the database.

An applied migration never changes. A different hash means that the files and the database do not belong together.
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

_FILE_NAME: Final = re.compile(r"^(\d{4})_(\w+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: the SQL of a file and its number."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Return the hash that is stored when the migration is applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load(dialect: str, folder: Traversable | None = None) -> tuple[Migration, ...]:
    """Return all migrations of a dialect in their order. `folder` has a folder for each dialect."""
    folder = folder or resources.files("recollect.storage").joinpath("migrations")
    migrations = []
    for file in folder.joinpath(dialect).iterdir():
        match = _FILE_NAME.match(file.name)
        if match:
            migrations.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    migrations.sort(key=lambda migration: migration.version)
    if [migration.version for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations of {dialect} are not numbered 1, 2, 3, …")
    return tuple(migrations)


def find_outstanding(applied: Mapping[int, str], known: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the migrations that are still to be applied. `applied` has the hash of each applied one by its version.

    Raise StoreUnavailable for a schema of a newer version, or one made by other files.
    """
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
                f"Migration {migration.version:04} of the database is not the one shipped here. "
                "Open it with the version of Recollect that made it.",
                retryable=False,
            )
    return tuple(known[newest:])
