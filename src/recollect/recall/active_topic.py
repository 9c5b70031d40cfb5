"""The active topic of a conversation: recall leans to it a little, and its summary joins that of the brief."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

import numpy as np

from recollect.core.compression.narrative import ShorterNarratives
from recollect.core.models import Principal
from recollect.recall.latest_brief import ConversationSummary
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import ScorePart
from recollect.storage.topic_summary import unpack_statements
from recollect.storage.topics import ActiveTopic

TOPIC_WEIGHT: Final = 0.01  # for messages of the active topic: enough to tell equal scores apart
CACHED_CONVERSATIONS: Final = 64


class ActiveTopics:
    """Joins summaries with those of active topics. Keeps the shorter forms that were made of each joined narrative."""

    def __init__(self) -> None:
        # By person and conversation: a mark of the statements that were joined, and their shorter forms.
        self._shorter: OrderedDict[tuple[str, str], tuple[object, ShorterNarratives]] = OrderedDict()

    def join(
        self, principal: Principal, conversation: str, current: ConversationSummary, topic: ActiveTopic | None
    ) -> ConversationSummary:
        """Return the summary with the statements of the active topic that rest on other messages."""
        statements = unpack_statements(topic.summary) if topic is not None else []
        if topic is None or not statements:
            return current
        summary = current.summary
        sources = {source for statement in summary.statements for source in statement.sources}
        new = [statement for statement in statements if not sources.intersection(statement.sources)]
        if not new:
            return current
        mark = (current.brief_version, summary.created_at, topic.key, topic.summary)
        return replace(
            current,
            summary=replace(summary, statements=(*summary.statements, *new)),
            shorter=self._shorter_forms(principal, conversation, mark),
        )

    def _shorter_forms(self, principal: Principal, conversation: str, mark: object) -> ShorterNarratives:
        """Return the shorter forms that were made of the same statements before."""
        key = (principal.person, conversation)
        cached = self._shorter.pop(key, None)
        if cached is None or cached[0] != mark:
            cached = (mark, {})
        self._shorter[key] = cached
        while len(self._shorter) > CACHED_CONVERSATIONS:
            self._shorter.popitem(last=False)
        return cached[1]

    def forget(self, person: str | None = None) -> None:
        """Forget all shorter forms, or those of a person."""
        for key in [key for key in self._shorter if person in (None, key[0])]:
            del self._shorter[key]


def score_topic(scope: ScopeIndex, topic: ActiveTopic) -> ScorePart:
    """Return 1 for the messages of the active topic, 0 for others."""
    seqs = np.array(topic.seqs, np.int64)
    indices = scope.index(np.full(len(seqs), topic.conversation, np.int64), seqs)
    values = np.zeros(len(scope), np.float32)
    values[indices[indices >= 0]] = 1
    return ScorePart(TOPIC_WEIGHT, values)
