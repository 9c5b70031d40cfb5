"""Writes briefs: by a model where there is one, else (and when it fails) by the built-in compressor.

Rules find ledger entries in either case, so that what must not be lost does not hang on a model's mood. What a model
says is taken only as far as the messages support it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from recollect.brief.compression import UNANSWERED, Fold
from recollect.core.compression import brief, ledger, model_reply
from recollect.core.compression.brief import Body
from recollect.core.compression.grounding import Said, Sources, sentences
from recollect.core.compression.ledger import Entry
from recollect.core.compression.model_reply import InvalidReply, Reply
from recollect.core.compression.narrative import Length, Statement, ladder, narrative, words
from recollect.core.compression.summariser import summarise
from recollect.core.errors import RecollectError
from recollect.core.extract import extract
from recollect.core.language import speech
from recollect.core.models import JsonObject, Message
from recollect.core.protocols import Model, Tokenizer
from recollect.core.text import storable
from recollect.jobs.worker import is_ending
from recollect.runtime.deadline import awaited
from recollect.settings import Settings

log = logging.getLogger(__name__)

LEAST: Final = 0.8  # of the cap in tokens that a narrative has, where there is enough to tell (D: 400 of 500)
OUTDATED: Final = 0.2  # of its weight is left to a statement of something that holds no more
ANSWER: Final = 4000  # tokens a model may answer with
WORKED: Final = 0.0005  # seconds of work on a thread until others may have a turn,
RESTED: Final = 0.00005  # and how long they have it at least
RENDERED: Final = 1000  # tokens of brief and ledger that a prompt holds at most
_TOLD_BESIDE: Final = (ledger.PREFERENCE, ledger.DECISION, ledger.FACT)  # in a prompt, unasked; the narrative need not
_TOLD_BY_PEOPLE: Final = (ledger.PREFERENCE, ledger.DECISION, ledger.FACT, ledger.INTENT, ledger.QUESTION)


class ModelFailed(Exception):
    """The model gave nothing that can be used; the reason is its argument."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A model's answer after the check against its sources."""

    statements: list[Statement]
    entries: list[Entry]
    record: JsonObject
    dropped: int


def _patience(settings: Settings) -> float:
    """Seconds until a model has failed."""
    return settings.provider_timeout_seconds * (settings.provider_retries + 1) + 1


class BriefWriter:
    def __init__(
        self,
        model: Model | None,
        *,
        hosted: bool,
        tokenizer: Callable[[], Tokenizer],
    ) -> None:
        """A `hosted` prompt answers with plain text."""
        self._model, self._hosted, self._tokenizer = model, hosted, tokenizer

    async def write(self, fold: Fold, check: Callable[[], None]) -> Body:
        tokenizer = await asyncio.to_thread(self._tokenizer)
        length = self._length(fold.version, fold.settings, tokenizer)
        entries = await asyncio.to_thread(_known, fold)
        reason = None
        if self._model is not None and not fold.ask_model:
            reason = UNANSWERED
        elif self._model is not None:
            try:
                told = await self._ask(self._model, fold, length, check)
                entries = ledger.merge(entries, told.entries)
                return self._body(fold, told.statements, entries, tokenizer, self._model.name, told)
            except ModelFailed as error:
                reason = str(error)
                log.warning("the model writes no brief: %s", reason)
        body = await asyncio.to_thread(self._built_in, fold, entries, length, tokenizer)
        return replace(body, degraded=reason)

    def _built_in(self, fold: Fold, entries: Sequence[Entry], length: Length, tokenizer: Tokenizer) -> Body:
        before = outdated(fold.old.statements, entries) if fold.old else []
        known = [entry.text for entry in entries if entry.holds and entry.kind in _TOLD_BESIDE]
        statements = summarise(fold.turns, old=before, length=length, zone=fold.zone, known=known, pause=Pause())
        return self._body(fold, statements, entries, tokenizer, brief.BUILT_IN)

    def _length(self, version: int, settings: Settings, tokenizer: Tokenizer) -> Length:
        if settings.narrative_policy == "words":
            return ladder(version)
        most = settings.memory_summary_token_cap
        return Length(int(most * LEAST), most, tokenizer.count)

    def _body(
        self,
        fold: Fold,
        statements: Sequence[Statement],
        entries: Sequence[Entry],
        tokenizer: Tokenizer,
        model: str,
        told: _Told | None = None,
    ) -> Body:
        text = narrative(statements)
        shown = tokenizer.count(text)
        data = sum(tokenizer.count(ledger.told(entry)) + 2 for entry in entries if entry.holds)
        tokens = min(shown + data, max(RENDERED, shown))
        record = brief.record_of(
            fold.messages,
            statements,
            entries,
            tokens=(fold.tokens + (fold.old.tokens if fold.old else 0), tokens),
            now=fold.now,
            zone=fold.zone,
            model_used=model,
        )
        if told is not None:
            record |= told.record
        dropped = told.dropped if told else 0
        return Body(tuple(statements), tuple(entries), record, model, tokens, dropped)

    # With a model

    async def _ask(self, model: Model, fold: Fold, length: Length, check: Callable[[], None]) -> _Told:
        """One call, and one more if the answer has not the right form. Raises ModelFailed."""
        old = fold.old
        asked = model_reply.request(
            old.narrative if old else "", old.entries if old else (), fold.turns, _described(length)
        )
        text = await self._answer(model, asked, fold.settings, check)
        try:
            reply = self._read(text)
        except InvalidReply as error:
            repair = {"role": "user", "content": model_reply.REPAIR.format(error=error)}
            again = [*asked, {"role": "assistant", "content": text[:20_000]}, repair]
            if self._hosted:
                raise ModelFailed(f"invalid reply: {error}") from None
            try:
                reply = self._read(await self._answer(model, again, fold.settings, check))
            except InvalidReply as second:
                raise ModelFailed(f"invalid reply: {second}") from None
        return await asyncio.to_thread(_checked, reply, fold, length)

    def _read(self, text: str) -> Reply:
        return model_reply.plain(text) if self._hosted else model_reply.parse(text)

    async def _answer(
        self, model: Model, messages: Sequence[JsonObject], settings: Settings, check: Callable[[], None]
    ) -> str:
        schema = None if self._hosted else model_reply.SCHEMA
        try:
            asking = model.complete(messages, schema=schema, max_tokens=ANSWER)
            text = await awaited(asking, _patience(settings), check)
        except RecollectError as error:
            if error.code in ("interrupted", "store_closed"):
                raise
            raise ModelFailed(error.code) from error
        except TimeoutError as error:
            raise ModelFailed(UNANSWERED) from error
        except Exception as error:  # whatever a model of somebody else may raise
            if is_ending(error):
                raise
            raise ModelFailed(type(error).__name__) from error
        if not isinstance(text, str):
            raise ModelFailed("no text")
        return text


class Pause:
    """For work that keeps the interpreter busy on a thread: lets others have it again and again.

    Without it a message that is stored meanwhile would wait some milliseconds for each of its steps.
    """

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def __call__(self) -> None:
        if time.perf_counter() - self._since > WORKED:
            time.sleep(RESTED)
            self._since = time.perf_counter()


def _known(fold: Fold) -> list[Entry]:
    """The ledger with what rules find in the new messages."""
    pause, found = Pause(), list[Entry]()
    for message in fold.messages:
        found += extract([message], fold.zone)
        pause()
    return ledger.merge(fold.old.entries if fold.old else (), found)


def outdated(statements: Sequence[Statement], entries: Sequence[Entry]) -> list[Statement]:
    """The statements; those that tell a value which holds no more weigh less, so that they go first."""
    over = [(set(entry.sources), ledger.normal(entry.value)) for entry in entries if not entry.holds]

    def weighed(one: Statement) -> Statement:
        text = ledger.normal(one.text)
        old = any(sources.intersection(one.sources) and value in text for sources, value in over)
        return replace(one, weight=one.weight * OUTDATED) if old else one

    return [weighed(one) for one in statements]


def _described(length: Length) -> str:
    if length.measure is words:
        return f"{length.least} to {length.most} words"
    return f"at most {length.most} tokens (about {int(length.most * 0.7)} words)"


def _checked(reply: Reply, fold: Fold, length: Length) -> _Told:
    """What of an answer its sources support. Raises ModelFailed if too little is left."""
    said = [one for one in fold.messages if one.role in ("user", "assistant") and one.source != "tool"]
    old = fold.old
    names = [message.name for message in said if message.name]
    before = [Said(one.sources, one.text) for one in old.statements] if old else []
    before += [Said(one.sources, one.text) for one in old.entries] if old else []
    sources = Sources([*map(_said, said), *before], names=names)
    own = Sources([*map(_said, filter(is_said_by_a_person, said)), *before], names=names)
    times = {message.id: message for message in said}
    moments = {one: told.at for told in (old.statements if old else ()) for one in told.sources}
    moments |= {message.id: message.at for message in said}
    statements, dropped = [], 0
    for sentence in sentences(reply.narrative):
        support = sources.support(sentence)
        if support and storable(sentence)[1] == 0:
            at = min((moments[one] for one in support if one in moments), default=old.created_at if old else fold.now)
            statements.append(Statement(sentence, support, at, 1.0))
        else:
            dropped += 1
    if not statements:
        raise ModelFailed("nothing in it was said")
    if length.measure(narrative(statements)) > length.most:
        statements = summarise([], old=statements, length=length, zone=fold.zone)
    if old is not None and 2 * words(narrative(statements)) < min(words(old.narrative), length.least or 60):
        raise ModelFailed("the summary shrank")
    entries = []
    for item in reply.ledger:
        entry = _entry(item, own if item.kind in _TOLD_BY_PEOPLE else sources, times, fold)
        dropped += entry is None
        entries += [entry] if entry is not None else []
    record, lost = _record(reply, sources)
    return _Told(statements, entries, record, dropped + lost)


def _said(message: Message) -> Said:
    return Said((message.id,), message.content, speech.speaker(message))


def is_said_by_a_person(message: Message) -> bool:
    """By the user, or by someone with a name; a tool's words never count as what a person said."""
    return message.role == "user" or (message.role == "assistant" and message.name is not None)


def _entry(item: model_reply.LedgerItem, sources: Sources, said: dict[str, Message], fold: Fold) -> Entry | None:
    text = " ".join(item.text.split()) or item.value
    if item.kind not in ledger.KINDS or not item.value.strip() or storable(item.slot + text + item.value)[1]:
        return None
    support = sources.support(item.value) and sources.support(text)
    if not support:
        return None
    first = min((said[one] for one in support if one in said), key=lambda one: one.seq, default=None)
    if first is None:
        return None  # told before: the old brief has it
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


def _record(reply: Reply, sources: Sources) -> tuple[JsonObject, int]:
    """The parts of document A's record that a model wrote, as far as they are supported."""
    record: JsonObject = {}
    dropped = 0
    for name in ("summary", "intent"):
        text = " ".join(getattr(reply, name).split())
        if text and sources.support(text):
            record[name] = text
        elif text:
            dropped += 1
    for name in ("key_facts", "decisions", "missing_data"):
        texts = [" ".join(text.split()) for text in getattr(reply, name)]
        kept = [text for text in texts if text and sources.support(text)]
        dropped += len(texts) - len(kept)
        if kept:
            record[name] = kept[: brief.FACTS] if name == "key_facts" else kept
    return record, dropped
