"""Names what a sentence does in a chat (tell, ask, greet, thank), and holds what the rules of all languages share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_FRAGMENT_WORDS: Final = 3  # a text so short, without a verb, may be a search or a note
MIN_TOLD_WORDS: Final = 3  # a clause before a question tells something if it is so long
_CLAUSE_BORDER: Final = re.compile(r"[,،;؛:–—]\s|\s-\s")


@dataclass(frozen=True, slots=True)
class SpeechAct:
    """Names what a sentence or a message does. A greeting, thanks or "ok" alone neither tells nor asks."""

    tells: bool = False
    asks: bool = False
    greets: bool = False
    thanks: bool = False
    acknowledges: bool = False  # "ok", "got it", "bye"

    def __or__(self, other: SpeechAct) -> SpeechAct:
        return SpeechAct(
            self.tells or other.tells,
            self.asks or other.asks,
            self.greets or other.greets,
            self.thanks or other.thanks,
            self.acknowledges or other.acknowledges,
        )


NOTHING: Final = SpeechAct()
TELLS: Final = SpeechAct(tells=True)
ASKS: Final = SpeechAct(asks=True)
UNSURE: Final = SpeechAct(tells=True, asks=True)
GREETS: Final = SpeechAct(greets=True)
THANKS: Final = SpeechAct(thanks=True)
ACKNOWLEDGES: Final = SpeechAct(acknowledges=True)


def split_first_clause(text: str) -> tuple[str, str]:
    """Return the words before the first comma or dash, and those after it. Both are trimmed."""
    border = _CLAUSE_BORDER.search(text)
    return (text[: border.start()].strip(), text[border.end() :].strip()) if border else (text.strip(), "")


def compile_words(*rows: str, before: str = "", end: str = r"(?!\w)", after: str = "") -> re.Pattern[str]:
    """Return a pattern of alternatives, which rows of text list between bars. Each ends with `end`, as a word does.

    The group is atomic: what it has taken it does not give back, so time is linear also where `after` repeats it.
    """
    alternatives = "|".join(word for row in rows for word in row.split(" | "))
    return re.compile(f"{before}(?>(?:{alternatives}){end}){after}")
