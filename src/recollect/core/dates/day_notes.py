"""Says which day was meant: "yesterday" becomes "yesterday (7 May 2023)", so that it is understood on any later day.

Only words that mean a time by the day on which they are said get a date, and only where people agree on it: not "next
Friday" or "this summer".
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from recollect.core.dates import date_rules
from recollect.core.dates.date_rules import Span, group
from recollect.core.dates.date_words import CALENDAR, DAY, UNITS, VAGUE, fill, fold, key_of
from recollect.core.dates.periods import Mention, mentions
from recollect.core.times import MONTH_NAMES, load_zone

MOST: Final = 3  # dates in one text
WRITTEN: Final = (
    r" \((?:about |~|week(?:end)? of )?(?:[0-9]{1,2} )?(?:[A-Z][a-z]+ )?[0-9]{4}(?:-[0-9]{2}){0,2}[^()]{0,13}\)"
)
_FAR: Final = 10  # of a unit: from here on people round
_QUICK: Final = re.compile(  # most texts have none of these words
    fill(r"DAYWORD|NIGHT|ago\b|from now|(?:last|past|previous|coming|this|next) [a-z]|WHICH|قبل|منذ|هذا|هذه"),
    re.IGNORECASE,
)
_WRITTEN: Final = re.compile(WRITTEN)
_ARABIC: Final = re.compile("[\u0620-\u064a]")
_BEFORE: Final = re.compile(
    r"\b(?:في|هذا|ذلك|نفس) $"  # "on the same day", not "today"
    r"|\b(?:from|ago|half|the|for|at) $"  # "a week from today", "half a year ago", "for the last year"
    r"|[0-9]\) $|[0-9][.,]$|[/=.`@#\\-]$",  # a date, a part of a number, an address, a command
    re.IGNORECASE,
)
_AFTER: Final = re.compile(
    r" ?[(\[]|['’]\w|[-/=`\\]|\.\w|(?<=اليوم) ال| من\b"
)  # told already, or a part of something else
_NAME: Final = re.compile(r"[^\s.!?…:\"'“«([*-] $|: $")  # before a capital: a title, unless a sentence begins
_TWO_READINGS: Final = re.compile("بكر[اه]")  # "tomorrow", and "I hate" where it is spoken
_COARSE: Final = ("hour", "quarter")
_WEEKS: Final = ("week", "weekend")


def dated(text: str, at: datetime, zone: str = "UTC") -> str:
    """The text, said at this moment, with the dates that its words for days, weeks, months and years meant."""
    folded, places = fold(text)
    left = MOST - len(_WRITTEN.findall(text)) if _QUICK.search(folded) else 0
    if left <= 0:
        return text
    now = at.astimezone(load_zone(zone)).replace(tzinfo=None)
    end = len(folded) if places[-1] == len(text) else len(folded) - 1  # a word may go on behind what is read
    found = [(each.stop, told) for each in mentions(folded) if each.stop <= end and (told := _told(each, folded, now))]
    for stop, told in found[:left][::-1]:
        place = max(places[stop], places[stop - 1] + 1)
        text = f"{text[:place]} ({told}){text[place:]}"
    return text


def _told(mention: Mention, text: str, now: datetime) -> str:
    """The date that a mention gets, or nothing."""
    spans = replace(mention, third=None).spans(now) if _is_meant(text, *mention.match.span()) else []
    form = _form(mention.match, mention.resolver, now, spans[0]) if spans else ""
    return _written(form, spans[0], iso=_ARABIC.search(mention.match[0]) is not None) if form else ""


def _is_meant(text: str, start: int, stop: int) -> bool:
    """Not in what somebody else said, nor as a part of a name, a number, an address."""
    if _AFTER.match(text, stop) or _BEFORE.search(text, max(0, start - 10), start):
        return False
    if text.count('"', 0, start) % 2 or text.count("“", 0, start) > text.count("”", 0, start):
        return False
    titled = text[start].isupper() and _NAME.search(text, max(0, start - 2), start)
    return not titled or (text[start - 2] == ":" and stop < len(text.rstrip(" .!")))


def _form(match: re.Match[str], resolver: date_rules.Resolver, now: datetime, span: Span) -> str:
    """How finely the words mean it: "day", "about day", "week", "weekend", "month", "year"; or nothing."""
    if resolver in date_rules.DAYS:
        return "" if _TWO_READINGS.fullmatch(match[0]) else "day"
    related = (group(match, "rel") or group(match, "which")).lower()
    if resolver is date_rules.distance:
        return "" if match["way"] == "بعد" else _distance(match)  # "in a year", or "after a year"
    if resolver is date_rules.calendar and related and "coming" not in related:
        unit = key_of(CALENDAR, match["unit"])
        if unit == "weekend" and (related not in ("last", "previous") or now.weekday() > 4):
            return ""
        return unit if unit not in _COARSE else ""
    if resolver is date_rules.weekday and span.stop <= now and related != "this":
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
    if iso:
        written = f"{day:%Y}" if unit == "year" else f"{day:%Y-%m}" if unit == "month" else f"{day:%Y-%m-%d}"
        return f"{written} – {span.stop - DAY:%Y-%m-%d}" if unit in _WEEKS else f"{'~' * bool(about)}{written}"
    month = "" if unit == "year" else f"{MONTH_NAMES[day.month - 1]} "
    written = ("" if unit in ("month", "year") else f"{day.day} ") + f"{month}{day.year}"
    return f"{unit} of {written}" if unit in _WEEKS else f"{about} {written}".strip()
