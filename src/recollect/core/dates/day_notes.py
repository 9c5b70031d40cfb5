"""Adds the date to words such as "yesterday": "yesterday (7 May 2023)", which any later reader understands.

Only words whose date depends on the day of speaking get one, and only where people agree on it: not "next Friday" or
"this summer".
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from recollect.core.dates import date_rules
from recollect.core.dates.date_rules import Span, group_text
from recollect.core.dates.date_words import CALENDAR, UNITS, VAGUE, expand_pattern, find_key, normalise
from recollect.core.dates.periods import Mention, find_mentions
from recollect.core.times import ARABIC_MONTH_NAMES, MONTH_NAMES, load_zone

MAX_NOTES: Final = 3  # dates added to one text
NOTE_PATTERN: Final = (
    r" \((?:about |~|week(?:end)? of |نحو |أسبوع |عطلة )?(?:[0-9]{1,2} )?(?:[A-Z][a-z]+ |[\u0621-\u064a]{4,6} )?"
    r"[0-9]{4}(?:-[0-9]{2}){0,2}[^()]{0,13}\)"
)
_ROUNDED_COUNT: Final = 10  # people round from so many units on
_HINT: Final = re.compile(  # a text without any of these words needs no date; most have none
    expand_pattern(r"DAYWORD|NIGHT|ago\b|from now|(?:last|past|previous|coming|this|next) [a-z]|WHICH|قبل|منذ|هذا|هذه"),
    re.IGNORECASE,
)
_NOTE: Final = re.compile(NOTE_PATTERN)
_ARABIC: Final = re.compile("[\u0620-\u064a]")
_BEFORE: Final = re.compile(
    r"\b(?:في|هذا|ذلك|نفس) $"  # "on the same day", not "today"
    r"|\b(?:from|ago|half|the|for|at) $"  # "a week from today", "half a year ago", "for the last year"
    r"|[0-9]\) $|[0-9][.,]$|[/=.`@#\\-]$",  # a date, a part of a number, an address, a command
    re.IGNORECASE,
)
_AFTER: Final = re.compile(
    r" ?[(\[]|['’]\w|[-/=`\\]|\.\w|(?<=اليوم) ال| من\b"
)  # a date follows already, or the word is a part of something else
_INSIDE_SENTENCE: Final = re.compile(r"[^\s.!?…:\"'“«([*-] $|: $")  # a capital after this begins a title
_TWO_READINGS: Final = re.compile("بكر[اه]")  # "tomorrow", or "I hate" in spoken Arabic
_UNDATED_UNITS: Final = ("hour", "quarter")
_ARABIC_WEEKS: Final = {"week": "أسبوع", "weekend": "عطلة"}
_WEEKS: Final = ("week", "weekend")


def add_dates(text: str, at: datetime, zone: str = "UTC") -> str:
    """Add the date after each word for a day, week, month or year that depends on `at`, the moment of speaking.

    A text holds at most `MAX_NOTES` such dates. A second call with the same arguments adds nothing.
    """
    normalised, positions = normalise(text)
    notes_left = MAX_NOTES - len(_NOTE.findall(text)) if _HINT.search(normalised) else 0
    if notes_left <= 0:
        return text
    now = at.astimezone(load_zone(zone)).replace(tzinfo=None)
    # If the text was cut, its last word may go on after the cut.
    end = len(normalised) if positions[-1] == len(text) else len(normalised) - 1
    notes = [
        (mention.stop, note)
        for mention in find_mentions(normalised)
        if mention.stop <= end and (note := _note(mention, normalised, now))
    ]
    for stop, note in notes[:notes_left][::-1]:
        position = max(positions[stop], positions[stop - 1] + 1)
        text = f"{text[:position]} ({note}){text[position:]}"
    return text


def _note(mention: Mention, text: str, now: datetime) -> str:
    """Return the date that is added after a mention, or ""."""
    spans = replace(mention, third=None).spans(now) if _is_meant(text, *mention.match.span()) else []
    precision = _precision(mention.match, mention.resolver, now, spans[0]) if spans else ""
    return _render(precision, spans[0], arabic=_ARABIC.search(mention.match[0]) is not None) if precision else ""


def _is_meant(text: str, start: int, stop: int) -> bool:
    """Return whether the words are the speaker's own date: not quoted, not part of a name, a number or an address."""
    if _AFTER.match(text, stop) or _BEFORE.search(text, max(0, start - 10), start):
        return False
    if text.count('"', 0, start) % 2 or text.count("“", 0, start) > text.count("”", 0, start):
        return False
    titled = text[start].isupper() and _INSIDE_SENTENCE.search(text, max(0, start - 2), start)
    return not titled or (text[start - 2] == ":" and stop < len(text.rstrip(" .!")))


def _precision(match: re.Match[str], resolver: date_rules.Resolver, now: datetime, span: Span) -> str:
    """Return how precise the words are: "day", "about day", "week", "weekend", "month", "year", or "" for no date."""
    if resolver in date_rules.DAY_RESOLVERS:
        return "" if _TWO_READINGS.fullmatch(match[0]) else "day"
    related = (group_text(match, "rel") or group_text(match, "which")).lower()
    if resolver is date_rules.resolve_distance:
        return "" if match["way"] == "بعد" else _distance_precision(match)  # "in a year", or "after a year"
    if resolver is date_rules.resolve_calendar and related and "coming" not in related:
        unit = find_key(CALENDAR, match["unit"])
        if unit == "weekend" and (related not in ("last", "previous") or now.weekday() > 4):
            return ""
        return unit if unit not in _UNDATED_UNITS else ""
    if resolver is date_rules.resolve_weekday and span.stop <= now and related != "this":
        return "day" if related or group_text(match, "n") else ""
    return ""


def _distance_precision(match: re.Match[str]) -> str:
    unit, count = find_key(UNITS, match["unit"]), group_text(match, "n")
    if unit in _UNDATED_UNITS or any(re.fullmatch(words, count, re.IGNORECASE) for words in VAGUE.values()):
        return ""
    if unit == "week":
        return "about day"
    return f"about {unit}" if count.isdecimal() and int(count) >= _ROUNDED_COUNT else unit


def _render(precision: str, span: Span, *, arabic: bool) -> str:
    """Render a span. Its middle stands for it: the span of a distance is as wide before the date as after."""
    about, _, unit = precision.rpartition(" ")
    day = span.start if unit in _WEEKS else span.start + (span.stop - span.start) / 2
    months = ARABIC_MONTH_NAMES if arabic else MONTH_NAMES
    month = "" if unit == "year" else f"{months[day.month - 1]} "
    date = ("" if unit in ("month", "year") else f"{day.day} ") + f"{month}{day.year}"
    if arabic:
        return f"{_ARABIC_WEEKS[unit]} {date}" if unit in _WEEKS else f"{'نحو ' * bool(about)}{date}"
    return f"{unit} of {date}" if unit in _WEEKS else f"{about} {date}".strip()
