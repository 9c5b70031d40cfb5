"""The built-in assistant: without a model it notes what it is told, and answers by quoting memory.

It answers in the language of the message, English or Arabic; in that of the talk if the message shows none ("ok", a
name). It only renders what it is given. Recall and storage
belong to the callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.assistant_phrases import PHRASES, Phrases, describe_age
from recollect.core.language.memory_requests import asked_day, asks_for_everything, asks_to_forget
from recollect.core.language.talk_language import answer_language
from recollect.core.language.utterances import (
    Language,
    read_utterance,
    tells_something,
)
from recollect.core.message import BUILT_IN_ASSISTANT, Message
from recollect.core.models import Hit, JsonObject
from recollect.core.quote_choice import MAX_QUOTES, choose_quotes, normalise

NAME: Final = BUILT_IN_ASSISTANT
MAX_QUOTE_CHARACTERS: Final = 400
MAX_NOTED_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class BuiltInAnswer:
    """An answer, and the hits or messages that it quotes."""

    text: str
    quoted: tuple[Hit | Message, ...] = ()

    def sources(self) -> list[JsonObject]:
        """Return what was quoted as the items of a `sources` event."""
        return [_describe_source(source) for source in self.quoted]


@dataclass(frozen=True, slots=True)
class Found:
    """Holds what memory has for a message: hits, best first, and the newest messages if they are needed.

    They are needed if most messages are not indexed yet (`is_unindexed`), or if the message asks for everything.
    """

    hits: Sequence[Hit] = ()
    newest: Sequence[Message] = ()
    is_unindexed: bool = False


def needs_memory(message: str) -> bool:
    """Return whether an answer to a message needs what memory holds: it asks for something, or may ask.

    Whoever asks to forget something does not want it quoted.
    """
    if asks_to_forget(message):
        return False
    act = read_utterance(message)
    return act.asks or not (act.tells or act.greets or act.thanks or act.acknowledges)


def build_answer(
    message: str,
    found: Found,
    *,
    now: datetime,
    zone: str = "UTC",
    is_stored: bool = True,
    language: Language | None = None,
) -> BuiltInAnswer:
    """Return the answer to a message: a note of what it tells, and dated quotes for what it asks, best hit first.

    Neither the message itself nor messages that only ask are quoted: a question is no memory. What is not stored is not
    noted. `language` is that of the message if it is not given.
    """
    act, language = read_utterance(message), language or answer_language(message)
    phrases = PHRASES[language]
    sections: list[str] = []
    quoted: Sequence[Hit | Message] = ()
    if act.tells:
        words = phrases.noted_words.format(words=_shorten(message, MAX_NOTED_CHARACTERS))
        sections.append(phrases.noted.format(words=words) if is_stored else phrases.not_stored)
    if asks_to_forget(message):
        sections.append(phrases.how_to_forget)
    elif needs_memory(message):
        heading, quoted = _choose_quotes(message, found, phrases, now.astimezone(ZoneInfo(zone)))
        if quoted:
            sections.append("\n".join([heading, *(f"- {_quote(each, now, zone, language)}" for each in quoted)]))
        elif not act.tells:
            sections.append(phrases.nothing_remembered)
    if not sections:
        formula = phrases.welcome if act.thanks else phrases.acknowledged
        sections.append(phrases.greeting if act.greets else formula)
    return BuiltInAnswer("\n\n".join(sections), tuple(quoted))


def notice(message: str) -> str:
    """Return in the language of a message that no model is set, and how to set one."""
    return PHRASES[answer_language(message)].no_model


def strip_notice(text: str) -> str:
    """Return an answer without the notice that a client of the OpenAI API got after it."""
    for phrases in PHRASES.values():
        text = text.removesuffix(f"\n\n{phrases.no_model}")
    return text


def explain_memory_off(message: str) -> str:
    """Return in the language of a message that memory is off."""
    return PHRASES[answer_language(message)].memory_off


def explain_unreadable(message: str, code: str) -> str:
    """Return in the language of a message that memory cannot be read, and the code of the error."""
    return PHRASES[answer_language(message)].unreadable.format(code=code)


def _choose_quotes(message: str, found: Found, phrases: Phrases, now: datetime) -> tuple[str, Sequence[Hit | Message]]:
    """Return what to quote, and the sentence before it. `now` is in the zone in which days begin and end."""
    if asks_for_everything(message):
        return phrases.remembered, _choose_everything(message, found, now)
    chosen = choose_quotes(message, found.hits)
    if chosen.hits and chosen.is_sure:
        return phrases.remembered, chosen.hits
    if found.is_unindexed:
        return phrases.newest, _choose_newest(message, found.newest)
    return phrases.nearest, chosen.hits


def _choose_everything(message: str, found: Found, now: datetime) -> Sequence[Hit | Message]:
    """Return the newest that was told, of the day that a message names; hits of that day if it is too long ago."""
    day = asked_day(message, now.date())
    if day is None:
        return _choose_newest(message, found.newest)

    def is_of_day(said: Hit | Message) -> bool:
        return said.at.astimezone(now.tzinfo).date() == day

    if newest := _choose_newest(message, list(filter(is_of_day, found.newest))):
        return newest
    told = [hit for hit in found.hits if is_of_day(hit) and hit.role == "user" and tells_something(hit.text)]
    return sorted(told, key=lambda hit: hit.at, reverse=True)[:MAX_QUOTES]


def _choose_newest(message: str, newest: Sequence[Message]) -> list[Message]:
    asked = normalise(message)
    own = [each for each in newest if each.role == "user" and tells_something(each.content)]
    own = [each for each in own if normalise(each.content) not in ("", asked)]
    return own[: -MAX_QUOTES - 1 : -1]


def _shorten(text: str, limit: int) -> str:
    """Return the text on one line, cut to `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _quote(source: Hit | Message, now: datetime, zone: str, language: Language) -> str:
    """Render one quote: its date and age, its speaker, and its words on one line."""
    phrases = PHRASES[language]
    by_role = phrases.said_by_role.get(source.role, phrases.said_by_name.format(name=source.role))
    words = source.text if isinstance(source, Hit) else source.content
    return phrases.quote.format(
        day=phrases.day(source.at.astimezone(ZoneInfo(zone)).date()),
        age=describe_age(source.at, now, language),
        who=phrases.said_by_name.format(name=source.name) if source.name else by_role,
        words=phrases.noted_words.format(words=_shorten(words, MAX_QUOTE_CHARACTERS)),
    )


def _describe_source(source: Hit | Message) -> JsonObject:
    item: JsonObject = {"part": "recall", "conversation": source.conversation, "seq": source.seq}
    if isinstance(source, Hit):
        return item | {
            "message_id": source.message_id, "kind": source.kind, "score": round(source.score, 4), "why": source.why
        }  # fmt: skip
    return item | {"message_id": source.id, "kind": "message", "score": None, "why": {}}


def split_for_streaming(text: str) -> list[str]:
    """Split an answer into the pieces that are streamed: one line each, with its line break."""
    lines = text.splitlines(keepends=True)
    return lines or [""]
