"""The brief's share of a prompt: which entries of the ledger, and how much of the narrative.

The ledger is kept whole and shown by relevance: what bears on the question, and what always matters (an allergy must be
known when dinner is planned, whatever the question resembles).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.compression import ledger
from recollect.core.compression.brief import Brief
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Length, Statement, narrative
from recollect.core.compression.summariser import summarise
from recollect.core.dates.day_notes import WRITTEN, dated
from recollect.core.language import analyser
from recollect.recall.prompt import fence

# What an entry is worth before anything is asked. Names alone say nothing and are not told; links, if asked for.
_WORTH: Final = {
    ledger.PREFERENCE: 0.6,
    ledger.DECISION: 0.6,
    ledger.FACT: 0.6,
    ledger.INTENT: 0.4,
    ledger.QUESTION: 0.4,
    ledger.STRUCTURE: 0.4,
    ledger.URL: 0.3,
}
# Slots that matter whatever is asked.
ORDERS: Final = frozenset(("instruction", "answer style"))  # to an assistant
STANDING: Final = frozenset(("allergy", "diet", "health", "medication", "disability")) | ORDERS
_ALWAYS: Final = 1.0
_ASKED: Final = 1.0  # what it is worth that all words of the question stand in an entry,
_LIKED: Final = 0.5  # and that its message is the best that recall found
_FRESH: Final = 0.1  # and that it is the newest,
_CHANGED: Final = 0.3  # and that it took the place of another, which the narrative may still tell


# Words that mean a day only together with the day on which they were said, and have no date behind them.
_RELATIVE: Final = re.compile(
    r"(?:\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this) (?:week|month|year|summer|winter|spring|fall"
    r"|autumn|night|mon|tues?|wednes|thurs?|fri|satur|sun)\w*)\b"
    r"|أمس|البارحة|اليوم|غدا|بكرة|الماضي|القادم|قبل)" + rf"(?![^()]{{0,30}}{WRITTEN})",
    re.IGNORECASE,
)
WORTH_TELLING: Final = 0.55  # below, an entry says nothing for the question


@dataclass(frozen=True)
class Worthy:
    """An entry and what it is worth for a question."""

    entry: Entry
    worth: float
    before: str  # the value that it replaced
    zone: str

    @cached_property
    def text(self) -> str:
        return _told(self.entry, self.before, self.zone)

    @property
    def always_matters(self) -> bool:
        return self.entry.slot in STANDING and self.entry.trust == "typed"


def weigh(entries: Sequence[Entry], question: str, liked: Callable[[int], float], zone: str) -> list[Worthy]:
    """The entries that hold, best first. `liked` gives 0 to 1 for the seq of a message, by how well recall liked it."""
    asked = set(analyser.words(question))
    held = [entry for entry in entries if entry.holds and entry.kind in _WORTH]
    ended = _replaced(entries)
    found = []
    for place, entry in enumerate(held):
        worth = _WORTH[entry.kind] + _FRESH * (place + 1) / len(held)
        before = ended.get(ledger.slot_of(entry), "") if entry.single else ""
        worth += _CHANGED * bool(before)
        if entry.slot in STANDING and entry.trust == "typed":
            worth += _ALWAYS
        if asked:
            worth += _ASKED * len(asked & _words(f"{entry.slot} {entry.text} {entry.value}")) / len(asked)
        worth += _LIKED * liked(entry.seq)
        found.append(Worthy(entry, worth, before, zone))
    return sorted(found, key=lambda one: -one.worth)


@lru_cache(maxsize=1 << 15)
def _words(text: str) -> frozenset[str]:
    """The same entries are asked again and again."""
    return frozenset(analyser.words(text))


def _replaced(entries: Sequence[Entry]) -> dict[tuple[str, str, str], str]:
    """The last value of each slot that another one replaced."""
    return {ledger.slot_of(entry): entry.value for entry in entries if not entry.holds}


def told(entry: Entry, before: str, zone: str) -> str:
    """The entry as a prompt tells it: with the value that it replaced, and the day if it speaks of days."""
    text = dated(" ".join(ledger.told(entry).split()), entry.at, zone)  # a model's entries have no dates yet
    if _RELATIVE.search(text):
        day = entry.at.astimezone(ZoneInfo(zone)).date()
        text += f" (said {day.day} {times.MONTHS[day.month - 1]} {day.year})"
    if before:
        text += f" (before: {' '.join(before.split())})"
    if entry.kind in (ledger.STRUCTURE, ledger.URL, ledger.QUESTION, ledger.DECISION, ledger.INTENT):
        text = f"{entry.kind}: {text}"
    return text if entry.trust in ("typed", "assistant") else f"{text} ({entry.trust})"


_told = lru_cache(maxsize=1 << 12)(told)


def forget() -> None:
    """What people said, after some of it was erased."""
    _words.cache_clear()
    _told.cache_clear()


def fitting(brief: Brief, most: int, count: Callable[[str], int], zone: str) -> Sequence[Statement]:
    """The narrative's statements, all of them or those that a shorter one has: made anew to fit, not cut off."""
    if count(narrative(brief.statements)) <= most:
        return brief.statements
    return summarise([], old=brief.statements, length=Length(0, most, count), zone=zone) if most > 0 else ()


def lines(chosen: Sequence[Worthy], statements: Sequence[Statement]) -> list[str]:
    """What stands in the fence of entries and narrative, in the order of time."""
    found: list[str] = []
    if chosen:
        ordered = sorted(chosen, key=lambda one: one.entry.seq)
        found += [fence.DATA, *(fence.bullet(text) for text in dict.fromkeys(one.text for one in ordered))]
    if statements:
        found += fence.background(narrative(statements))
    return found
