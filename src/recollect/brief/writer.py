"""Writes summaries: with a model where there is one, and without it by the built-in summariser.

Rules find ledger entries in either case, so that what must not be lost does not depend on a model.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from recollect.brief.model_writer import WORDS_PER_TOKEN, ModelFailed, ModelWriter, SupportedReply
from recollect.brief.step import MODEL_TIMED_OUT, CompressionStep, DoesNotPay
from recollect.core.compression import brief, ledger
from recollect.core.compression.brief import BriefBody
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Length, Statement, count_words, length_for_version
from recollect.core.compression.record import MAX_KEY_FACTS, build_record, drop_repetitions
from recollect.core.compression.summariser import summarise
from recollect.core.compression.summary import Summary
from recollect.core.extract import extract
from recollect.core.protocols import Model, PromptTokenizer, Tokenizer
from recollect.providers.token_counts import CachedPromptTokenizer
from recollect.recall.prompt.brief_section import count_brief_tokens
from recollect.runtime.breather import Breather

log = logging.getLogger(__name__)

MIN_LENGTH_SHARE: Final = 0.8  # minimum length as a share of the cap, if there is enough to say (400 of 500)
OUTDATED_WEIGHT: Final = 0.2  # factor for a statement whose value holds no more
HEADING_TOKENS: Final = 30  # the headings of a narrative in a prompt
MIN_NARRATIVE_TOKENS: Final = 30  # a shorter narrative would say nothing
# Kinds of entries that a prompt shows unasked, so that the narrative need not repeat them.
_SHOWN_BESIDE: Final = (ledger.PREFERENCE, ledger.DECISION, ledger.FACT)


class BriefWriter:
    """Makes the next version of a brief or of a topic's summary."""

    def __init__(self, model: Model | None, *, hosted: bool, tokenizer: Callable[[], Tokenizer]) -> None:
        """A `hosted` prompt is one that the provider keeps; it replies with plain text."""
        self._model = None if model is None else ModelWriter(model, hosted=hosted)
        self._tokenizer = tokenizer

    async def write(self, step: CompressionStep, check: Callable[[], None]) -> BriefBody:
        """Return the next version. Where a model fails, its `degraded` gives the reason.

        If the step must pay, raise DoesNotPay: before a model is asked, if the ledger alone leaves too little for a
        narrative; afterwards, if the whole is too long nevertheless.
        """
        tokenizer = CachedPromptTokenizer(await asyncio.to_thread(self._tokenizer))
        entries = await asyncio.to_thread(_extended_ledger, step)
        length = await asyncio.to_thread(_length, step, entries, tokenizer)
        body = await self._write(step, entries, length, tokenizer, check)
        if step.must_pay and body.tokens >= step.tokens_before:
            raise DoesNotPay(asked_model=body.call_ms > 0 or body.model_used != brief.BUILT_IN_MODEL)
        return body

    async def _write(
        self,
        step: CompressionStep,
        entries: list[Entry],
        length: Length,
        tokenizer: PromptTokenizer,
        check: Callable[[], None],
    ) -> BriefBody:
        reason, began = None, time.perf_counter()
        if self._model is not None and not step.ask_model:
            reason = MODEL_TIMED_OUT
        elif self._model is not None:
            try:
                reply = await self._model.ask(step, length, check)
                call_ms = _milliseconds_since(began)
                entries = ledger.merge(entries, reply.entries)
                name = self._model.name
                body = await asyncio.to_thread(_body, step, reply.statements, entries, tokenizer, name, reply)
                return replace(body, call_ms=call_ms)
            except ModelFailed as error:
                reason = str(error)
                log.warning("the model writes no brief: %s", reason)
        call_ms = _milliseconds_since(began) if reason is not None else 0
        body = await asyncio.to_thread(_summarise, step, entries, length, tokenizer)
        return replace(body, degraded=reason, call_ms=call_ms)


def _milliseconds_since(began: float) -> int:
    return int((time.perf_counter() - began) * 1000)


def _summarise(
    step: CompressionStep, entries: Sequence[Entry], length: Length, tokenizer: PromptTokenizer
) -> BriefBody:
    """Write the version without a model."""
    old = weigh_outdated(step.old.statements, entries) if step.old else []
    shown = [entry.text for entry in entries if entry.holds and entry.kind in _SHOWN_BESIDE]
    statements = summarise(step.turns, old=old, length=length, zone=step.zone, already_shown=shown, pause=Breather())
    return _body(step, statements, entries, tokenizer, brief.BUILT_IN_MODEL)


def _length(step: CompressionStep, entries: Sequence[Entry], tokenizer: PromptTokenizer) -> Length:
    """Return the length of the narrative: by the settings, and shorter where it must pay for itself."""
    settings = step.settings
    if settings.narrative_policy == "words":
        length = replace(length_for_version(step.version), form=settings.narrative_form)
    else:
        cap = settings.memory_summary_token_cap
        length = Length(int(cap * MIN_LENGTH_SHARE), cap, tokenizer.count, settings.narrative_form)
    if not step.must_pay:
        return length
    room = step.max_tokens - _count_tokens(step, (), entries, tokenizer) - HEADING_TOKENS
    if room < MIN_NARRATIVE_TOKENS:
        raise DoesNotPay
    return length.at_most(int(room * WORDS_PER_TOKEN) if length.measure is count_words else room)


def _count_tokens(
    step: CompressionStep, statements: Sequence[Statement], entries: Sequence[Entry], tokenizer: PromptTokenizer
) -> int:
    """Return what a version of the brief costs in a prompt."""
    settings = step.settings
    summary = Summary(tuple(statements), tuple(entries), form=settings.narrative_form)
    max_tokens = settings.memory_brief_token_budget
    return count_brief_tokens(summary, max_tokens=max_tokens, zone=step.zone, tokenizer=tokenizer)


def _body(
    step: CompressionStep,
    statements: Sequence[Statement],
    entries: Sequence[Entry],
    tokenizer: PromptTokenizer,
    model: str,
    reply: SupportedReply | None = None,
) -> BriefBody:
    tokens = _count_tokens(step, statements, entries, tokenizer)
    record = build_record(
        step.messages,
        statements,
        entries,
        old=step.old,
        tokens=(step.tokens_before, tokens),
        now=step.now,
        zone=step.zone,
        model_used=model,
    )
    if reply is not None:
        facts = [*reply.record.get("key_facts", ()), *record["key_facts"]]
        record |= reply.record | {"key_facts": drop_repetitions(facts)[:MAX_KEY_FACTS]}
    return BriefBody(
        tuple(statements),
        tuple(entries),
        record,
        model,
        tokens,
        form=step.settings.narrative_form,
        dropped=reply.dropped if reply else 0,
    )


def _extended_ledger(step: CompressionStep) -> list[Entry]:
    """Return the ledger with what rules find in the new messages."""
    breathe, entries = Breather(), list[Entry]()
    for message in step.messages:
        entries += extract([message], step.zone)
        breathe()
    return ledger.merge(step.old.entries if step.old else (), entries)


def weigh_outdated(statements: Sequence[Statement], entries: Sequence[Entry]) -> list[Statement]:
    """Return the statements; those with a value that holds no more weigh less, so that they are dropped first."""
    ended = [(set(entry.sources), ledger.normalise_words(entry.value)) for entry in entries if not entry.holds]

    def weighed(statement: Statement) -> Statement:
        text = ledger.normalise_words(statement.text)
        is_outdated = any(sources.intersection(statement.sources) and value in text for sources, value in ended)
        return replace(statement, weight=statement.weight * OUTDATED_WEIGHT) if is_outdated else statement

    return [weighed(statement) for statement in statements]
