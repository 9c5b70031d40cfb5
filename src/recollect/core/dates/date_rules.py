"""The rules that recognise dates in text. Each pairs a pattern with a resolver.

A resolver takes a match and the moment of asking, and returns the spans that the words can mean. It counts in local
time without an offset. Where people disagree, weeks begin on Monday, seasons are northern, and "next Friday" is the
first Friday to come.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from recollect.core.dates.date_words import (
    CALENDAR,
    COUNTS,
    DAY,
    DAY_WORDS,
    MONTHS_IN,
    NAMED_SPANS,
    NIGHTS,
    STEP_LENGTHS,
    UNIT_DAYS,
    UNITS,
    VAGUE,
    WEEKDAYS,
    expand_pattern,
    find_key,
)


class Span(NamedTuple):
    """A period in local time, without an offset."""

    start: datetime
    stop: datetime


# Arithmetic in local time


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def whole_days(first: datetime, count: int = 1) -> Span:
    """Return the span of `count` days that begins with the day of `first`."""
    return Span(_midnight(first), _midnight(first) + count * DAY)


def _step(moment: datetime, count: int, unit: str) -> datetime:
    """Move a moment by `count` units. A day that the target month lacks becomes the last day of that month."""
    if unit in STEP_LENGTHS:
        return moment + count * STEP_LENGTHS[unit]
    year, month = divmod(moment.year * 12 + moment.month - 1 + count * MONTHS_IN[unit], 12)
    first = moment.replace(year=year, month=month + 1, day=1)
    return first.replace(day=min(moment.day, monthrange(year, month + 1)[1]))


def _months(year: int, first: int, count: int) -> Span:
    return Span(datetime(year, first, 1), _step(datetime(year, first, 1), count, "month"))


def _choose(spans: list[Span], now: datetime, shift: int | None) -> Span:
    """Choose from repeating spans, which are in order.

    `shift` is -1 for the last one that is over, 0 for the nearest, 1 for the next to begin, None for the latest begun.
    """
    if shift is None:
        return [span for span in spans if span.start <= now][-1]
    if shift == 0:
        return min(spans, key=lambda span: max(span.start - now, now - span.stop))
    if shift < 0:
        return [span for span in spans if span.stop <= now][shift]
    return [span for span in spans if span.start > now][shift - 1]


def _yearly(make: Callable[[int], Span], now: datetime, shift: int | None) -> Span:
    """Choose from the spans that `make` builds for the years around now. It raises ValueError for a missing date."""
    spans = []
    for year in range(now.year - 8, now.year + 9):  # two 29 Februaries can lie eight years apart
        try:
            spans.append(make(year))
        except ValueError:
            continue
    return _choose(spans, now, shift)


# Reading the words of a match


def group_text(match: re.Match[str], name: str) -> str:
    """Return the text of a named group, or "" if the pattern lacks it or it did not match."""
    return match.groupdict().get(name) or ""


def _shift(words: str) -> int | None:
    """Return -1 for last, 0 for this, 1 for next, twice that for "before last", None for no words."""
    if not words:
        return None
    size = 2 if re.search(r"before|after|\bقبل\b", words, re.IGNORECASE) else 1
    if re.search("last|past|prev|ماض|ساب|فاي|منصرم|اخر", words, re.IGNORECASE):
        return -size
    return size if re.search("next|coming|قادم|مقبل|جاي", words, re.IGNORECASE) else 0


def _relation(match: re.Match[str]) -> int | None:
    return _shift(group_text(match, "rel") or group_text(match, "which"))


def _year(match: re.Match[str], now: datetime) -> int | None:
    words = group_text(match, "year")
    if not words:
        return None
    return int(words) if words.isdecimal() else now.year + (_shift(words) or 0)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    """Return the number before a unit, and whether it is vague, as "a few" is.

    Without a number it is 1, or 2 for an Arabic dual.
    """
    words = group_text(match, "n")
    if not words:
        return (2 if match["unit"].endswith("ين") else 1), False
    if words.isdecimal():
        return int(words), False
    vague = next((count for count, names in VAGUE.items() if re.fullmatch(names, words, re.IGNORECASE)), 0)
    return vague or find_key(COUNTS, words), vague > 0


# Resolvers. Each returns the spans that a match can mean, seen from `now`.


def _resolve_day_word(match: re.Match[str], now: datetime) -> list[Span]:
    return [whole_days(now + find_key(DAY_WORDS, match[0]) * DAY)]


def _resolve_night(match: re.Match[str], now: datetime) -> list[Span]:
    """Return a night: from 17:00 to 6:00. "Tonight" before 5:00 is the night that is not over yet."""
    day = find_key(NIGHTS, match[0]) or (-1 if now.hour < 5 else 0)
    evening = _midnight(now) + day * DAY + timedelta(hours=17)
    return [Span(evening, evening + timedelta(hours=13))]


def resolve_distance(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "three weeks ago". The span is wider for larger units, larger numbers and vague words: people round."""
    (count, vague), unit = _count(match), find_key(UNITS, match["unit"])
    ahead = match["way"].lower() in ("from now", "بعد")
    width = UNIT_DAYS.get(unit, 0)
    slack = count * width // 2 if vague else max(width // 2, count * width // 10)
    return [whole_days(_step(now, count if ahead else -count, unit) - slack * DAY, 2 * slack + 1)]


def _resolve_rolling(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "the last two weeks": up to the end of today. "The next two weeks" begin with today."""
    (count, vague), unit = _count(match), find_key(UNITS, match["unit"])
    shift = (_relation(match) or 0) * (count + count // 2 * vague)
    far_day = whole_days(_step(now, shift, unit))
    return [Span(min(far_day.start, _midnight(now)), max(far_day.stop, whole_days(now).stop))]


def resolve_calendar(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "last week", "this month", "the weekend" to that week, month or weekend of the calendar."""
    unit, shift, today = find_key(CALENDAR, match["unit"]), _relation(match), _midnight(now)
    if unit.startswith("week"):
        if shift is None:  # "the weekend" is the latest one begun
            shift = 0 if today.weekday() >= 5 else -1
        monday = today + (7 * shift - today.weekday()) * DAY
        return [whole_days(monday, 7) if unit == "week" else whole_days(monday + 5 * DAY, 2)]
    if unit in STEP_LENGTHS:
        return [whole_days(_step(now, shift or 0, unit))]
    length = MONTHS_IN[unit]
    first = _step(datetime(today.year, today.month - (today.month - 1) % length, 1), shift or 0, unit)
    return [Span(first, _step(first, 1, unit))]


def _resolve_named(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve a month, a season or a quarter. "Winter 2022" may be the one at the beginning or at the end of 2022."""
    (first, length), year = find_key(NAMED_SPANS, match["name"]), _year(match, now)
    if year is None:
        return [_yearly(lambda some_year: _months(some_year, first, length), now, _relation(match))]
    years = (year - 1, year) if first + length > 13 else (year,)
    return [_months(start_year, first, length) for start_year in years]


def _resolve_month_days(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "7 May", "3-5 May 2023" and the like."""
    (month, _), year = find_key(NAMED_SPANS, match["name"]), _year(match, now)
    first, last = (int(re.sub(r"\D", "", words)) for words in (match["day"], match["last"] or match["day"]))

    def make(year: int) -> Span:
        return Span(datetime(year, month, first), whole_days(datetime(year, month, last)).stop)

    return [_yearly(make, now, None) if year is None else make(year)]


def resolve_weekday(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "on Tuesday", "last Friday", "Tuesday of last week", "two Fridays ago"."""
    day = find_key(WEEKDAYS, match["day"])
    monday = _midnight(now) - now.weekday() * DAY
    if week := group_text(match, "week"):
        return [whole_days(monday + (7 * (_shift(week) or 0) + day) * DAY)]
    shift = -_count(match)[0] if group_text(match, "n") else _relation(match)
    return [_choose([whole_days(monday + (7 * weeks + day) * DAY) for weeks in range(-20, 4)], now, shift)]


def _resolve_iso(match: re.Match[str], now: datetime) -> list[Span]:
    year, month, day = int(match["year"]), int(match["month"]), group_text(match, "day")
    return [whole_days(datetime(year, month, int(day))) if day else _months(year, month, 1)]


def _resolve_slashed(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve "07/05/2023": day and month in either order, where the calendar allows it."""
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    year += 2000 if year < 100 else 0
    readings = [(month, day) for day, month in ((first, second), (second, first)) if 1 <= month <= 12]
    return [whole_days(datetime(year, month, day)) for month, day in readings if 1 <= day <= monthrange(year, month)[1]]


def _resolve_years(match: re.Match[str], now: datetime) -> list[Span]:
    """Resolve a year or a decade. Two digits mean the last century."""
    year = int(match["year"])
    return [_months(year + 1900 if year < 100 else year, 1, 120 if group_text(match, "decade") else 12)]


Resolver = Callable[[re.Match[str], datetime], list[Span]]


def _rule(resolver: Resolver, pattern: str) -> tuple[Resolver, re.Pattern[str]]:
    """Build a rule that matches whole words. Arabic joins "and", "in" and "for" to the next word."""
    return resolver, re.compile(rf"(?:(?<!\w)|(?<=\b[وفبل]))(?:{expand_pattern(pattern)})(?!\w)", re.IGNORECASE)


RECURRING_RESOLVERS: Final = (_resolve_named, _resolve_month_days, resolve_weekday)
DAY_RESOLVERS: Final = (_resolve_day_word, _resolve_night)

# Of matches that begin at the same letter the longest counts, then the first in this table.
RULES: Final = (
    _rule(_resolve_day_word, "DAYWORD"),
    _rule(_resolve_night, "NIGHT"),
    _rule(resolve_distance, "(?P<n>NUM) (?P<unit>UNIT) (?P<way>ago|back|from now)"),
    _rule(resolve_distance, r"(?P<way>قبل|منذ|بعد) (?:(?P<n>NUM) )?(?P<unit>UNIT)(?! (?:\d|ال(?!ي\b)|NAME))"),
    _rule(_resolve_rolling, "(?:SPAN )?(?P<rel>last|past|next|coming|اخر) (?P<n>NUM) (?P<unit>UNIT)(?! of)"),
    _rule(_resolve_rolling, "(?:in|over|within|during) the (?P<rel>last|past|next|coming) (?P<unit>UNIT)(?! of)"),
    _rule(_resolve_rolling, "(?:SPAN )?(?P<rel>past|اخر) (?P<unit>UNIT)"),
    _rule(resolve_calendar, "(?P<rel>REL) (?P<unit>week|weekend|month|quarter|year)(?! of)"),
    _rule(resolve_calendar, "(?:the )?(?P<unit>week|weekend|month|quarter|year) (?P<rel>before last|after next)"),
    _rule(resolve_calendar, "the (?P<unit>weekend)"),
    _rule(resolve_calendar, "(?P<rel>هذا|هذه) ال(?P<unit>UNIT)"),
    _rule(resolve_calendar, "ال(?P<unit>UNIT) (?P<which>WHICH)"),
    _rule(_resolve_named, "(?:(?P<rel>REL) )?(?P<name>NAME)(?:OFYEAR| (?P<which>WHICH))?"),
    _rule(
        _resolve_month_days,
        "(?P<day>DAYNO)(?:(?:UPTO| and )(?P<last>DAYNO))?[ -](?:of |من )?(?P<name>MONTH)(?:OFYEAR)?",
    ),
    _rule(_resolve_month_days, r"(?P<name>MONTH) (?:the )?(?P<day>DAYNO)(?:UPTO(?P<last>DAYNO))?(?![:%])(?:OFYEAR)?"),
    _rule(
        resolve_weekday,  # not in "every Friday", nor in "Friday 3 May"
        r"(?<!every )(?<!each )(?<!other )(?:(?P<rel>REL) )?(?:يوم )?(?P<day>WEEKDAY)"
        r"(?!,? (?:the )?(?:DAYNO|MONTH DAYNO)(?![\w:]))(?: (?:of )?(?P<week>last|this|next) week| (?P<which>WHICH))?",
    ),
    _rule(resolve_weekday, "(?:(?P<rel>REL)|on) (?P<day>SHORTDAY)"),
    _rule(resolve_weekday, "(?P<n>NUM) (?P<day>WEEKDAY)s ago"),
    _rule(_resolve_iso, r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})(?:T[\d:.]+Z?)?"),
    _rule(_resolve_iso, r"(?P<year>CENTURY\d\d)-(?P<month>\d\d)(?!-)"),
    _rule(
        _resolve_slashed,
        r"(?<![./-])(?P<first>\d{1,2})(?P<sep>[-/.])(?P<second>\d{1,2})(?P=sep)(?P<year>\d{4}|(?<=/)\d\d)(?![./-]\d)",
    ),
    _rule(
        _resolve_years,  # not in "2000 people", "1,999.50", "2000:1"
        r"(?<![.,:/$€£#])(?P<year>CENTURY\d\d)(?![:/%]|[.,]\d|-(?!CENTURY)\d)"
        r"(?! people| (?!(?:was|is|has|does|this|as|vs)\b)\w+s\b)",
    ),
    _rule(_resolve_years, r"(?P<year>(?:18|19|20)\d0)(?P<decade>s)"),
    _rule(_resolve_years, "the '?(?P<year>[5-9]0)(?P<decade>s)"),
)
