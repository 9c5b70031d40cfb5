"""Finds what must not be lost of a conversation by rules alone: from messages to ledger entries.

Only people make preferences, facts, intents and open questions. An assistant without a name adds links and what was
agreed; tools and system messages add nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, INTENT, PREFERENCE, QUESTION, STRUCTURE, Entry
from recollect.core.dates.day_notes import dated
from recollect.core.extract import arabic, english
from recollect.core.extract.names import names
from recollect.core.extract.rules import Finding
from recollect.core.extract.sources import sources
from recollect.core.extract.structure import structure
from recollect.core.extract.texts import Sentence, sentences
from recollect.core.language import speech
from recollect.core.models import Message

MOST: Final = 64  # entries of one message
TEXT: Final = 300  # characters of an entry, without its dates

JOKE: Final = 2000  # characters in which a message shows that it is not meant
_DATED: Final = (FACT, DECISION, INTENT, QUESTION)
_NAMELESS: Final = ("email", "phone")  # facts already; no names besides
_ARABIC: Final = re.compile("[\u0620-\u064a]")
_JOKE: Final = re.compile(
    r"\b(?:just kidding|only joking|jk|just joking|pretend|role-?play|hypothetically|imagine (?:that )?(?:I|you|we)"
    r"|(?:write|tell|make up|compose|draft|generate|create)(?: me)? (?:an? |the )?(?:[\w-]+ ){0,2}"
    r"(?:story|poem|scene|dialogue|song"
    r"|screenplay|monologue|letter|speech|joke|e-?mail|essay|bio|character))\b"
    r"|أمزح|امزح|مزحة|تخيل|اكتب لي (?:قصة|رسالة|قصيدة|خطاب)",
    re.IGNORECASE,
)


def extract(messages: Sequence[Message], zone: str = "UTC") -> list[Entry]:
    """The entries of a stretch of a conversation, in the order of its messages."""
    return [entry for message in messages for entry in _entries(message, zone)]


def _entries(message: Message, zone: str) -> list[Entry]:
    if message.role not in ("user", "assistant") or message.source == "tool":
        return []
    person = message.role == "user" or bool(message.name)
    found: dict[tuple[str, str, str, bool], Entry] = {}
    for finding in _findings(message.content, person):
        text = finding.text[:TEXT]
        told = dated(text, message.at, zone) if finding.kind in _DATED else text
        entry = Entry(
            kind=finding.kind,
            subject=speech.speaker(message),
            slot=finding.slot[:60],
            value=_value(finding)[:TEXT],
            text=told,
            sources=(message.id,),
            seq=message.seq,
            at=message.at,
            single=finding.single,
            ends=finding.ends,
            trust=message.source,
        )
        found.setdefault((entry.kind, entry.slot, entry.value.casefold(), entry.ends), entry)
        if len(found) >= MOST:
            break
    return list(found.values())


def _value(finding: Finding) -> str:
    """Its heart; where the text denies, all of it: "use ORMs" is not what was said by "do not use ORMs"."""
    if finding.ends or finding.kind not in (PREFERENCE, FACT) or finding.slot.startswith("dislike"):
        return finding.value
    denied = speech.denies(finding.text) and not speech.denies(finding.value)
    return finding.text if denied else finding.value


def _findings(text: str, person: bool) -> Iterator[Finding]:
    yield from sources(text)
    told = sentences(speech.own_words(text))
    if not person:
        for sentence in told:
            yield from _language(sentence.text).agreed(sentence.text)
        return
    if _JOKE.search(text[:JOKE]):
        return
    stated = [finding for sentence in told for finding in _statements(sentence)]
    yield from stated
    known = {finding.value.casefold() for finding in stated if finding.slot in _NAMELESS or finding.kind == STRUCTURE}
    yield from (name for name in names(told) if name.value.casefold() not in known)


def _statements(sentence: Sentence) -> Iterator[Finding]:
    parts = list(structure(sentence))
    yield from parts
    if not parts:
        yield from _language(sentence.text).find(sentence.text)


def _language(text: str) -> ModuleType:
    return arabic if _ARABIC.search(text) else english
