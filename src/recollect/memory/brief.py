"""The brief of a conversation: read, and made now."""

from __future__ import annotations

from recollect.core import arguments
from recollect.core.compression.brief import Brief
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.text import identity
from recollect.memory.lifecycle import Opened


class Briefing(Opened):
    async def brief(self, conversation: str, *, version: int | None = None) -> Brief | None:
        """The compressed memory of what is older than the tail: the newest version or another, or None."""
        identity(conversation, "conversation")
        arguments.number(version, "version", least=1)
        await self._ready()
        return await self._background.compressing.brief(self._principal, conversation, version)

    async def brief_versions(self, conversation: str) -> list[JsonObject]:
        """All versions of a brief, oldest first: version, through_seq, messages, created_at, model."""
        identity(conversation, "conversation")
        await self._ready()
        return await self._store.briefs.versions(self._principal, conversation)

    async def compress(self, conversation: str, *, force: bool = False) -> Brief | None:
        """Fold what is due into the brief now. The new brief, or None if nothing is due.

        With `force`, everything but the newest turns is folded, whatever the triggers say.
        """
        identity(conversation, "conversation")
        if not isinstance(force, bool):
            raise InvalidInput("invalid_force", "`force` is true or false.")
        await self._ready()
        await self._current.refresh()
        return await self._background.compressing.compress(self._principal, conversation, force=force)
