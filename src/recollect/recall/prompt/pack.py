"""Chooses passages for a token budget. Passages compete, not messages: a long one must not take what others need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from recollect.core.message import Message
from recollect.recall.message_texts import QuotablePassage
from recollect.recall.relevance import fade

# Weights of a passage's own scores against those of the best passage in its message.
DENSE_WEIGHT: Final = 0.5
LEXICAL_WEIGHT: Final = 0.4
CODE_WEIGHT: Final = 0.1  # for being code, where code is asked for


@dataclass(slots=True, eq=False)  # not frozen: a prompt makes hundreds, and frozen ones take twice as long
class Candidate:
    """A passage that may enter the prompt. Never changed."""

    index: int  # of its message in the scope
    passage_index: int  # within the message
    message: Message
    passage: QuotablePassage
    score: float
    relevance: float | None = None  # the expected share of what was asked for; None where that cannot be said

    @property
    def is_whole(self) -> bool:
        """Return whether the passage is its message from beginning to end."""
        return self.passage.text.strip() == self.message.content.strip()


def to_candidates(
    index: int,
    message: Message,
    passages: Sequence[QuotablePassage],
    score: float,
    relevance: float | None,
    dense: Sequence[float],
    lexical: Sequence[float],
    *,
    asks_for_code: bool,
) -> list[Candidate]:
    """Return the passages of a message as candidates. The best has the message's score and relevance, the others less.

    `dense` and `lexical` are the scores of the passages; a lexical score of 1 is the best of all messages.
    """
    scores = [
        DENSE_WEIGHT * _get(dense, number)
        + LEXICAL_WEIGHT * _get(lexical, number)
        + CODE_WEIGHT * (asks_for_code and passage.kind == "code")
        for number, passage in enumerate(passages)
    ]
    best = max(scores, default=0.0)
    return [
        Candidate(
            index,
            number,
            message,
            passage,
            score + scores[number] - best,
            None if relevance is None else relevance * fade(best - scores[number]),
        )
        for number, passage in enumerate(passages)
    ]


def _get(values: Sequence[float], index: int) -> float:
    return values[index] if index < len(values) else 0.0


def pack_candidates(
    candidates: Sequence[Candidate],
    budget: int,
    cost: Callable[[Candidate], int],
    take: Callable[[Candidate], None],
    is_worth: Callable[[Candidate, int], bool],
) -> tuple[list[Candidate], list[Candidate]]:
    """Take the candidates that fit and are worth their tokens, best first. Return those taken and the others.

    `cost` returns the tokens of a candidate, and `is_worth` says whether it is worth so many. They are not asked for
    those that surely do not fit.
    """
    taken: list[Candidate] = []
    left_out: list[Candidate] = []
    for candidate in sorted(candidates, key=attrgetter("score"), reverse=True):
        may_fit = 1 <= budget >= candidate.passage.min_tokens
        if may_fit and (tokens := cost(candidate)) <= budget and is_worth(candidate, tokens):
            take(candidate)
            taken.append(candidate)
            budget -= tokens
        else:
            left_out.append(candidate)
    return taken, left_out
