"""Date expressions in a question, read without a model: from words to periods in which messages may lie.

A table pairs patterns with small resolvers, in English and common Arabic. What the words around a date add
("since", "early", "between … and …") is read afterwards, so every kind of date can have it. Words that are often
no date ("may", "march", "fall", a bare number) count only where those neighbours say so.

Readings that people disagree about: weeks begin on Monday, seasons are northern, "next Friday" is the first one
to come. Resolvers count in local time without an offset; only the finished period is turned into UTC.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from recollect.core.times import EARLIEST, LATEST, in_zone, load_zone

READ_LIMIT: Final = 2000  # characters; a question says its dates early, and what follows is pasted text
MOST_PERIODS: Final = 8
_MOST_MENTIONS: Final = 32  # more is a list, not a question
_DAY: Final = timedelta(days=1)
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to, not including, `stop`, both in UTC, and the words of the query that said so."""

    start: datetime
    stop: datetime
    text: str


class _Span(NamedTuple):
    """A period in local time, without an offset."""

    start: datetime
    stop: datetime


# Words as _fold leaves them: alef without hamza, "ه" for "ة".

_MONTHS: Final = (
    r"jan(?:uary|\.)?|يناير|كانون الثاني",
    r"feb(?:ruary|\.)?|فبراير|شباط",
    r"mar(?:ch|\.)?|مارس|اذار",
    r"apr(?:il|\.)?|ابريل|نيسان",
    # no month: "I may", "may I", "this may help"
    r"(?<!\bi )(?<!you )(?<!we )(?<!they )(?<!he )(?<!\bit )(?:(?-i:May)|(?<!this )may|may(?= ?(?:[?.!,;]|$)))"
    r"(?! (?:i|we|you|be|not|have)\b)|مايو|ايار",
    r"june?|يوني[وه]|حزيران",
    r"july?|يولي[وه]|تموز",
    r"aug(?:ust|\.)?|اغسطس|اب",
    r"sept?(?:ember|\.)?|سبتمبر|ايلول",
    r"oct(?:ober|\.)?|اكتوبر|تشرين الاول",
    r"nov(?:ember|\.)?|نوفمبر|تشرين الثاني",
    r"dec(?:ember|\.)?|ديسمبر|كانون الاول",
)
_SEASONS: Final = ("spring|(?:ال)?ربيع", "summer|(?:ال)?صيف", "autumn|fall|(?:ال)?خريف", "winter|(?:ال)?شتاء")
_QUARTERS: Final = ("q1|first quarter", "q2|second quarter", "q3|third quarter", "q4|fourth quarter")
_WEEKDAYS: Final = {
    0: "monday|الاثنين|mon",
    1: "tuesday|الثلاثاء|tues?",
    2: "wednesday|الاربعاء|wed",
    3: "thursday|الخميس|thu(?:rs?)?",
    4: "friday|الجمعه|fri",
    5: "saturday|السبت|sat",
    6: "sunday|الاحد|sun",
}
_NAMED: Final = {  # by their first month and their number of months
    **{(month, 1): words for month, words in enumerate(_MONTHS, 1)},
    **{(3 * season, 3): words for season, words in enumerate(_SEASONS, 1)},
    **{(3 * quarter - 2, 3): words for quarter, words in enumerate(_QUARTERS, 1)},
}
_UNITS: Final = {
    "hour": "hours?|ساعه|ساعتين|ساعات",
    "day": "days?|يوما?|يومين|ايام",
    "week": "weeks?|اسبوعا?|اسبوعين|اسابيع",
    "month": "months?|شهرا?|شهرين|اشهر|شهور",
    "quarter": "quarters?",
    "year": "years?|سنه|سنتين|سنوات|سنين|عاما?|عامين|اعوام",
}
_CALENDAR: Final = {**_UNITS, "weekend": "weekend"}
_STEPS: Final = {"hour": _DAY / 24, "day": _DAY, "week": 7 * _DAY}
_MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
_WIDTHS: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}  # in days
_DAY_WORDS: Final = {
    -2: "(?:the )?day before yesterday|اول (?:من )?امس|اول ا?مبارح",
    -1: "yesterday|امس|البارحه|ا?مبارح",
    0: "today|this (?:morning|afternoon|evening)|اليوم",
    1: "tomorrow|غدا|بكر[اه]",
    2: "(?:the )?day after tomorrow|بعد غد",
}
_NIGHTS: Final = {-1: "last night|ليله امس", 0: "tonight|الليله"}
_THIRDS: Final = {0: "early|(?:start|beginning) of|بدايه|اوايل", 1: "mid|middle of|منتصف", 2: "late|end of|نهايه|اواخر"}
_NUMBERS: Final = (
    "an?|one|واحد two|اثنين three|ثلاثه? four|اربعه? five|خمسه? six|سته? seven|سبعه? eight|ثمان(?:يه?)? nine|تسعه? "
    "ten|عشره? eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)
_COUNTS: Final = dict(enumerate(_NUMBERS.split(), 1))
_VAGUE: Final = {2: "(?:a )?couple(?: of)?", 4: "(?:a )?few|بضعه?|عده", 6: "several"}
_VOCABULARY: Final = {  # what the capitals in patterns stand for
    "REL": "last|this past|past|previous|this coming|coming|this|next",
    "WHICH": "(?:قبل )?(?:الماضي|السابق|الفايت|المنصرم|القادم|المقبل|الجاي|الحالي)ه?",
    "NUM": "|".join((r"\d{1,4}", *_VAGUE.values(), *_COUNTS.values())),
    "UNIT": "|".join(_UNITS.values()),
    "MONTH": "|".join(_MONTHS),
    "NAME": "|".join(_NAMED.values()),
    "WEEKDAY": "|".join(words.rpartition("|")[0] for words in _WEEKDAYS.values()),
    "SHORTDAY": "tues?|thu(?:rs?)?|fri|(?-i:Mon|Wed|Sat|Sun)",
    "DAYNO": r"\d{1,2}(?:st|nd|rd|th)?",
    "DAYWORD": "|".join(_DAY_WORDS.values()),
    "NIGHT": "|".join(_NIGHTS.values()),
    "THIRD": "|".join(_THIRDS.values()),
    "CENTURY": "19|20|21",
    "SPAN": "(?:in|over|within|during) the|the|this",
    "UPTO": " (?:to|until|till|through|الي|حتي) | ?[-–—] ?",
    "OFYEAR": r"(?:,? |-|/)(?:of |من |عام |سنه ){0,2}(?P<year>\d{4}|(?:last|this|next) year|(?:العام|السنه) WHICH)",
}


def periods(query: str, *, now: datetime, zone: str = "UTC") -> list[Period]:
    """The periods a question names, in its order, each once. `now` is when it was asked, `zone` where."""
    info = load_zone(zone)
    local = in_zone(now, zone).astimezone(info).replace(tzinfo=None)
    text, places = _fold(query)
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
    return _ASKS_TIME.search(_fold(query)[0]) is not None


def _fold(query: str) -> tuple[str, list[int]]:
    """The query as patterns read it: no marks, one form of each letter, single spaces; and each letter's place."""
    query = query[:READ_LIMIT]
    if query.isascii() and not _SPACES.search(query):  # most questions: nothing unfolds and nothing falls out
        return _SPACE.sub(" ", query), list(range(len(query) + 1))
    letters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(query):
        for part in unicodedata.normalize("NFKD", char)[:2]:  # some signs unfold into sentences
            letter = " " if part.isspace() else part
            if unicodedata.combining(part) or part == "\u0640" or (letter == " " and letters[-1:] == [" "]):
                continue  # marks, tatweel, further spaces
            letters.append(letter)
            places.append(place)
    return "".join(letters).translate(_ONE_FORM), [*places, len(query)]


_SPACE: Final = re.compile(r"\s")
_SPACES: Final = re.compile(r"\s\s")
_ONE_FORM: Final = str.maketrans("ةىı’", "هيi'")  # the third is an "i" to patterns that ignore case


def _in_utc(spans: list[_Span], info: ZoneInfo, said: str) -> Iterator[Period]:
    for span in spans:
        try:
            start, stop = (moment.replace(tzinfo=info).astimezone(UTC) for moment in span)
        except OverflowError:  # the edge of the calendar
            continue
        if start < stop:  # a zone that moved over the date line has days that never were
            yield Period(start, stop, said)


# Arithmetic in local time


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: datetime, count: int = 1) -> _Span:
    return _Span(_midnight(first), _midnight(first) + count * _DAY)


def _step(moment: datetime, count: int, unit: str) -> datetime:
    """So many units on; a day that the month reached does not have becomes its last one."""
    if unit in _STEPS:
        return moment + count * _STEPS[unit]
    year, month = divmod(moment.year * 12 + moment.month - 1 + count * _MONTHS_IN[unit], 12)
    first = moment.replace(year=year, month=month + 1, day=1)
    return first.replace(day=min(moment.day, monthrange(year, month + 1)[1]))


def _months(year: int, first: int, count: int) -> _Span:
    return _Span(datetime(year, first, 1), _step(datetime(year, first, 1), count, "month"))


def _choose(spans: list[_Span], now: datetime, shift: int | None) -> _Span:
    """Of repeating spans: the last one over, the nearest, the next to begin; unqualified, the latest begun."""
    if shift is None:
        return [span for span in spans if span.start <= now][-1]
    if shift == 0:
        return min(spans, key=lambda span: max(span.start - now, now - span.stop))
    if shift < 0:
        return [span for span in spans if span.stop <= now][shift]
    return [span for span in spans if span.start > now][shift - 1]


def _yearly(make: Callable[[int], _Span], now: datetime, shift: int | None) -> _Span:
    spans = []
    for year in range(now.year - 8, now.year + 9):  # two 29 Februaries can lie eight years apart
        try:
            spans.append(make(year))
        except ValueError:
            continue
    return _choose(spans, now, shift)


# Reading the words of a match


def _which(table: dict[_Key, str], word: str) -> _Key:
    """The key of the entry that has this word; patterns are made of these tables, so there is one."""
    return next(key for key, words in table.items() if re.fullmatch(words, word, re.IGNORECASE))


def _group(match: re.Match[str], name: str) -> str:
    return match.groupdict().get(name) or ""


def _shift(words: str) -> int | None:
    """-1 for last, 0 for this, 1 for next, twice that in "before last"; None when nothing is said."""
    if not words:
        return None
    size = 2 if re.search("before|after|قبل", words, re.IGNORECASE) else 1
    if re.search("last|past|prev|ماض|ساب|فاي|منصرم|اخر", words, re.IGNORECASE):
        return -size
    return size if re.search("next|coming|قادم|مقبل|جاي", words, re.IGNORECASE) else 0


def _relation(match: re.Match[str]) -> int | None:
    return _shift(_group(match, "rel") or _group(match, "which"))


def _year(match: re.Match[str], now: datetime) -> int | None:
    words = _group(match, "year")
    if not words:
        return None
    return int(words) if words.isdecimal() else now.year + (_shift(words) or 0)


def _count(match: re.Match[str]) -> tuple[int, bool]:
    """How many, and whether that was said vaguely. Arabic says one and two by the form of the unit."""
    words = _group(match, "n")
    if not words:
        return (2 if match["unit"].endswith("ين") else 1), False
    if words.isdecimal():
        return int(words), False
    vague = next((count for count, names in _VAGUE.items() if re.fullmatch(names, words, re.IGNORECASE)), 0)
    return vague or _which(_COUNTS, words), vague > 0


# Resolvers: a match and the moment of asking to the spans that the words can mean


def _day_word(match: re.Match[str], now: datetime) -> list[_Span]:
    return [_days(now + _which(_DAY_WORDS, match[0]) * _DAY)]


def _night(match: re.Match[str], now: datetime) -> list[_Span]:
    """From five in the afternoon to six; "tonight" after midnight is still the evening before."""
    day = _which(_NIGHTS, match[0]) or (-1 if now.hour < 5 else 0)
    evening = _midnight(now) + day * _DAY + timedelta(hours=17)
    return [_Span(evening, evening + timedelta(hours=13))]


def _distance(match: re.Match[str], now: datetime) -> list[_Span]:
    """Wider the larger the unit, the number or the vagueness: people round what lies further away."""
    (count, vague), unit = _count(match), _which(_UNITS, match["unit"])
    ahead = match["way"].lower() in ("from now", "بعد")
    width = _WIDTHS.get(unit, 0)
    slack = count * width // 2 if vague else max(width // 2, count * width // 10)
    return [_days(_step(now, count if ahead else -count, unit) - slack * _DAY, 2 * slack + 1)]


def _rolling(match: re.Match[str], now: datetime) -> list[_Span]:
    """The last so many units up to the end of today, or the next ones from its beginning."""
    (count, vague), unit = _count(match), _which(_UNITS, match["unit"])
    shift = (_relation(match) or 0) * (count + count // 2 * vague)
    there = _days(_step(now, shift, unit))
    return [_Span(min(there.start, _midnight(now)), max(there.stop, _days(now).stop))]


def _calendar(match: re.Match[str], now: datetime) -> list[_Span]:
    unit, shift, today = _which(_CALENDAR, match["unit"]), _relation(match), _midnight(now)
    if unit.startswith("week"):
        if shift is None:  # "the weekend" is the latest one begun
            shift = 0 if today.weekday() >= 5 else -1
        monday = today + (7 * shift - today.weekday()) * _DAY
        return [_days(monday, 7) if unit == "week" else _days(monday + 5 * _DAY, 2)]
    if unit in _STEPS:
        return [_days(_step(now, shift or 0, unit))]
    length = _MONTHS_IN[unit]
    first = _step(datetime(today.year, today.month - (today.month - 1) % length, 1), shift or 0, unit)
    return [_Span(first, _step(first, 1, unit))]


def _named(match: re.Match[str], now: datetime) -> list[_Span]:
    """A month, a season or a quarter. The winter of a year may be the one it begins or ends with."""
    (first, length), year = _which(_NAMED, match["name"]), _year(match, now)
    if year is None:
        return [_yearly(lambda each: _months(each, first, length), now, _relation(match))]
    return [_months(each, first, length) for each in (year - 1, year) if each == year or first + length > 13]


def _month_days(match: re.Match[str], now: datetime) -> list[_Span]:
    (month, _), year = _which(_NAMED, match["name"]), _year(match, now)
    first, last = (int(re.sub(r"\D", "", words)) for words in (match["day"], match["last"] or match["day"]))

    def make(year: int) -> _Span:
        return _Span(datetime(year, month, first), _days(datetime(year, month, last)).stop)

    return [_yearly(make, now, None) if year is None else make(year)]


def _weekday(match: re.Match[str], now: datetime) -> list[_Span]:
    day = _which(_WEEKDAYS, match["day"])
    monday = _midnight(now) - now.weekday() * _DAY
    if week := _group(match, "week"):
        return [_days(monday + (7 * (_shift(week) or 0) + day) * _DAY)]
    shift = -_count(match)[0] if _group(match, "n") else _relation(match)
    return [_choose([_days(monday + (7 * weeks + day) * _DAY) for weeks in range(-20, 4)], now, shift)]


def _iso(match: re.Match[str], now: datetime) -> list[_Span]:
    year, month, day = int(match["year"]), int(match["month"]), _group(match, "day")
    return [_days(datetime(year, month, int(day))) if day else _months(year, month, 1)]


def _slashed(match: re.Match[str], now: datetime) -> list[_Span]:
    """Day and month in either order, where both can be."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["year"])
    year += 2000 if year < 100 else 0
    readings = [(month, day) for day, month in ((one, two), (two, one)) if 1 <= month <= 12]
    return [_days(datetime(year, month, day)) for month, day in readings if 1 <= day <= monthrange(year, month)[1]]


def _years(match: re.Match[str], now: datetime) -> list[_Span]:
    """A year, or the ten of a decade; two digits are of the last century."""
    year = int(match["year"])
    return [_months(year + 1900 if year < 100 else year, 1, 120 if _group(match, "decade") else 12)]


_Resolver = Callable[[re.Match[str], datetime], list[_Span]]


def _fill(pattern: str) -> str:
    while re.search("[A-Z]{3}", pattern):
        pattern = re.sub("[A-Z]{3,}", lambda name: f"(?:{_VOCABULARY[name[0]]})", pattern)
    return pattern


def _rule(resolver: _Resolver, pattern: str) -> tuple[_Resolver, re.Pattern[str]]:
    """Whole words; Arabic joins "and", "in" and "for" to the next one."""
    return resolver, re.compile(rf"(?:(?<!\w)|(?<=\b[وفبل]))(?:{_fill(pattern)})(?!\w)", re.IGNORECASE)


# Of what begins at the same letter the longest counts, then the first in this table.
_RULES: Final = (
    _rule(_day_word, "DAYWORD"),
    _rule(_night, "NIGHT"),
    _rule(_distance, "(?P<n>NUM) (?P<unit>UNIT) (?P<way>ago|back|from now)"),
    _rule(_distance, r"(?P<way>قبل|منذ|بعد) (?:(?P<n>NUM) )?(?P<unit>UNIT)(?! (?:\d|ال|NAME))"),
    _rule(_rolling, "(?:SPAN )?(?P<rel>last|past|next|coming|اخر) (?P<n>NUM) (?P<unit>UNIT)(?! of)"),
    _rule(_rolling, "(?:in|over|within|during) the (?P<rel>last|past|next|coming) (?P<unit>UNIT)(?! of)"),
    _rule(_rolling, "(?:SPAN )?(?P<rel>past|اخر) (?P<unit>UNIT)"),
    _rule(_calendar, "(?P<rel>REL) (?P<unit>week|weekend|month|quarter|year)(?! of)"),
    _rule(_calendar, "(?:the )?(?P<unit>week|weekend|month|quarter|year) (?P<rel>before last|after next)"),
    _rule(_calendar, "the (?P<unit>weekend)"),
    _rule(_calendar, "(?P<rel>هذا|هذه) ال(?P<unit>UNIT)"),
    _rule(_calendar, "ال(?P<unit>UNIT) (?P<which>WHICH)"),
    _rule(_named, "(?:(?P<rel>REL) )?(?P<name>NAME)(?:OFYEAR| (?P<which>WHICH))?"),
    _rule(_month_days, "(?P<day>DAYNO)(?:(?:UPTO| and )(?P<last>DAYNO))?[ -](?:of |من )?(?P<name>MONTH)(?:OFYEAR)?"),
    _rule(_month_days, r"(?P<name>MONTH) (?:the )?(?P<day>DAYNO)(?:UPTO(?P<last>DAYNO))?(?![:%])(?:OFYEAR)?"),
    _rule(
        _weekday,  # not in "every Friday", nor in "Friday 3 May"
        r"(?<!every )(?<!each )(?<!other )(?:(?P<rel>REL) )?(?:يوم )?(?P<day>WEEKDAY)"
        r"(?!,? (?:the )?(?:DAYNO|MONTH DAYNO)(?![\w:]))(?: (?:of )?(?P<week>last|this|next) week| (?P<which>WHICH))?",
    ),
    _rule(_weekday, "(?:(?P<rel>REL)|on) (?P<day>SHORTDAY)"),
    _rule(_weekday, "(?P<n>NUM) (?P<day>WEEKDAY)s ago"),
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

# Neighbours


def _ending(pattern: str) -> re.Pattern[str]:
    return re.compile(_fill(pattern) + "$", re.IGNORECASE)


_THIRD: Final = _ending(r"\b(?P<third>THIRD)[ -](?:in )?(?:the |شهر )?")
_OPEN: Final = _ending(
    r"\b(?P<open>since|after|before|until|till|up to|prior to|منذ|بعد|قبل|حتي) (?:the |شهر |عام |سنه |يوم )?"
)
_BETWEEN: Final = _ending(r"\b(?:between|from|بين|من) (?:the |شهر |عام )?")
_INSIDE: Final = _ending(
    r"(?:\b(?:in|of|during|from|between|around|through|throughout|over|year) (?:the )?"
    r"|\b(?:في|خلال|شهر|عام|سنه|من|بين) (?:شهر |عام |سنه )?|\b[بلف])"
)
_TO: Final = re.compile(_fill("(?:UPTO)(?:the )?"), re.IGNORECASE)
_AND: Final = re.compile(",? (?:and|or|او) (?:in |the )?|, | و ?", re.IGNORECASE)
_DOUBTFUL: Final = re.compile(  # alone, these are more often a word, a name or a number
    "|".join((r"[a-z]{3}\.?|march|april|june|sept\.?|august|اب|مارس|\d{4}(?:-\d\d)?", *_SEASONS, *_QUARTERS)),
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


@dataclass(frozen=True, slots=True)
class _Mention:
    """A date found in the text; `start` is that of its "early" or "late", if it has one."""

    match: re.Match[str]
    resolver: _Resolver
    third: re.Match[str] | None
    start: int
    stop: int

    @property
    def floats(self) -> bool:
        """Whether it recurs, and which one is meant depends on what stands beside it."""
        told = any(_group(self.match, name) for name in ("rel", "which", "year", "week", "n"))
        return self.resolver in (_named, _month_days, _weekday) and not told

    def spans(self, now: datetime, later: timedelta = _DAY * 0) -> list[_Span]:
        """Empty for what is no date after all, as 31 February, or lies beyond the calendar."""
        try:
            spans = self.resolver(self.match, now + later)
        except (ValueError, OverflowError, IndexError):
            return []
        return [_third(span, _which(_THIRDS, self.third["third"])) for span in spans] if self.third else spans


def _third(span: _Span, part: int) -> _Span:
    days = (span.stop - span.start) // _DAY
    if days < 3:  # "late last night"
        return span
    return _Span(span.start + days * part // 3 * _DAY, span.start + days * (part + 1) // 3 * _DAY)


def _before(pattern: re.Pattern[str], text: str, place: int) -> re.Match[str] | None:
    return pattern.search(text, max(0, place - 40), place)


@lru_cache(maxsize=16)  # one question is read against several moments
def _mentions(text: str) -> tuple[_Mention, ...]:
    found = [(match, resolver) for resolver, pattern in _RULES for match in pattern.finditer(text)]
    found.sort(key=lambda each: (each[0].start(), -each[0].end()))
    mentions: list[_Mention] = []
    for match, resolver in found:
        start, stop = match.span()
        if len(mentions) < _MOST_MENTIONS and (not mentions or start >= mentions[-1].stop):
            third = _before(_THIRD, text, start)
            mentions.append(_Mention(match, resolver, third, third.start() if third else start, stop))
    return tuple(mentions)


def _statements(text: str, now: datetime) -> Iterator[tuple[int, int, list[_Span]]]:
    """Where in the text something is said about time, and what."""
    mentions = list(_mentions(text))
    counted = len(text)  # where the last statement ended: "in May and June"
    while mentions:
        one = mentions.pop(0)
        certain = _is_certain(text, one) or _AND.fullmatch(text, counted, one.start) is not None
        if mentions and (start := _range_start(text, one, mentions[0], certain)) >= 0:
            one, spans = mentions[0], _range(one, mentions.pop(0), now)
        elif opened := _before(_OPEN, text, one.start):
            start, spans = opened.start(), [_opened(span, opened["open"].lower(), now) for span in one.spans(now)]
        elif certain:
            start, spans = one.start, one.spans(now)
        else:
            continue
        counted = one.stop
        yield start, one.stop, spans


def _is_certain(text: str, mention: _Mention) -> bool:
    doubtful = mention.third is None and _DOUBTFUL.fullmatch(mention.match[0])
    return not doubtful or _before(_INSIDE, text, mention.start) is not None


def _range_start(text: str, one: _Mention, two: _Mention, certain: bool) -> int:
    """Where "from one to two" begins, or -1 if the two are not one range."""
    between = _before(_BETWEEN, text, one.start)
    joined = _TO.fullmatch(text, one.stop, two.start) and (between or certain or _is_certain(text, two))
    if joined or (between and _AND.fullmatch(text, one.stop, two.start)):
        return between.start() if between else one.start
    return -1


def _range(one: _Mention, two: _Mention, now: datetime) -> list[_Span]:
    """From one to the other. A date without a year is the one nearest to the other end."""
    ends = two.spans(now)
    begins = one.spans(ends[0].start if one.floats and ends else now)
    if two.floats and not one.floats and begins:
        ends = two.spans(begins[0].start, later=364 * _DAY)
    pairs = zip(begins, ends, strict=True) if len(begins) == len(ends) else product(begins, ends)
    return [_Span(begin.start, end.stop) for begin, end in pairs]


def _opened(span: _Span, word: str, now: datetime) -> _Span:
    """Up to the end of today, unless it begins later; messages lie between the earliest and the latest time."""
    if word in ("before", "prior to", "قبل"):
        return _Span(EARLIEST.replace(tzinfo=None), span.start)
    if word in ("until", "till", "up to", "حتي"):
        return _Span(EARLIEST.replace(tzinfo=None), span.stop)
    start = span.stop if word in ("after", "بعد") else span.start
    today = _days(now).stop
    return _Span(start, today if start < today else LATEST.replace(tzinfo=None))
