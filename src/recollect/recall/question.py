"""Parses a question: its words, the identifiers in it, and the periods it names. Any text is a question.

It knows nothing of the messages that are searched.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core import times, word_index
from recollect.core.dates import periods
from recollect.core.language import analyser, identifiers
from recollect.core.language.arabic_first_person import speaks_of_self
from recollect.core.language.question_kinds import QuestionKinds, find_kinds

MAX_QUESTION_CHARACTERS: Final = 4000  # of a longer text only the beginning and the end are read
MAX_QUESTION_WORDS: Final = 128
NEUTRAL_LEAN: Final = 0.3  # lean of a question that does not say whose words it asks for
_ASKS_FOR_ANSWERS: Final = re.compile(
    r"\byou(?:'ve| have| had)?\s+(?:\w+ly\s+)?(?:suggested|recommended|mentioned|told|said|provided|gave|given|listed"
    r"|explained|described|shared|wrote|written|created|made|advised|proposed|came up|walked|helped|showed|shown)\b"
    r"|\bdid you\s+(?:\w+ly\s+)?(?:suggest|recommend|mention|tell|say|provide|give|list|explain|describe|share|write"
    r"|create|make|advise|propose|come up|walk|help|show)\b"
    r"|\bremind me\b|\bour (?:last|previous|earlier|past) |\bprevious (?:conversation|chat|discussion)"
    r"|(?:اقترحت|ذكرت(?! لك)|نصحت|[أا]وصيت|[أا]?خبرتني|قلت(?:ي)? ?لي|قلتلي|شرحت ?لي|[أا]?عطيتني|كتبت ?لي|رشحت"
    r"|[أا]جبتني|ذكّ?رني|ذكريني|محادثتنا السابقة|آخر مرة (?:تكلمنا|سولفنا|تحدثنا)|(?:اقتراح|نصيحت|توصيت)ك)",
    re.IGNORECASE,
)
_ASKS_ABOUT_ASKER: Final = re.compile(
    r"\b(?:i|my|me|mine|myself)\b|(?<!\w)(?:أنا|انا|لي|عندي|لدي|إلي)(?!\w)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, parsed. `words` and `names` are numbers, as in the word index."""

    text: str
    words: tuple[int, ...]
    names: tuple[int, ...]  # identifiers, codes and the like
    about_code: bool
    lean: float  # towards messages of people: 1 if they ask about themselves, 0 if they ask what was answered
    kinds: QuestionKinds

    def periods(self, now: datetime, zone: str) -> list[tuple[int, int]]:
        """Return the periods that the question names as (start, stop) in microseconds, read at the moment `now`."""
        named = periods.find_periods(self.text, now=now, zone=zone)
        return [(times.to_micros(period.start), times.to_micros(period.stop)) for period in named]


def parse_question(text: str) -> ParsedQuestion:
    """Parse a question. Of a very long one, only the beginning and the end are read."""
    text = shorten_question(text)
    words = analyser.query_words(text)[:MAX_QUESTION_WORDS]
    named, about_code = identifiers.read_question(text)
    names = _to_indexed_words(text, named)[:MAX_QUESTION_WORDS]
    return ParsedQuestion(
        text,
        tuple(word_index.hash_words(words)),
        tuple(word_index.hash_words(names)),
        about_code,
        _lean(text, has_names=bool(names)),
        find_kinds(text),
    )


def _to_indexed_words(text: str, named: Collection[str]) -> list[str]:
    """Return the identifiers that the word index has as one word: as a compound, or as the only word in them."""
    compounds = frozenset(analyser.compounds(text)) if named else frozenset()
    names: dict[str, None] = {}
    for name in sorted(named):
        words = [name] if name in compounds else analyser.words(name)
        if len(words) == 1:
            names[words[0]] = None
    return list(names)


def _lean(text: str, *, has_names: bool) -> float:
    """Return how much the messages of people count. People know about themselves; an assistant knows its answers.

    A fact about an identifier may come from either side.
    """
    if _ASKS_FOR_ANSWERS.search(text):
        return 0.0
    asks_about_asker = _ASKS_ABOUT_ASKER.search(text) is not None or speaks_of_self(text)
    if has_names:
        return NEUTRAL_LEAN if asks_about_asker else 0.0
    return 1.0 if asks_about_asker else NEUTRAL_LEAN


def shorten_question(text: str) -> str:
    """Return the beginning and the end of a very long question: a pasted text says there what it is about."""
    if len(text) <= MAX_QUESTION_CHARACTERS:
        return text
    return f"{text[: MAX_QUESTION_CHARACTERS // 2]}\n{text[-MAX_QUESTION_CHARACTERS // 2 :]}"
