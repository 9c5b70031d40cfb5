"""The settings in force for everybody who asks: of the constructor, the database, the environment and the file."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any, Final

from recollect.admin.compose import Parts
from recollect.core.models import Principal
from recollect.settings import Settings, checked_changes, layer

FRESH: Final = 1.0  # seconds; other processes may change settings
KEPT: Final = 10_000  # people whose settings are kept in memory


class SettingsBook:
    """Everybody's settings. What was not read yet is as it was at the start."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept: OrderedDict[str, CurrentSettings] = OrderedDict()

    def of(self, principal: Principal) -> CurrentSettings:
        person = principal.person
        if person not in self._kept:
            self._kept[person] = CurrentSettings(self._parts, principal)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(person)
        return self._kept[person]

    def now(self, principal: Principal) -> Settings:
        return self.of(principal).now

    async def prepare(self, principal: Principal) -> None:
        """Before something is done for somebody."""
        await self.of(principal).fresh()


class CurrentSettings:
    """One person's. Read anew from the database now and then, since other processes may change them."""

    def __init__(self, parts: Parts, principal: Principal) -> None:
        self._parts, self._principal = parts, principal
        self._layered = layer(parts.given, {}, parts.environment, parts.file)
        self._overridden: set[str] = set()  # changed here since the constructor spoke
        self._read: float | None = None
        self._reading = asyncio.Lock()

    @property
    def now(self) -> Settings:
        return self._layered.settings

    @property
    def origins(self) -> dict[str, str]:
        return dict(self._layered.origins)

    async def fresh(self) -> Settings:
        """As they were a second ago, or are now."""
        if self._is_fresh:
            return self.now
        async with self._reading:  # many who ask at once share one look
            return self.now if self._is_fresh else await self.refresh()

    @property
    def _is_fresh(self) -> bool:
        return self._read is not None and time.monotonic() - self._read <= FRESH

    async def refresh(self) -> Settings:
        operator, own = await self._parts.store.settings(self._principal)
        self._read = time.monotonic()
        given = self._parts.given
        if given is not None and self._overridden:  # a change made here counts more than what the constructor said
            given = Settings(**given.model_dump(include=given.model_fields_set - self._overridden))
        self._layered = layer(given, own, self._parts.environment, self._parts.file, operator=operator)
        return self.now

    async def change(self, changes: dict[str, Any]) -> Settings:
        texts = checked_changes(await self.refresh(), changes)
        await self._parts.store.change_settings(self._principal, texts, now=self._parts.clock.now())
        self._overridden |= {name for name, text in texts.items() if text is not None}
        self._overridden -= {name for name, text in texts.items() if text is None}
        return await self.refresh()
