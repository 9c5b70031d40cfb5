"""Messages and conversations: what is stored, and read as it was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from recollect.core import arguments, drafts, history_match, times
from recollect.core.errors import InvalidInput
from recollect.core.models import Appended, Conversation, Draft, Message
from recollect.core.text import identity
from recollect.memory.lifecycle import Opened
from recollect.runtime.ids import new_id

SLACK = 50  # stored messages beyond twice what a client sends, among which its own are looked for
FEW = 100  # messages of a client that are compared without a thread
LONG = 50_000  # characters whose words are found on a thread, so that others need not wait


class Log(Opened):
    async def add(
        self,
        conversation: str,
        role: str,
        content: str | None,
        *,
        id: str | None = None,
        at: datetime | str | None = None,
        name: str | None = None,
        source: str | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
        model_variant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
    ) -> Message:
        """Store one message, durably. The same id again changes nothing and returns what is stored."""
        fields = {
            "role": role, "content": content, "id": id, "at": at, "name": name, "source": source,
            "tool_calls": tool_calls, "tool_call_id": tool_call_id, "model_variant": model_variant,
            "metadata": metadata, "importance": importance,
        }  # fmt: skip
        (stored,) = await self.put(conversation, [fields])
        self.notice()
        return stored.message

    async def add_many(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Store many messages in one transaction; known ids are skipped. All are returned as they are stored."""
        return [item.message for item in await self.append(conversation, messages)]

    async def append(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Appended]:
        """As `add_many`, and says of each message whether it is new."""
        stored = await self.put(conversation, list(messages))
        self.notice()
        return stored

    async def put(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> list[Appended]:
        """Store messages and let the worker find them by itself: nothing it does shall compete with an answer."""
        await self._ready()
        texts = [message.get("content") for message in messages if isinstance(message, Mapping)]
        long = sum(len(text) for text in texts if isinstance(text, str)) > LONG
        waiting = (
            await asyncio.to_thread(self.submit, conversation, messages)
            if long
            else self.submit(conversation, messages)
        )
        return await asyncio.wrap_future(waiting)

    async def merge(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Store what is new in a client's own history: messages as chat APIs take them, without ids.

        What is stored already is told by what it says and what it follows. Returns all of them as they are stored.
        """
        identity(conversation, "conversation")
        given = [history_match.said(message) for message in messages]
        await self._ready()
        stored = await self._store.history(self._principal, conversation, limit=2 * len(given) + SLACK)
        few = len(given) <= FEW
        merged = (
            history_match.align(stored, given) if few else await asyncio.to_thread(history_match.align, stored, given)
        )
        new = given[len(merged.known) :]
        before = merged.known[-1].id if merged.known else (stored[-1].id if stored else None)
        wanted = list[dict[str, Any]]()
        for place, one in enumerate(new):
            made = history_match.new_id(before, one)
            told: dict[str, Any] = {history_match.FOLLOWS: merged.follows} if place == 0 and merged.follows else {}
            content = drafts.within_limit(one.content)
            if content != one.content:
                told["incomplete"] = "length"
            wanted.append(
                {
                    "role": one.role, "content": content, "name": one.name, "id": made, "metadata": told or None,
                    "tool_calls": one.tool_calls, "tool_call_id": one.tool_call_id,
                }
            )  # fmt: skip
            before = made
        added = await self.put(conversation, wanted)
        return [*merged.known, *(one.message for one in added)]

    def submit(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> Future[list[Appended]]:
        """The write path of an open memory, from any thread: both faces wait for its future.

        The sync face would otherwise pay two more thread switches through the event loop for every message.
        """
        identity(conversation, "conversation")
        now = self._clock.now()
        checked = [self._draft(fields, now, place) for place, fields in enumerate(messages)]
        if not checked:
            nothing: Future[list[Appended]] = Future()
            nothing.set_result([])
            return nothing
        return self._store.submit(self._principal, conversation, checked, now=now)

    def notice(self) -> None:
        """Messages were stored here: the worker need not wait for its next look."""
        self._background.notify()

    def _draft(self, fields: Mapping[str, Any], now: datetime, place: int) -> Draft:
        if not isinstance(fields, Mapping):
            raise InvalidInput("invalid_message", f"Message {place} is not a mapping with role and content.")
        return drafts.make_draft(fields, now=now, new_id=new_id(now))

    async def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Every message ever, in the order of seq; or the newest `limit` of those below seq `before`."""
        identity(conversation, "conversation")
        arguments.number(before, "before", least=0)
        arguments.number(limit, "limit", least=0)
        await self._ready()
        return await self._store.history(self._principal, conversation, before=before, limit=limit)

    async def find_message(self, conversation: str, message: str) -> Message | None:
        """A message by its id, if it is stored."""
        identity(conversation, "conversation")
        identity(message, "id")
        await self._ready()
        return await self._store.find_message(self._principal, conversation, message)

    async def conversations(self) -> list[Conversation]:
        """The person's conversations, the latest first."""
        await self._ready()
        return await self._store.conversations(self._principal)

    async def conversation(self, conversation: str) -> Conversation:
        """One conversation: its title, counts, first and last time, tags."""
        identity(conversation, "conversation")
        await self._ready()
        return await self._store.conversation(self._principal, conversation)

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        zone: str | None = None,
    ) -> Conversation:
        """Give a conversation a title, tags, or the time zone in which its times and days are read."""
        identity(conversation, "conversation")
        changes: dict[str, Any] = {}
        if title is not None:
            changes["title"] = arguments.title(title)
        if tags is not None:
            changes["tags"] = arguments.tags(tags)
        if zone is not None:
            changes["zone"] = times.load_zone(zone).key
        await self._ready()
        changed = await self._store.update_conversation(self._principal, conversation, **changes)
        if self._shared.recaller is not None and zone is not None:
            self._shared.recaller.scopes.forget()
        return changed
