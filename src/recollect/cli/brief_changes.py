"""Compares two versions of a brief: statements added and removed, ledger entries added and superseded."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.core.compression.attribution import strip_day_label
from recollect.core.compression.brief import Brief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Statement
from recollect.core.dates.day_notes import add_dates
from recollect.core.models import Record


@dataclass(frozen=True, slots=True)
class BriefChange(Record):
    """The difference between two versions of a brief."""

    conversation: str
    from_version: int  # 0: compared with nothing
    to_version: int
    statements_added: tuple[Statement, ...]
    statements_removed: tuple[Statement, ...]
    entries_added: tuple[Entry, ...]
    entries_superseded: tuple[Entry, ...]


def compare_versions(old: Brief | None, new: Brief, zone: str) -> BriefChange:
    """Return what changed from `old` to `new`; from nothing if `old` is None. `zone` is the conversation's.

    Entries are never dropped: those of `old` are the first of `new`.
    """
    old_statements, old_entries = (old.statements, old.entries) if old else ((), ())
    old_keys = {_statement_key(statement, zone) for statement in old_statements}
    new_keys = {_statement_key(statement, zone) for statement in new.statements}
    pairs = zip(old_entries, new.entries, strict=False)
    return BriefChange(
        conversation=new.conversation,
        from_version=old.version if old else 0,
        to_version=new.version,
        statements_added=tuple(each for each in new.statements if _statement_key(each, zone) not in old_keys),
        statements_removed=tuple(each for each in old_statements if _statement_key(each, zone) not in new_keys),
        entries_added=new.entries[len(old_entries) :],
        entries_superseded=tuple(after for before, after in pairs if before.holds and not after.holds),
    )


def _statement_key(statement: Statement, zone: str) -> str:
    """Return a text that is the same in every version that has this statement.

    A brief of one day has no dates in its statements. In a brief of several days the same statement may begin with
    "[7 May 2023] ", and have "(6 May 2023)" after "yesterday" if it has one source. Both are brought to one form:
    without the label, with the dates.
    """
    text = strip_day_label(statement.text)
    return add_dates(text, statement.at, zone) if len(statement.sources) == 1 else text
