"""Builds the prompt of one answer from memory, and gets the answer from the model or from the built-in assistant.

Stores nothing. If memory fails, the prompt is the question alone: a chat never breaks because memory does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.core import assistant
from recollect.core.answer_pieces import StreamedAnswer
from recollect.core.errors import NotFound, ProviderUnavailable, RecollectError
from recollect.core.language.memory_requests import asks_for_everything
from recollect.core.language.talk_language import answer_language, clear_language
from recollect.core.language.utterances import Language
from recollect.core.message import CONTENT_LIMIT, LABEL_LIMIT, Message
from recollect.core.models import Context, JsonObject
from recollect.memory import AsyncMemory
from recollect.providers.chat import Upstream
from recollect.providers.token_counts import count_tokens_for_messages
from recollect.recall.prompt.alternation import ASSISTANT_BEGINS, alternate, put_memory
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)

LANGUAGE_MESSAGES: Final = 12  # of a conversation that tell its language if the question does not
QUOTE_CANDIDATES: Final = 24  # hits or messages from which the built-in assistant chooses its quotes
LATEST_CONVERSATIONS: Final = 16  # from which the newest messages come
MAX_ANSWER_CHARACTERS: Final = CONTENT_LIMIT // 4  # the limit is in bytes; a character has at most four
_MEMORY_PARTS: Final = ("profile", "important_data", "summary", "recall")  # parts of a context that come from memory


@dataclass(slots=True)
class Prompt:
    """Holds what the model is asked: system messages, the fenced memory, the turns before the question, and it.

    `sources` are the contents that came from memory. `ms` is the time to build it.
    """

    question: str
    head: list[JsonObject] = field(default_factory=list)
    memory: str = ""
    turns: list[JsonObject] = field(default_factory=list)
    sources: list[JsonObject] = field(default_factory=list)
    tokens: int = 0
    budget: int | None = None
    ms: float = 0.0
    degraded: tuple[str, ...] = ()

    @property
    def messages(self) -> list[JsonObject]:
        """Return the messages for the model. User and assistant alternate, whatever the turns were."""
        talk = alternate([*self.turns, _as_user(self.question)], opening="" if self.memory else ASSISTANT_BEGINS)
        return [*self.head, *put_memory(self.memory, talk)]

    def add_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Insert the caller's own turns before the question. The oldest are left out if the budget is too small."""
        stored, added, used = self.turns, list[JsonObject](), self.tokens
        for message in map(dict, reversed(history)):
            used += count_tokens_for_messages([message])
            if self.budget is not None and used > self.budget:
                break
            added.append(message)
        self.turns = [*stored, *reversed(added)]
        self.tokens = count_tokens_for_messages(self.messages)
        while self.budget is not None and self.tokens > self.budget and added:  # notes between turns count too
            excess = self.tokens - self.budget
            while excess > 0 and added:
                excess -= count_tokens_for_messages([added.pop()])
            self.turns = [*stored, *reversed(added)]
            self.tokens = count_tokens_for_messages(self.messages)

    def figures(self) -> JsonObject:
        """Return tokens, budget, milliseconds and failures, as the `sources` event shows them."""
        figures = {"tokens": self.tokens, "budget": self.budget, "ms": round(self.ms, 1)}
        return figures | {"degraded": list(self.degraded)}


async def prompt_from_memory(memory: AsyncMemory, conversation: str, question: str, **options: Any) -> Prompt:
    """Build the prompt from memory; `options` are those of `AsyncMemory.context`.

    If memory fails, return the question alone, marked as degraded. Only a budget that is too small is raised.
    """
    start = time.perf_counter()
    try:
        context = await memory.context(conversation, question, **options)
    except RecollectError as error:
        if error.code == "budget_too_small":
            raise
        log.warning("a chat goes on without memory: %s", error.code)
        return _prompt_without_memory(question, options.get("system_prompt"), start)
    except Exception as error:  # noqa: BLE001 - a chat goes on without memory
        log_unexpected(log, "the context of a chat", error)
        return _prompt_without_memory(question, options.get("system_prompt"), start)
    return Prompt(
        context.question,
        _as_system(options.get("system_prompt")),
        context.memory,
        list(context.tail),
        sources_of(context),
        context.tokens,
        context.explain["budget"],
        (time.perf_counter() - start) * 1000,
        context.degraded,
    )


def _prompt_without_memory(question: str, system_prompt: str | None, start: float) -> Prompt:
    ms = (time.perf_counter() - start) * 1000
    return Prompt(question, _as_system(system_prompt), ms=ms, degraded=("memory",))


def prompt_from_history(question: str, history: Sequence[Mapping[str, Any]], system_prompt: str | None) -> Prompt:
    """Build the prompt from the caller's own turns. Memory is not read."""
    prompt = Prompt(question, _as_system(system_prompt), turns=list(map(dict, history)))
    prompt.tokens = count_tokens_for_messages(prompt.messages)
    return prompt


def _as_system(system_prompt: str | None) -> list[JsonObject]:
    return [{"role": "system", "content": system_prompt}] if system_prompt else []


def _as_user(question: str) -> JsonObject:
    return {"role": "user", "content": question}


def sources_of(context: Context) -> list[JsonObject]:
    """Return the items of a context that came from memory, each with the name of its part."""
    return [
        {"part": part["name"], **item}
        for part in context.explain["parts"]
        if part["name"] in _MEMORY_PARTS
        for item in part["items"]
    ]


def is_built_in(upstream: Upstream | None, model: str | None) -> bool:
    """Return whether the built-in assistant answers: it is asked for by name, or no model is configured."""
    return upstream is None or model == assistant.NAME


@dataclass(frozen=True, slots=True)
class QuotedMemory:
    """The built-in assistant's answer: its text, what it quotes, the time it took, and the parts that failed."""

    text: str
    sources: list[JsonObject] = field(default_factory=list)
    ms: float = 0.0
    degraded: tuple[str, ...] = ()

    def to_prompt(self, question: str) -> Prompt:
        """Return the figures of the answer as those of a prompt. No model gets one, so it costs no tokens."""
        return Prompt(question, sources=self.sources, ms=self.ms, degraded=self.degraded)


async def quote_memory(
    memory: AsyncMemory, conversation: str | None, question: str, *, recall: bool = True, is_stored: bool = True
) -> QuotedMemory:
    """Return the built-in assistant's answer: what it noted and quotes, or that memory is off or cannot be read.

    `is_stored` says whether the question itself is stored. Only then is it noted.
    """
    if not recall:
        return QuotedMemory(assistant.explain_memory_off(question))
    start, zone, found = time.perf_counter(), "UTC", assistant.Found()
    degraded: tuple[str, ...] = ()
    try:
        if assistant.needs_memory(question):
            recalled = await memory.recall(question, conversation=conversation, limit=QUOTE_CANDIDATES)
            is_unindexed, degraded = "vectors" in recalled.degraded, recalled.degraded
            needs_newest = is_unindexed or asks_for_everything(question)
            newest = await _newest_messages(memory, conversation) if needs_newest else []
            found = assistant.Found(recalled.hits, newest, is_unindexed)
        language = await _choose_language(memory, conversation, question)
        with suppress(NotFound):
            zone = (await memory.conversation(conversation)).zone if conversation is not None else zone
    except RecollectError as error:
        log.warning("nothing can be recalled: %s", error.code)
        return QuotedMemory(assistant.explain_unreadable(question, error.code), degraded=("memory",))
    answer = assistant.build_answer(
        question, found, now=memory.clock.now(), zone=zone, is_stored=is_stored, language=language
    )
    return QuotedMemory(answer.text, answer.sources(), (time.perf_counter() - start) * 1000, degraded)


async def _choose_language(memory: AsyncMemory, conversation: str | None, question: str) -> Language:
    """Return the language of the question; that of the conversation so far if the question shows none."""
    if conversation is None or clear_language(question):
        return answer_language(question)
    messages: list[Message] = []
    with suppress(NotFound):
        messages = await memory.history(conversation, limit=LANGUAGE_MESSAGES)
    return answer_language(question, [message.content for message in messages if message.role == "user"])


async def _newest_messages(memory: AsyncMemory, conversation: str | None) -> list[Message]:
    """Return the newest messages of this conversation and of the latest others, in the order of time.

    Many chats begin with a question and tell nothing, so a few conversations are not enough.
    """
    here = [] if conversation is None else [conversation]
    latest = [listed.name for listed in await memory.conversations()][:LATEST_CONVERSATIONS]
    names = dict.fromkeys((*here, *latest))
    messages = [message for name in names for message in await memory.history(name, limit=QUOTE_CANDIDATES)]
    return sorted(messages, key=lambda message: message.at)


def name_model(answer: StreamedAnswer, requested: str) -> str:
    """Return the name of the model to store with an answer: its own, else the one that was asked for, cut if long."""
    return (answer.model or requested)[:LABEL_LIMIT]


async def stream_answer(upstream: Upstream, request: Mapping[str, Any], answer: StreamedAnswer) -> AsyncIterator[str]:
    """Yield the model's answer piece by piece, and collect it in `answer`, also if it breaks off.

    An answer that is too long to be stored is cut, with the finish reason "length".
    """
    async with aclosing(upstream.stream(request)) as chunks:
        async for chunk in chunks:
            text = answer.add_chunk(chunk)
            if text:
                yield text
            if answer.length > MAX_ANSWER_CHARACTERS:
                answer.finish_reason = "length"
                return
    if answer.is_empty:
        raise ProviderUnavailable("provider_bad_reply", f"{upstream.host} answered with nothing.")
