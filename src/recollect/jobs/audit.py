"""Who did what with a person's memory: uses of the profile, and acts. Names and counts, never content.

A use is noted on the way of a question, so it is buffered; an act is written at once. Acts that change the store are
written by the store itself, in their own transaction (`sql/audit.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recollect.core.models import Context, JsonObject, Principal, Recalled
from recollect.core.protocols import Clock
from recollect.jobs.buffer import Buffered
from recollect.storage.audit import Act
from recollect.storage.store import SqlStore


class AuditLog(Buffered[Act]):
    name = "audit"
    kept = timedelta(days=400)

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        async def forget(before: datetime) -> int:
            return await store.audit.forget_acts(before=before)

        super().__init__(clock, save=store.audit.save_acts, forget=forget)

    def note_use(self, principal: Principal, actor: str, *, by: str, conversation: str | None, tokens: int) -> None:
        """The profile was used for a question."""
        details = {"by": by, "tokens": tokens}
        self._hold(Act(principal, actor, "profile_used", details, self._clock.now(), conversation))

    async def write(self, principal: Principal, actor: str, action: str, details: JsonObject) -> None:
        self._hold(Act(principal, actor, action, details, self._clock.now()))
        await self.flush()


def tokens_of_profile(context: Context) -> int:
    """What the profile takes of a prompt; 0 if it is not in it."""
    return sum(part["tokens"] for part in context.explain["parts"] if part["name"] == "profile")


def texts_of_profile(recalled: Recalled) -> list[str]:
    return [hit.text for hit in recalled if hit.kind == "profile"]
