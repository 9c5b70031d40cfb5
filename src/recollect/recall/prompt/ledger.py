"""The brief's share of a prompt: which entries of the ledger, and how much of the narrative.

The ledger is kept whole and shown by relevance: entries that concern the question, and those that always matter. An
allergy must be known when dinner is planned, whatever words the question has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.compression import labels, ledger
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Length, NarrativeForm, Statement, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.dates.day_notes import NOTE_PATTERN, add_dates
from recollect.core.language import analyser
from recollect.recall.prompt import fence

# Relevance of an entry by its kind. Entities are missing: a name alone says nothing. Links are shown if asked for.
_BASE_RELEVANCE: Final = {
    ledger.PREFERENCE: 0.6,
    ledger.DECISION: 0.6,
    ledger.FACT: 0.6,
    ledger.INTENT: 0.4,
    ledger.QUESTION: 0.4,
    ledger.STRUCTURE: 0.4,
    ledger.URL: 0.3,
}
INSTRUCTION_SLOTS: Final = frozenset(("instruction", "answer style"))  # addressed to an assistant
ALWAYS_RELEVANT_SLOTS: Final = frozenset(("allergy", "diet", "health", "medication", "disability")) | INSTRUCTION_SLOTS
# What is added to the relevance of an entry:
_ALWAYS_RELEVANT_BONUS: Final = 1.0
_WORDS_BONUS: Final = 1.0  # times the share of the question's words that it has
_RECALL_BONUS: Final = 0.5  # times how well recall ranks its message
_NEWEST_BONUS: Final = 0.1  # for the newest; less the older it is
_REPLACED_BONUS: Final = 0.3  # if it replaced a value, which the narrative may still state
MIN_SHOWN_RELEVANCE: Final = 0.55  # less relevant entries are not shown
CACHED_WORDS: Final = 1 << 15  # entries whose words are cached
CACHED_TEXTS: Final = 1 << 12  # entries whose text is cached

# Words that mean a day only together with the day on which they were said, and have no date after them.
_RELATIVE_DAY: Final = re.compile(
    r"(?:\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this) (?:week|month|year|summer|winter|spring|fall"
    r"|autumn|night|mon|tues?|wednes|thurs?|fri|satur|sun)\w*)\b"
    r"|أمس|البارحة|اليوم|غدا|بكرة|الماضي|القادم|قبل)" + rf"(?![^()]{{0,30}}{NOTE_PATTERN})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class RankedEntry:
    """An entry of the ledger, and its relevance for a question."""

    entry: Entry
    relevance: float
    replaced: str  # the value that it replaced, or nothing
    zone: str

    @cached_property
    def text(self) -> str:
        """Return the entry as a prompt shows it."""
        return _cached_text(self.entry, self.replaced, self.zone)

    @property
    def always_matters(self) -> bool:
        """Return whether the entry matters for every question."""
        return self.entry.slot in ALWAYS_RELEVANT_SLOTS and self.entry.trust == "typed"


def rank_entries(
    entries: Sequence[Entry], question: str, recall_rank: Callable[[int], float], zone: str
) -> list[RankedEntry]:
    """Return the entries that hold, most relevant first.

    `recall_rank` returns from 0 to 1 how well recall ranks the message with a seq.
    """
    question_words = set(analyser.words(question))
    valid = [entry for entry in entries if entry.holds and entry.is_important and entry.kind in _BASE_RELEVANCE]
    replaced_values = _find_replaced(entries)
    ranked = []
    for number, entry in enumerate(valid, 1):
        relevance = _BASE_RELEVANCE[entry.kind] + _NEWEST_BONUS * number / len(valid)
        replaced = replaced_values.get(ledger.slot_key(entry), "") if entry.single else ""
        relevance += _REPLACED_BONUS * bool(replaced)
        if entry.slot in ALWAYS_RELEVANT_SLOTS and entry.trust == "typed":
            relevance += _ALWAYS_RELEVANT_BONUS
        if question_words:
            shared = question_words & _words_of(f"{entry.slot} {entry.text} {entry.value}")
            relevance += _WORDS_BONUS * len(shared) / len(question_words)
        relevance += _RECALL_BONUS * recall_rank(entry.seq)
        ranked.append(RankedEntry(entry, relevance, replaced, zone))
    return sorted(ranked, key=lambda ranked_entry: -ranked_entry.relevance)


@lru_cache(maxsize=CACHED_WORDS)
def _words_of(text: str) -> frozenset[str]:
    """Return the words of a text. Cached, because every question compares the same entries."""
    return frozenset(analyser.words(text))


def _find_replaced(entries: Sequence[Entry]) -> dict[tuple[str, str, str], str]:
    """Return the last replaced value of each slot."""
    return {ledger.slot_key(entry): entry.value for entry in entries if not entry.holds}


def render_for_prompt(entry: Entry, replaced: str, zone: str) -> str:
    """Return an entry as a prompt shows it: with the value it replaced, and with its day if it names one relatively."""
    language = labels.language_of(entry.text)
    text = " ".join(ledger.render_entry(entry).split())
    text = add_dates(text, entry.at, zone)  # entries that a model wrote have no dates yet
    if _RELATIVE_DAY.search(text):
        day = entry.at.astimezone(ZoneInfo(zone)).date()
        text += f" {labels.said_note(day, language)}"
    if replaced:
        text += f" {labels.replaced_note(' '.join(replaced.split()), language)}"
    if entry.kind in (ledger.STRUCTURE, ledger.URL, ledger.QUESTION, ledger.DECISION, ledger.INTENT):
        text = f"{labels.kind_label(entry.kind, language)}: {text}"
    return text if entry.trust in ("typed", "assistant") else f"{text} ({entry.trust})"


_cached_text = lru_cache(maxsize=CACHED_TEXTS)(render_for_prompt)


def forget() -> None:
    """Forget the cached words and texts of entries. They are not sorted by person, so all of them go."""
    _words_of.cache_clear()
    _cached_text.cache_clear()


def fit_statements(statements: Sequence[Statement], length: Length, zone: str) -> Sequence[Statement]:
    """Return the statements of a narrative that fits: all of them, or those of a shorter summary. It is not cut off."""
    if length.measure_all(statements) <= length.maximum:
        return statements
    return summarise([], old=statements, length=length, zone=zone) if length.maximum > 0 else ()


def render_lines(
    entries: Sequence[RankedEntry], statements: Sequence[Statement], form: NarrativeForm = "prose"
) -> list[str]:
    """Return the lines of entries, oldest first, and of the narrative. Equal entries are shown once.

    Bullets of the narrative begin on a line of their own. The fence indents them: they are stored text.
    """
    lines: list[str] = []
    if entries:
        by_time = sorted(entries, key=lambda ranked_entry: ranked_entry.entry.seq)
        texts = dict.fromkeys(ranked_entry.text for ranked_entry in by_time)
        lines += [fence.LEDGER_HEADING, *(fence.render_bullet(text) for text in texts)]
    if statements:
        text = render_narrative(statements, form)
        lines += fence.render_summary(f"\n{text}" if form == "bullets" else text)
    return lines
