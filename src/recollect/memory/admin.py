"""Administration of a memory: derived work, settings, files in and out, erasing, health."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.admin import doctor, transfer
from recollect.admin.access import Access
from recollect.core import arguments
from recollect.core.errors import InvalidInput
from recollect.core.models import Done, Finding, Imported, JsonObject, Receipt, Restored
from recollect.core.scope import ConversationScope, PersonScope, Scope, StoreScope, erase_scope
from recollect.core.text import check_identity
from recollect.memory.lifecycle import Lifecycle
from recollect.memory.plan import ENCODING
from recollect.providers.tokenizer import tokenizer_for
from recollect.runtime.machine import count_usable_cores
from recollect.settings import Settings


class AdminMixin(Lifecycle):
    """Do derived work; change settings; export, import, back up, restore and erase; check the database."""

    async def drain(self, *, timeout: float | None = None, briefs: bool = True) -> Done:
        """Do all derived work now, for at most `timeout` seconds. Return what was done and whether anything is left.

        With `briefs=False` only what recall needs is done: a model may take long to write a brief.
        """
        arguments.check_timeout(timeout)
        await self._ready()
        await self._current.refresh()
        return await self._work.drain(timeout, briefs=briefs)

    async def rebuild(self, *, conversation: str | None = None, everyone: bool = False) -> Done:
        """Make derived rows again from the log: of one conversation, of the person, or of the whole database."""
        scope: Scope = StoreScope() if everyone else PersonScope(self._principal.person)
        if conversation is not None:
            check_identity(conversation, "conversation")
            if everyone:
                raise InvalidInput("invalid_scope", "Rebuild either one conversation or everyone's.")
            scope = ConversationScope(conversation)
        await self._ready()
        await self._store.jobs.rewind(self._principal, scope, self._work.rewinds)
        return await self._work.drain()

    async def warm_up(self, *, processes: int = 1) -> None:
        """Load what the first question would wait for: the built-in embedder, token tables, the rules of the ledger.

        With as many `processes` as there are cores, short questions are embedded and few rows read without a thread:
        a thread would find no core free, and changing threads costs more than the work.
        """

        def load() -> None:
            import recollect.core.extract
            import recollect.recall.prompt.builder  # noqa: F401 - they take a while to read

            tokenizer_for("gpt-4o-mini").count("warm")

        await self._ready()
        await asyncio.to_thread(load)
        if self._components.embedder is None:
            await self._embedders.embed_question(self._embedders.current, "warm")
        if processes > 1 and processes >= count_usable_cores():
            self._embedders.inline = True
            self._store.enable_inline_reads()
            await self._store.server_state.requires_keys()  # connects, before anybody waits for it

    async def flush(self) -> None:
        """Write buffered rows now: metrics of recall, uses of profiles, prompt sizes. A worker does it by itself."""
        await self._ready()
        await self._flush_buffers()

    async def work_until(self, stop: asyncio.Event) -> None:
        """Do everyone's derived work until told to stop: what `recollect worker` runs."""
        await self._ready()
        task = self._shared.task or asyncio.create_task(self._work.run(), name="recollect-worker")
        await stop.wait()
        self._work.stop()
        await task

    # Settings

    async def settings(self) -> Settings:
        """Return the settings in force."""
        await self._ready()
        return await self._current.refresh()

    async def setting_origins(self) -> dict[str, str]:
        """Return for each setting where its value comes from: constructor, stored, environment, file or default."""
        await self.settings()
        return self._current.origins

    async def change_settings(self, **changes: Any) -> Settings:
        """Change settings for this person, from now on. None takes a change back. Other processes follow soon."""
        await self._ready()
        changed = await self._current.change(changes)
        await self._audit.write(self._principal, self._actor, "settings_changed", {"names": sorted(changes)})
        return changed

    # In and out

    async def export(self, target: str | os.PathLike[str]) -> int:
        """Write everything the person has to a file of NDJSON. Return the number of messages.

        The profile is included only with consent.
        """
        await self._ready()
        count = await transfer.export(self._store, self._principal, PersonScope(self._principal.person), Path(target))
        await self._audit.write(self._principal, self._actor, "exported", {"messages": count})
        return count

    async def import_file(
        self,
        source: str | os.PathLike[str],
        *,
        format: str | None = None,
        own: bool = False,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Import a file of Recollect or of another program. Importing the same file again adds nothing.

        `own` says that the file is the person's own export: messages keep their source and importance, and its profile
        is taken over. Otherwise they are marked as imported. `format` is detected if it is not given. `progress` is
        called with the number of bytes read.
        """
        await self._ready()
        importer = transfer.Importer(
            self._store,
            self._principal,
            self._clock,
            database=self._components.database,
            actor=self._actor,
            own=own,
            dry_run=dry_run,
        )
        result = await importer.run(
            Path(source), format=format, record_limit=self._current.now.import_record_bytes, progress=progress
        )
        self._work.notify()
        return result

    async def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a consistent copy to a new SQLite file, which can be opened or restored. Writers go on meanwhile."""
        await self._ready()
        await self._store.backup(Path(target))

    async def restore(
        self, source: str | os.PathLike[str], *, save_to: str | os.PathLike[str] | None = None
    ) -> Restored:
        """Replace everything in the database, of everybody, by what a backup holds.

        What was erased since the backup was made stays erased, and API keys stay as they are. With `save_to`, what is
        replaced is first written to a backup of its own. No message is lost in between.
        """
        await self._ready()
        saved = None if save_to is None else Path(save_to)
        left_out = await self._store.restore(Path(source), now=self._clock.now(), save_to=saved)
        self._embedding.reset()
        self._forget(StoreScope())
        self._work.notify()
        return Restored(left_out, await self._store.work_left())

    # Erasing

    async def erase(
        self,
        *,
        conversation: str | None = None,
        person: str | None = None,
        day: str | None = None,
        topic: str | None = None,
        message: str | None = None,
    ) -> Receipt:
        """Delete a conversation, a topic, a message, a local day or everything of the person, down to the bytes.

        `conversation` may narrow `message` and `day`. Return when the bytes are gone; else the receipt says what is
        pending.
        """
        scope = erase_scope(
            self._principal.person, conversation=conversation, person=person, day=day, topic=topic, message=message
        )
        await self._ready()
        return await self._erase(scope)

    # Health

    async def stats(self) -> JsonObject:
        """Return counts and sizes of what the person has."""
        await self._ready()
        return await self._store.log.stats(self._principal)

    async def check(self) -> list[Finding]:
        """Look for damage and for what is not as it should be. `recollect doctor` prints the findings."""
        await self._ready()
        await self._current.refresh()
        findings = await doctor.examine(self._store, self._principal, self._embedders, encoding=ENCODING)
        return [*findings, *await Access(self).examine(), *self._components.notices]
