"""The log: adding messages, reading them, and describing conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, Final

from recollect.core import arguments, times
from recollect.core.errors import InvalidInput, question_erased
from recollect.core.message import Anchor, Appended, Draft, Message, make_draft
from recollect.core.models import Conversation
from recollect.core.scope import ConversationScope
from recollect.core.text import check_identity
from recollect.memory.lifecycle import Lifecycle
from recollect.runtime.ids import new_id

INLINE_CHARACTERS: Final = 50_000  # whose words are found without a thread


class LogMixin(Lifecycle):
    """Add and read messages; describe conversations."""

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
        """Store one message and return it. It is on disk when this returns.

        An id that is stored already changes nothing: the stored message is returned.
        """
        fields = {
            "role": role, "content": content, "id": id, "at": at, "name": name, "source": source,
            "tool_calls": tool_calls, "tool_call_id": tool_call_id, "model_variant": model_variant,
            "metadata": metadata, "importance": importance,
        }  # fmt: skip
        (stored,) = await self.put(conversation, [fields])
        self.notice()
        return stored.message

    async def add_many(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Store many messages in one transaction. Known ids are skipped. Return all messages as they are stored."""
        return [item.message for item in await self.append(conversation, messages)]

    async def append(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Appended]:
        """Store messages like `add_many`, and say for each whether it is new."""
        stored = await self.put(conversation, list(messages))
        self.notice()
        return stored

    async def put(
        self,
        conversation: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
        anchor: Anchor | None = None,
    ) -> list[Appended]:
        """Store messages without waking the worker, whose work would compete with the answer being written.

        With `expected_seq`, store and return nothing unless the conversation's newest message has this seq. An answer
        comes with its `anchor`: it raises Conflict if what it answers was erased.
        """
        await self._ready()
        texts = [message.get("content") for message in messages if isinstance(message, Mapping)]
        characters = sum(len(text) for text in texts if isinstance(text, str))
        submit = partial(self.submit, expected_seq=expected_seq, anchor=anchor)
        if characters > INLINE_CHARACTERS:
            future = await asyncio.to_thread(submit, conversation, messages)
        else:
            future = submit(conversation, messages)
        return await asyncio.wrap_future(future)

    async def anchor(self, conversation: str, messages: Sequence[Message]) -> Anchor:
        """Return where an answer to these stored messages belongs. Call it before the prompt is built.

        Raise Conflict if one of them is erased already.
        """
        await self._ready()
        anchor = await self._store.find_anchor(self._principal, conversation, messages)
        if anchor is None:
            raise question_erased()
        return anchor

    def submit(
        self,
        conversation: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
        anchor: Anchor | None = None,
    ) -> Future[list[Appended]]:
        """Queue messages of an open memory for writing. The future resolves when they are durable. Thread-safe.

        The sync face calls it directly and so saves two thread switches through the event loop for every message.
        """
        self._check_process()
        check_identity(conversation, "conversation")
        now = self._clock.now()
        checked = [self._draft(fields, now, number) for number, fields in enumerate(messages)]
        if not checked:
            nothing: Future[list[Appended]] = Future()
            nothing.set_result([])
            return nothing
        return self._store.log.submit(
            self._principal, conversation, checked, now=now, expected_seq=expected_seq, anchor=anchor
        )

    def notice(self) -> None:
        """Tell the worker that messages were stored, so that it looks now."""
        self._work.notify()

    def _draft(self, fields: Mapping[str, Any], now: datetime, number: int) -> Draft:
        if not isinstance(fields, Mapping):
            raise InvalidInput("invalid_message", f"Message {number} is not a mapping with role and content.")
        return make_draft(fields, now=now, new_id=new_id(now))

    async def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Return every message of a conversation in order, archived or not.

        `before` keeps those below this seq, `limit` the newest of them. An unknown conversation has none.
        """
        check_identity(conversation, "conversation")
        arguments.check_number(before, "before", minimum=0)
        arguments.check_number(limit, "limit", minimum=0)
        await self._ready()
        return await self._store.log.history(self._principal, conversation, before=before, limit=limit)

    async def find_message(self, conversation: str, message: str) -> Message | None:
        """Return a message by its id, or None."""
        check_identity(conversation, "conversation")
        check_identity(message, "id")
        await self._ready()
        return await self._store.log.find_message(self._principal, conversation, message)

    async def conversations(self) -> list[Conversation]:
        """Return the person's conversations, the one with the newest message first."""
        await self._ready()
        return await self._store.log.conversations(self._principal)

    async def conversation(self, conversation: str) -> Conversation:
        """Return title, counts, first and last time and tags of a conversation. Raise NotFound if there is none."""
        check_identity(conversation, "conversation")
        await self._ready()
        return await self._store.log.conversation(self._principal, conversation)

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        zone: str | None = None,
    ) -> Conversation:
        """Change title, tags or time zone of a conversation. In the zone, its times and days are read."""
        check_identity(conversation, "conversation")
        changes: dict[str, Any] = {}
        if title is not None:
            changes["title"] = arguments.check_title(title)
        if tags is not None:
            changes["tags"] = arguments.check_tags(tags)
        if zone is not None:
            changes["zone"] = times.load_zone(zone).key
        await self._ready()
        changed = await self._store.log.update_conversation(self._principal, conversation, **changes)
        if zone is not None:
            self._forget(ConversationScope(conversation))
        return changed
