"""The brief: the compressed memory of what is older than the tail, and how one version grows out of the last.

What is stored of a version is its `Body`; the ledger's entries are stored once for all versions.
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
from recollect.core.compression.narrative import Statement, narrative
from recollect.core.compression.summary import Summary
from recollect.core.models import JsonObject, Message, Record

BUILT_IN: Final = "recollect-extractive"
FACTS: Final = 3  # that a record names


class CorruptBrief(ValueError):
    """What is stored of a brief cannot be read; it is made anew from the log."""


@dataclass(frozen=True, slots=True)
class Body:
    """One version, as it is made: told statements, the entries of all versions so far, and the record of this fold."""

    statements: tuple[Statement, ...]
    entries: tuple[Entry, ...]
    record: JsonObject
    model_used: str
    tokens: int  # what it costs in a prompt, about
    dropped: int = 0  # sentences and entries that no source supported
    degraded: str | None = None  # why a model that should have written it did not


@dataclass(frozen=True, slots=True)
class Brief(Record):
    """A version of a conversation's brief: everything up to message `through_seq`, told shortly.

    `ledger` has what holds now, in the shape of document B; `entries` also what was superseded, with its validity.
    `grounding` names for each sentence and each entry the messages it rests on.
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
    messages_summarized_count: int  # in all versions up to this
    last_keep_window_index: int  # the seq of the first message that was kept
    tokens: int  # what it costs in a prompt, about
    dropped: int = 0
    degraded: str | None = None

    @property
    def summary(self) -> Summary:
        """Return what the prompt and the next version need of this one."""
        return Summary(self.statements, self.entries, self.through_seq, self.tokens, self.created_at)

    @property
    def summary_version(self) -> int:
        """Document B's name for `version`."""
        return self.version

    @property
    def last_summarized_at(self) -> datetime:
        """Document B's name for `created_at`."""
        return self.created_at


def of_body(body: Body, conversation: str, version: int, *, through: int, messages: int, now: datetime) -> Brief:
    """The brief that a version is once it is stored."""
    return Brief(
        conversation=conversation,
        version=version,
        narrative=narrative(body.statements),
        ledger=ledger.as_data(body.entries),
        record=body.record,
        through_seq=through,
        created_at=now,
        model_used=body.model_used,
        grounding=grounding_of(body.statements, body.entries),
        statements=body.statements,
        entries=body.entries,
        messages_summarized_count=messages,
        last_keep_window_index=through + 1,
        tokens=body.tokens,
        dropped=body.dropped,
        degraded=body.degraded,
    )


def grounding_of(statements: Sequence[Statement], entries: Sequence[Entry]) -> dict[str, list[str]]:
    """For each sentence (by its index) and each entry that holds the ids of its messages."""
    found = {str(place): list(statement.sources) for place, statement in enumerate(statements)}
    for entry in entries:
        if entry.holds:
            found.setdefault(f"{entry.kind}: {ledger.told(entry)}", []).extend(entry.sources)
    return found


def record_of(
    messages: Sequence[Message],
    statements: Sequence[Statement],
    entries: Sequence[Entry],
    *,
    tokens: tuple[int, int],
    now: datetime,
    zone: str,
    model_used: str,
) -> JsonObject:
    """Document A's record of one compression. `tokens` are those of the messages and of what stands for them.

    The ratio is the share of tokens saved; A's own example counts messages, which says nothing of their length.
    """
    before, after = tokens
    said = {message.id for message in messages}
    fresh = [entry for entry in entries if entry.holds and said.intersection(entry.sources)]
    told = sorted(
        (statement for statement in statements if said.intersection(statement.sources)),
        key=lambda statement: -statement.weight,
    )
    facts = [ledger.told(entry) for entry in fresh if entry.kind in (ledger.FACT, ledger.PREFERENCE)]
    intents = [ledger.told(entry) for entry in fresh if entry.kind == ledger.INTENT]
    return {
        "original_message_count": len(messages),
        "compressed_message_count": 1,
        "compression_ratio": round(max(0.0, 1 - after / before), 4) if before else 0.0,
        "timespan": timespan(messages, zone),
        "summary": " ".join(one.text for one in sorted(told[:2], key=lambda one: one.at)),
        "intent": intents[-1] if intents else _opening(messages),
        "key_facts": (facts + [one.text for one in told if one.text not in facts])[:FACTS],
        "decisions": [ledger.told(entry) for entry in fresh if entry.kind == ledger.DECISION],
        "missing_data": [ledger.told(entry) for entry in fresh if entry.kind == ledger.QUESTION],
        "timestamp": now.isoformat(),
        "model_used": model_used,
        "tokens_before": before,
        "tokens_after": after,
    }


def timespan(messages: Sequence[Message], zone: str) -> str:
    """From when to when: "10:00–14:30", with the dates if there are several."""
    if not messages:
        return ""
    info = ZoneInfo(zone)
    first = min(message.at for message in messages).astimezone(info)
    last = max(message.at for message in messages).astimezone(info)
    form = "%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"{first.strftime(form)}–{last.strftime(form)}"


def _opening(messages: Sequence[Message]) -> str:
    """What the user came with, in their words."""
    said = next((message.content for message in messages if message.role == "user" and message.content.strip()), "")
    line = " ".join(said.split())
    return line if len(line) <= 160 else line[:159].rstrip() + "…"


# What is stored, as JSON. Reading it checks every part: rows may be damaged, or written by another version.


def to_stored(body: Body) -> JsonObject:
    return {
        "statements": [
            [one.text, list(one.sources), times.to_micros(one.at), round(one.weight, 4)] for one in body.statements
        ],
        "record": body.record,
        "dropped": body.dropped,
        "degraded": body.degraded,
    }


def from_stored(row: Mapping[str, Any], stored: object, entries: Sequence[Entry], conversation: str) -> Brief:
    """The brief of a row. Raises CorruptBrief where anything is not as `to_stored` wrote it."""
    try:
        if not isinstance(stored, dict) or not isinstance(stored["record"], dict):
            raise CorruptBrief("no object")
        if row["through_seq"] > row["last_seq"] or not isinstance(stored["degraded"], str | None):
            raise CorruptBrief("no place in the log")
        body = Body(
            statements=tuple(_statement(one) for one in stored["statements"]),
            entries=tuple(entries),
            record=stored["record"],
            model_used=row["model"],
            tokens=row["tokens"],
            dropped=int(stored["dropped"]),
            degraded=stored["degraded"],
        )
        created = times.from_micros(row["created_at"])
        return of_body(
            body, conversation, row["version"], through=row["through_seq"], messages=row["messages"], now=created
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptBrief(f"a brief cannot be read: {type(error).__name__}") from error


def _statement(stored: Any) -> Statement:
    text, sources, at, weight = stored
    if not isinstance(text, str) or not all(isinstance(one, str) for one in sources):
        raise CorruptBrief("no statement")
    return Statement(text, tuple(sources), times.from_micros(int(at)), float(weight))
