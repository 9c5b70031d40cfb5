"""How one answer is made: the prompt from memory, then pieces from the model, or quotes where there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.core import assistant
from recollect.core.answer_pieces import Answer
from recollect.core.drafts import CONTENT_LIMIT
from recollect.core.errors import NotFound, ProviderUnavailable, RecollectError
from recollect.core.models import Context, JsonObject, Message
from recollect.memory import AsyncMemory
from recollect.providers.chat import Upstream
from recollect.providers.tokenizer import count_tokens_for_messages
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)

QUOTED_FROM: Final = 12  # hits among which the built-in assistant chooses its quotes
LATEST: Final = 2  # conversations among which it looks for what was said last
OFF_THE_RECORD: Final = "Nothing of this conversation is stored, and memory is off."
_MEMORY: Final = ("profile", "important_data", "summary", "recall")  # parts of a context that come from memory


@dataclass(slots=True)
class Prompt:
    """What a model is asked, and what of it came from memory."""

    messages: list[JsonObject]
    sources: list[JsonObject] = field(default_factory=list)
    tokens: int = 0
    budget: int | None = None
    ms: float = 0.0
    degraded: tuple[str, ...] = ()

    def add_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Turns that the caller keeps, before the question; the oldest give way to the budget."""
        kept: list[JsonObject] = []
        for message in map(dict, reversed(history)):
            tokens = count_tokens_for_messages([message])
            if self.budget is not None and self.tokens + tokens > self.budget:
                break
            kept.insert(0, message)
            self.tokens += tokens
        self.messages[-1:-1] = kept

    def summary(self) -> JsonObject:
        figures = {"tokens": self.tokens, "budget": self.budget, "ms": round(self.ms, 1)}
        return figures | {"degraded": list(self.degraded)}


async def prompt_from_memory(memory: AsyncMemory, conversation: str, question: str, **options: Any) -> Prompt:
    """The context as a prompt. If memory fails, the question alone: a chat never breaks for want of it."""
    began = time.perf_counter()
    try:
        context = await memory.context(conversation, question, **options)
    except RecollectError as error:
        if error.code == "budget_too_small":
            raise
        log.warning("a chat goes on without memory: %s", error.code)
        return _without(question, options.get("system_prompt"), began)
    except Exception as error:  # noqa: BLE001 - a chat goes on without memory
        log_unexpected(log, "the context of a chat", error)
        return _without(question, options.get("system_prompt"), began)
    return Prompt(
        [dict(message) for message in context.messages],
        sources_of(context),
        context.tokens,
        context.explain["budget"],
        (time.perf_counter() - began) * 1000,
        context.degraded,
    )


def _without(question: str, system_prompt: str | None, began: float) -> Prompt:
    head = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages = [*head, {"role": "user", "content": question}]
    return Prompt(messages, ms=(time.perf_counter() - began) * 1000, degraded=("memory",))


def prompt_of_history(question: str, history: Sequence[Mapping[str, Any]], system_prompt: str | None) -> Prompt:
    """Without memory: what the caller keeps himself."""
    head = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages = [*head, *map(dict, history), {"role": "user", "content": question}]
    return Prompt(messages, tokens=count_tokens_for_messages(messages))


def sources_of(context: Context) -> list[JsonObject]:
    """What of the prompt is memory, item by item."""
    return [
        {"part": part["name"], **item}
        for part in context.explain["parts"]
        if part["name"] in _MEMORY
        for item in part["items"]
    ]


def is_built_in(upstream: Upstream | None, model: str | None) -> bool:
    return upstream is None or model == assistant.NAME


async def quotes(memory: AsyncMemory, conversation: str | None, question: str, *, recall: bool = True) -> str:
    """The built-in assistant's answer."""
    if not recall:
        return f"{OFF_THE_RECORD}\n\n{assistant.HOW}"
    zone = "UTC"
    try:
        found = await memory.recall(question, conversation=conversation, limit=QUOTED_FROM)
        newest = await _newest(memory, conversation, question) if "vectors" in found.degraded else []
        with suppress(NotFound):
            zone = (await memory.conversation(conversation)).zone if conversation is not None else zone
    except RecollectError as error:
        log.warning("nothing can be recalled: %s", error.code)
        return f"Memory cannot be read now ({error.code}).\n\n{assistant.HOW}"
    return assistant.answer(question, found.hits, now=memory.clock.now(), zone=zone, newest=newest)


async def _newest(memory: AsyncMemory, conversation: str | None, question: str) -> list[Message]:
    """What was said last: there, or if that is nothing, in the conversations that anything was said in last."""
    here = await memory.history(conversation, limit=QUOTED_FROM) if conversation is not None else []
    if any(message.role == "user" and message.content != question for message in here):
        return here
    names = [one.name for one in await memory.conversations()][:LATEST]
    return [message for name in reversed(names) for message in await memory.history(name, limit=QUOTED_FROM)]


async def pieces(upstream: Upstream, request: Mapping[str, Any], answer: Answer) -> AsyncIterator[str]:
    """The model's answer as it comes. Whatever has come is in `answer`, also when it ends too early."""
    async with aclosing(upstream.stream(request)) as stream:
        async for piece in stream:
            new = answer.take(piece)
            if new:
                yield new
            if len(answer.content) > CONTENT_LIMIT // 4:
                answer.finish_reason = "length"
                return
    if answer.is_empty:
        raise ProviderUnavailable("provider_bad_reply", f"{upstream.host} answered with nothing.")
