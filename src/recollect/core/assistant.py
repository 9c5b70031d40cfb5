"""The built-in assistant: without a model it answers by quoting memory, and says how to set a model.

It only renders what it is given. Recall and storage belong to the callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core import times
from recollect.core.message import BUILT_IN_ASSISTANT, Message
from recollect.core.models import Hit

NAME: Final = BUILT_IN_ASSISTANT
MAX_QUOTES: Final = 5  # of the messages that `chat/answers.py` looks up
MIN_SCORE_SHARE: Final = 0.45  # a hit is quoted if its score is at least this share of the best hit's score
MAX_QUOTE_CHARACTERS: Final = 400
HOW_TO_SET_A_MODEL: Final = (
    "No model is set, so this is memory alone. Any OpenAI-compatible URL will do, for example a local one:\n"
    "RECOLLECT_MODEL_URL=http://127.0.0.1:11434/v1 RECOLLECT_MODEL_NAME=llama3.2 recollect serve"
)
HITS_HEADING: Final = "This is what I remember:"
NOTHING_REMEMBERED: Final = "I remember nothing about that yet."
NEWEST_HEADING: Final = (
    "I cannot search by meaning yet: what was said is still being indexed. The last things you said:"
)


def build_answer(
    question: str, hits: Sequence[Hit], *, now: datetime, zone: str = "UTC", newest: Sequence[Message] = ()
) -> str:
    """Return an answer made of dated quotes, the best hit first. The question itself is never quoted.

    Without usable hits, quote the user's own words from the `newest` messages, latest first: they may not be indexed
    yet.
    """
    asked = _normalise(question)
    useful = [hit for hit in hits if hit.message_id is not None and _normalise(hit.text) != asked]
    best_score = useful[0].score if useful else 0.0
    heading = HITS_HEADING
    quotes = [_quote(hit, hit.text, now, zone) for hit in useful if hit.score >= MIN_SCORE_SHARE * best_score]
    quotes = quotes[:MAX_QUOTES]
    if not quotes:
        heading = NEWEST_HEADING
        own = [message for message in newest if message.role == "user"]
        own = [message for message in own if _normalise(message.content) not in ("", asked)]
        quotes = [_quote(message, message.content, now, zone) for message in reversed(own[-MAX_QUOTES:])]
    lines = [heading, *(f"- {quote}" for quote in quotes)] if quotes else [NOTHING_REMEMBERED]
    return "\n".join(lines) + f"\n\n{HOW_TO_SET_A_MODEL}"


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold()


def _quote(source: Hit | Message, words: str, now: datetime, zone: str) -> str:
    """Render one quote: its date and age, its speaker, and its words on one line."""
    day = source.at.astimezone(ZoneInfo(zone)).date()
    who = source.name or {"user": "you", "assistant": "the assistant", "tool": "a tool"}.get(source.role, source.role)
    text = " ".join(words.split())
    shown = text if len(text) <= MAX_QUOTE_CHARACTERS else text[: MAX_QUOTE_CHARACTERS - 1].rstrip() + "…"
    month, age = times.SHORT_MONTH_NAMES[day.month - 1], times.describe_age(source.at, now)
    return f"{day.day} {month} {day.year} ({age}), {who} said: “{shown}”"


def split_for_streaming(text: str) -> list[str]:
    """Split an answer into the pieces that are streamed: one line each, with its line break."""
    lines = text.splitlines(keepends=True)
    return lines or [""]
