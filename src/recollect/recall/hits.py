"""Turns ranked messages into hits and into candidates for a prompt, once their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.core.message import Message
from recollect.core.models import Hit, Neighbour
from recollect.recall.message_run import SYSTEM
from recollect.recall.message_texts import QuotablePassage
from recollect.recall.prompt.pack import Candidate, to_candidates
from recollect.recall.ranked_messages import RankedMessages
from recollect.recall.scope_index import USER, ScopeIndex

MAX_NEIGHBOURS: Final = 3  # messages around a hit


def find_neighbours(scope: ScopeIndex, index: int) -> list[int]:
    """Return the other messages of a message's turn: back to the user's message, and on to before the next one.

    System messages are left out.
    """
    before: list[int] = []
    other = index
    while scope.roles[other] != USER and scope.previous[other] >= 0 and len(before) < MAX_NEIGHBOURS:
        other = int(scope.previous[other])
        before.insert(0, other)
    after: list[int] = []
    other = int(scope.following[index])
    while other >= 0 and scope.roles[other] != USER and len(before) + len(after) < MAX_NEIGHBOURS:
        after.append(other)
        other = int(scope.following[other])
    return [other for other in (*before, *after) if scope.roles[other] != SYSTEM]


def to_hits(
    ranked: RankedMessages,
    neighbours: Mapping[int, Sequence[int]],
    messages: Mapping[int, Message],
    *,
    with_passages: bool,
) -> list[Hit]:
    """Return a hit for each key of `neighbours` whose message was read; the others were erased since.

    With passages, the text of a hit is the best passage of its message.
    """
    own = {index: messages[index] for index in neighbours if index in messages}
    best: dict[int, Candidate] = {}
    for candidate in to_prompt_candidates(ranked, own, with_passages=with_passages):
        if candidate.index not in best or candidate.score > best[candidate.index].score:
            best[candidate.index] = candidate
    hits = []
    for index, message in own.items():
        text = best[index].passage.text if index in best else message.content
        others = tuple(_to_neighbour(messages[other]) for other in neighbours[index] if other in messages)
        hits.append(_to_hit(message, text, ranked, index, others))
    # Single precision may rank as equal what the exact sums of the parts tell apart.
    return sorted(hits, key=lambda hit: -hit.score)


def fit_hits(hits: Iterable[Hit], budget: int, count: Callable[[str], int]) -> tuple[list[Hit], int]:
    """Return the hits that fit, best first, then as many of their neighbours as fit; and the tokens used.

    A hit or neighbour that does not fit is skipped.
    """
    fitting, left = [], budget
    for hit in hits:
        tokens = count(hit.text)
        if tokens <= left:
            fitting.append(hit)
            left -= tokens
    for number, hit in enumerate(fitting):
        neighbours = []
        for neighbour in hit.neighbours:
            tokens = count(neighbour.text)
            if tokens <= left:
                neighbours.append(neighbour)
                left -= tokens
        fitting[number] = replace(hit, neighbours=tuple(neighbours))
    return fitting, budget - left


def to_prompt_candidates(
    ranked: RankedMessages, messages: Mapping[int, Message], *, with_passages: bool
) -> list[Candidate]:
    """Return the passages of these messages, or the messages as a whole, as candidates for a prompt."""
    indices = np.fromiter(messages, np.int64, len(messages))
    totals, relevances = ranked.ordered.scores_of(indices).tolist(), ranked.quote_relevance(indices)
    if not with_passages:
        contents = [message.content.strip() for message in messages.values()]
        return [
            Candidate(index, 0, message, QuotablePassage.of(message, content, "message"), score, relevance)
            for (index, message), content, score, relevance in zip(
                messages.items(), contents, totals, relevances, strict=True
            )
            if content
        ]
    texts, asks_for_code = ranked.scope.texts, ranked.question.about_code
    passages_of = {index: texts.passages(index, message) for index, message in messages.items()}
    split = [index for index, passages in passages_of.items() if len(passages) != 1]  # few messages
    borders, dense, lexical = (
        PassageScores.of(ranked, np.array(split, np.int64)) if split else PassageScores([], [], [])
    )
    spans = dict(zip(split, pairwise(borders), strict=True))
    candidates: list[Candidate] = []
    for (index, message), score, relevance in zip(messages.items(), totals, relevances, strict=True):
        passages = passages_of[index]
        if len(passages) == 1:
            candidates.append(Candidate(index, 0, message, passages[0], score, relevance))
        else:
            own = slice(*spans[index])
            candidates += to_candidates(
                index, message, passages, score, relevance, dense[own], lexical[own], asks_for_code=asks_for_code
            )
    return candidates


class PassageScores(NamedTuple):
    """The scores of the passages of some messages. Those of message i are at borders[i]:borders[i+1]."""

    borders: list[int]
    dense: list[float]
    lexical: list[float]  # 1 for the best passage of the scope

    @classmethod
    def of(cls, ranked: RankedMessages, messages: NDArray[np.int64]) -> PassageScores:
        """Return the scores for messages that are given by their indices."""
        scores, firsts = ranked.scores, ranked.scope.firsts
        begins = firsts[messages]
        ends = np.append(firsts, len(scores.lexical_by_passage))[messages + 1]
        borders = np.concatenate(([0], np.cumsum(ends - begins)))
        own = np.repeat(begins - borders[:-1], ends - begins) + np.arange(borders[-1])
        best = max(float(scores.lexical_by_passage.max(initial=0.0)), 1e-6)
        dense = scores.similarities.by_passage(messages, borders)
        return cls(borders.tolist(), dense.tolist(), (scores.lexical_by_passage[own] / best).tolist())


def _to_neighbour(message: Message) -> Neighbour:
    return Neighbour(message.id, message.seq, message.role, message.content, message.at, message.name)


def _to_hit(message: Message, text: str, ranked: RankedMessages, index: int, neighbours: tuple[Neighbour, ...]) -> Hit:
    kind = "message" if text == message.content.strip() or text == message.content else "passage"
    why = ranked.ordered.explain(index)
    return Hit(
        message.id, message.conversation, message.seq, message.role, text, message.at,
        score=sum(why.values()), relevance=ranked.ordered.relevance_of(index), kind=kind, why=why, name=message.name,
        neighbours=neighbours,
    )  # fmt: skip
