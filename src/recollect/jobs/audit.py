"""The audit log as the memory writes it: uses of the profile, and acts. It holds names and counts, never content.

A use is noted while a question is answered, so it is buffered. An act is written at once. Acts that change the store
are written by the store itself, in their own transaction (`storage/audit.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recollect.core.models import Context, JsonObject, Principal, Recalled
from recollect.core.protocols import Clock
from recollect.jobs.buffer import BufferedRows
from recollect.storage.audit import Act
from recollect.storage.store import SqlStore


class AuditLog(BufferedRows[Act]):
    """Writes acts and uses to the audit log."""

    name = "audit"
    retention = timedelta(days=400)

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        async def delete_old(before: datetime) -> int:
            return await store.audit.forget_acts(before=before)

        super().__init__(clock, save=store.audit.save_acts, delete_old=delete_old)

    def note_use(self, principal: Principal, actor: str, *, by: str, conversation: str | None, tokens: int) -> None:
        """Note that the profile was used for a question. `by` is the call that used it: recall or context."""
        details = {"by": by, "tokens": tokens}
        self._buffer(Act(principal, actor, "profile_used", details, self._clock.now(), conversation))

    async def write(self, principal: Principal, actor: str, action: str, details: JsonObject) -> None:
        """Write an act now, with everything that is buffered."""
        self._buffer(Act(principal, actor, action, details, self._clock.now()))
        await self.flush()


def count_profile_tokens(context: Context) -> int:
    """Return how many tokens of a prompt the profile takes; 0 if it is not in it."""
    return sum(part["tokens"] for part in context.explain["parts"] if part["name"] == "profile")


def profile_texts(recalled: Recalled) -> list[str]:
    """Return the texts of the hits that come from the profile."""
    return [hit.text for hit in recalled if hit.kind == "profile"]
