"""What a question needs: recall, and the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recollect.core import arguments
from recollect.core.errors import InvalidInput
from recollect.core.models import Context, Recalled, Similar
from recollect.core.text import identity
from recollect.jobs.audit import texts_of_profile, tokens_of_profile
from recollect.memory.lifecycle import Opened
from recollect.memory.plan import COUNTER
from recollect.providers.tokenizer import tokenizer_for


class Asking(Opened):
    async def recall(
        self,
        query: str,
        *,
        conversation: str | None = None,
        limit: int = 10,
        budget: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        banks: Sequence[str] | None = None,
        at: datetime | str | None = None,
    ) -> Recalled:
        """What was said that bears on the query, best first: by words, by meaning, by names, by dates.

        At most `limit` messages, and with `budget` at most so many tokens of text, neighbours included. Without
        `conversation`, in all of the person's; with it, in others only where it has little to say. `at` is the moment
        of asking.
        """
        asked = arguments.query(query)
        if conversation is not None:
            identity(conversation, "conversation")
        if banks is not None:
            raise InvalidInput("banks_unknown", "There are no banks yet.")
        arguments.number(limit, "limit", least=0, needed=True)
        arguments.number(budget, "budget", least=0)
        moment, (start, stop) = arguments.moment(at, "at"), arguments.period(since, until)
        await self._ready()
        found = await self._recaller.recall(
            self._principal,
            asked,
            conversation=conversation,
            limit=limit,
            budget=budget,
            count=tokenizer_for(COUNTER).count if budget is not None else None,
            at=moment,
            since=start,
            until=stop,
        )
        self._metrics.note(self._principal, found.metrics, self._clock.now())
        if told := texts_of_profile(found):
            tokens = sum(map(tokenizer_for(COUNTER).count, told))
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
        everywhere: bool = False,
    ) -> Context:
        """The smallest prompt that still holds what matters for the query, within a hard budget of tokens.

        `model` only names how tokens are counted. The query is not stored; it comes last even if it is stored already.
        `before` leaves out what was said there from this seq on, as for an answer that is tried again. `everywhere`
        recalls from all of the person's conversations, not only where this one has little to say.
        """
        identity(conversation, "conversation")
        asked = arguments.query(query)
        arguments.number(budget, "budget", least=0)
        arguments.number(before, "before", least=1)
        moment = arguments.moment(at, "at")
        if not isinstance(model, str):
            raise InvalidInput("invalid_model", "`model` is the name of a model.")
        await self._ready()
        system = None if system_prompt is None else arguments.query(system_prompt)
        if system is not None and self._current.now.compress_tokens_above:
            size = tokenizer_for(COUNTER).count(system)
            self._background.compressing.note_prompt(self._principal, conversation, size)
        context, metrics = await self._prompting.context(
            self._principal,
            conversation,
            asked,
            system_prompt=system,
            budget=self._current.now.memory_prompt_token_budget if budget is None else budget,
            tokenizer=tokenizer_for(model),
            at=moment,
            before=before,
            everywhere=everywhere,
        )
        self._metrics.note(self._principal, metrics, self._clock.now())
        if tokens := tokens_of_profile(context):
            self._audit.note_use(self._principal, self._actor, by="context", conversation=conversation, tokens=tokens)
        return context

    async def similar(self, conversation: str, query: str, *, limit: int = 3) -> list[Similar]:
        """Earlier questions of the person like this one, in other conversations, with their age."""
        identity(conversation, "conversation")
        asked = arguments.query(query)
        arguments.number(limit, "limit", least=0, needed=True)
        await self._ready()
        return await self._recaller.similar(self._principal, conversation, asked, limit=limit, now=self._clock.now())
