"""Says what kind of answer a question asks for: a time, a place, a person, a number, advice, or what is true now.

A text may be of several kinds, or of none. Most of what people write in a chat asks nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_WHEN: Final = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|month|year|time)\b|\bhow long\b|\bhow many (?:days|weeks|months|years)\b"
    r"|(?<!\w)(?:متى|متي|أي يوم|أي شهر|أي سنة|أي تاريخ|كم مضى|منذ كم)(?!\w)",
    re.IGNORECASE,
)
_WHERE: Final = re.compile(
    r"\bwhere\b|\b(?:what|which) (?:city|country|place|town|street)\b|(?<!\w)(?:أين|اين|وين|فين|أي مدينة|أي بلد)(?!\w)",
    re.IGNORECASE,
)
_WHO: Final = re.compile(r"\bwho(?:m|se)?\b|(?<!\w)(?:من هو|من هي|منو|مين|من الذي|لمن)(?!\w)", re.IGNORECASE)
_HOW_MANY: Final = re.compile(
    r"\bhow (?:many|much|often)\b|\bnumber of\b|\btotal\b|(?<!\w)(?:كم|عدد|إجمالي|مجموع)(?!\w)", re.IGNORECASE
)
_ADVICE: Final = re.compile(
    r"\b(?:recommend|suggest|should i|advice|ideas?|tips|can you|could you|help me|how (?:do|can|should) i|would)\b"
    r"|(?<!\w)(?:اقترح|انصحني|تنصحني|نصيحة|هل يمكنك|ساعدني|كيف أستطيع|ماذا أفعل|وش رايك|كيف أقدر)(?!\w)",
    re.IGNORECASE,
)
_NOW: Final = re.compile(
    r"\b(?:current|currently|now|latest|still|recent|most recent)\b"
    r"|(?<!\w)(?:الآن|الان|الحين|حاليا|حالياً|آخر|مازال)(?!\w)",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"[?؟]|^\s{0,9}(?:what|when|where|who|whose|which|how|why|did|do|does|is|are|was|were|can|could|have|has|would|should"
    r"|هل|ما|ماذا|متى|أين|اين|وين|كيف|كم|لماذا|ليش|وش|ايش|شنو|من|مين|منو)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QuestionKinds:
    """The kinds of answer that a question asks for. `asks` says whether it asks anything at all."""

    when: bool = False
    where: bool = False
    who: bool = False
    how_many: bool = False
    advice: bool = False
    now: bool = False
    asks: bool = False


NO_KINDS: Final = QuestionKinds()


def find_kinds(text: str) -> QuestionKinds:
    """Return the kinds of a question."""
    patterns = (_WHEN, _WHERE, _WHO, _HOW_MANY, _ADVICE, _NOW, _ASKS)
    return QuestionKinds(*(pattern.search(text) is not None for pattern in patterns))
