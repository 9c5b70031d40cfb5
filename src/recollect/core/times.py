"""Reads moments, days and zones, and converts moments to the microseconds that both databases store.

Messages lie from `EARLIEST` up to, not including, `LATEST`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.errors import InvalidInput

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNIT_SECONDS: Final = (
    ("year", 31_557_600),
    ("month", 2_629_800),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
)
MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
SHORT_MONTH_NAMES: Final = tuple(name[:3] for name in MONTH_NAMES)
ARABIC_MONTH_NAMES: Final = (
    "يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر", "أكتوبر", "نوفمبر", "ديسمبر",
)  # fmt: skip
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def parse_moment(value: object, name: str = "at") -> datetime:
    """Return a datetime from a datetime or ISO-8601 text. `name` is the argument that error messages name.

    A time without an offset stays naive: it is read later, in the zone of its conversation.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput("invalid_time", f"`{name}` is not an ISO-8601 time.") from None
    if not isinstance(value, datetime):
        raise InvalidInput("invalid_time", f"`{name}` must be a datetime or ISO-8601 text.")
    if not EARLIEST.year <= value.year < LATEST.year:
        raise InvalidInput("time_out_of_range", f"`{name}` must lie from {EARLIEST.year} up to {LATEST.year}.")
    return value


def to_utc(moment: datetime, zone: str) -> datetime:
    """Return the moment in UTC. A naive moment is read in `zone`."""
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=load_zone(zone))
    return moment.astimezone(UTC)


def load_zone(name: object) -> ZoneInfo:
    """Return the time zone of an IANA name, or raise InvalidInput."""
    if not isinstance(name, str) or not name:
        raise InvalidInput("invalid_zone", "A zone is an IANA name such as Asia/Riyadh.")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, path-like, or a folder of the zone data
        raise InvalidInput("invalid_zone", f"{name[:80]!r} is not an IANA time zone.") from None


def to_micros(moment: datetime) -> int:
    """Return the microseconds from 1970 to the moment; negative before."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the moment in UTC that lies so many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=value)


def parse_day(value: object) -> date:
    """Return the date of a text like 2026-11-15, or raise InvalidInput."""
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        day = None
    if day is None or not EARLIEST.year <= day.year < LATEST.year:
        raise InvalidInput("invalid_day", "A day is written like 2026-11-15.")
    return day


def day_bounds(day: date, zone: str) -> tuple[datetime, datetime]:
    """Return the start and the end of a local date, in UTC. A day with a clock change lasts 23 or 25 hours."""
    info = load_zone(zone)
    start = datetime(day.year, day.month, day.day, tzinfo=info)
    following = day + timedelta(days=1)
    end = datetime(following.year, following.month, following.day, tzinfo=info)
    return start.astimezone(UTC), end.astimezone(UTC)


def describe_age(moment: datetime, now: datetime) -> str:
    """Return in words how long ago a moment was: "just now", "5 minutes ago", "2 days ago"."""
    age = measure_age(moment, now)
    return "just now" if age is None else f"{age[0]} {age[1]}{'s' if age[0] > 1 else ''} ago"


def measure_age(moment: datetime, now: datetime) -> tuple[int, str] | None:
    """Return how long ago a moment was, in its largest unit: (5, "minute"). None if it was less than a minute ago."""
    seconds = max(0, int((now - moment).total_seconds()))
    return next(((seconds // length, unit) for unit, length in _UNIT_SECONDS if seconds >= length), None)
