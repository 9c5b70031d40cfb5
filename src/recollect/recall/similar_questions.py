"""Finds earlier questions of a person that are like a new one, in their other conversations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import times
from recollect.core.message import Message
from recollect.core.models import Similar
from recollect.recall import scoring
from recollect.recall.scope_index import USER, ScopeIndex

SIMILAR_QUESTION_COSINE: Final = 0.6  # similarity from which two questions are alike


def find_similar_questions(
    scope: ScopeIndex, vectors: Mapping[int, NDArray[np.float32]], *, outside: str, limit: int
) -> list[tuple[int, float]]:
    """Return the indices of similar questions and their similarity, most similar first.

    `vectors` are those of the new question, by embedder key. Messages of the conversation `outside` do not count.
    """
    similarity = scoring.score_vectors(scope, vectors).by_message()
    excluded = [key for key, row in scope.conversations.items() if row["name"] == outside]
    mask = (scope.roles == USER) & ~np.isin(scope.conversation_keys, excluded) & (similarity >= SIMILAR_QUESTION_COSINE)
    indices = np.flatnonzero(mask)
    indices = indices[np.argsort(-similarity[indices], kind="stable")][:limit]
    return [(int(index), float(similarity[index])) for index in indices]


def to_similar(message: Message, answer: Message | None, similarity: float, now: datetime) -> Similar:
    """Return a similar question, with its answer if the message after it is one."""
    return Similar(
        message.id,
        message.conversation,
        message.seq,
        message.content,
        message.at,
        age=times.describe_age(message.at, now),
        similarity=round(similarity, 4),
        answer=answer.content if answer is not None and answer.role == "assistant" else None,
    )
