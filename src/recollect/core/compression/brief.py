"""The brief: the compressed memory of what is older than the tail, its record, and its stored form.

A stored version is a `BriefBody`. The ledger's entries are stored once for all versions, apart from the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from recollect.core import times
from recollect.core.compression import ledger
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import NarrativeForm, Statement, render_narrative
from recollect.core.compression.summary import Summary
from recollect.core.models import JsonObject, Record

BUILT_IN_MODEL: Final = "recollect-extractive"  # `model_used` of a brief that the built-in summariser wrote


class CorruptBrief(ValueError):
    """Raised if a stored brief cannot be read. The caller drops it, and the worker builds it anew from the log."""


@dataclass(frozen=True, slots=True)
class BriefBody:
    """One version as a writer returns it: statements, the entries of all versions so far, and its record."""

    statements: tuple[Statement, ...]
    entries: tuple[Entry, ...]
    record: JsonObject
    model_used: str
    tokens: int  # cost in a prompt whose question prefers no entry
    form: NarrativeForm = "prose"
    dropped: int = 0  # sentences and entries of a model that no source supports
    degraded: str | None = None  # the reason why the built-in summariser wrote it instead of the model
    call_ms: int = 0  # how long the model took; not stored


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
    tokens: int  # cost in a prompt whose question prefers no entry
    form: NarrativeForm = "prose"
    dropped: int = 0
    degraded: str | None = None

    @property
    def summary(self) -> Summary:
        """Return the parts that the prompt and the next version need."""
        intent = self.record.get("intent")
        return Summary(
            self.statements,
            self.entries,
            self.through_seq,
            self.tokens,
            self.created_at,
            form=self.form,
            intent=intent if isinstance(intent, str) else "",
        )

    @property
    def summary_version(self) -> int:
        """Return `version`, under the name that the preset `sessions` is documented with."""
        return self.version

    @property
    def last_summarized_at(self) -> datetime:
        """Return `created_at`, under the name that the preset `sessions` is documented with."""
        return self.created_at

    def to_values(self) -> JsonObject:
        """Return the fields by name, with the two further names."""
        more = {"summary_version": self.summary_version, "last_summarized_at": self.last_summarized_at}
        return Record.to_values(self) | more


def to_brief(body: BriefBody, conversation: str, version: int, *, through: int, messages: int, now: datetime) -> Brief:
    """Return the brief of a body. `messages` counts those of all versions up to this one."""
    return Brief(
        conversation=conversation,
        version=version,
        narrative=render_narrative(body.statements, body.form),
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
        form=body.form,
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


# The stored form is JSON. Reading it checks every part: rows may be damaged, or written by another release.


def to_stored(body: BriefBody) -> JsonObject:
    """Return the JSON that is stored for a version. The entries and the columns of its row are not in it."""
    return {
        "statements": [
            [statement.text, list(statement.sources), times.to_micros(statement.at), round(statement.weight, 4)]
            for statement in body.statements
        ],
        "record": body.record,
        "form": body.form,
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
            form="bullets" if stored.get("form") == "bullets" else "prose",  # older releases stored none
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
