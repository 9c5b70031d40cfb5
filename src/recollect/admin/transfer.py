"""Exports to files and imports from them, in streams: never more than one batch is in memory."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from recollect.core import profile, times
from recollect.core.errors import Conflict, InvalidInput
from recollect.core.message import Draft, Message, make_draft
from recollect.core.models import About, Conversation, Imported, Principal
from recollect.core.protocols import Clock
from recollect.core.scope import PersonScope, Scope
from recollect.core.text import MAX_TITLE_CHARACTERS, check_identity, replace_unstorable
from recollect.formats import Batch, ExportedProfile, LeftOut, Skipped, detect_file_format, ndjson_lines, read_file
from recollect.runtime.ids import new_id
from recollect.storage.file_drafts import clear_drafts
from recollect.storage.private_folder import private_folder
from recollect.storage.store import SqlStore

PAGE_MESSAGES: Final = 500
PROFILE_LEFT_OUT: Final = "profile, which only an import of your own export takes over"
MAX_REPORTED_SKIPS: Final = 100  # skipped items that are named; further ones are only counted
EXPORT_HEADER: Final = b'{"format":"recollect"'  # the start of every export


async def export(store: SqlStore, principal: Principal, scope: Scope, target: Path) -> int:
    """Write a scope to a file, which appears under its name only when it is whole. Return the number of messages.

    The profile comes first, if the person consents.
    """
    conversations = await EXPORTED[type(scope)](store, principal)
    await asyncio.to_thread(_check_target, store, target)
    loop = asyncio.get_running_loop()
    exported_profile = await store.profiles.get(principal)
    count = 0

    def read_messages(conversation: Conversation) -> Iterator[Message]:
        nonlocal count
        after = 0
        while True:
            read_page = store.log.page(principal, conversation.name, after=after, limit=PAGE_MESSAGES)
            page = asyncio.run_coroutine_threadsafe(read_page, loop).result()
            if not page:
                return
            after, count = page[-1].seq, count + len(page)
            yield from page

    def write_file() -> None:
        clear_drafts(str(target))
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            with open(draft, "xb", opener=_open_private) as stream:
                contents = ((entry, title, read_messages(entry)) for entry, title in conversations)
                stream.writelines(ndjson_lines(contents, exported_profile))
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    await asyncio.to_thread(write_file)
    return count


def private_folder_beside(database: Path | None) -> AbstractContextManager[Path]:
    """Return a context with a new private folder: beside an SQLite database, else one of the user (None).

    What is put there is deleted when the context ends; after a kill, when the database is opened the next time.
    """
    is_usable = database is not None and database.parent.is_dir()
    return private_folder(os.path.realpath(database) if database is not None and is_usable else None)


def _check_target(store: SqlStore, target: Path) -> None:
    """Raise unless the target is new or an earlier export: a file named by mistake must not be overwritten."""
    if not target.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {target.parent}.")
    if target.exists() and not target.is_file():
        raise InvalidInput("not_a_file", f"{target} is not a file.")
    start = store.read_start(target) if target.is_file() else b""  # it may be the database itself
    if start and not start.startswith(EXPORT_HEADER):
        raise Conflict("file_exists", f"{target} exists and is not an export. Choose another name.")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Lists the conversations of each kind of scope, with the titles that callers gave them.
EXPORTED: Final[
    Mapping[type[Scope], Callable[[SqlStore, Principal], Awaitable[list[tuple[Conversation, str | None]]]]]
] = {
    PersonScope: lambda store, principal: store.log.conversations_with_titles(principal),
}


class Importer:
    """One import: reads batches on a thread, stores each in one transaction, and counts. With `dry_run` only counts.

    An export that is the person's `own` is believed: what it says of where messages come from, how important they are
    and what the profile is. Anybody may have written another file, so its messages are marked as imported.
    """

    def __init__(
        self,
        store: SqlStore,
        principal: Principal,
        clock: Clock,
        *,
        database: Path | None,
        actor: str,
        own: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._store, self._principal, self._clock = store, principal, clock
        self._database, self._actor, self._own, self._dry_run = database, actor, own, dry_run
        self._conversations: set[str] = set()
        self._messages = self._added = self._skip_count = 0
        self._skip_reasons: list[str] = []
        self._left_out: Counter[str] = Counter()

    async def run(
        self,
        source: Path,
        *,
        format: str | None,
        record_limit: int,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Import a file or a folder. Return what was added, and what was skipped and why.

        Records of more than `record_limit` bytes are skipped. `progress` is called with the bytes read so far.
        """
        if self._database is not None and await asyncio.to_thread(_is_same_file, source, self._database):
            raise InvalidInput("own_database", "This is the database itself. To go back to a backup, use `restore`.")
        file_format = format if format is not None else await asyncio.to_thread(_detect_format, source)
        items = read_file(source, format=format, record_limit=record_limit, progress=progress)
        while (item := await asyncio.to_thread(next, items, None)) is not None:
            if isinstance(item, Skipped):
                self._skip(f"{item.where}: {item.reason}")
            elif isinstance(item, LeftOut):
                self._left_out[item.what] += item.count
            elif isinstance(item, ExportedProfile):
                await self._store_profile(item)
            else:
                await self._store_batch(item)
        known = self._messages - self._added
        return Imported(
            file_format, len(self._conversations), self._messages, self._added, known,
            tuple(self._skip_reasons), self._skip_count, dict(self._left_out),
        )  # fmt: skip

    def _skip(self, reason: str, count: int = 1) -> None:
        self._skip_count += count
        if len(self._skip_reasons) < MAX_REPORTED_SKIPS:
            self._skip_reasons.append(reason)

    async def _store_profile(self, exported: ExportedProfile) -> None:
        """Store a profile, unless the person has one. Consent never comes from a file."""
        try:
            fields = profile.check_changes(exported.fields)
            updated_at = times.to_utc(times.parse_moment(exported.updated_at, "updated_at"), "UTC")
        except InvalidInput as error:
            self._skip(f"{exported.where}: {error.message}")
            return
        if not self._own:
            self._left_out[PROFILE_LEFT_OUT] += 1
        if not self._own or self._dry_run or not any(fields.values()):
            return
        is_stored = await self._store.profiles.import_profile(
            self._principal, fields, updated_at=updated_at, actor=self._actor, now=self._clock.now()
        )
        if not is_stored:
            self._skip(f"{exported.where}: the person has another profile, which stays")

    async def _store_batch(self, batch: Batch) -> None:
        try:
            name = check_identity(batch.conversation, "conversation")
        except InvalidInput as error:
            self._skip(f"conversation {batch.conversation!r:.60}: {error.message}", len(batch.messages) or 1)
            return
        about = self._describe(batch)
        now = self._clock.now()
        drafts = [draft for fields in batch.messages if (draft := self._make_draft(name, fields)) is not None]
        self._conversations.add(name)
        self._messages += len(drafts)
        if self._dry_run:
            known = await self._store.log.count_stored(self._principal, name, [draft.id for draft in drafts])
            self._added += len(drafts) - known
            return
        appended = await self._store.log.append(self._principal, name, drafts, now=now, about=about)
        self._added += sum(item.created for item in appended)

    def _describe(self, batch: Batch) -> About:
        """Return title, tags and zone from the file. A bad zone or tag is reported and left out."""
        zone, tags = "UTC", []
        try:
            zone = "UTC" if batch.zone is None else times.load_zone(batch.zone).key
            tags = [check_identity(tag, "tag") for tag in batch.tags]
        except InvalidInput as error:
            if batch.conversation not in self._conversations:
                self._skip(f"description of {batch.conversation}: {error.message}")
        title = None if batch.title is None else replace_unstorable(batch.title)[0][:MAX_TITLE_CHARACTERS]
        return About(title, tuple(tags), zone)

    def _make_draft(self, conversation: str, fields: dict[str, object]) -> Draft | None:
        now = self._clock.now()
        try:
            return make_draft(fields if self._own else _mark_imported(fields), now=now, new_id=new_id(now))
        except InvalidInput as error:
            self._skip(f"message {fields.get('id')!r:.60} of {conversation}: {error.message}")
            return None


def _mark_imported(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields of a message without what only its owner may claim.

    Output of a tool stays that: nothing is learned from it, which is less than from imported words.
    """
    source = "tool" if fields.get("source") == "tool" else "imported"
    return {name: value for name, value in fields.items() if name != "importance"} | {"source": source}


def _detect_format(source: Path) -> str:
    if not source.exists():
        raise InvalidInput("file_not_found", f"There is no file {source}.")
    if not source.is_file() and not source.is_dir():
        raise InvalidInput("not_a_file", f"{source} is neither a file nor a folder.")
    return detect_file_format(source)


def _is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)
