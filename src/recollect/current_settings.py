"""The settings in force: those of the constructor, the database, the environment and the file, and their changes."""

from __future__ import annotations

from typing import Any

from recollect.compose import Parts
from recollect.core.models import Principal
from recollect.settings import Settings, checked_changes, layer


class CurrentSettings:
    """Read anew from the database now and then, since other processes may change them."""

    def __init__(self, parts: Parts, principal: Principal) -> None:
        self._parts, self._principal = parts, principal
        self._layered = layer(parts.given, {}, parts.environment, parts.file)
        self._overridden: set[str] = set()  # changed here since the constructor spoke

    @property
    def now(self) -> Settings:
        return self._layered.settings

    @property
    def origins(self) -> dict[str, str]:
        return dict(self._layered.origins)

    async def refresh(self) -> Settings:
        stored = await self._parts.store.settings(self._principal)
        given = self._parts.given
        if given is not None and self._overridden:  # a change made here counts more than what the constructor said
            given = Settings(**given.model_dump(include=given.model_fields_set - self._overridden))
        self._layered = layer(given, stored, self._parts.environment, self._parts.file)
        return self.now

    async def change(self, changes: dict[str, Any]) -> Settings:
        texts = checked_changes(await self.refresh(), changes)
        await self._parts.store.change_settings(self._principal, texts, now=self._parts.clock.now())
        self._overridden |= {name for name, text in texts.items() if text is not None}
        self._overridden -= {name for name, text in texts.items() if text is None}
        return await self.refresh()
