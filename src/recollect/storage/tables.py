"""Every table of the database, and what happens to its rows.

`tests/storage/test_tables.py` compares this with the schema and with what erase, copy and rebuild really do. A new
table is one line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the fate of its rows.

    `erased` says with what they go: `conversation`, `message` or `key` (deleted with that row, by cascade), `person`
    (deleted by the person's name) or `kept`, followed by the reason.
    `copied` says whether a backup of PostgreSQL, or a restore into it, carries them over. `rebuilt` names the job that
    makes them again after a rebuild. `counted_as` is their name in the receipt of an erase.
    """

    name: str
    erased: str
    copied: bool
    rebuilt: str | None = None
    counted_as: str | None = None


TABLES: Final = (
    Table("conversations", "person", copied=True, counted_as="conversations"),
    Table("messages", "conversation", copied=True, counted_as="messages"),
    Table("texts", "message", copied=True),
    Table("entries", "message", copied=True, rebuilt="index", counted_as="entries"),
    Table("vectors", "message", copied=False, rebuilt="vectors", counted_as="vectors"),
    Table("message_tokens", "message", copied=False, rebuilt="index", counted_as="token_counts"),
    Table("briefs", "conversation", copied=True, rebuilt="briefs", counted_as="briefs"),
    Table("brief_entries", "conversation", copied=True, rebuilt="briefs", counted_as="brief_entries"),
    Table("settings", "person", copied=True, counted_as="settings"),
    Table("recalls", "person", copied=False, counted_as="recalls"),
    Table("archived", "message", copied=False, counted_as="archived"),
    Table("dictionaries", "person", copied=False, counted_as="dictionaries"),
    Table("topics", "conversation", copied=True, rebuilt="topics", counted_as="topics"),
    Table("topic_messages", "message", copied=True, rebuilt="topics", counted_as="topic_messages"),
    Table("feedback", "message", copied=True, counted_as="feedback"),
    Table("profiles", "person", copied=True, counted_as="profiles"),
    Table("consents", "person", copied=True, counted_as="consents"),
    Table("audit", "person", copied=True, counted_as="audit"),
    Table("blocks", "conversation", copied=False),
    Table("requests", "person", copied=False),
    Table("stops", "person", copied=False),
    Table("embedders", "kept: they name models, not people", copied=False),
    Table("api_keys", "kept: the operator revokes them; a revoked one keeps its id from being used again", copied=True),
    Table("sessions", "key", copied=False),
    Table("erasures", "kept: they prove the erase and hold a hash of the person", copied=False),
    Table("leases", "kept: they name processes and run out", copied=False),
)
COUNTED: Final = tuple(table.counted_as for table in TABLES if table.counted_as is not None)
_UNERASED: Final = ("kept", "key")  # an erase leaves nothing to vacuum there
VACUUMED: Final = tuple(table.name for table in TABLES if not table.erased.startswith(_UNERASED))
