"""Says which day was meant: "yesterday" becomes "yesterday (7 May 2023)", so that it is understood on any later day.

Only words that mean a time by the day on which they are said get a date, and only where people agree on it: not "next
Friday" or "this summer".
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from recollect.core import date_rules
from recollect.core.date_rules import Span, group
from recollect.core.date_words import CALENDAR, UNITS, VAGUE, fill, fold, key_of
from recollect.core.dates import Mention, mentions
from recollect.core.times import MONTH_NAMES, load_zone

MOST: Final = 3  # dates in one text
_FAR: Final = 10  # of a unit: from here on people round
_QUICK: Final = re.compile(  # most texts have none of these words
    fill(r"\b(?:DAYWORD|NIGHT|ago|from now|last|past|previous|coming|this|next)\b|WHICH|قبل|منذ|بعد|هذا|هذه"),
    re.IGNORECASE,
)
_ARABIC: Final = re.compile("[\u0620-\u064a]")
_BEFORE: Final = re.compile(r"(?:\bفي|\bهذا|\bذلك|\bنفس|\bthe very) $")  # "on the same day", not "today"
_AFTER: Final = re.compile(r" ?[(\[]|['’]\w|-\w|(?<=اليوم) ال")  # told already, or a part of something else
_TWO_READINGS: Final = re.compile("بكر[اه]")  # "tomorrow", and "I hate" where it is spoken
_COARSE: Final = ("hour", "quarter")
_WEEKS: Final = ("week", "weekend")


def dated(text: str, at: datetime, zone: str = "UTC") -> str:
    """The text, said at this moment, with the dates that its words for days, weeks, months and years meant."""
    folded, places = fold(text)
    if not _QUICK.search(folded):
        return text
    now = at.astimezone(load_zone(zone)).replace(tzinfo=None)
    found = [(each.stop, told) for each in mentions(folded) if (told := _told(each, folded, now))]
    for stop, told in found[MOST - 1 :: -1]:
        place = max(places[stop], places[stop - 1] + 1)
        text = f"{text[:place]} ({told}){text[place:]}"
    return text


def _told(mention: Mention, text: str, now: datetime) -> str:
    """The date that a mention gets, or nothing."""
    match, resolver = mention.match, mention.resolver
    if _AFTER.match(text, match.end()) or _BEFORE.search(text, max(0, match.start() - 10), match.start()):
        return ""
    try:
        span = resolver(match, now)[0]
        form = _form(match, resolver, now, span)
    except (ValueError, OverflowError, IndexError):  # the edge of the calendar
        return ""
    return _written(form, span, iso=_ARABIC.search(match[0]) is not None) if form else ""


def _form(match: re.Match[str], resolver: date_rules.Resolver, now: datetime, span: Span) -> str:
    """How finely the words mean it: "day", "about day", "week", "weekend", "month", "year"; or nothing."""
    if resolver in date_rules.DAYS:
        return "" if _TWO_READINGS.fullmatch(match[0]) else "day"
    related = group(match, "rel") or group(match, "which")
    if resolver is date_rules.distance:
        return _distance(match)
    if resolver is date_rules.calendar and related:
        unit = key_of(CALENDAR, match["unit"])
        return unit if unit not in _COARSE else ""
    if resolver is date_rules.weekday and span.stop <= now and related.lower() != "this":
        return "day" if related or group(match, "n") else ""
    return ""


def _distance(match: re.Match[str]) -> str:
    unit, count = key_of(UNITS, match["unit"]), group(match, "n")
    if unit in _COARSE or any(re.fullmatch(words, count, re.IGNORECASE) for words in VAGUE.values()):
        return ""
    if unit == "week":
        return "about day"
    return f"about {unit}" if count.isdecimal() and int(count) >= _FAR else unit


def _written(form: str, span: Span, *, iso: bool) -> str:
    """The middle of a period stands for it: those of distances are as wide before as after."""
    about, _, unit = form.rpartition(" ")
    day = span.start if unit in _WEEKS else span.start + (span.stop - span.start) / 2
    if unit == "year":
        written = f"{day.year}"
    elif iso:
        return f"{day:%Y-%m}" if unit == "month" else f"{day:%Y-%m-%d}"
    else:
        written = ("" if unit == "month" else f"{day.day} ") + f"{MONTH_NAMES[day.month - 1]} {day.year}"
    return f"{unit} of {written}" if unit in _WEEKS else f"{about} {written}".strip()
