"""Date expressions in a question, read without a model: from words to periods in which messages may lie.

What the words around a date add ("since", "early", "between … and …") is read here, so every kind of date can have it.
Words that are often no date ("may", "march", "fall", a bare number) count only where those neighbours say so. Only the
finished period is turned into UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.dates.date_rules import RECURRING, RULES, Resolver, Span, group, whole_days
from recollect.core.dates.date_words import DAY, QUARTERS, SEASONS, THIRDS, fill, fold, key_of
from recollect.core.times import EARLIEST, LATEST, in_zone, load_zone

MOST_PERIODS: Final = 8
_MOST_MENTIONS: Final = 32  # more is a list, not a question


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to, not including, `stop`, both in UTC, and the words of the query that said so."""

    start: datetime
    stop: datetime
    text: str


def periods(query: str, *, now: datetime, zone: str = "UTC") -> list[Period]:
    """The periods a question names, in its order, each once. `now` is when it was asked, `zone` where."""
    info = load_zone(zone)
    local = in_zone(now, zone).astimezone(info).replace(tzinfo=None)
    text, places = fold(query)
    found: dict[tuple[datetime, datetime], Period] = {}
    for start, stop, spans in _statements(text, local):
        said = query[places[start] : max(places[stop], places[stop - 1] + 1)]
        for period in _in_utc(spans, info, said):
            found.setdefault((period.start, period.stop), period)
        if len(found) >= MOST_PERIODS:
            break
    return list(found.values())[:MOST_PERIODS]


def mentions_time(query: str) -> bool:
    """Whether the question asks for a time, so that passages with dates may answer it."""
    return _ASKS_TIME.search(fold(query)[0]) is not None


def _in_utc(spans: list[Span], info: ZoneInfo, said: str) -> Iterator[Period]:
    for span in spans:
        try:
            start, stop = (moment.replace(tzinfo=info).astimezone(UTC) for moment in span)
        except OverflowError:  # the edge of the calendar
            continue
        if start < stop:  # a zone that moved over the date line has days that never were
            yield Period(start, stop, said)


# Neighbours


def _ending(pattern: str) -> re.Pattern[str]:
    return re.compile(fill(pattern) + "$", re.IGNORECASE)


_THIRD: Final = _ending(r"\b(?P<third>THIRD)[ -](?:in )?(?:the |شهر )?")
_OPEN: Final = _ending(
    r"\b(?P<open>since|after|before|until|till|up to|prior to|منذ|بعد|قبل|حتي) (?:the |شهر |عام |سنه |يوم )?"
)
_BETWEEN: Final = _ending(r"\b(?:between|from|بين|من) (?:the |شهر |عام )?")
_INSIDE: Final = _ending(
    r"(?:\b(?:in|of|during|from|between|around|through|throughout|over|year) (?:the )?"
    r"|\b(?:في|خلال|شهر|عام|سنه|من|بين) (?:شهر |عام |سنه )?|\b[بلف])"
)
_TO: Final = re.compile(fill("(?:UPTO)(?:the )?"), re.IGNORECASE)
_AND: Final = re.compile(",? (?:and|or|او) (?:in |the )?|, | و ?", re.IGNORECASE)
_DOUBTFUL: Final = re.compile(  # alone, these are more often a word, a name or a number
    "|".join((r"[a-z]{3}\.?|march|april|june|sept\.?|august|اب|مارس|\d{4}(?:-\d\d)?", *SEASONS, *QUARTERS)),
    re.IGNORECASE,
)
_ASKS_TIME: Final = re.compile(
    r"\bwhen(?:'s|'d| (?:did|do|does|was|were|is|are|am|will|would|have|has|had|should|can)\b| ?\?)"
    r"|\b(?:what|which)(?:'s| is| was)?(?: the)? (?:exact )?(?:(?:date|(?:week)?day|week|month|year|time)s?|season)\b"
    r"|\bhow (?:long ago|long has it been|long since|many (?:days|weeks|months|years) (?:ago|since|have|has|passed))\b"
    r"|\bsince when\b|\bمتي\b|\bاي (?:يوم|تاريخ|شهر|سنه|عام|اسبوع|وقت|ساعه)\b"
    r"|\bما (?:هو )?تاريخ\b|\b(?:قبل|منذ) كم\b|\bكم مضي\b",
    re.IGNORECASE,
)


# What every date in plain English has in it: a part of a word, how a word begins, or digits as dates have them.
_HINT: Final = re.compile(
    r"day|night|morning|afternoon|evening|tomorrow|hour|week|month|quarter|year|spring|summer|autumn|fall|winter"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|q[1-4])"
    r"|\d{4}|\d[-/.]\d|\d0s",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A date found in the text; `start` is that of its "early" or "late", if it has one."""

    match: re.Match[str]
    resolver: Resolver
    third: re.Match[str] | None
    start: int
    stop: int

    @property
    def floats(self) -> bool:
        """Whether it recurs, and which one is meant depends on what stands beside it."""
        told = any(group(self.match, name) for name in ("rel", "which", "year", "week", "n"))
        return self.resolver in RECURRING and not told

    def spans(self, now: datetime, later: timedelta = DAY * 0) -> list[Span]:
        """Empty for what is no date after all, as 31 February, or lies beyond the calendar."""
        try:
            spans = self.resolver(self.match, now + later)
        except (ValueError, OverflowError, IndexError):
            return []
        return [_third(span, key_of(THIRDS, self.third["third"])) for span in spans] if self.third else spans


def _third(span: Span, part: int) -> Span:
    days = (span.stop - span.start) // DAY
    if days < 3:  # "late last night"
        return span
    return Span(span.start + days * part // 3 * DAY, span.start + days * (part + 1) // 3 * DAY)


def _before(pattern: re.Pattern[str], text: str, place: int) -> re.Match[str] | None:
    return pattern.search(text, max(0, place - 40), place)


def mentions(text: str) -> tuple[Mention, ...]:
    """The dates of a text as `fold` leaves it, from left to right."""
    if text.isascii() and not _HINT.search(text):  # most questions speak of no time, and rules are many
        return ()
    found = [(match, resolver) for resolver, pattern in RULES for match in pattern.finditer(text)]
    found.sort(key=lambda each: (each[0].start(), -each[0].end()))
    chosen: list[Mention] = []
    for match, resolver in found:
        start, stop = match.span()
        if len(chosen) < _MOST_MENTIONS and (not chosen or start >= chosen[-1].stop):
            third = _before(_THIRD, text, start)
            chosen.append(Mention(match, resolver, third, third.start() if third else start, stop))
    return tuple(chosen)


_mentions = lru_cache(maxsize=16)(mentions)  # one question is read against several moments


def _statements(text: str, now: datetime) -> Iterator[tuple[int, int, list[Span]]]:
    """Where in the text something is said about time, and what."""
    left = list(_mentions(text))
    counted = len(text)  # where the last statement ended: "in May and June"
    while left:
        one = left.pop(0)
        certain = _is_certain(text, one) or _AND.fullmatch(text, counted, one.start) is not None
        if left and (start := _range_start(text, one, left[0], certain)) >= 0:
            one, spans = left[0], _range(one, left.pop(0), now)
        elif opened := _before(_OPEN, text, one.start):
            start, spans = opened.start(), [_opened(span, opened["open"].lower(), now) for span in one.spans(now)]
        elif certain:
            start, spans = one.start, one.spans(now)
        else:
            continue
        counted = one.stop
        yield start, one.stop, spans


def _is_certain(text: str, mention: Mention) -> bool:
    doubtful = mention.third is None and _DOUBTFUL.fullmatch(mention.match[0])
    return not doubtful or _before(_INSIDE, text, mention.start) is not None


def _range_start(text: str, one: Mention, two: Mention, certain: bool) -> int:
    """Where "from one to two" begins, or -1 if the two are not one range."""
    between = _before(_BETWEEN, text, one.start)
    joined = _TO.fullmatch(text, one.stop, two.start) and (between or certain or _is_certain(text, two))
    if joined or (between and _AND.fullmatch(text, one.stop, two.start)):
        return between.start() if between else one.start
    return -1


def _range(one: Mention, two: Mention, now: datetime) -> list[Span]:
    """From one to the other. A date without a year is the one nearest to the other end."""
    ends = two.spans(now)
    begins = one.spans(ends[0].start if one.floats and ends else now)
    if two.floats and not one.floats and begins:
        ends = two.spans(begins[0].start, later=364 * DAY)
    pairs = zip(begins, ends, strict=True) if len(begins) == len(ends) else product(begins, ends)
    return [Span(begin.start, end.stop) for begin, end in pairs]


def _opened(span: Span, word: str, now: datetime) -> Span:
    """Up to the end of today, unless it begins later; messages lie between the earliest and the latest time."""
    if word in ("before", "prior to", "قبل"):
        return Span(EARLIEST.replace(tzinfo=None), span.start)
    if word in ("until", "till", "up to", "حتي"):
        return Span(EARLIEST.replace(tzinfo=None), span.stop)
    start = span.stop if word in ("after", "بعد") else span.start
    today = whole_days(now).stop
    return Span(start, today if start < today else LATEST.replace(tzinfo=None))
