"""What a person told of themselves, whether it may be used, and who used it.

A profile may be written at any time. Without consent it is shown nowhere and used nowhere; every use reads the consent
with the profile, so that what another process decides holds at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.admin import erase
from recollect.core import arguments, profile
from recollect.core.errors import InvalidInput
from recollect.core.language import analyser
from recollect.core.models import AuditEntry, Receipt
from recollect.core.profile import Profile
from recollect.memory.lifecycle import Opened


class Personal(Opened):
    async def profile(self) -> Profile:
        """What the person told of themselves. Without consent it is empty, and says only whether one is stored."""
        await self._ready()
        return await self._store.profiles.get(self._principal)

    async def set_profile(self, fields: Mapping[str, Any]) -> Profile:
        """Change the profile: `preferences` (coding_style, languages, frameworks), `context` (goals, domain,
        constraints) and `notes`. Fields that are not named stay as they are; None empties one.

        It may be written without consent, but then it is not used, and what comes back is empty.
        """
        changes = profile.changes(fields)
        await self._begin()
        await self._store.profiles.change(self._principal, changes, actor=self._actor, now=self._clock.now())
        return await self.profile()

    async def consent(self) -> bool:
        """Whether the person lets the profile be used. Nobody does who was never asked."""
        return (await self.profile()).consent

    async def set_consent(self, granted: bool) -> bool:
        """Let the profile be used, or not. False is `revoke_consent` without the receipt: the profile is erased."""
        if not isinstance(granted, bool):
            raise InvalidInput("invalid_consent", "Consent is true or false.")
        if granted:
            await self._begin()
            await self._store.profiles.set_consent(self._principal, True, actor=self._actor, now=self._clock.now())
        else:
            await self.revoke_consent()
        return granted

    async def revoke_consent(self) -> Receipt:
        """Switch the use of the profile off, durably, then erase it down to the bytes.

        Nothing uses it from the first step on, even if the second fails: then call this again. The receipt says what
        was erased, and what is pending.
        """
        await self._begin()
        await self._store.profiles.set_consent(self._principal, False, actor=self._actor, now=self._clock.now())
        scope = {"profile": self._principal.person}
        receipt = await erase.erase(self._store, self._principal, scope, now=self._clock.now(), actor=self._actor)
        analyser.forget()
        return receipt

    async def _begin(self) -> None:
        """Uses that were noted before come first in the audit log, too."""
        await self._ready()
        await self._audit.flush()

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Who did what with this memory, the newest first; `before` is the id of an entry, for the next page.

        Uses of the profile, consent given and taken back, changes, erasing, exports. Names and counts, never content.
        """
        arguments.number(limit, "limit", least=0, needed=True)
        arguments.number(before, "before", least=0)
        await self._begin()
        return await self._store.audit.entries(self._principal, limit=limit, before=before)
