"""The built-in assistant: with no model it answers by quoting what is remembered, and says how to set one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.models import BUILT_IN, Hit, Message

NAME: Final = BUILT_IN
QUOTES: Final = 5
WORTH: Final = 0.45  # of the best hit's score, for another quote
LONGEST: Final = 400  # characters of a quote
HOW: Final = (
    "No model is set, so this is memory alone. Any OpenAI-compatible URL will do, for example a local one:\n"
    "RECOLLECT_MODEL_URL=http://127.0.0.1:11434/v1 RECOLLECT_MODEL_NAME=llama3.2 recollect serve"
)
NOTHING: Final = "I remember nothing about that yet."
LAST: Final = "I cannot search by meaning yet: what was said is still being indexed. The last things you said:"


def answer(
    question: str, hits: Sequence[Hit], *, now: datetime, zone: str = "UTC", newest: Sequence[Message] = ()
) -> str:
    """Quotes with their dates, the best first. The question itself is none.

    Where nothing was found, what the user said in the `newest` messages, if any: they cannot all be found yet.
    """
    asked = _bare(question)
    useful = [hit for hit in hits if hit.message_id is not None and _bare(hit.text) != asked]
    best = useful[0].score if useful else 0.0
    told = "This is what I remember:"
    quotes = [_quote(hit, hit.text, now, zone) for hit in useful if hit.score >= WORTH * best][:QUOTES]
    if not quotes:
        told = LAST
        said = [one for one in newest if one.role == "user" and _bare(one.content) not in ("", asked)]
        quotes = [_quote(one, one.content, now, zone) for one in reversed(said[-QUOTES:])]
    return "\n".join([told, *(f"- {one}" for one in quotes)] if quotes else [NOTHING]) + f"\n\n{HOW}"


def _bare(text: str) -> str:
    return " ".join(text.split()).casefold()


def _quote(of: Hit | Message, words: str, now: datetime, zone: str) -> str:
    """Who said it and when, with the words."""
    day = of.at.astimezone(ZoneInfo(zone)).date()
    who = of.name or {"user": "you", "assistant": "the assistant", "tool": "a tool"}.get(of.role, of.role)
    text = " ".join(words.split())
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return f"{day.day} {times.MONTHS[day.month - 1]} {day.year} ({times.age(of.at, now)}), {who} said: “{shown}”"


def pieces(text: str) -> list[str]:
    """The answer as it is streamed: a line at a time."""
    lines = text.splitlines(keepends=True)
    return lines or [""]
