"""The brief of a conversation: reading its versions, and compressing now."""

from __future__ import annotations

from recollect.core import arguments
from recollect.core.compression.brief import Brief
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.text import check_identity
from recollect.memory.lifecycle import Lifecycle


class BriefMixin(Lifecycle):
    """Read and make briefs."""

    async def brief(self, conversation: str, *, version: int | None = None) -> Brief | None:
        """Return the brief of a conversation, the newest version by default; None if there is none."""
        check_identity(conversation, "conversation")
        arguments.check_number(version, "version", minimum=1)
        await self._ready()
        return await self._work.briefs.brief(self._principal, conversation, version)

    async def brief_versions(self, conversation: str) -> list[JsonObject]:
        """Return all versions of a brief, oldest first: version, through_seq, messages, created_at, model."""
        check_identity(conversation, "conversation")
        await self._ready()
        return await self._store.briefs.versions(self._principal, conversation)

    async def compress(self, conversation: str, *, force: bool = False) -> Brief | None:
        """Compress older turns into the brief now. Return the new brief, or None if nothing is due.

        With `force`, everything but the newest turns is compressed, whatever the triggers say.
        """
        check_identity(conversation, "conversation")
        if not isinstance(force, bool):
            raise InvalidInput("invalid_force", "`force` is true or false.")
        await self._ready()
        await self._current.refresh()
        return await self._work.briefs.compress(self._principal, conversation, force=force)
