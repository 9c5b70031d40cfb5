"""Asks a model for a summary, and keeps of its reply what the messages support."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.brief.step import MODEL_TIMED_OUT, CompressionStep
from recollect.core.compression import brief, ledger, model_reply
from recollect.core.compression.ledger import Entry
from recollect.core.compression.model_reply import InvalidReply, Reply
from recollect.core.compression.narrative import Length, Statement, count_words, render_narrative
from recollect.core.compression.source_check import SourceIndex, SourceText, split_sentences
from recollect.core.compression.summariser import summarise
from recollect.core.errors import RecollectError
from recollect.core.language import speech
from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.protocols import Model
from recollect.core.text import replace_unstorable
from recollect.jobs.worker import is_ending
from recollect.runtime.deadline import wait_for_answer
from recollect.settings import Settings

MAX_REPLY_TOKENS: Final = 4000
MAX_REPAIRED_CHARACTERS: Final = 20_000  # the model is shown so much of its invalid reply
MIN_WORDS_KEPT: Final = 60  # a summary below half of these or of the old one has lost too much
WORDS_PER_TOKEN: Final = 0.7
_SAID_BY_PEOPLE: Final = (ledger.PREFERENCE, ledger.DECISION, ledger.FACT, ledger.INTENT, ledger.QUESTION)


class ModelFailed(Exception):
    """Raised when a model gave nothing that can be used. The reason is its argument."""


@dataclass(frozen=True, slots=True)
class SupportedReply:
    """The parts of a model's reply that its sources support."""

    statements: list[Statement]
    entries: list[Entry]
    record: JsonObject
    dropped: int  # sentences and entries that no message supports


class ModelWriter:
    """A model that writes summaries. A `hosted` prompt replies with plain text, any other with JSON."""

    def __init__(self, model: Model, *, hosted: bool) -> None:
        self._model, self._hosted = model, hosted

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._model.name

    async def ask(self, step: CompressionStep, length: Length, check: Callable[[], None]) -> SupportedReply:
        """Ask once, and once more if the reply has not the right form. Raise ModelFailed if nothing can be used."""
        old = step.old
        request = model_reply.build_request(
            old.narrative if old else "", old.entries if old else (), step.turns, _describe_length(length)
        )
        text = await self._complete(request, step.settings, check)
        try:
            reply = self._parse(text)
        except InvalidReply as error:
            repair = {"role": "user", "content": model_reply.REPAIR_PROMPT.format(error=error)}
            second_request = [*request, {"role": "assistant", "content": text[:MAX_REPAIRED_CHARACTERS]}, repair]
            if self._hosted:
                raise ModelFailed(f"invalid reply: {error}") from None
            try:
                reply = self._parse(await self._complete(second_request, step.settings, check))
            except InvalidReply as second_error:
                raise ModelFailed(f"invalid reply: {second_error}") from None
        return await asyncio.to_thread(keep_supported, reply, step, length)

    def _parse(self, text: str) -> Reply:
        return model_reply.parse_text_reply(text) if self._hosted else model_reply.parse_reply(text)

    async def _complete(self, messages: Sequence[JsonObject], settings: Settings, check: Callable[[], None]) -> str:
        """Return the model's text. Raise ModelFailed with the reason for whatever goes wrong."""
        schema = None if self._hosted else model_reply.REPLY_SCHEMA
        timeout = settings.provider_timeout_seconds * (settings.provider_retries + 1) + 1
        try:
            completion = self._model.complete(messages, schema=schema, max_tokens=MAX_REPLY_TOKENS)
            text = await wait_for_answer(completion, timeout, check)
        except RecollectError as error:
            if error.code in ("interrupted", "store_closed"):
                raise
            raise ModelFailed(error.code) from error
        except TimeoutError as error:
            raise ModelFailed(MODEL_TIMED_OUT) from error
        except Exception as error:  # a model that was passed in may raise anything
            if is_ending(error):
                raise
            raise ModelFailed(type(error).__name__) from error
        if not isinstance(text, str):
            raise ModelFailed("no text")
        return text


def _describe_length(length: Length) -> str:
    if length.measure is count_words:
        return f"{length.minimum} to {length.maximum} words"
    return f"at most {length.maximum} tokens (about {int(length.maximum * WORDS_PER_TOKEN)} words)"


def keep_supported(reply: Reply, step: CompressionStep, length: Length) -> SupportedReply:
    """Return what of a reply the messages or the old summary support. Raise ModelFailed if too little is left."""
    old = step.old
    spoken = [one for one in step.messages if one.role in ("user", "assistant") and one.source != "tool"]
    all_sources, people_sources = _sources(step, spoken)
    statements, dropped = _supported_statements(reply, step, spoken, all_sources)
    if not statements:
        raise ModelFailed("nothing in it was said")
    if length.measure(render_narrative(statements)) > length.maximum:
        statements = summarise([], old=statements, length=length, zone=step.zone)
    words = count_words(render_narrative(statements))
    if old is not None and 2 * words < min(count_words(old.narrative), length.minimum or MIN_WORDS_KEPT):
        raise ModelFailed("the summary shrank")
    entries = []
    messages_by_id = {message.id: message for message in spoken}
    for item in reply.ledger:
        sources = people_sources if item.kind in _SAID_BY_PEOPLE else all_sources
        entry = _supported_entry(item, sources, messages_by_id)
        if entry is None:
            dropped += 1
        else:
            entries.append(entry)
    record, dropped_from_record = _supported_record(reply, all_sources)
    return SupportedReply(statements, entries, record, dropped + dropped_from_record)


def _sources(step: CompressionStep, spoken: Sequence[Message]) -> tuple[SourceIndex, SourceIndex]:
    """Return what may support a sentence: everything that was said, and what people said. Both with the old summary."""
    old = step.old
    names = [message.name for message in spoken if message.name]
    statements = [SourceText(statement.sources, statement.text) for statement in old.statements] if old else []
    earlier = [*statements, *(SourceText(entry.sources, entry.text) for entry in (old.entries if old else ()))]
    all_sources = SourceIndex([*map(_source_text, spoken), *earlier], names=names)
    important = [SourceText(entry.sources, entry.text) for entry in old.entries if entry.is_important] if old else []
    said = [*statements, *important]
    people_sources = SourceIndex([*map(_source_text, filter(is_said_by_a_person, spoken)), *said], names=names)
    return all_sources, people_sources


def _supported_statements(
    reply: Reply, step: CompressionStep, spoken: Sequence[Message], sources: SourceIndex
) -> tuple[list[Statement], int]:
    """Return the sentences that rest on something, dated by their oldest source, and how many were dropped."""
    old = step.old
    times_by_id: dict[str, datetime] = {}
    for statement in old.statements if old else ():
        times_by_id |= dict.fromkeys(statement.sources, statement.at)
    times_by_id |= {message.id: message.at for message in spoken}
    fallback = step.now if old is None or old.created_at is None else old.created_at
    statements, dropped = [], 0
    for sentence in split_sentences(reply.narrative):
        support = sources.find_support(sentence)
        if support and replace_unstorable(sentence)[1] == 0:
            at = min((times_by_id[source] for source in support if source in times_by_id), default=fallback)
            statements.append(Statement(sentence, support, at, 1.0))
        else:
            dropped += 1
    return statements, dropped


def _source_text(message: Message) -> SourceText:
    return SourceText((message.id,), message.content, speech.speaker_name(message))


def is_said_by_a_person(message: Message) -> bool:
    """Say whether the user said it, or a speaker with a name. What a tool returned never counts as said by a person."""
    return message.role == "user" or (message.role == "assistant" and message.name is not None)


def _supported_entry(
    item: model_reply.LedgerItem, sources: SourceIndex, messages_by_id: Mapping[str, Message]
) -> Entry | None:
    text = " ".join(item.text.split()) or item.value
    if item.kind not in ledger.KINDS or not item.value.strip() or replace_unstorable(item.slot + text + item.value)[1]:
        return None
    support = sources.find_support(item.value) and sources.find_support(text)
    if not support:
        return None
    messages = [messages_by_id[source] for source in support if source in messages_by_id]
    if not messages:
        return None  # the old summary has it already
    first = min(messages, key=lambda message: message.seq)
    return Entry(
        item.kind,
        first.name or first.role if first.role == "user" or first.name else "user",
        " ".join(item.slot.split()).lower() or item.kind,
        " ".join(item.value.split()),
        text,
        support,
        first.seq,
        first.at,
        single=item.single,
        trust=first.source,
    )


def _supported_record(reply: Reply, sources: SourceIndex) -> tuple[JsonObject, int]:
    """Return the parts of the record that the model wrote and the messages support, and how many were dropped."""
    record: JsonObject = {}
    dropped = 0
    for name in ("summary", "intent"):
        text = " ".join(getattr(reply, name).split())
        if text and sources.find_support(text):
            record[name] = text
        elif text:
            dropped += 1
    for name in ("key_facts", "decisions", "missing_data"):
        texts = [" ".join(text.split()) for text in getattr(reply, name)]
        kept = [text for text in texts if text and sources.find_support(text)]
        dropped += len(texts) - len(kept)
        if kept:
            record[name] = kept[: brief.MAX_KEY_FACTS] if name == "key_facts" else kept
    return record, dropped
