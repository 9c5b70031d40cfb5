"""Asking a memory: recall, the prompt for a question, and similar earlier questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recollect.core import arguments
from recollect.core.errors import InvalidInput
from recollect.core.message import Message
from recollect.core.models import Context, Recalled, Similar
from recollect.core.scope import ConversationScope, PersonScope
from recollect.core.text import check_identity
from recollect.jobs.audit import count_profile_tokens, profile_texts
from recollect.memory.lifecycle import Lifecycle
from recollect.memory.plan import ENCODING
from recollect.providers.tokenizer import tokenizer_for


class AskMixin(Lifecycle):
    """Recall, context and similar questions."""

    async def recall(
        self,
        query: str,
        *,
        conversation: str | None = None,
        limit: int = 10,
        budget: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        at: datetime | str | None = None,
        min_relevance: float | None = None,
    ) -> Recalled:
        """Return what was said that bears on the query, best first: by words, meaning, names and dates.

        Return at most `limit` messages and, with `budget`, at most so many tokens of text, neighbours included.
        Without `conversation`, all of the person's are searched; with it, others only if it has few good hits. `since`
        and `until` keep messages of a period. `at` is the moment of asking, for "last week" and the like. Hits below
        `min_relevance` (from 0 to 1) are left out; by default those that surely have nothing to do with the query.
        """
        asked = arguments.check_query(query)
        if conversation is not None:
            check_identity(conversation, "conversation")
        arguments.check_number(limit, "limit", minimum=0, required=True)
        arguments.check_number(budget, "budget", minimum=0)
        arguments.check_share(min_relevance, "min_relevance")
        moment, (start, stop) = arguments.parse_optional_moment(at, "at"), arguments.parse_period(since, until)
        await self._ready()
        scope = PersonScope(self._principal.person) if conversation is None else ConversationScope(conversation)
        found = await self._recaller.recall(
            self._principal,
            scope,
            asked,
            limit=limit,
            budget=budget,
            count=tokenizer_for(ENCODING).count if budget is not None else None,
            at=moment,
            since=start,
            until=stop,
            min_relevance=min_relevance,
        )
        self._metrics.note(self._principal, found.metrics, self._clock.now())
        if texts := profile_texts(found):
            tokens = sum(map(tokenizer_for(ENCODING).count, texts))
            self._audit.note_use(self._principal, self._actor, by="recall", conversation=conversation, tokens=tokens)
        return found

    async def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        model: str = "gpt-4o-mini",
        at: datetime | str | None = None,
        before: int | None = None,
        newest: Sequence[Message] | None = None,
        everywhere: bool = False,
    ) -> Context:
        """Return the smallest prompt that still holds what matters for the query, within a hard budget of tokens.

        `model` only names how tokens are counted. The query is not stored; it comes last, once, even if it is stored
        already. `before` leaves out messages of the conversation from this seq on, for an answer that is tried again.
        `newest` stand for the newest messages of the log, for a talk that took another way, such as an edited one.
        `everywhere` recalls from all of the person's conversations, not only if this one has few good hits.
        """
        check_identity(conversation, "conversation")
        asked = arguments.check_query(query)
        arguments.check_number(budget, "budget", minimum=0)
        arguments.check_number(before, "before", minimum=1)
        moment = arguments.parse_optional_moment(at, "at")
        if not isinstance(model, str):
            raise InvalidInput("invalid_model", "`model` is the name of a model.")
        await self._ready()
        system = None if system_prompt is None else arguments.check_query(system_prompt)
        if system is not None and self._current.now.compress_tokens_above:
            size = tokenizer_for(ENCODING).count(system)
            self._prompt_sizes.note(self._principal, conversation, size)
        context, metrics = await self._prompt_builder.context(
            self._principal,
            conversation,
            asked,
            system_prompt=system,
            budget=self._current.now.memory_prompt_token_budget if budget is None else budget,
            tokenizer=tokenizer_for(model),
            at=moment,
            before=before,
            newest=newest,
            everywhere=everywhere,
        )
        self._metrics.note(self._principal, metrics, self._clock.now())
        if tokens := count_profile_tokens(context):
            self._audit.note_use(self._principal, self._actor, by="context", conversation=conversation, tokens=tokens)
        return context

    async def similar(self, conversation: str, query: str, *, limit: int = 3) -> list[Similar]:
        """Return earlier questions of the person like this one, from other conversations, with their age."""
        check_identity(conversation, "conversation")
        asked = arguments.check_query(query)
        arguments.check_number(limit, "limit", minimum=0, required=True)
        await self._ready()
        return await self._recaller.similar(self._principal, conversation, asked, limit=limit, now=self._clock.now())

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text, from the built-in embedder. Nothing is stored."""
        rows: list[list[float]] = (await self._embedders.embed_aside(texts)).tolist() if texts else []
        return rows
