"""From a question to a prompt: reads the sources, builds the prompt from them, and measures both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from recollect.core.message import Message
from recollect.core.models import Context, JsonObject, Principal
from recollect.core.protocols import Tokenizer
from recollect.providers.token_counts import CachedPromptTokenizer
from recollect.recall.metrics import prompt_to_used
from recollect.recall.prompt.budget import PromptLimits
from recollect.recall.prompt.build import build
from recollect.recall.prompt.sources import PromptSources, SourceReader, assemble_inputs
from recollect.recall.recaller import Recaller
from recollect.settings import Settings
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

INLINE_CHARACTERS: Final = 200_000  # a prompt is built on a thread if its sources have more
# Characters of messages that take as long as:
CHARACTERS_PER_ENTRY: Final = 200  # an entry of the ledger
CHARACTERS_PER_COUNTED: Final = 10  # a character of a text whose tokens are always counted


class PromptBuilder:
    """Builds prompts with the settings of one person."""

    def __init__(self, store: SqlStore, recaller: Recaller, settings: Settings) -> None:
        self._recaller, self._settings = recaller, settings
        self._reader = SourceReader(store, recaller, settings)

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
        newest: Sequence[Message] | None = None,
        everywhere: bool = False,
    ) -> tuple[Context, JsonObject]:
        """Build the prompt for a question. Return it with the metrics of its recall."""
        sources = await self._reader.read(
            principal,
            conversation,
            text,
            system_prompt=system_prompt,
            budget=budget,
            at=at,
            before=before,
            newest=newest,
            everywhere=everywhere,
        )
        if _size(sources) < INLINE_CHARACTERS:
            context = self._build(sources, budget, tokenizer)
        else:
            context = await asyncio.to_thread(self._build, sources, budget, tokenizer)
        ranked = sources.ranked
        ranked.timer.lap("build")
        used = prompt_to_used(context.explain, conversation)
        metrics = self._recaller.describe(principal, ranked, used, conversation, context.tokens)
        metrics["hits"] = sum(item.type in ("message", "passage") for item in used)
        metrics["budget"], metrics["overflow"] = budget, context.explain["passages_left_out"]
        if metrics["overflow"]:
            log.info("context: %d passages had no room beside the %d quoted", metrics["overflow"], metrics["hits"])
        return context, metrics

    def _build(self, sources: PromptSources, budget: int, tokenizer: Tokenizer) -> Context:
        settings = self._settings
        return build(
            assemble_inputs(sources, with_passages=settings.rag_chunking),
            budget=budget,
            limits=PromptLimits(
                tail_turns=settings.memory_k_raw_turns,
                tail_first=settings.memory_tail_first,
                recall_tokens=settings.rag_token_budget,
                brief_tokens=settings.memory_brief_token_budget,
            ),
            tokenizer=CachedPromptTokenizer(tokenizer),
        )


def _size(sources: PromptSources) -> int:
    """Return how long building takes, in characters of messages."""
    messages = [*sources.messages.values(), *sources.newest]
    size = sum([len(message.content) for message in messages])
    counted = len(sources.question) + len(sources.system_prompt or "")
    return size + CHARACTERS_PER_ENTRY * len(sources.summary.ledger) + CHARACTERS_PER_COUNTED * counted
