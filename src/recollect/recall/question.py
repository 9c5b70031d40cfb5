"""Reading a question: its words, the names in it, the times it speaks of. Any text is a question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recollect.core import times, word_index
from recollect.core.dates import periods
from recollect.core.language import analyser, identifiers

LONGEST: Final = 4000  # characters that are read; of a longer text its beginning and its end
MOST_WORDS: Final = 128
SLIGHT: Final = 0.3  # lean of a question that says nothing about who said it
_OF_ANSWERS: Final = re.compile(
    r"\byou(?:'ve| have| had)?\s+(?:\w+ly\s+)?(?:suggested|recommended|mentioned|told|said|provided|gave|given|listed"
    r"|explained|described|shared|wrote|written|created|made|advised|proposed|came up|walked|helped|showed|shown)\b"
    r"|\bremind me\b|\bour (?:last|previous|earlier|past) |\bprevious (?:conversation|chat|discussion)"
    r"|(?:اقترحت|ذكرت|نصحت|اخبرتني|أخبرتني|قلت لي|ذكرني|ذكّرني|محادثتنا السابقة)",
    re.IGNORECASE,
)
_OF_ONESELF: Final = re.compile(r"\b(?:i|my|me|mine|myself)\b|(?<!\w)(?:أنا|انا|لي|عندي|لدي|إلي)(?!\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Read:
    """A question as it was read, before anything is known of the scope."""

    text: str
    words: tuple[int, ...]
    names: tuple[int, ...]
    about_code: bool
    lean: float  # towards what people said: 1 if they ask about themselves, 0 if they ask what was answered

    def periods(self, now: datetime, zone: str) -> list[tuple[int, int]]:
        """The times it speaks of, in microseconds."""
        found = periods.periods(self.text, now=now, zone=zone)
        return [(times.to_micros(period.start), times.to_micros(period.stop)) for period in found]


def read(text: str) -> Read:
    text = excerpt(text)
    words = analyser.query_words(text)[:MOST_WORDS]
    names = _names(text)[:MOST_WORDS]
    return Read(
        text,
        tuple(word_index.query_numbers(words)),
        tuple(word_index.query_numbers(names)),
        identifiers.is_code_question(text),
        _lean(text, about_names=bool(names)),
    )


def _names(text: str) -> list[str]:
    """Identifiers, codes and the like, as the index has them: as a whole, or as the one word they are."""
    wholes = frozenset(analyser.compounds(text))
    found: dict[str, None] = {}
    for name in sorted(identifiers.identifiers(text)):
        words = [name] if name in wholes else analyser.words(name)
        if len(words) == 1:
            found[words[0]] = None
    return list(found)


def _lean(text: str, *, about_names: bool) -> float:
    """Who knows? People know about themselves; what is known about a name in a program, anyone may have said."""
    if _OF_ANSWERS.search(text):
        return 0.0
    about_oneself = _OF_ONESELF.search(text) is not None
    if about_names:
        return SLIGHT if about_oneself else 0.0
    return 1.0 if about_oneself else SLIGHT


def excerpt(text: str) -> str:
    """A question so long is a pasted text: what it is about stands at its beginning or at its end."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
