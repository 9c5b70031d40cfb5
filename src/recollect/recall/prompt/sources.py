"""Reads what a prompt needs from the store and from recall, and assembles the inputs of the prompt from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from recollect.core.message import Message
from recollect.core.models import Principal
from recollect.core.profile import Profile
from recollect.core.scope import ConversationScope
from recollect.core.turns import pair_tool_calls
from recollect.recall.hits import to_prompt_candidates
from recollect.recall.latest_brief import ConversationSummary
from recollect.recall.prompt.budget import SMALL_BUDGET_TOKENS
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.profile import rank_lines
from recollect.recall.ranked_messages import RankedMessages
from recollect.recall.recaller import Recaller
from recollect.recall.relevance import PromptFloor
from recollect.recall.scope_index import ScopeIndex
from recollect.settings import Settings
from recollect.storage.store import SqlStore
from recollect.storage.topics import ActiveTopic

MAX_TAIL_MESSAGES: Final = 60  # messages at the end of a conversation that may be in the tail
TOKENS_PER_MESSAGE: Final = 25  # for so many tokens of the budget, one more message is ranked and read
MIN_RANKED_MESSAGES: Final = 40
MAX_RANKING_TOKENS: Final = 50_000  # a larger budget ranks no more messages than this one
MIN_CANDIDATE_MESSAGES: Final = 20
TEXT_SURPLUS: Final = 1.5  # times the tokens that can be quoted are read, estimated by the words of the messages
TOKENS_PER_WORD: Final = 2
TOKENS_PER_FRAME: Final = 6
LEDGER_RANKS: Final = 30  # best messages whose ledger entries become more relevant


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSources:
    """Everything that was read for one prompt."""

    conversation: str
    question: str
    system_prompt: str | None
    ranked: RankedMessages
    messages: Mapping[int, Message]  # the best of the ranked, by their index
    newest: Sequence[Message]  # the conversation's last messages in order, without the question
    summary: ConversationSummary
    topic: ActiveTopic | None
    profile: Profile
    profile_similarities: Sequence[float]  # of the profile's lines to the question, if there are vectors


class SourceReader:
    """Reads the sources of prompts for one person's settings."""

    def __init__(self, store: SqlStore, recaller: Recaller, settings: Settings) -> None:
        self._store, self._recaller, self._settings = store, recaller, settings

    async def read(
        self,
        principal: Principal,
        conversation: str,
        text: str,
        *,
        system_prompt: str | None,
        budget: int,
        at: datetime | None,
        before: int | None,
        newest: Sequence[Message] | None,
        everywhere: bool,
    ) -> PromptSources:
        """Read the sources of a prompt. Messages of the conversation from the seq `before` on are left out.

        `newest` stand for the newest messages of the log, if the caller's talk took another way.
        """
        recaller, scope, limit = self._recaller, ConversationScope(conversation), _count_ranked(budget)
        ranked = await recaller.find(
            principal, scope, text, at=at, limit=limit, lean_to_topic=True, everywhere=everywhere, floor=PromptFloor()
        )
        state = ranked.conversation_state
        summary = await recaller.briefs.get_summary(principal, conversation, state.brief_state)
        ranked = replace(ranked, degraded=(*ranked.degraded, *summary.degraded))
        own_scope = ranked.own_scope
        if newest is None and own_scope.lacks_messages:  # they are shown in the tail nevertheless
            newest = await self._store.log.history(principal, conversation, before=before, limit=MAX_TAIL_MESSAGES)
        quotable = budget if budget <= SMALL_BUDGET_TOKENS else min(budget, self._settings.rag_token_budget)
        best = _choose_messages(ranked, conversation, before, quotable)
        # The profile is read last, so that a consent just revoked counts.
        (last, messages), profile = await recaller.reader.read_with_profile(
            principal, (own_scope, _last_indices(own_scope, before)), (ranked.scope, best)
        )
        newest = _begin_with_turn(list(last.values()) if newest is None else newest[-MAX_TAIL_MESSAGES:])
        question_seq = before  # of the question, if it is stored already
        if before is None and _is_question(newest, text):
            newest, question_seq = newest[:-1], newest[-1].seq
        if question_seq is not None:
            messages = _before(messages, conversation, question_seq)
            summary = summary.before(question_seq)  # an entry of the question itself is no memory yet
        summary = recaller.topics.join(principal, conversation, summary, state.active_topic)
        ranked.timer.lap("fetch")
        return PromptSources(
            conversation=conversation,
            question=text,
            system_prompt=system_prompt,
            ranked=ranked,
            messages=messages,
            newest=newest,
            summary=summary,
            topic=state.active_topic,
            profile=profile,
            profile_similarities=await recaller.profiles.compare(principal.person, profile, text),
        )


def assemble_inputs(sources: PromptSources, *, with_passages: bool) -> PromptInputs:
    """Assemble the inputs of a prompt. Nothing is read; without passages, messages are quoted as a whole."""
    ranked, messages, summary, topic = sources.ranked, sources.messages, sources.summary, sources.topic
    zones = [row["zone"] for row in ranked.scope.conversations.values() if row["name"] == sources.conversation]
    return PromptInputs(
        conversation=sources.conversation,
        question=sources.question,
        system_prompt=sources.system_prompt,
        newest=sources.newest,
        candidates=to_prompt_candidates(ranked, messages, with_passages=with_passages),
        explain_score=ranked.ordered.explain_many(np.fromiter(messages, np.int64, len(messages))),
        recall_rank=_to_recall_rank(ranked, sources.conversation),
        is_whole=len(sources.newest) + 1 < MAX_TAIL_MESSAGES,  # one more may be the question itself
        zone=zones[0] if zones else "UTC",
        summary=summary.summary,
        brief_version=summary.brief_version,
        shorter=summary.shorter,
        ledger=summary.ledger,
        profile=rank_lines(sources.profile, sources.question, sources.profile_similarities),
        topic=None if topic is None else {"id": topic.id, "title": topic.title},
        degraded=ranked.degraded,
    )


def _to_recall_rank(ranked: RankedMessages, conversation: str) -> Callable[[int], float]:
    """Return a function from the seq of the conversation's message to its rank: from 1 for the best down to 0.

    A question without a telling word ("?") prefers none.
    """
    scope = ranked.scope
    if not ranked.question.words:
        return lambda _: 0.0
    ranks = {
        int(scope.seqs[index]): 1 - rank / LEDGER_RANKS
        for rank, index in enumerate(map(int, ranked.ranked[:LEDGER_RANKS]))
        if scope.conversations[int(scope.conversation_keys[index])]["name"] == conversation
    }
    return lambda seq: ranks.get(seq, 0.0)


def _count_ranked(budget: int) -> int:
    """Return the number of messages to rank for a prompt of so many tokens."""
    return MIN_RANKED_MESSAGES + min(budget, MAX_RANKING_TOKENS) // TOKENS_PER_MESSAGE


def _choose_messages(ranked: RankedMessages, conversation: str, before: int | None, quotable_tokens: int) -> list[int]:
    """Return the best messages, as many as may be needed to quote so many tokens: more of short ones."""
    scope, indices = ranked.scope, ranked.ranked
    if before is not None:
        here = [key for key, row in scope.conversations.items() if row["name"] == conversation]
        indices = indices[~(np.isin(scope.conversation_keys[indices], here) & (scope.seqs[indices] >= before))]
    tokens = np.cumsum(TOKENS_PER_WORD * scope.word_counts[indices] + TOKENS_PER_FRAME)
    enough = int(np.searchsorted(tokens, TEXT_SURPLUS * quotable_tokens))
    count = max(enough, MIN_CANDIDATE_MESSAGES + quotable_tokens // TOKENS_PER_MESSAGE, LEDGER_RANKS)
    chosen: list[int] = indices[:count].tolist()
    return chosen


def _last_indices(scope: ScopeIndex, before: int | None) -> range:
    """Return the indices of a conversation's newest messages in its own scope."""
    end = len(scope) if before is None else int(scope.seqs.searchsorted(before))
    return range(max(0, end - MAX_TAIL_MESSAGES), end)


def _begin_with_turn(newest: Sequence[Message]) -> list[Message]:
    """Return the newest messages from the beginning of a turn on. Calls of tools and their results stay together."""
    turn_starts = [number for number, message in enumerate(newest) if message.role == "user"]
    if len(newest) == MAX_TAIL_MESSAGES and turn_starts:
        newest = newest[turn_starts[0] :]
    spoken = pair_tool_calls([message for message in newest if message.role != "system"])
    return sorted([*spoken, *(message for message in newest if message.role == "system")], key=lambda one: one.seq)


def _is_question(newest: Sequence[Message], text: str) -> bool:
    """Return whether the newest message is the question itself, stored a moment ago."""
    return bool(newest) and newest[-1].role == "user" and newest[-1].content.strip() == text.strip()


def _before(messages: Mapping[int, Message], conversation: str, seq: int) -> dict[int, Message]:
    """Return the messages without those of the conversation from a seq on."""
    return {
        index: message
        for index, message in messages.items()
        if message.seq < seq or message.conversation != conversation
    }
