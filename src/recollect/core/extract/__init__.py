"""Extracts ledger entries from messages, by rules alone.

Preferences, facts, intents and open points come only from people. An assistant without a name adds links and
agreements; an agreement becomes a person's decision if the person's next message confirms it. Tools and system messages
add nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, INTENT, PREFERENCE, QUESTION, STRUCTURE, Entry
from recollect.core.dates.day_notes import add_dates
from recollect.core.extract import arabic, english
from recollect.core.extract.document_structure import find_structure
from recollect.core.extract.links import find_links
from recollect.core.extract.names import find_names
from recollect.core.extract.prose import Sentence, split_prose
from recollect.core.extract.rules import RuleMatch
from recollect.core.language import speech
from recollect.core.message import Message

MAX_ENTRIES_PER_MESSAGE: Final = 64
MAX_TEXT_CHARS: Final = 300  # of an entry, without the dates that are added to it
MAX_SLOT_CHARS: Final = 60

MAX_JOKE_SEARCH_CHARS: Final = 2000  # at the beginning of a message
MAX_CONFIRMATION_CHARS: Final = 200  # a longer message says more than yes
_DATED_KINDS: Final = (FACT, DECISION, INTENT, QUESTION)
_CONTACT_SLOTS: Final = ("email", "phone")  # their values are facts, and are not repeated as names
_ARABIC: Final = re.compile("[\u0620-\u064a]")
_CONFIRMATION: Final = re.compile(
    r"\W{0,5}(?:yes|yep|yeah|yup|ok(?:ay)?|agreed|i agree|exactly|correct|that's right|right|deal|confirmed|sounds good"
    r"|let's do (?:it|that)|نعم|أيوه|ايوه|تمام|موافق|موافقة|اتفقنا|حسنا|طيب|صحيح|好的?|はい)(?!\w)",
    re.IGNORECASE,
)
# Signs that a message is a joke, a role play or an order to write fiction.
_NOT_MEANT: Final = re.compile(
    r"\b(?:just kidding|only joking|jk|just joking|pretend|role-?play|hypothetically|imagine (?:that )?(?:I|you|we)"
    r"|(?:write|tell|make up|compose|draft|generate|create)(?: me)? (?:an? |the )?(?:[\w-]+ ){0,2}"
    r"(?:story|poem|scene|dialogue|song"
    r"|screenplay|monologue|letter|speech|joke|e-?mail|essay|bio|character))\b"
    r"|أمزح|امزح|مزحة|تخيل|اكتب لي (?:قصة|رسالة|قصيدة|خطاب)",
    re.IGNORECASE,
)


def extract(messages: Sequence[Message], zone: str = "UTC") -> list[Entry]:
    """Return the entries of messages, in the order of the messages."""
    entries: list[Entry] = []
    unconfirmed: list[Entry] = []  # of the assistant's message just before
    for message in messages:
        own = _extract_message(message, zone)
        if unconfirmed and message.role == "user" and _confirms(message):
            entries += [_adopt(entry, message) for entry in unconfirmed]
        entries += own
        unconfirmed = [entry for entry in own if not entry.is_important]
    return entries


def _confirms(message: Message) -> bool:
    """Return whether a message agrees with the one before it, and says nothing else that could change it."""
    text = message.content
    return (
        len(text) <= MAX_CONFIRMATION_CHARS
        and message.source != "tool"
        and _CONFIRMATION.match(text) is not None
        and not speech.is_negated(text)
    )


def _adopt(entry: Entry, message: Message) -> Entry:
    """Return the assistant's entry as one of the person who confirmed it."""
    return replace(
        entry,
        subject=speech.speaker_name(message),
        sources=(message.id, *entry.sources),
        seq=message.seq,
        at=message.at,
        trust=message.source,
    )


def _extract_message(message: Message, zone: str) -> list[Entry]:
    if message.role not in ("user", "assistant") or message.source == "tool":
        return []
    is_person = message.role == "user" or bool(message.name)
    entries: dict[tuple[str, str, str, bool], Entry] = {}
    for match in _find_matches(message.content, is_person):
        text = match.text[:MAX_TEXT_CHARS]
        entry = Entry(
            kind=match.kind,
            subject=speech.speaker_name(message),
            slot=match.slot[:MAX_SLOT_CHARS],
            value=_choose_value(match)[:MAX_TEXT_CHARS],
            text=add_dates(text, message.at, zone) if match.kind in _DATED_KINDS else text,
            sources=(message.id,),
            seq=message.seq,
            at=message.at,
            single=match.single,
            ends=match.ends,
            trust=message.source,
        )
        entries.setdefault((entry.kind, entry.slot, entry.value.casefold(), entry.ends), entry)
        if len(entries) >= MAX_ENTRIES_PER_MESSAGE:
            break
    return list(entries.values())


def _choose_value(match: RuleMatch) -> str:
    """Return the value of an entry, or its whole text if that denies the value.

    "do not use ORMs" must not be stored with the value "use ORMs".
    """
    if match.ends or match.kind not in (PREFERENCE, FACT) or match.slot.startswith("dislike"):
        return match.value
    is_denied = speech.is_negated(match.text) and not speech.is_negated(match.value)
    return match.text if is_denied else match.value


def _find_matches(text: str, is_person: bool) -> Iterator[RuleMatch]:
    yield from find_links(text)
    sentences = split_prose(speech.extract_own_words(text))
    if not is_person:
        for sentence in sentences:
            yield from _language_of(sentence.text).find_agreements(sentence.text)
        return
    if _NOT_MEANT.search(text[:MAX_JOKE_SEARCH_CHARS]):
        return
    matches = [match for sentence in sentences for match in _match_sentence(sentence)]
    yield from matches
    known_values = {
        match.value.casefold() for match in matches if match.slot in _CONTACT_SLOTS or match.kind == STRUCTURE
    }
    yield from (name for name in find_names(sentences) if name.value.casefold() not in known_values)


def _match_sentence(sentence: Sentence) -> Iterator[RuleMatch]:
    parts = list(find_structure(sentence))
    yield from parts
    if not parts:
        yield from _language_of(sentence.text).find_entries(sentence.text)


def _language_of(text: str) -> ModuleType:
    return arabic if _ARABIC.search(text) else english
