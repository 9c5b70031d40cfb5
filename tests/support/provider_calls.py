"""Helpers of the tests of OpenAI-compatible providers: a clock that tests move, and short ways to call a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recollect.core.errors import ProviderUnavailable
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.providers.resilience import Timing

KEY = "sk-test-4f9aVerySecret"
ASK = [{"role": "user", "content": "a private question"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeTime:
    """Time that moves only by sleeping; `waits` are the sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []
        self.timing = Timing(monotonic=lambda: self.seconds, now=self.now, sleep=self.sleep, random=lambda: 1.0)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


def run(provider: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Use a provider in a loop of its own and close it there."""

    async def use() -> Any:
        try:
            return await work(provider)
        finally:
            await provider.close()

    return asyncio.run(use())


def ask(model: OpenAIModel, **options: Any) -> str:
    answer = run(model, lambda m: m.complete(ASK, **options))
    assert isinstance(answer, str)
    return answer


def embed(embedder: OpenAIEmbedder, *texts: str) -> list[list[float]]:
    vectors: list[list[float]] = run(embedder, lambda e: e.embed(texts))
    return vectors


def failure(work: Callable[[], object]) -> ProviderUnavailable:
    with pytest.raises(ProviderUnavailable) as caught:
        work()
    return caught.value
