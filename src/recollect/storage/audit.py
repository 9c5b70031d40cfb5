"""The log of who did what, in the store: ids, names of fields and counts, never content.

The name of a conversation is not kept here: rows point to the conversation, and to nothing when it is erased.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core import times
from recollect.core.drafts import to_json
from recollect.core.models import AuditEntry, JsonObject, Principal
from recollect.storage.driver import Row, Run, Transaction

LIBRARY: Final = "library"  # who acts, if nobody says more
NEWEST: Final = 2**62


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
        return {
            "at": times.to_micros(self.at), "person": self.principal.person, "actor": self.actor,
            "action": self.action, "details": to_json(self.details), "conversation": self.conversation,
        }  # fmt: skip


def write_audit(tx: Transaction, act: Act) -> None:
    """In the transaction of the act itself: both happen or neither."""
    tx.run("insert_audit", **act.row())


class Audit:
    def __init__(self, read: Run, write: Run) -> None:
        self._read, self._write = read, write

    async def entries(self, principal: Principal, *, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest `limit` entries, or those before one of them, newest first."""
        asked = {"before": NEWEST if before is None else min(before, NEWEST), "limit": min(limit, NEWEST)}
        rows = await self._read(lambda tx: tx.all("audit_before", person=principal.person, **asked))
        return [_entry(row) for row in rows]

    async def save_acts(self, acts: Sequence[Act]) -> None:
        await self._write(lambda tx: tx.many("insert_audit", [act.row() for act in acts]))

    async def forget_acts(self, *, before: datetime) -> int:
        return await self._write(lambda tx: tx.run("forget_audit", before=times.to_micros(before)))


def _entry(row: Row) -> AuditEntry:
    details = json.loads(row["details"])
    if row["conversation"] is not None:
        details = {"conversation": row["conversation"]} | details
    return AuditEntry(
        row["key"], times.from_micros(row["at"]), row["person"], row["actor"], row["action"], details
    )  # fmt: skip
