"""Stores the audit log: actors, actions, ids, names of fields and counts, never content.

The name of a conversation is not kept here. A row points to the conversation, and to nothing when that is erased.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core import times
from recollect.core.json_text import to_json
from recollect.core.models import AuditEntry, JsonObject, Principal
from recollect.core.text import hash_name
from recollect.storage.driver import Row, RunInTransaction, Transaction

LIBRARY: Final = "library"  # the actor, if the caller names none
NEWEST_ENTRY: Final = 2**62


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done with a person's memory."""

    principal: Principal
    actor: str
    action: str
    details: JsonObject
    at: datetime
    conversation: str | None = None

    def row(self) -> Row:
        """Return the act as parameters of a query."""
        return {
            "at": times.to_micros(self.at), "person": self.principal.person, "actor": self.actor,
            "action": self.action, "details": to_json(self.details), "conversation": self.conversation,
        }  # fmt: skip


def write_audit(tx: Transaction, act: Act) -> None:
    """Write an act to the audit log, in the transaction of the act itself: both happen or neither."""
    tx.run("insert_audit", **act.row())


class AuditStore:
    """The audit log of the store."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction) -> None:
        self._read, self._write = read, write

    async def entries(self, principal: Principal, *, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Return the newest `limit` entries with keys below `before`, newest first."""
        newest = NEWEST_ENTRY if before is None else min(before, NEWEST_ENTRY)
        params = {"before": newest, "limit": min(limit, NEWEST_ENTRY)}
        rows = await self._read(lambda tx: tx.all("audit_before", person=principal.person, **params))
        return [_to_entry(row) for row in rows]

    async def save_acts(self, acts: Sequence[Act]) -> None:
        """Write acts to the audit log, but for those on people who were erased after the act."""
        rows = [act.row() | {"owner": hash_name(act.principal.person)} for act in acts]
        await self._write(lambda tx: tx.many("insert_noted_audit", rows))

    async def forget_acts(self, *, before: datetime) -> int:
        """Delete older entries of everybody. Return how many."""
        return await self._write(lambda tx: tx.run("forget_audit", before=times.to_micros(before)))


def _to_entry(row: Row) -> AuditEntry:
    details = json.loads(row["details"])
    if row["conversation"] is not None:
        details = {"conversation": row["conversation"]} | details
    return AuditEntry(
        row["key"], times.from_micros(row["at"]), row["person"], row["actor"], row["action"], details
    )  # fmt: skip
