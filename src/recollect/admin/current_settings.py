"""The current settings of each person, merged from constructor, database, environment and settings file."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any, Final

from recollect.admin.compose import Components
from recollect.core.models import Principal
from recollect.settings import LayeredSettings, Settings, check_changes, merge_layers

MAX_AGE_SECONDS: Final = 1.0  # older cached settings are read again: other processes may change them
CACHED_PEOPLE: Final = 10_000


class SettingsBook:
    """The settings of all people. Those not read from the database yet are the ones known at the start."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._cache: OrderedDict[str, CurrentSettings] = OrderedDict()  # by person

    def of(self, principal: Principal) -> CurrentSettings:
        """Return the settings of a person. Keeps those used last."""
        person = principal.person
        if person not in self._cache:
            self._cache[person] = CurrentSettings(self._components, principal)
            if len(self._cache) > CACHED_PEOPLE:
                self._cache.popitem(last=False)
        self._cache.move_to_end(person)
        return self._cache[person]

    def now(self, principal: Principal) -> Settings:
        """Return the settings of a person as they were last read."""
        return self.of(principal).now

    def forget(self, person: str | None = None) -> None:
        """Drop what was read of a person's settings, or of everybody's. They are read again when they are needed."""
        for name, current in self._cache.items():
            if person in (None, name):
                current.forget()

    async def prepare(self, principal: Principal) -> None:
        """Re-read the settings of a person if they are too old, before work is done for them."""
        await self.of(principal).fresh()


class CurrentSettings:
    """The settings of one person. Re-read from the database after a second, as other processes may change them."""

    def __init__(self, components: Components, principal: Principal) -> None:
        self._components, self._principal = components, principal
        self._merged = self._known_at_start()
        self._overridden: set[str] = set()  # names that were changed here and replace those of the constructor
        self._read_at: float | None = None  # seconds of the monotonic clock
        self._read_lock = asyncio.Lock()

    def _known_at_start(self) -> LayeredSettings:
        return merge_layers(self._components.given, {}, self._components.environment, self._components.file)

    def forget(self) -> None:
        """Drop what was read from the database."""
        self._merged, self._read_at = self._known_at_start(), None

    @property
    def now(self) -> Settings:
        """Return the settings as they were last read."""
        return self._merged.settings

    @property
    def origins(self) -> dict[str, str]:
        """Return for each setting where its value comes from."""
        return dict(self._merged.origins)

    async def fresh(self) -> Settings:
        """Return the settings; re-read them from the store if the cached copy is older than one second."""
        if self._is_fresh:
            return self.now
        async with self._read_lock:  # callers that ask at once share one read
            return self.now if self._is_fresh else await self.refresh()

    @property
    def _is_fresh(self) -> bool:
        return self._read_at is not None and time.monotonic() - self._read_at <= MAX_AGE_SECONDS

    async def refresh(self) -> Settings:
        """Re-read the settings from the store and return them."""
        operator, own = await self._components.store.settings(self._principal)
        self._read_at = time.monotonic()
        given = self._components.given
        if given is not None and self._overridden:  # a later change replaces an argument
            given = Settings(**given.model_dump(include=given.model_fields_set - self._overridden))
        self._merged = merge_layers(given, own, self._components.environment, self._components.file, operator=operator)
        return self.now

    async def change(self, changes: dict[str, Any]) -> Settings:
        """Check and store changes, and return the new settings. None takes a stored value back."""
        texts = check_changes(await self.refresh(), changes)
        await self._components.store.change_settings(self._principal, texts, now=self._components.clock.now())
        self._overridden |= {name for name, text in texts.items() if text is not None}
        self._overridden -= {name for name, text in texts.items() if text is None}
        return await self.refresh()
