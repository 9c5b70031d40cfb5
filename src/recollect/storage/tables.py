"""Every table of the database, and what happens to its rows.

Erase, copy and vacuum follow this declaration by themselves: `sql/tables.sql` has their statements, which are made for
every table. `tests/storage/test_tables.py` compares it with the schema, and with what erase, copy and rebuild really
do. A new table is one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Owner = Literal["person", "conversation", "message", "position", "api_key", "store"]
Copied = Literal["rows", "code", "emptied", "no"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the fate of its rows.

    `owner` says with what its rows are erased, and by which columns they are found:
    - "person": by the column `person`.
    - "conversation": by cascade of `conversation_key`.
    - "message": by cascade of `message_key`. "position": by cascade of `conversation_key` and `seq`.
    - "api_key": by cascade of an API key.
    - "store": never; `kept` gives the reason.

    `copied` says how a backup of PostgreSQL, or a restore into it, carries the rows over:
    - "rows": as they are, but for a generated `key`, which is made anew, and `conversation_key`, which is translated.
      For tables of the owners person, conversation, position and store whose rows hold no other keys.
    - "code": by statements of their own in `database_copy.py`.
    - "emptied": not copied; a restore deletes the rows of the target, because they were made of other messages.
    - "no": not copied; those of the target stay, or go by cascade.

    `rebuilt` names the job that makes the rows again after a rebuild. `counted_as` is their name in the receipt of an
    erase. `outdated` is for rows that are made of many messages: the query that deletes them when one of these messages
    is erased. `repairs` are queries to run after it. Their parameters are :person, :key (of the conversation),
    :first_seq, :last_seq, :first_at and :last_at (of the erased messages).
    """

    name: str
    owner: Owner
    copied: Copied = "no"
    rebuilt: str | None = None
    counted_as: str | None = None
    outdated: str | None = None
    repairs: tuple[str, ...] = ()
    kept: str | None = None


PROFILES: Final = Table("profiles", "person", copied="rows", counted_as="profiles")
API_KEYS: Final = Table(
    "api_keys", "store", copied="rows", counted_as="api_keys",
    kept="those of an erased person are revoked and keep nothing but their id, which is never used again",
)  # fmt: skip
TABLES: Final = (
    Table("conversations", "person", copied="code", counted_as="conversations"),
    Table("messages", "conversation", copied="code", counted_as="messages"),
    Table("texts", "message", copied="code"),
    Table("entries", "position", copied="code", rebuilt="index", counted_as="entries"),
    Table("vectors", "position", copied="code", rebuilt="vectors", counted_as="vectors"),
    Table("segments", "conversation", rebuilt="segments",  # copies of rows that are counted
          outdated="delete_segments_between", repairs=("reopen_segments",)),
    Table("message_tokens", "message", rebuilt="index", counted_as="token_counts"),
    Table("briefs", "conversation", copied="rows", rebuilt="briefs", counted_as="briefs",
          outdated="delete_outdated_briefs", repairs=("rewind_brief",)),
    Table("brief_entries", "conversation", copied="rows", rebuilt="briefs", counted_as="brief_entries",
          outdated="delete_outdated_brief_entries", repairs=("reopen_brief_entries",)),
    Table("settings", "person", copied="rows", counted_as="settings"),
    Table("recalls", "person", copied="emptied", counted_as="recalls"),
    Table("archived", "message", counted_as="archived"),
    Table("dictionaries", "person", copied="emptied", counted_as="dictionaries"),
    Table("topics", "conversation", copied="code", rebuilt="topics", counted_as="topics"),
    Table("topic_messages", "position", copied="code", rebuilt="topics", counted_as="topic_messages"),
    Table("feedback", "position", copied="rows", counted_as="feedback"),
    PROFILES,
    Table("consents", "person", copied="rows", counted_as="consents"),
    Table("audit", "person", copied="code", counted_as="audit"),
    Table("blocks", "conversation"),
    Table("requests", "person", copied="emptied"),  # idempotency keys, and sizes of system prompts
    Table("stops", "person", copied="emptied"),  # marks that stop an answer
    Table("embedders", "store", copied="code", kept="they name models, not people"),
    API_KEYS,
    Table("sessions", "api_key"),
    Table("tombstones", "store", copied="rows", kept="they keep what was erased from coming back, as keyed hashes"),
    Table("erasures", "store", kept="they prove the erase and hold a hash of the person"),
    Table("leases", "store", kept="they name processes and run out"),
)  # fmt: skip
COUNTED: Final = tuple(table.counted_as for table in TABLES if table.counted_as is not None)
VACUUMED: Final = tuple(
    table.name for table in TABLES if table.owner != "store" or table is API_KEYS
)  # those an erase reaches


def owned_by(*owners: Owner) -> tuple[Table, ...]:
    """Return the tables whose rows have one of these owners."""
    return tuple(table for table in TABLES if table.owner in owners)


def copied_as_rows(*owners: Owner) -> tuple[Table, ...]:
    """Return the tables of these owners whose rows are copied as they are."""
    return tuple(table for table in owned_by(*owners) if table.copied == "rows")
