"""A prompt is not filled for its own sake: what is left out for its worth is named, and older turns do not get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recollect import Memory
from recollect.core.models import Context
from recollect.providers.minilm import MiniLM

FACTS = 40
FILLER = (
    "The bus was late.", "Rain again.", "I bought bread.", "The lamp is broken.", "We watched a film.",
    "Coffee was cold.", "The neighbours sang.", "Traffic was slow.",
)  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", worker=False, embedder=MiniLM()) as opened:
        said = [f"{FILLER[n % len(FILLER)]} It was day {n}." for n in range(FACTS)] + ["I am allergic to peanuts."]
        opened.add_many("talk", [{"role": "user", "content": text} for text in said])
        opened.drain()
        yield opened


def recalled(context: Context) -> int:
    return sum(part["tokens"] for part in context.explain["parts"] if part["name"] == "recall")


def test_a_prompt_ends_before_its_budget_and_says_what_was_less_relevant(memory: Memory) -> None:
    context = memory.context("new", "Which food could make me ill?")
    assert "allergic to peanuts" in context.text
    assert context.tokens < 3000 / 4
    reasons = {row["reason"] for row in context.explain["left_out"]}
    assert reasons == {"less relevant"}
    assert context.explain["passages_left_out"] == 0  # nothing lacked room


def test_a_small_budget_is_used_more_fully_than_a_large_one_and_never_exceeded(memory: Memory) -> None:
    question = "Which food could make me ill?"
    large, small = memory.context("new", question), memory.context("new", question, budget=400)
    assert small.tokens <= 400
    assert recalled(small) >= recalled(large) or recalled(small) > 300
    assert "allergic to peanuts" in small.text


def test_words_alone_are_not_judged_by_worth() -> None:
    """Without vectors relevance says nothing, so whatever fits is quoted."""
    with Memory(":memory:", worker=False, embedder=MiniLM()) as words:
        said = [f"Peanut number {n} was sold to the baker in the old town." for n in range(FACTS)]
        words.add_many("talk", [{"role": "user", "content": text} for text in said])
        context = words.context("new", "Who bought peanut number seven?", budget=600)
        assert "vectors" in context.degraded
        assert {row["reason"] for row in context.explain["left_out"]} <= {"no room"}
        assert recalled(context) > 300
