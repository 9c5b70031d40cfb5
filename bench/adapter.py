"""Recollect behind the contract of a neutral retrieval harness: the public API with its default settings, no more.

    python ../shared/bench/retrieval_eval.py --adapter bench/adapter.py [--dataset locomo]

It stands alone, since a harness loads it by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recollect import Memory
from recollect.core.protocols import Embedder
from recollect.providers.tokenizer import count_tokens


def as_stored(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the data as `add_many` takes them. A speaker who is merely the role has no name."""
    found = []
    for message in messages:
        fields = {name: message[name] for name in ("id", "role", "content")} | {"at": message["timestamp"]}
        if message["speaker"] != message["role"]:
            fields["name"] = message["speaker"]
        found.append(fields)
    return found


class Adapter:
    """All conversations are one person's, so what other conversations bring in counts as it comes."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.memory = Memory(":memory:", worker=False, embedder=embedder)

    def add(self, conversation_id: str, messages: list[dict[str, Any]]) -> None:
        self.memory.add_many(conversation_id, as_stored(messages))
        done = self.memory.drain()
        if not done.complete:
            raise RuntimeError(f"not everything could be indexed: {done.failed}")

    def search(self, conversation_id: str, query: str, k: int) -> list[str]:
        hits = self.memory.recall(query, conversation=conversation_id, limit=k)
        return [hit.message_id for hit in hits if hit.message_id is not None]

    def context(self, conversation_id: str, query: str, budget_tokens: int) -> str:
        return self.memory.context(conversation_id, query, budget=budget_tokens).text

    def count_tokens(self, text: str) -> int:
        return int(count_tokens(text))

    def close(self) -> None:
        self.memory.close()
