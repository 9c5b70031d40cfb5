"""The inputs of a prompt: one record that holds everything it is built from. Built by `sources`, read by `build`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import ShorterNarratives
from recollect.core.compression.summary import Summary
from recollect.core.message import Message
from recollect.core.models import JsonObject
from recollect.core.turns import split_into_turns
from recollect.recall.prompt import ledger
from recollect.recall.prompt.ledger import RankedEntry
from recollect.recall.prompt.pack import Candidate
from recollect.recall.prompt.profile import RankedLine
from recollect.recall.prompt.tail import find_named_roles


@dataclass(frozen=True, kw_only=True)
class PromptInputs:
    """Everything that a prompt is built from."""

    conversation: str
    question: str
    system_prompt: str | None
    newest: Sequence[Message]  # the conversation's last messages in order, without the question
    candidates: Sequence[Candidate]  # passages that recall found
    explain_score: Callable[[int], dict[str, float]]  # score parts of the message with an index
    recall_rank: Callable[[int], float] = lambda _: 0.0  # from 0 to 1, how well recall ranks the message with a seq
    zone: str = "UTC"
    summary: Summary = field(default_factory=Summary)  # of the brief, perhaps with the active topic's statements
    brief_version: int | None = None  # None if there is no brief
    shorter: ShorterNarratives = field(default_factory=dict)  # cached shorter forms of the summary's narrative
    ledger: Sequence[Entry] = ()  # entries of the summary, and those of messages that came since
    profile: Sequence[RankedLine] = ()  # most relevant first; none without consent
    topic: JsonObject | None = None  # id and title of the active topic
    degraded: tuple[str, ...] = ()

    @cached_property
    def ranked_entries(self) -> list[RankedEntry]:
        """Return the entries of the ledger, most relevant first."""
        return ledger.rank_entries(self.ledger, self.question, self.recall_rank, self.zone)

    @cached_property
    def turns(self) -> list[list[Message]]:
        """Return the newest messages as turns, oldest first, without system messages: only the caller is system."""
        return split_into_turns([message for message in self.newest if message.role != "system"])

    @cached_property
    def named_roles(self) -> frozenset[str]:
        """Return the roles in which several people speak."""
        return find_named_roles(self.newest)
