"""Finds the periods that a question names ("last week", "since May"), without a model.

The rules of single dates are in `date_rules`. This module reads the words around a date ("since", "early", "between …
and …"), so every kind of date can have them. Words that are often no date ("may", "march", "fall", a bare number) count
only if the words around them say so. Finished periods are converted to UTC last.
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

from recollect.core.dates.date_rules import RECURRING_RESOLVERS, RULES, Resolver, Span, group_text, whole_days
from recollect.core.dates.date_words import DAY, QUARTERS, SEASONS, THIRDS, expand_pattern, find_key, normalise
from recollect.core.times import EARLIEST, LATEST, load_zone, to_utc

MAX_PERIODS: Final = 8
_MAX_MENTIONS: Final = 32  # a text with more is a list, not a question
_CACHED_QUESTIONS: Final = 16
_LOOK_BEHIND_CHARACTERS: Final = 40  # before a date, for words such as "since"


@dataclass(frozen=True, slots=True)
class Period:
    """A period from `start` up to, not including, `stop`, both in UTC. `text` quotes the query's words for it."""

    start: datetime
    stop: datetime
    text: str


def find_periods(query: str, *, now: datetime, zone: str = "UTC") -> list[Period]:
    """Return the periods that a question names, in its order, each once, at most `MAX_PERIODS`.

    `now` is the moment of asking and `zone` the time zone in which dates are read.
    """
    info = load_zone(zone)
    local_now = to_utc(now, zone).astimezone(info).replace(tzinfo=None)
    text, positions = normalise(query)
    periods: dict[tuple[datetime, datetime], Period] = {}
    for start, stop, spans in _find_spans(text, local_now):
        quote = query[positions[start] : max(positions[stop], positions[stop - 1] + 1)]
        for period in _to_periods(spans, info, quote):
            periods.setdefault((period.start, period.stop), period)
        if len(periods) >= MAX_PERIODS:
            break
    return list(periods.values())[:MAX_PERIODS]


def asks_for_time(query: str) -> bool:
    """Return whether the question asks for a time, so that passages with dates may answer it."""
    return _ASKS_TIME.search(normalise(query)[0]) is not None


def _to_periods(spans: list[Span], info: ZoneInfo, quote: str) -> Iterator[Period]:
    for span in spans:
        try:
            start, stop = (moment.replace(tzinfo=info).astimezone(UTC) for moment in span)
        except OverflowError:  # the edge of the calendar
            continue
        if start < stop:  # a zone that moved over the date line skipped a day
            yield Period(start, stop, quote)


# Words around a date.


def _ending(pattern: str) -> re.Pattern[str]:
    return re.compile(expand_pattern(pattern) + "$", re.IGNORECASE)


_THIRD: Final = _ending(r"\b(?P<third>THIRD)[ -](?:in )?(?:the |شهر )?")
_OPEN: Final = _ending(
    r"\b(?P<open>since|after|before|until|till|up to|prior to|منذ|بعد|قبل|حتي) (?:the |شهر |عام |سنه |يوم )?"
)
_BETWEEN: Final = _ending(r"\b(?:between|from|بين|من) (?:the |شهر |عام )?")
_INSIDE: Final = _ending(
    r"(?:\b(?:in|of|during|from|between|around|through|throughout|over|year) (?:the )?"
    r"|\b(?:في|خلال|شهر|عام|سنه|من|بين) (?:شهر |عام |سنه )?|\b[بلف])"
)
_TO: Final = re.compile(expand_pattern("(?:UPTO)(?:the )?"), re.IGNORECASE)
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


# Every date in plain English has one of these: a part of a word, the start of a word, or digits like those of a date.
_HINT: Final = re.compile(
    r"day|night|morning|afternoon|evening|tomorrow|hour|week|month|quarter|year|spring|summer|autumn|fall|winter"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|q[1-4])"
    r"|\d{4}|\d[-/.]\d|\d0s",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A date in the text. `third` is its "early", "mid" or "late", if it has one; `start` includes that word."""

    match: re.Match[str]
    resolver: Resolver
    third: re.Match[str] | None
    start: int
    stop: int

    @property
    def recurs(self) -> bool:
        """Return whether it recurs (a month, a weekday) and no word says which one is meant."""
        is_qualified = any(group_text(self.match, name) for name in ("rel", "which", "year", "week", "n"))
        return self.resolver in RECURRING_RESOLVERS and not is_qualified

    def spans(self, now: datetime, later: timedelta = DAY * 0) -> list[Span]:
        """Return the spans that it can mean at `now + later`.

        There are none for a date that does not exist, such as 31 February, or that lies beyond the calendar.
        """
        try:
            spans = self.resolver(self.match, now + later)
        except (ValueError, OverflowError, IndexError):
            return []
        return [_third(span, find_key(THIRDS, self.third["third"])) for span in spans] if self.third else spans


def _third(span: Span, part: int) -> Span:
    """Return the first (0), middle (1) or last (2) third of a span, in whole days."""
    days = (span.stop - span.start) // DAY
    if days < 3:  # "late last night"
        return span
    return Span(span.start + days * part // 3 * DAY, span.start + days * (part + 1) // 3 * DAY)


def _before(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str] | None:
    return pattern.search(text, max(0, position - _LOOK_BEHIND_CHARACTERS), position)


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the dates of a text in the form of `normalise`, from left to right. They do not overlap."""
    if text.isascii() and not _HINT.search(text):  # most questions name no time, and there are many rules
        return ()
    matches = [(match, resolver) for resolver, pattern in RULES for match in pattern.finditer(text)]
    matches.sort(key=lambda candidate: (candidate[0].start(), -candidate[0].end()))
    mentions: list[Mention] = []
    for match, resolver in matches:
        start, stop = match.span()
        if len(mentions) < _MAX_MENTIONS and (not mentions or start >= mentions[-1].stop):
            third = _before(_THIRD, text, start)
            mentions.append(Mention(match, resolver, third, third.start() if third else start, stop))
    return tuple(mentions)


# One question is read against several moments.
_find_mentions_cached = lru_cache(maxsize=_CACHED_QUESTIONS)(find_mentions)


def forget() -> None:
    """Drop the cached questions: they may hold words of people."""
    _find_mentions_cached.cache_clear()


def _find_spans(text: str, now: datetime) -> Iterator[tuple[int, int, list[Span]]]:
    """Yield each expression of time with its start, its stop and the spans that it can mean."""
    mentions = list(_find_mentions_cached(text))
    previous_stop = len(text)  # of the last expression, for "in May and June"
    while mentions:
        mention = mentions.pop(0)
        certain = _is_certain(text, mention) or _AND.fullmatch(text, previous_stop, mention.start) is not None
        if mentions and (start := _range_start(text, mention, mentions[0], certain)) >= 0:
            first, mention = mention, mentions.pop(0)
            spans = _range(first, mention, now)
        elif opened := _before(_OPEN, text, mention.start):
            word = opened["open"].lower()
            start, spans = opened.start(), [_open_span(span, word, now) for span in mention.spans(now)]
        elif certain:
            start, spans = mention.start, mention.spans(now)
        else:
            continue
        previous_stop = mention.stop
        yield start, mention.stop, spans


def _is_certain(text: str, mention: Mention) -> bool:
    """Return whether the words alone, or the words before them, make this a date."""
    doubtful = mention.third is None and _DOUBTFUL.fullmatch(mention.match[0])
    return not doubtful or _before(_INSIDE, text, mention.start) is not None


def _range_start(text: str, first: Mention, second: Mention, certain: bool) -> int:
    """Return where a range such as "from May to July" begins, or -1 if the two dates are not one range.

    `certain` says whether the first one is certainly a date.
    """
    between = _before(_BETWEEN, text, first.start)
    joined = _TO.fullmatch(text, first.stop, second.start) and (between or certain or _is_certain(text, second))
    if joined or (between and _AND.fullmatch(text, first.stop, second.start)):
        return between.start() if between else first.start
    return -1


def _range(first: Mention, second: Mention, now: datetime) -> list[Span]:
    """Return the spans from one date to another. A date without a year is the one nearest to the other end."""
    ends = second.spans(now)
    begins = first.spans(ends[0].start if first.recurs and ends else now)
    if second.recurs and not first.recurs and begins:
        ends = second.spans(begins[0].start, later=364 * DAY)
    pairs = zip(begins, ends, strict=True) if len(begins) == len(ends) else product(begins, ends)
    return [Span(begin.start, end.stop) for begin, end in pairs]


def _open_span(span: Span, word: str, now: datetime) -> Span:
    """Return the span that "since", "after", "before" or "until" opens.

    It ends with today, unless it begins later. Otherwise it is bounded by the earliest and latest times of messages.
    """
    if word in ("before", "prior to", "قبل"):
        return Span(EARLIEST.replace(tzinfo=None), span.start)
    if word in ("until", "till", "up to", "حتي"):
        return Span(EARLIEST.replace(tzinfo=None), span.stop)
    start = span.stop if word in ("after", "بعد") else span.start
    today = whole_days(now).stop
    return Span(start, today if start < today else LATEST.replace(tzinfo=None))
