"""Writes summaries: with a model where there is one, and without it by the built-in summariser.

Rules find ledger entries in either case, so that what must not be lost does not depend on a model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from recollect.brief.model_writer import ModelFailed, ModelWriter, SupportedReply
from recollect.brief.step import MODEL_TIMED_OUT, CompressionStep
from recollect.core.compression import brief, ledger
from recollect.core.compression.brief import BriefBody
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Length, Statement, length_for_version, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.extract import extract
from recollect.core.protocols import Model, Tokenizer
from recollect.runtime.breather import Breather
from recollect.settings import Settings

log = logging.getLogger(__name__)

MIN_LENGTH_SHARE: Final = 0.8  # minimum length as a share of the cap, if there is enough to say (400 of 500)
OUTDATED_WEIGHT: Final = 0.2  # factor for a statement whose value holds no more
MAX_RENDERED_TOKENS: Final = 1000  # brief and ledger together, as a prompt shows them
LINE_TOKENS: Final = 2  # a line of the ledger costs so many beside its text
# Kinds of entries that a prompt shows unasked, so that the narrative need not repeat them.
_SHOWN_BESIDE: Final = (ledger.PREFERENCE, ledger.DECISION, ledger.FACT)


class BriefWriter:
    """Makes the next version of a brief or of a topic's summary."""

    def __init__(self, model: Model | None, *, hosted: bool, tokenizer: Callable[[], Tokenizer]) -> None:
        """A `hosted` prompt is one that the provider keeps; it replies with plain text."""
        self._model = None if model is None else ModelWriter(model, hosted=hosted)
        self._tokenizer = tokenizer

    async def write(self, step: CompressionStep, check: Callable[[], None]) -> BriefBody:
        """Return the next version. Where a model fails, its `degraded` gives the reason."""
        tokenizer = await asyncio.to_thread(self._tokenizer)
        length = _length(step.version, step.settings, tokenizer)
        entries = await asyncio.to_thread(_extended_ledger, step)
        reason = None
        if self._model is not None and not step.ask_model:
            reason = MODEL_TIMED_OUT
        elif self._model is not None:
            try:
                reply = await self._model.ask(step, length, check)
                entries = ledger.merge(entries, reply.entries)
                return _body(step, reply.statements, entries, tokenizer, self._model.name, reply)
            except ModelFailed as error:
                reason = str(error)
                log.warning("the model writes no brief: %s", reason)
        body = await asyncio.to_thread(_summarise, step, entries, length, tokenizer)
        return replace(body, degraded=reason)


def _summarise(step: CompressionStep, entries: Sequence[Entry], length: Length, tokenizer: Tokenizer) -> BriefBody:
    """Write the version without a model."""
    old = weigh_outdated(step.old.statements, entries) if step.old else []
    shown = [entry.text for entry in entries if entry.holds and entry.kind in _SHOWN_BESIDE]
    statements = summarise(step.turns, old=old, length=length, zone=step.zone, already_shown=shown, pause=Breather())
    return _body(step, statements, entries, tokenizer, brief.BUILT_IN_MODEL)


def _length(version: int, settings: Settings, tokenizer: Tokenizer) -> Length:
    if settings.narrative_policy == "words":
        return length_for_version(version)
    cap = settings.memory_summary_token_cap
    return Length(int(cap * MIN_LENGTH_SHARE), cap, tokenizer.count)


def _body(
    step: CompressionStep,
    statements: Sequence[Statement],
    entries: Sequence[Entry],
    tokenizer: Tokenizer,
    model: str,
    reply: SupportedReply | None = None,
) -> BriefBody:
    narrative_tokens = tokenizer.count(render_narrative(statements))
    holding = [ledger.render_entry(entry) for entry in entries if entry.holds]
    ledger_tokens = sum(tokenizer.count(line) + LINE_TOKENS for line in holding)
    tokens = min(narrative_tokens + ledger_tokens, max(MAX_RENDERED_TOKENS, narrative_tokens))
    record = brief.build_record(
        step.messages,
        statements,
        entries,
        tokens=(step.tokens + (step.old.tokens if step.old else 0), tokens),
        now=step.now,
        zone=step.zone,
        model_used=model,
    )
    if reply is not None:
        record |= reply.record
    return BriefBody(tuple(statements), tuple(entries), record, model, tokens, reply.dropped if reply else 0)


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
