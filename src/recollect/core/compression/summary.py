"""A summary of older messages. Briefs and topics share it, so one writer and one prompt serve both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import NarrativeForm, Statement, render_narrative


@dataclass(frozen=True, slots=True)
class Summary:
    """Statements in the order of the narrative, and the ledger entries of the messages up to `through_seq`."""

    statements: tuple[Statement, ...] = ()
    entries: tuple[Entry, ...] = ()
    through_seq: int = 0  # the last message that it covers
    tokens: int = 0  # estimated cost in a prompt
    created_at: datetime | None = None
    form: NarrativeForm = "prose"
    intent: str = ""  # the main goal, as the record of the brief has it

    @property
    def narrative(self) -> str:
        """Return the statements as one text."""
        return render_narrative(self.statements, self.form)
