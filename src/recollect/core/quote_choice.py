"""Chooses which hits of recall the built-in assistant quotes.

Recall ranks; its score also counts who spoke and how new a message is, so that even the best hit may have nothing to do
with the question. An assistant that quotes must know whether it does. It looks at the parts of the score that depend on
the question (docs/reference/why.md).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language.utterances import tells_something
from recollect.core.models import Hit

MAX_QUOTES: Final = 5
MAX_UNSURE_QUOTES: Final = 3
MIN_RELEVANCE_SHARE: Final = 0.45  # a hit is quoted if its relevance is at least this share of the best one's
# By the built-in embedder, unrelated English sentences stay below this, and a related one rises above the others.
MIN_DENSE_PART: Final = 0.15
MIN_DENSE_LEAD: Final = 0.05
MIN_COMPARED_HITS: Final = 2  # with fewer hits there is nothing to rise above
MIN_DATE_PART: Final = 0.04
_WORD_PARTS: Final = ("bm25", "code", "speaker")


@dataclass(frozen=True, slots=True)
class ChosenQuotes:
    """The hits to quote, best first, and whether they bear on the question for sure."""

    hits: tuple[Hit, ...] = ()
    is_sure: bool = True


def choose_quotes(question: str, hits: Sequence[Hit]) -> ChosenQuotes:
    """Choose hits that bear on the question: they share words with it, or mean something nearer than others do.

    What people said is compared with what people said, and comes before what the assistant made of it. If only replies
    bear on the question, the statements that they reply to come first. If nothing does for sure, the best few of what
    may are chosen: for languages that the embedder does not know, all meanings are near. The question itself is no
    answer, and neither are messages in which people only asked.
    """
    asked = normalise(question)
    useful = [hit for hit in hits if hit.message_id is not None and normalise(hit.text) != asked and _is_memory(hit)]
    dates_differ = len({hit.why.get("date", 0.0) >= MIN_DATE_PART for hit in useful}) > 1
    own, others = ([hit for hit in useful if (hit.role == "user") is is_own] for is_own in (True, False))
    said, replied = _nearest(own, dates_differ=dates_differ), _nearest(others, dates_differ=dates_differ)
    if said or replied:
        said = said or [told for reply in replied if (told := _find_statement(reply, asked)) is not None]
        return ChosenQuotes((*said, *replied)[:MAX_QUOTES])
    possible = [hit for hit in useful if _dense(hit) >= MIN_DENSE_PART]
    return ChosenQuotes(tuple(possible[:MAX_UNSURE_QUOTES]), is_sure=False)


def _nearest(hits: Sequence[Hit], *, dates_differ: bool) -> list[Hit]:
    """Return the hits that bear on the question for sure and not much less than the best one, best first."""
    typical = statistics.median(map(_dense, hits)) if len(hits) >= MIN_COMPARED_HITS else 0.0
    sure = [hit for hit in hits if _bears_on(hit, typical, dates_differ=dates_differ)]
    best = max(map(_relevance, sure), default=0.0)
    near = [hit for hit in sure if _relevance(hit) >= MIN_RELEVANCE_SHARE * best]
    return sorted(near, key=_relevance, reverse=True)


def _find_statement(reply: Hit, asked: str) -> Hit | None:
    """Return what a person said just before a reply, as a hit. Return None if that told nothing."""
    for said in reply.neighbours:
        tells = said.role == "user" and said.seq < (reply.seq or 0) and tells_something(said.text)
        if tells and normalise(said.text) != asked:
            place = (said.message_id, reply.conversation, said.seq, said.role, said.text, said.at)
            return Hit(*place, score=0.0, kind="message", why={}, name=said.name)
    return None


def _bears_on(hit: Hit, typical_dense: float, *, dates_differ: bool) -> bool:
    if any(hit.why.get(part, 0.0) > 0 for part in _WORD_PARTS):
        return True
    if dates_differ and hit.why.get("date", 0.0) >= MIN_DATE_PART:
        return True
    return _dense(hit) >= max(MIN_DENSE_PART, typical_dense + MIN_DENSE_LEAD)


def _dense(hit: Hit) -> float:
    return hit.why.get("dense", 0.0)


def _relevance(hit: Hit) -> float:
    return _dense(hit) + sum(hit.why.get(part, 0.0) for part in (*_WORD_PARTS, "date"))


def _is_memory(hit: Hit) -> bool:
    """Return whether a hit says something. What people only asked is no memory; what others answered is."""
    return hit.role != "user" or tells_something(hit.text)


def normalise(text: str) -> str:
    """Return a text under which messages that differ only in blanks and case are equal."""
    return " ".join(text.split()).casefold()
