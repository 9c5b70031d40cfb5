"""Which words name which time: each rule pairs a pattern with a resolver, from a match to the spans it can mean.

Resolvers count in local time without an offset. Readings that people disagree about: weeks begin on Monday, seasons
are northern, "next Friday" is the first one to come.
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
    NAMED,
    NIGHTS,
    STEPS,
    UNITS,
    VAGUE,
    WEEKDAYS,
    WIDTHS,
    fill,
    key_of,
)


class Span(NamedTuple):
    """A period in local time, without an offset."""

    start: datetime
    stop: datetime


# Arithmetic in local time


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def whole_days(first: datetime, count: int = 1) -> Span:
    return Span(_midnight(first), _midnight(first) + count * DAY)


def _step(moment: datetime, count: int, unit: str) -> datetime:
    """So many units on; a day that the month reached does not have becomes its last one."""
    if unit in STEPS:
        return moment + count * STEPS[unit]
    year, month = divmod(moment.year * 12 + moment.month - 1 + count * MONTHS_IN[unit], 12)
    first = moment.replace(year=year, month=month + 1, day=1)
    return first.replace(day=min(moment.day, monthrange(year, month + 1)[1]))


def _months(year: int, first: int, count: int) -> Span:
    return Span(datetime(year, first, 1), _step(datetime(year, first, 1), count, "month"))


def _choose(spans: list[Span], now: datetime, shift: int | None) -> Span:
    """Of repeating spans: the last one over, the nearest, the next to begin; unqualified, the latest begun."""
    if shift is None:
        return [span for span in spans if span.start <= now][-1]
    if shift == 0:
        return min(spans, key=lambda span: max(span.start - now, now - span.stop))
    if shift < 0:
        return [span for span in spans if span.stop <= now][shift]
    return [span for span in spans if span.start > now][shift - 1]


def _yearly(make: Callable[[int], Span], now: datetime, shift: int | None) -> Span:
    spans = []
    for year in range(now.year - 8, now.year + 9):  # two 29 Februaries can lie eight years apart
        try:
            spans.append(make(year))
        except ValueError:
            continue
    return _choose(spans, now, shift)


# Reading the words of a match


def group(match: re.Match[str], name: str) -> str:
    return match.groupdict().get(name) or ""


def _shift(words: str) -> int | None:
    """-1 for last, 0 for this, 1 for next, twice that in "before last"; None when nothing is said."""
    if not words:
        return None
    size = 2 if re.search(r"before|after|\bقبل\b", words, re.IGNORECASE) else 1
    if re.search("last|past|prev|ماض|ساب|فاي|منصرم|اخر", words, re.IGNORECASE):
        return -size
    return size if re.search("next|coming|قادم|مقبل|جاي", words, re.IGNORECASE) else 0


def _relation(match: re.Match[str]) -> int | None:
    return _shift(group(match, "rel") or group(match, "which"))


def _year(match: re.Match[str], now: datetime) -> int | None:
    words = group(match, "year")
    if not words:
        return None
    return int(words) if words.isdecimal() else now.year + (_shift(words) or 0)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    """How many, and whether that was said vaguely. Arabic says one and two by the form of the unit."""
    words = group(match, "n")
    if not words:
        return (2 if match["unit"].endswith("ين") else 1), False
    if words.isdecimal():
        return int(words), False
    vague = next((count for count, names in VAGUE.items() if re.fullmatch(names, words, re.IGNORECASE)), 0)
    return vague or key_of(COUNTS, words), vague > 0


# Resolvers: a match and the moment of asking to the spans that the words can mean


def _day_word(match: re.Match[str], now: datetime) -> list[Span]:
    return [whole_days(now + key_of(DAY_WORDS, match[0]) * DAY)]


def _night(match: re.Match[str], now: datetime) -> list[Span]:
    """From five in the afternoon to six; "tonight" after midnight is still the evening before."""
    day = key_of(NIGHTS, match[0]) or (-1 if now.hour < 5 else 0)
    evening = _midnight(now) + day * DAY + timedelta(hours=17)
    return [Span(evening, evening + timedelta(hours=13))]


def distance(match: re.Match[str], now: datetime) -> list[Span]:
    """Wider the larger the unit, the number or the vagueness: people round what lies further away."""
    (count, vague), unit = _count(match), key_of(UNITS, match["unit"])
    ahead = match["way"].lower() in ("from now", "بعد")
    width = WIDTHS.get(unit, 0)
    slack = count * width // 2 if vague else max(width // 2, count * width // 10)
    return [whole_days(_step(now, count if ahead else -count, unit) - slack * DAY, 2 * slack + 1)]


def _rolling(match: re.Match[str], now: datetime) -> list[Span]:
    """The last so many units up to the end of today, or the next ones from its beginning."""
    (count, vague), unit = _count(match), key_of(UNITS, match["unit"])
    shift = (_relation(match) or 0) * (count + count // 2 * vague)
    there = whole_days(_step(now, shift, unit))
    return [Span(min(there.start, _midnight(now)), max(there.stop, whole_days(now).stop))]


def calendar(match: re.Match[str], now: datetime) -> list[Span]:
    unit, shift, today = key_of(CALENDAR, match["unit"]), _relation(match), _midnight(now)
    if unit.startswith("week"):
        if shift is None:  # "the weekend" is the latest one begun
            shift = 0 if today.weekday() >= 5 else -1
        monday = today + (7 * shift - today.weekday()) * DAY
        return [whole_days(monday, 7) if unit == "week" else whole_days(monday + 5 * DAY, 2)]
    if unit in STEPS:
        return [whole_days(_step(now, shift or 0, unit))]
    length = MONTHS_IN[unit]
    first = _step(datetime(today.year, today.month - (today.month - 1) % length, 1), shift or 0, unit)
    return [Span(first, _step(first, 1, unit))]


def _named(match: re.Match[str], now: datetime) -> list[Span]:
    """A month, a season or a quarter. The winter of a year may be the one it begins or ends with."""
    (first, length), year = key_of(NAMED, match["name"]), _year(match, now)
    if year is None:
        return [_yearly(lambda each: _months(each, first, length), now, _relation(match))]
    return [_months(each, first, length) for each in (year - 1, year) if each == year or first + length > 13]


def _month_days(match: re.Match[str], now: datetime) -> list[Span]:
    (month, _), year = key_of(NAMED, match["name"]), _year(match, now)
    first, last = (int(re.sub(r"\D", "", words)) for words in (match["day"], match["last"] or match["day"]))

    def make(year: int) -> Span:
        return Span(datetime(year, month, first), whole_days(datetime(year, month, last)).stop)

    return [_yearly(make, now, None) if year is None else make(year)]


def weekday(match: re.Match[str], now: datetime) -> list[Span]:
    day = key_of(WEEKDAYS, match["day"])
    monday = _midnight(now) - now.weekday() * DAY
    if week := group(match, "week"):
        return [whole_days(monday + (7 * (_shift(week) or 0) + day) * DAY)]
    shift = -_count(match)[0] if group(match, "n") else _relation(match)
    return [_choose([whole_days(monday + (7 * weeks + day) * DAY) for weeks in range(-20, 4)], now, shift)]


def _iso(match: re.Match[str], now: datetime) -> list[Span]:
    year, month, day = int(match["year"]), int(match["month"]), group(match, "day")
    return [whole_days(datetime(year, month, int(day))) if day else _months(year, month, 1)]


def _slashed(match: re.Match[str], now: datetime) -> list[Span]:
    """Day and month in either order, where both can be."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["year"])
    year += 2000 if year < 100 else 0
    readings = [(month, day) for day, month in ((one, two), (two, one)) if 1 <= month <= 12]
    return [whole_days(datetime(year, month, day)) for month, day in readings if 1 <= day <= monthrange(year, month)[1]]


def _years(match: re.Match[str], now: datetime) -> list[Span]:
    """A year, or the ten of a decade; two digits are of the last century."""
    year = int(match["year"])
    return [_months(year + 1900 if year < 100 else year, 1, 120 if group(match, "decade") else 12)]


Resolver = Callable[[re.Match[str], datetime], list[Span]]


def _rule(resolver: Resolver, pattern: str) -> tuple[Resolver, re.Pattern[str]]:
    """Whole words; Arabic joins "and", "in" and "for" to the next one."""
    return resolver, re.compile(rf"(?:(?<!\w)|(?<=\b[وفبل]))(?:{fill(pattern)})(?!\w)", re.IGNORECASE)


RECURRING: Final = (_named, _month_days, weekday)
DAYS: Final = (_day_word, _night)

# Of what begins at the same letter the longest counts, then the first in this table.
RULES: Final = (
    _rule(_day_word, "DAYWORD"),
    _rule(_night, "NIGHT"),
    _rule(distance, "(?P<n>NUM) (?P<unit>UNIT) (?P<way>ago|back|from now)"),
    _rule(distance, r"(?P<way>قبل|منذ|بعد) (?:(?P<n>NUM) )?(?P<unit>UNIT)(?! (?:\d|ال(?!ي\b)|NAME))"),
    _rule(_rolling, "(?:SPAN )?(?P<rel>last|past|next|coming|اخر) (?P<n>NUM) (?P<unit>UNIT)(?! of)"),
    _rule(_rolling, "(?:in|over|within|during) the (?P<rel>last|past|next|coming) (?P<unit>UNIT)(?! of)"),
    _rule(_rolling, "(?:SPAN )?(?P<rel>past|اخر) (?P<unit>UNIT)"),
    _rule(calendar, "(?P<rel>REL) (?P<unit>week|weekend|month|quarter|year)(?! of)"),
    _rule(calendar, "(?:the )?(?P<unit>week|weekend|month|quarter|year) (?P<rel>before last|after next)"),
    _rule(calendar, "the (?P<unit>weekend)"),
    _rule(calendar, "(?P<rel>هذا|هذه) ال(?P<unit>UNIT)"),
    _rule(calendar, "ال(?P<unit>UNIT) (?P<which>WHICH)"),
    _rule(_named, "(?:(?P<rel>REL) )?(?P<name>NAME)(?:OFYEAR| (?P<which>WHICH))?"),
    _rule(_month_days, "(?P<day>DAYNO)(?:(?:UPTO| and )(?P<last>DAYNO))?[ -](?:of |من )?(?P<name>MONTH)(?:OFYEAR)?"),
    _rule(_month_days, r"(?P<name>MONTH) (?:the )?(?P<day>DAYNO)(?:UPTO(?P<last>DAYNO))?(?![:%])(?:OFYEAR)?"),
    _rule(
        weekday,  # not in "every Friday", nor in "Friday 3 May"
        r"(?<!every )(?<!each )(?<!other )(?:(?P<rel>REL) )?(?:يوم )?(?P<day>WEEKDAY)"
        r"(?!,? (?:the )?(?:DAYNO|MONTH DAYNO)(?![\w:]))(?: (?:of )?(?P<week>last|this|next) week| (?P<which>WHICH))?",
    ),
    _rule(weekday, "(?:(?P<rel>REL)|on) (?P<day>SHORTDAY)"),
    _rule(weekday, "(?P<n>NUM) (?P<day>WEEKDAY)s ago"),
    _rule(_iso, r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})(?:T[\d:.]+Z?)?"),
    _rule(_iso, r"(?P<year>CENTURY\d\d)-(?P<month>\d\d)(?!-)"),
    _rule(
        _slashed,
        r"(?<![./-])(?P<one>\d{1,2})(?P<sep>[-/.])(?P<two>\d{1,2})(?P=sep)(?P<year>\d{4}|(?<=/)\d\d)(?![./-]\d)",
    ),
    _rule(
        _years,  # not in "2000 people", "1,999.50", "2000:1"
        r"(?<![.,:/$€£#])(?P<year>CENTURY\d\d)(?![:/%]|[.,]\d|-(?!CENTURY)\d)"
        r"(?! people| (?!(?:was|is|has|does|this|as|vs)\b)\w+s\b)",
    ),
    _rule(_years, r"(?P<year>(?:18|19|20)\d0)(?P<decade>s)"),
    _rule(_years, "the '?(?P<year>[5-9]0)(?P<decade>s)"),
)
