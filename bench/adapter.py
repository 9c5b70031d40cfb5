"""Recollect behind the interface of a neutral retrieval harness: the public API with its default settings.

    python ../shared/bench/retrieval_eval.py --adapter bench/adapter.py [--dataset locomo]

It imports nothing of this folder, since a harness loads it by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect import Memory
from recollect.core.protocols import Embedder
from recollect.providers.token_counts import count_tokens


def to_stored(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages of the data as `add_many` takes them. A speaker who is merely the role gets no name."""
    stored = []
    for message in messages:
        fields = {name: message[name] for name in ("id", "role", "content")} | {"at": message["timestamp"]}
        if message["speaker"] != message["role"]:
            fields["name"] = message["speaker"]
        stored.append(fields)
    return stored


class Adapter:
    """A memory in which all conversations belong to one person, so that hits from other conversations count, too."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.memory = Memory(":memory:", worker=False, embedder=embedder)

    def add(self, conversation_id: str, messages: list[dict[str, Any]]) -> None:
        """Store and index the messages of a conversation."""
        self.memory.add_many(conversation_id, to_stored(messages))
        done = self.memory.drain()
        if not done.complete:
            raise RuntimeError(f"not everything could be indexed: {done.failed}")

    def search(self, conversation_id: str, query: str, k: int) -> list[str]:
        """Return the ids of the best `k` messages."""
        hits = self.memory.recall(query, conversation=conversation_id, limit=k)
        return [hit.message_id for hit in hits if hit.message_id is not None]

    def context(self, conversation_id: str, query: str, budget_tokens: int) -> str:
        """Return the prompt for a question as one text."""
        return self.memory.context(conversation_id, query, budget=budget_tokens).text

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text."""
        return int(count_tokens(text))

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()
