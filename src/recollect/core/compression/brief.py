"""The brief: the compressed memory of what is older than the tail, its record, and its stored form.

A stored version is a `BriefBody`. The ledger's entries are stored once for all versions, apart from the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.compression import ledger
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Statement, render_narrative
from recollect.core.compression.summary import Summary
from recollect.core.message import Message
from recollect.core.models import JsonObject, Record

BUILT_IN_MODEL: Final = "recollect-extractive"  # `model_used` of a brief that the built-in summariser wrote
MAX_KEY_FACTS: Final = 3  # in the record of a compression
_MAX_INTENT_CHARS: Final = 160


class CorruptBrief(ValueError):
    """Raised if a stored brief cannot be read. The caller drops it, and the worker builds it anew from the log."""


@dataclass(frozen=True, slots=True)
class BriefBody:
    """One version as a writer returns it: statements, the entries of all versions so far, and its record."""

    statements: tuple[Statement, ...]
    entries: tuple[Entry, ...]
    record: JsonObject
    model_used: str
    tokens: int  # estimated cost in a prompt
    dropped: int = 0  # sentences and entries of a model that no source supports
    degraded: str | None = None  # the reason why the built-in summariser wrote it instead of the model


@dataclass(frozen=True, slots=True)
class Brief(Record):
    """A version of a conversation's brief. It covers every message up to `through_seq`.

    `ledger` has the entries that hold now, as JSON; `entries` also has the superseded ones, with their validity.
    `grounding` maps each statement and each valid entry to the ids of its source messages.
    """

    conversation: str
    version: int
    narrative: str
    ledger: JsonObject
    record: JsonObject
    through_seq: int
    created_at: datetime
    model_used: str
    grounding: dict[str, list[str]]
    statements: tuple[Statement, ...]
    entries: tuple[Entry, ...]
    messages_summarized_count: int  # in all versions up to this one
    last_keep_window_index: int  # seq of the first message after the brief
    tokens: int  # estimated cost in a prompt
    dropped: int = 0
    degraded: str | None = None

    @property
    def summary(self) -> Summary:
        """Return the parts that the prompt and the next version need."""
        return Summary(self.statements, self.entries, self.through_seq, self.tokens, self.created_at)

    @property
    def summary_version(self) -> int:
        """Return `version`, under the name that the preset `sessions` is documented with."""
        return self.version

    @property
    def last_summarized_at(self) -> datetime:
        """Return `created_at`, under the name that the preset `sessions` is documented with."""
        return self.created_at


def to_brief(body: BriefBody, conversation: str, version: int, *, through: int, messages: int, now: datetime) -> Brief:
    """Return the brief of a body. `messages` counts those of all versions up to this one."""
    return Brief(
        conversation=conversation,
        version=version,
        narrative=render_narrative(body.statements),
        ledger=ledger.to_important_data(body.entries),
        record=body.record,
        through_seq=through,
        created_at=now,
        model_used=body.model_used,
        grounding=build_grounding(body.statements, body.entries),
        statements=body.statements,
        entries=body.entries,
        messages_summarized_count=messages,
        last_keep_window_index=through + 1,
        tokens=body.tokens,
        dropped=body.dropped,
        degraded=body.degraded,
    )


def build_grounding(statements: Sequence[Statement], entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return the ids of the source messages, by the index of a statement or by "kind: text" of a valid entry."""
    sources = {str(index): list(statement.sources) for index, statement in enumerate(statements)}
    for entry in entries:
        if entry.holds:
            sources.setdefault(f"{entry.kind}: {ledger.render_entry(entry)}", []).extend(entry.sources)
    return sources


def build_record(
    messages: Sequence[Message],
    statements: Sequence[Statement],
    entries: Sequence[Entry],
    *,
    tokens: tuple[int, int],
    now: datetime,
    zone: str,
    model_used: str,
) -> JsonObject:
    """Return the record of one compression as JSON: its sizes, and what was new in the compressed messages.

    `tokens` are those of the compressed messages, and of the brief that replaces them. `compression_ratio` is the
    share of tokens saved. A ratio of message counts would ignore their length.
    """
    tokens_before, tokens_after = tokens
    message_ids = {message.id for message in messages}
    new_entries = [entry for entry in entries if entry.holds and message_ids.intersection(entry.sources)]
    new_statements = sorted(
        (statement for statement in statements if message_ids.intersection(statement.sources)),
        key=lambda statement: -statement.weight,
    )
    facts = [ledger.render_entry(entry) for entry in new_entries if entry.kind in (ledger.FACT, ledger.PREFERENCE)]
    intents = [ledger.render_entry(entry) for entry in new_entries if entry.kind == ledger.INTENT]
    return {
        "original_message_count": len(messages),
        "compressed_message_count": 1,
        "compression_ratio": round(max(0.0, 1 - tokens_after / tokens_before), 4) if tokens_before else 0.0,
        "timespan": format_timespan(messages, zone),
        "summary": render_narrative(sorted(new_statements[:2], key=lambda statement: statement.at)),
        "intent": intents[-1] if intents else _first_user_words(messages),
        "key_facts": (facts + [statement.text for statement in new_statements if statement.text not in facts])[
            :MAX_KEY_FACTS
        ],
        "decisions": [ledger.render_entry(entry) for entry in new_entries if entry.kind == ledger.DECISION],
        "missing_data": [ledger.render_entry(entry) for entry in new_entries if entry.kind == ledger.QUESTION],
        "timestamp": now.isoformat(),
        "model_used": model_used,
        "tokens_before": tokens_before,
        "tokens_after": tokens_after,
    }


def format_timespan(messages: Sequence[Message], zone: str) -> str:
    """Return the first and last local time, as "10:00–14:30"; with dates if they are on different days."""
    if not messages:
        return ""
    info = ZoneInfo(zone)
    first = min(message.at for message in messages).astimezone(info)
    last = max(message.at for message in messages).astimezone(info)
    form = "%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"{first.strftime(form)}–{last.strftime(form)}"


def _first_user_words(messages: Sequence[Message]) -> str:
    """Return the beginning of the first user message, as the intent where no entry states one."""
    text = next((message.content for message in messages if message.role == "user" and message.content.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= _MAX_INTENT_CHARS else line[: _MAX_INTENT_CHARS - 1].rstrip() + "…"


# The stored form is JSON. Reading it checks every part: rows may be damaged, or written by another release.


def to_stored(body: BriefBody) -> JsonObject:
    """Return the JSON that is stored for a version. The entries and the columns of its row are not in it."""
    return {
        "statements": [
            [statement.text, list(statement.sources), times.to_micros(statement.at), round(statement.weight, 4)]
            for statement in body.statements
        ],
        "record": body.record,
        "dropped": body.dropped,
        "degraded": body.degraded,
    }


def from_stored(row: Mapping[str, Any], stored: object, entries: Sequence[Entry], conversation: str) -> Brief:
    """Return the brief of a row. Raise CorruptBrief if a part is not as `to_stored` wrote it."""
    try:
        if not isinstance(stored, dict) or not isinstance(stored["record"], dict):
            raise CorruptBrief("the stored body or its record is no JSON object")
        if row["through_seq"] > row["last_seq"] or not isinstance(stored["degraded"], str | None):
            raise CorruptBrief("the brief covers messages that the log does not have")
        body = BriefBody(
            statements=tuple(_read_statement(part) for part in stored["statements"]),
            entries=tuple(entries),
            record=stored["record"],
            model_used=row["model"],
            tokens=row["tokens"],
            dropped=int(stored["dropped"]),
            degraded=stored["degraded"],
        )
        created = times.from_micros(row["created_at"])
        return to_brief(
            body, conversation, row["version"], through=row["through_seq"], messages=row["messages"], now=created
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptBrief(f"a brief cannot be read: {type(error).__name__}") from error


def _read_statement(stored: Any) -> Statement:
    text, sources, at, weight = stored
    if not isinstance(text, str) or not all(isinstance(source, str) for source in sources):
        raise CorruptBrief("a stored statement has no text or no sources")
    return Statement(text, tuple(sources), times.from_micros(int(at)), float(weight))
