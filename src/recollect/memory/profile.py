"""The profile: what a person wrote about themselves, the consent to use it, and the audit log.

A profile may be written at any time. Without consent it is shown nowhere and used nowhere. Every use reads the consent
together with the profile, so a decision made in another process holds at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.core import arguments, profile
from recollect.core.errors import InvalidInput
from recollect.core.models import AuditEntry, Receipt
from recollect.core.profile import Profile
from recollect.core.scope import ProfileScope
from recollect.memory.lifecycle import Lifecycle


class ProfileMixin(Lifecycle):
    """Read and change the profile and the consent to it; read the audit log."""

    async def profile(self) -> Profile:
        """Return what the person wrote about themselves. Without consent it is empty and says only if one is stored."""
        await self._ready()
        return await self._store.profiles.get(self._principal)

    async def set_profile(self, fields: Mapping[str, Any]) -> Profile:
        """Change fields of the profile. Fields that are not named stay as they are; None empties a field.

        There are `preferences` (coding_style, languages, frameworks), `context` (goals, domain, constraints) and
        `notes`. Without consent the profile is stored but not used, and what is returned is empty.
        """
        changes = profile.check_changes(fields)
        await self._begin()
        await self._store.profiles.change(self._principal, changes, actor=self._actor, now=self._clock.now())
        return await self.profile()

    async def consent(self) -> bool:
        """Say whether the person lets the profile be used. Without an answer, the answer is no."""
        return (await self.profile()).consent

    async def set_consent(self, granted: bool) -> bool:
        """Allow the use of the profile, or forbid it. False erases the profile, like `revoke_consent`."""
        if not isinstance(granted, bool):
            raise InvalidInput("invalid_consent", "Consent is true or false.")
        if granted:
            await self._begin()
            await self._store.profiles.set_consent(self._principal, True, actor=self._actor, now=self._clock.now())
        else:
            await self.revoke_consent()
        return granted

    async def revoke_consent(self) -> Receipt:
        """Forbid the use of the profile, then erase it down to the bytes. Return a receipt.

        From the first step on nothing uses it, even if the second step fails; then call this again.
        """
        await self._begin()
        await self._store.profiles.set_consent(self._principal, False, actor=self._actor, now=self._clock.now())
        return await self._erase(ProfileScope(self._principal.person))

    async def _begin(self) -> None:
        """Write buffered uses first, so that the audit log is in order."""
        await self._ready()
        await self._audit.flush()

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return who did what with this memory, newest first. `before` is the id of an entry, for the next page.

        It lists uses of the profile, consent given and revoked, changes, erasures and exports: names and counts, never
        content.
        """
        arguments.check_number(limit, "limit", minimum=0, required=True)
        arguments.check_number(before, "before", minimum=0)
        await self._begin()
        return await self._store.audit.entries(self._principal, limit=limit, before=before)
