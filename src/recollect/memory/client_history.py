"""The histories of chat clients: lists of messages without ids, which they send again and again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from recollect.core import history_match, unnamed_chat
from recollect.core.history_match import ClientMessage, HistoryMatch
from recollect.core.message import Message, storable_calls, within_limit
from recollect.core.text import check_identity, hash_name
from recollect.core.unnamed_chat import ClientList
from recollect.memory.log import LogMixin

EXTRA_HISTORY_MESSAGES: Final = 50  # read beyond twice what a client sends, to find its messages in the log
INLINE_MATCH_MESSAGES: Final = 100  # lists of a client up to here are matched without a thread
MAX_CUT_CANDIDATES: Final = 8  # latest unnamed conversations that a list without its beginning is compared with
MAX_ATTEMPTS: Final = 3  # to continue a conversation that others continue at the same time
NAME_SUFFIX_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a client's list belongs: the stored messages that it begins with, in their conversation."""

    conversation: str
    matched: Sequence[Message]
    last_seq: int  # of the conversation's newest message
    expected_seq: int | None = None  # the newest message must still have this seq when the rest is stored


class ClientHistoryMixin(LogMixin):
    """Store what is new in a client's own history, and find the conversation that it belongs to."""

    async def merge(
        self,
        conversation: str | None,
        messages: Sequence[Mapping[str, Any]],
        *,
        request_key: str | None = None,
        is_retry: bool = False,
    ) -> list[Message]:
        """Store what is new in a client's own history: messages as chat APIs take them, without ids.

        Stored messages are recognised by what they say and what they follow. Return all of them as they are stored,
        but for those of the history that were erased: they are not stored again.

        Without the name of a conversation, the history is continued where all of it is stored as one path that ends
        with an answer; otherwise it begins a conversation. The returned messages say which. Requests with the same
        `request_key` begin only one together. `is_retry` says that the client sent this very list before.
        """
        aligned = await self.merge_aligned(conversation, messages, request_key=request_key, is_retry=is_retry)
        return [message for message in aligned if message is not None]

    async def merge_aligned(
        self,
        conversation: str | None,
        messages: Sequence[Mapping[str, Any]],
        *,
        request_key: str | None = None,
        is_retry: bool = False,
    ) -> list[Message | None]:
        """Do as `merge`, and return None in the place of each message that was erased."""
        if conversation is not None:
            check_identity(conversation, "conversation")
        chat = await _read_list(messages)
        await self._ready()
        if conversation is not None:
            chat, merged = await self._merge_named(conversation, chat)
        else:
            chat, merged = await self._merge_unnamed(chat, request_key, is_retry=is_retry)
        aligned: list[Message | None] = [None] * len(messages)
        for place, message in zip(chat.places, merged, strict=True):
            aligned[place] = message
        return aligned

    async def _merge_unnamed(
        self, chat: ClientList, request_key: str | None, *, is_retry: bool
    ) -> tuple[ClientList, list[Message]]:
        for _ in range(MAX_ATTEMPTS):
            place = await self._find_place(chat, is_retry=is_retry)
            is_whole = place is not None and len(place.matched) >= chat.history_length
            if not is_whole and (rest := await self._without_erased(chat)) is not None:
                chat, place = rest, await self._find_place(rest, is_retry=is_retry)
            if place is None:
                break
            if merged := await self._store_rest(place, chat):
                return chat, merged
        suffix = secrets.token_hex(NAME_SUFFIX_BYTES) if request_key is None else hash_name(request_key)
        name = chat.name(suffix[: 2 * NAME_SUFFIX_BYTES])
        return chat, await self._store_rest(await self._known_place(name, chat), chat)

    async def _without_erased(self, chat: ClientList) -> ClientList | None:
        """Return a list without what was erased of its history; None if nothing of it was."""
        if not chat.history_length:
            return None
        erased = await self._store.find_sent_again(self._principal, chat.ids[: chat.history_length])
        return chat.without(erased) if erased else None

    async def _merge_named(self, conversation: str, chat: ClientList) -> tuple[ClientList, list[Message]]:
        limit = 2 * len(chat.messages) + EXTRA_HISTORY_MESSAGES
        stored = await self._store.log.history(self._principal, conversation, limit=limit)
        match = await _match(stored, chat.messages)
        if stored and len(match.matched) < chat.history_length:  # perhaps it goes on from further back than was read
            place = await self._known_place(conversation, chat)
            if len(place.matched) > len(match.matched):
                return chat, await self._store_rest(place, chat)
        if len(match.matched) < chat.history_length and (rest := await self._without_erased(chat)) is not None:
            return await self._merge_named(conversation, rest)
        last_id = match.matched[-1].id if match.matched else (stored[-1].id if stored else None)
        new = chat.messages[len(match.matched) :]
        fields = _to_fields(new, history_match.derive_path(new, last_id), match.follows_id)
        return chat, [*match.matched, *(item.message for item in await self.put(conversation, fields))]

    async def find_conversation(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """Return the conversation that `merge` continues with this list, if it gets no name; None if it begins one."""
        chat = await _read_list(messages)
        await self._ready()
        place = await self._find_place(chat)
        if place is None and (rest := await self._without_erased(chat)) is not None:
            place = await self._find_place(rest)
        return place.conversation if place is not None else None

    async def _find_place(self, chat: ClientList, *, is_retry: bool = False) -> _Place | None:
        """Return where an unnamed list continues a conversation; None if it begins one."""
        log, who = self._store.log, self._principal
        if is_retry and chat.ids:
            paths = await log.find_paths(who, chat.ids[-1], chat.name_range)
            if earlier := unnamed_chat.choose_retried(paths, self._clock.now()):
                return await self._known_place(earlier.conversation, chat)
        if not chat.history_length:
            return None
        history_id = chat.ids[chat.history_length - 1]
        paths = await log.find_paths(who, history_id, chat.name_range)
        if path := unnamed_chat.choose_path(paths, chat.history_length):
            return await self._known_place(path.conversation, chat, expected_seq=path.seq if path.is_newest else None)
        return None if paths else await self._find_cut_place(chat)

    async def _find_cut_place(self, chat: ClientList) -> _Place | None:
        """Return the one conversation of the latest whose newest messages are the history of a list."""
        if chat.history_length < unnamed_chat.MIN_SURE_MESSAGES:
            return None
        log, places = self._store.log, []
        names = (unnamed_chat.NAME_PREFIX, unnamed_chat.AFTER_NAME_PREFIX)
        for name in await log.latest_names(self._principal, names, limit=MAX_CUT_CANDIDATES):
            stored = await log.history(self._principal, name, limit=chat.history_length)
            if await _ends_with(stored, chat):
                places.append(_Place(name, stored, stored[-1].seq, stored[-1].seq))
        return places[0] if len(places) == 1 else None

    async def _known_place(self, conversation: str, chat: ClientList, *, expected_seq: int | None = None) -> _Place:
        """Return the stored messages that a list begins with, if it is a whole chat in this conversation."""
        known, last_seq = await self._store.log.known_messages(self._principal, conversation, chat.ids)
        matched = [known[message_id] for message_id in takewhile(known.__contains__, chat.ids)]
        return _Place(conversation, matched, last_seq, expected_seq)

    async def _store_rest(self, place: _Place, chat: ClientList) -> list[Message]:
        """Store what follows the matched messages. Return all; nothing if the conversation was continued meanwhile."""
        last = place.matched[-1] if place.matched else None
        follows_id = last.id if last is not None and last.seq != place.last_seq else None
        count = len(place.matched)
        new, ids = chat.messages[count:], chat.ids[count:]
        if last is not None and last.id != chat.ids[count - 1]:  # the beginning of the list was cut off
            ids = tuple(history_match.derive_path(new, last.id))
        rest = _to_fields(new, ids, follows_id)
        appended = await self.put(place.conversation, rest, expected_seq=place.expected_seq)
        return [*place.matched, *(item.message for item in appended)] if len(appended) == len(rest) else []


async def _read_list(messages: Sequence[Mapping[str, Any]]) -> ClientList:
    if len(messages) <= INLINE_MATCH_MESSAGES:
        return unnamed_chat.read_list(messages)
    return await asyncio.to_thread(unnamed_chat.read_list, messages)


async def _match(stored: Sequence[Message], messages: Sequence[ClientMessage]) -> HistoryMatch:
    if len(messages) <= INLINE_MATCH_MESSAGES:
        return history_match.match_history(stored, messages)
    return await asyncio.to_thread(history_match.match_history, stored, messages)


async def _ends_with(stored: Sequence[Message], chat: ClientList) -> bool:
    if chat.history_length <= INLINE_MATCH_MESSAGES:
        return unnamed_chat.ends_with(stored, chat)
    return await asyncio.to_thread(unnamed_chat.ends_with, stored, chat)


def _to_fields(messages: Sequence[ClientMessage], ids: Sequence[str], follows_id: str | None) -> list[dict[str, Any]]:
    """Return new messages of a client as the log takes them. The first follows `follows_id`, if that is not newest."""
    fields: list[dict[str, Any]] = []
    for message, message_id in zip(messages, ids, strict=True):
        metadata: dict[str, Any] = {history_match.FOLLOWS_KEY: follows_id} if follows_id and not fields else {}
        content = within_limit(message.content)
        if content != message.content:
            metadata["incomplete"] = "length"
        calls, has_all_calls = storable_calls(message.tool_calls)
        if not has_all_calls:
            metadata["incomplete"] = "tool_calls"
        fields.append(
            {
                "role": message.role, "content": content, "name": message.name, "id": message_id,
                "metadata": metadata or None, "tool_calls": calls, "tool_call_id": message.tool_call_id,
            }
        )  # fmt: skip
    return fields
