"""What keeps a memory in order: derived work, settings, files, erasing, health."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.admin import doctor, erase, transfer
from recollect.core import arguments
from recollect.core.errors import InvalidInput
from recollect.core.models import Done, Finding, Imported, JsonObject, Receipt
from recollect.core.text import identity
from recollect.memory.lifecycle import Opened
from recollect.memory.plan import COUNTER
from recollect.providers.tokenizer import tokenizer_for
from recollect.runtime.machine import cores
from recollect.settings import Settings


class Upkeep(Opened):
    async def drain(self, *, timeout: float | None = None, briefs: bool = True) -> Done:
        """Do all derived work now, or for so many seconds. Returns what was done, and whether anything is left.

        Without `briefs` only what recall needs is done: writing a brief may take a model's time.
        """
        arguments.timeout(timeout)
        await self._ready()
        await self._current.refresh()
        return await self._background.drain(timeout, briefs=briefs)

    async def rebuild(self, *, conversation: str | None = None, everyone: bool = False) -> Done:
        """Make derived rows anew from the log: of one conversation, of the person, or of the whole database."""
        if conversation is not None:
            identity(conversation, "conversation")
            if everyone:
                raise InvalidInput("invalid_scope", "Rebuild either one conversation or everyone's.")
        await self._ready()
        if everyone:
            await self._store.rewind_everything()
        else:
            await self._store.rewind(self._principal, conversation)
        return await self._background.drain()

    async def warm_up(self, *, processes: int = 1) -> None:
        """Load what the first question would wait for: the built-in embedder, token tables, the rules of the ledger.

        Where this is one of as many `processes` as there are cores, questions are embedded and few rows read without
        a thread: it would find no core free, and changing threads costs more than what is read.
        """

        def load() -> None:
            import recollect.core.extract
            import recollect.recall.prompt.inputs  # noqa: F401 - they take a while to read

            tokenizer_for("gpt-4o-mini").count("warm")

        await self._ready()
        await asyncio.to_thread(load)
        if self._parts.embedder is None:
            await self._embedders.embed_question(self._embedders.current, "warm")
        if processes > 1 and processes >= cores():
            self._embedders.inline = True
            self._store.read_inline()
            await self._store.serving.has_keys()  # connects, before anybody waits for it

    async def flush(self) -> None:
        """Write what was noted while somebody waited: how recall fared, uses of profiles. The worker does it, too."""
        await self._ready()
        await self._metrics.flush()
        await self._audit.flush()

    async def work_until(self, stop: asyncio.Event) -> None:
        """Do everyone's derived work until told to stop: what `recollect worker` runs."""
        await self._ready()
        task = self._shared.task or asyncio.create_task(self._background.run(), name="recollect-worker")
        await stop.wait()
        self._background.stop()
        await task

    # Settings

    async def settings(self) -> Settings:
        """The settings in force."""
        await self._ready()
        return await self._current.refresh()

    async def setting_origins(self) -> dict[str, str]:
        """For each setting where its value comes from: constructor, stored, environment, file or default."""
        await self.settings()
        return self._current.origins

    async def change_settings(self, **changes: Any) -> Settings:
        """Change settings now and for later; None takes a change back. Other processes follow by themselves."""
        await self._ready()
        changed = await self._current.change(changes)
        await self._audit.write(self._principal, self._actor, "settings_changed", {"names": sorted(changes)})
        return changed

    # In and out

    async def export(self, target: str | os.PathLike[str]) -> int:
        """Write everything the person has to a file of NDJSON. Returns the number of messages.

        The profile is in it with consent alone.
        """
        await self._ready()
        count = await transfer.export(self._store, self._principal, Path(target))
        await self._audit.write(self._principal, self._actor, "exported", {"messages": count})
        return count

    async def import_file(
        self,
        source: str | os.PathLike[str],
        *,
        format: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Read a file of our own or of another program. The same file again adds nothing."""
        await self._ready()
        importer = transfer.Importer(
            self._store,
            self._principal,
            self._clock,
            database=self._parts.database,
            actor=self._actor,
            dry_run=dry_run,
        )
        result = await importer.run(
            Path(source), format=format, record_limit=self._current.now.import_record_bytes, progress=progress
        )
        self._background.notify()
        return result

    async def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a consistent copy to a new SQLite file, which can be opened or restored; writers go on meanwhile."""
        await self._ready()
        await self._store.backup(Path(target))

    async def restore(self, source: str | os.PathLike[str], *, save_to: str | os.PathLike[str] | None = None) -> None:
        """Replace everything in the database, everyone's, by what a backup holds.

        With `save_to`, what is replaced is first written to a backup of its own; no message can slip in between.
        """
        await self._ready()
        saved = None if save_to is None else Path(save_to)
        await self._store.restore(Path(source), now=self._clock.now(), save_to=saved)
        self._embedding.reset()
        if self._shared.recaller is not None:
            self._shared.recaller.briefs.forget()
            self._shared.recaller.topics.forget()
        self._background.notify()

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

        `conversation` may narrow `message` and `day`. Returns when the bytes are gone, or says what is pending.
        """
        scope = arguments.erase_scope(
            self._principal.person, conversation=conversation, person=person, day=day, topic=topic, message=message
        )
        await self._ready()
        await self._metrics.flush()  # so that nothing of the person is written after the erase
        await self._audit.flush()
        erased = await erase.erase(self._store, self._principal, scope, now=self._clock.now(), actor=self._actor)
        if self._shared.recaller is not None:
            from recollect.recall.prompt import ledger

            self._shared.recaller.scopes.forget(self._principal.person)  # they hold texts
            self._shared.recaller.topics.forget()
            ledger.forget()
        return erased

    # Health

    async def stats(self) -> JsonObject:
        """Counts and sizes of what the person has."""
        await self._ready()
        return await self._store.stats(self._principal)

    async def check(self) -> list[Finding]:
        """Look for damage and for what is not as it should be; `recollect doctor` prints it."""
        await self._ready()
        await self._current.refresh()
        return await doctor.examine(self._store, self._principal, self._embedders, counter=COUNTER)
