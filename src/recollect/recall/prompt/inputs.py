"""From a question to a prompt: reads the newest turns and the brief, recalls, and lets `context` build."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from recollect.core.models import Context, JsonObject, Message, Principal
from recollect.core.profile import Profile
from recollect.core.protocols import Tokenizer
from recollect.core.turns import paired
from recollect.providers.tokenizer import Remembering
from recollect.recall.latest_brief import Remembered
from recollect.recall.prompt.build import SMALL, Ingredients, Limits, build
from recollect.recall.prompt.profile import weigh
from recollect.recall.recaller import Found, Recaller, items_of
from recollect.recall.scope_index import Scope
from recollect.settings import Settings
from recollect.storage.store import SqlStore

INLINE_SIZE: Final = 200_000  # characters that are packed without a thread
ENTRY: Final = 200  # characters that take as long as one entry of the ledger,
COUNTED: Final = 10  # and as one of a text that is counted whole, as a question is
NEWEST: Final = 60  # messages at the end of a conversation that may stand in the tail
RANKED: Final = 40  # messages that are ranked for any prompt, and one more for so many tokens of the budget
TOKENS_EACH: Final = 25
CANDIDATES: Final = 20  # of them, those whose passages may enter any prompt, and one more for so many tokens to quote,
SPARE: Final = 1.5  # or as many as have so much more text than can be quoted, by the words that are known of them
TOKENS_PER_WORD, FRAME = 2, 6
LIKED: Final = 30  # messages that recall likes so well that what the ledger has of them is shown


class Prompting:
    def __init__(self, store: SqlStore, recaller: Recaller, settings: Settings) -> None:
        self._store, self._recaller, self._settings = store, recaller, settings

    async def context(
        self,
        principal: Principal,
        conversation: str,
        text: str,
        *,
        system_prompt: str | None,
        budget: int,
        tokenizer: Tokenizer,
        at: datetime | None = None,
        before: int | None = None,
        everywhere: bool = False,
    ) -> tuple[Context, JsonObject]:
        """The prompt for a question, and how recall fared for it."""
        settings = self._settings
        most = RANKED + min(budget, 50_000) // TOKENS_EACH
        found = await self._recaller.find(
            principal, text, conversation=conversation, at=at, most=most, leaning=True, everywhere=everywhere
        )
        active = found.beside.active
        remembered = await self._recaller.briefs.get(principal, conversation, found.beside.standing)
        found = replace(found, degraded=(*found.degraded, *remembered.degraded))
        unknown: list[Message] | None = None
        if len(found.own) != sum(row["messages"] for row in found.own.conversations.values()):
            # Damage: a message that recall does not know is shown nevertheless.
            unknown = await self._store.history(principal, conversation, before=before, limit=NEWEST)
        quoted = budget if budget <= SMALL else min(budget, settings.rag_token_budget)
        wanted = _candidates(found, conversation, before, quoted)
        # The profile comes last, so that a consent just revoked counts.
        (latest, messages), profile = await self._recaller.texts_and_profile(
            principal, (found.own, _last(found.own, before)), (found.scope, wanted)
        )
        newest = _whole_turns(list(latest.values()) if unknown is None else unknown)
        stored = before  # the question itself, if it is stored already; nothing counts from there on
        if stored is None and newest and newest[-1].role == "user" and newest[-1].content.strip() == text.strip():
            stored = newest[-1].seq
            newest = newest[:-1]
        if stored is not None:
            messages = {
                index: message
                for index, message in messages.items()
                if message.seq < stored or message.conversation != conversation
            }
        if stored is not None:  # what the question says itself is no memory yet
            known = [entry for entry in remembered.entries if entry.seq < stored]
            remembered = replace(remembered, entries=known)
        remembered = self._recaller.topics.joined(principal, conversation, remembered, active)
        found.watch.lap("fetch")
        zones = [row["zone"] for row in found.scope.conversations.values() if row["name"] == conversation]
        topic = None if active is None else {"id": active.id, "title": active.title}
        settled = (remembered, topic, profile, settings, budget, tokenizer)
        size = sum([len(message.content) for some in (messages.values(), newest) for message in some])
        size += ENTRY * len(remembered.entries) + COUNTED * (len(text) + len(system_prompt or ""))
        if size < INLINE_SIZE:
            context = _build(found, messages, newest, text, system_prompt, conversation, zones, *settled)
        else:
            context = await asyncio.to_thread(
                _build, found, messages, newest, text, system_prompt, conversation, zones, *settled
            )
        found.watch.lap("build")
        metrics = self._recaller.metrics(principal, found, (), conversation, context.tokens)
        items = {part["name"]: len(part["items"]) for part in context.explain["parts"]}
        metrics["hits"] = items.get("recall", 0)
        metrics["sources"]["profile"] = items.get("profile", 0)
        metrics["budget"] = budget
        return context, metrics


def _build(
    found: Found,
    messages: Mapping[int, Message],
    newest: Sequence[Message],
    text: str,
    system_prompt: str | None,
    conversation: str,
    zones: Sequence[str],
    remembered: Remembered,
    topic: JsonObject | None,
    profile: Profile,
    settings: Settings,
    budget: int,
    tokenizer: Tokenizer,
) -> Context:
    given = Ingredients(
        conversation,
        text,
        system_prompt,
        newest,
        items_of(found, messages, passages_too=settings.rag_chunking),
        found.scores.whys(np.fromiter(messages, np.int64, len(messages))),
        zones[0] if zones else "UTC",
        remembered.brief,
        remembered.entries,
        _liked(found, conversation),
        found.degraded,
        remembered.shorter,
        topic,
        weigh(profile, text),
    )
    return build(
        given,
        budget=budget,
        limits=Limits(settings.memory_k_raw_turns, settings.rag_token_budget, settings.memory_brief_token_budget),
        tokenizer=Remembering(tokenizer),
    )


def _liked(found: Found, conversation: str) -> Callable[[int], float]:
    """How well recall liked the messages of a conversation, by their seq: from 1 for the best down to 0."""
    scope = found.scope
    places = {
        int(scope.seqs[index]): 1 - rank / LIKED
        for rank, index in enumerate(map(int, found.ranked[:LIKED]))
        if scope.conversations[int(scope.keys[index])]["name"] == conversation
    }
    return lambda seq: places.get(seq, 0.0)


def _whole_turns(newest: list[Message]) -> list[Message]:
    """The newest messages, from the beginning of a turn on: calls of tools and their results stay together."""
    begins = [place for place, message in enumerate(newest) if message.role == "user"]
    if len(newest) == NEWEST and begins:
        newest = newest[begins[0] :]
    return paired(newest)


def _candidates(found: Found, conversation: str, before: int | None, quoted: int) -> list[int]:
    """The best messages, as many as may be needed to quote so many tokens: more of short ones."""
    scope, ranked = found.scope, found.ranked
    if before is not None:
        here = [key for key, row in scope.conversations.items() if row["name"] == conversation]
        ranked = ranked[~(np.isin(scope.keys[ranked], here) & (scope.seqs[ranked] >= before))]
    tokens = np.cumsum(TOKENS_PER_WORD * scope.words_in[ranked] + FRAME)
    enough = int(np.searchsorted(tokens, SPARE * quoted))
    listed: list[int] = ranked[: max(enough, CANDIDATES + quoted // TOKENS_EACH, LIKED)].tolist()
    return listed


def _last(scope: Scope, before: int | None) -> range:
    """Where the newest messages of a conversation stand in its scope."""
    end = len(scope) if before is None else int(scope.seqs.searchsorted(before))
    return range(max(0, end - NEWEST), end)
