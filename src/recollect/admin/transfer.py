"""Export and import: streams between files and the store, never holding more than a batch."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from recollect.core import drafts, profile, times
from recollect.core.errors import Conflict, InvalidInput
from recollect.core.models import About, Conversation, Draft, Imported, Message, Principal
from recollect.core.protocols import Clock
from recollect.core.text import TITLE_LIMIT, identity, storable
from recollect.formats import Batch, Skipped, ToldOfOneself, format_of, ndjson_lines, read
from recollect.runtime.ids import new_id
from recollect.storage.sqlite_file import blocks, clear_drafts
from recollect.storage.store import SqlStore

PAGE = 500
REPORTED = 100  # skipped items that are named; the rest is counted
HEADER = b'{"format":"recollect"'


async def export(store: SqlStore, principal: Principal, target: Path) -> int:
    """Write all conversations to `target`, which appears under its name only when it is whole.

    The profile comes first, if the person consents.
    """
    await asyncio.to_thread(_check_target, target)
    loop = asyncio.get_running_loop()
    listed = await store.given_titles(principal)
    told = await store.profiles.get(principal)
    count = 0

    def messages(conversation: Conversation) -> Iterator[Message]:
        nonlocal count
        after = 0
        while True:
            turn = store.page(principal, conversation.name, after=after, limit=PAGE)
            page = asyncio.run_coroutine_threadsafe(turn, loop).result()
            if not page:
                return
            after, count = page[-1].seq, count + len(page)
            yield from page

    def write() -> None:
        clear_drafts(str(target))
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            with open(draft, "xb", opener=_private) as stream:
                stream.writelines(ndjson_lines(((one, title, messages(one)) for one, title in listed), told))
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    await asyncio.to_thread(write)
    return count


def _check_target(target: Path) -> None:
    """An earlier export may be written anew; a database or anything else that was named by mistake may not."""
    if not target.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {target.parent}.")
    if target.exists() and not target.is_file():
        raise InvalidInput("not_a_file", f"{target} is not a file.")
    start = next(blocks(str(target)), b"") if target.is_file() else b""  # it may be the database itself
    if start and not start.startswith(HEADER):
        raise Conflict("file_exists", f"{target} exists and is not an export; it is not overwritten.")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Importer:
    """One import: reads batches on a thread, stores each in one transaction, keeps the tally."""

    def __init__(
        self,
        store: SqlStore,
        principal: Principal,
        clock: Clock,
        *,
        database: Path | None,
        actor: str,
        dry_run: bool = False,
    ) -> None:
        self._store, self._principal, self._clock = store, principal, clock
        self._database, self._actor, self._dry_run = database, actor, dry_run
        self._conversations: set[str] = set()
        self._messages = self._added = self._skips = 0
        self._skipped: list[str] = []

    async def run(
        self,
        source: Path,
        *,
        format: str | None,
        record_limit: int,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        if self._database is not None and await asyncio.to_thread(_is_same_file, source, self._database):
            raise InvalidInput("own_database", "This is the database itself; `restore` takes backups.")
        kind = format if format is not None else await asyncio.to_thread(_format_of, source)
        items = read(source, format=kind, record_limit=record_limit, progress=progress)
        while (item := await asyncio.to_thread(next, items, None)) is not None:
            if isinstance(item, Skipped):
                self._skip(f"{item.where}: {item.reason}")
            elif isinstance(item, ToldOfOneself):
                await self._store_profile(item)
            else:
                await self._store_batch(item)
        known = self._messages - self._added
        return Imported(
            kind, len(self._conversations), self._messages, self._added, known, tuple(self._skipped), self._skips
        )

    def _skip(self, reason: str, count: int = 1) -> None:
        self._skips += count
        if len(self._skipped) < REPORTED:
            self._skipped.append(reason)

    async def _store_profile(self, told: ToldOfOneself) -> None:
        """A profile that is there already stays as it is. Consent never comes from a file."""
        try:
            fields = profile.changes(told.fields)
            updated_at = times.in_zone(times.parse_moment(told.updated_at, "updated_at"), "UTC")
        except InvalidInput as error:
            self._skip(f"{told.where}: {error.message}")
            return
        if self._dry_run or not any(fields.values()):
            return
        kept = await self._store.profiles.keep(
            self._principal, fields, updated_at=updated_at, actor=self._actor, now=self._clock.now()
        )
        if not kept:
            self._skip(f"{told.where}: there is another profile already, which stays")

    async def _store_batch(self, batch: Batch) -> None:
        try:
            name = identity(batch.conversation, "conversation")
        except InvalidInput as error:
            self._skip(f"conversation {batch.conversation!r:.60}: {error.message}", len(batch.messages) or 1)
            return
        about = self._about(batch)
        now = self._clock.now()
        checked = [draft for fields in batch.messages if (draft := self._checked(name, fields)) is not None]
        self._conversations.add(name)
        self._messages += len(checked)
        if self._dry_run:
            known = await self._store.count_known(self._principal, name, [draft.id for draft in checked])
            self._added += len(checked) - known
            return
        stored = await self._store.append(self._principal, name, checked, now=now, about=about)
        self._added += sum(item.created for item in stored)

    def _about(self, batch: Batch) -> About:
        """What the file says about a conversation. A bad zone or tag is reported and left out; messages go in."""
        zone, tags = "UTC", []
        try:
            zone = "UTC" if batch.zone is None else times.load_zone(batch.zone).key
            tags = [identity(tag, "tag") for tag in batch.tags]
        except InvalidInput as error:
            if batch.conversation not in self._conversations:
                self._skip(f"description of {batch.conversation}: {error.message}")
        title = None if batch.title is None else storable(batch.title)[0][:TITLE_LIMIT]
        return About(title, tuple(tags), zone)

    def _checked(self, conversation: str, fields: dict[str, object]) -> Draft | None:
        now = self._clock.now()
        try:
            return drafts.make_draft(fields, now=now, new_id=new_id(now))
        except InvalidInput as error:
            self._skip(f"message {fields.get('id')!r:.60} of {conversation}: {error.message}")
            return None


def _format_of(source: Path) -> str:
    if not source.is_file():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    return format_of(source)


def _is_same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
