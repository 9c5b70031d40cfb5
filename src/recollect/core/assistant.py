"""The built-in assistant: with no model it answers by quoting what is remembered, and says how to set one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.models import BUILT_IN, Hit

NAME: Final = BUILT_IN
QUOTES: Final = 5
WORTH: Final = 0.45  # of the best hit's score, for another quote
LONGEST: Final = 400  # characters of a quote
HOW: Final = (
    "No model is set, so this is memory alone. Any OpenAI-compatible URL will do, for example a local one:\n"
    "RECOLLECT_MODEL_URL=http://127.0.0.1:11434/v1 RECOLLECT_MODEL_NAME=llama3.2 recollect serve"
)
NOTHING: Final = "I remember nothing about that yet."


def answer(question: str, hits: Sequence[Hit], *, now: datetime, zone: str = "UTC") -> str:
    """Quotes with their dates, the best first. The question itself is none."""
    asked = " ".join(question.split()).casefold()
    useful = [hit for hit in hits if hit.message_id is not None and " ".join(hit.text.split()).casefold() != asked]
    best = useful[0].score if useful else 0.0
    quotes = [quote(hit, now, zone) for hit in useful if hit.score >= WORTH * best][:QUOTES]
    told = "This is what I remember:\n" + "\n".join(f"- {one}" for one in quotes) if quotes else NOTHING
    return f"{told}\n\n{HOW}"


def quote(hit: Hit, now: datetime, zone: str) -> str:
    """Who said it and when, with the words."""
    day = hit.at.astimezone(ZoneInfo(zone)).date()
    who = hit.name or {"user": "you", "assistant": "the assistant", "tool": "a tool"}.get(hit.role, hit.role)
    text = " ".join(hit.text.split())
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return f"{day.day} {times.MONTHS[day.month - 1]} {day.year} ({times.age(hit.at, now)}), {who} said: “{shown}”"


def pieces(text: str) -> list[str]:
    """The answer as it is streamed: a line at a time."""
    lines = text.splitlines(keepends=True)
    return lines or [""]
