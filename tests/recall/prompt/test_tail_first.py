"""With the tail first, the last turns stand word for word in every prompt that they fit into."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import Memory, Settings, count_tokens_for_messages
from recollect.core.models import Context
from recollect.recall.prompt import fence
from recollect.testing import FakeEmbedder
from support.realistic_talks import realistic_turns
from support.summaries import SYSTEM, Open, context_part, on_sqlite, sound_brief, tail_seqs

QUESTIONS = {"en": "What did we decide about the floor, and how much is left?", "ar": "ماذا قررنا بشأن الأرضية؟"}
K = 3


def talk(open_memory: Open, language: str, **options: object) -> Memory:
    memory = open_memory(**options)
    memory.add_many("talk", [one for turn in realistic_turns(language)[:44] for one in turn])
    memory.drain()
    sound_brief(memory, "talk")
    return memory


def tokens_of_last_turns(memory: Memory) -> int:
    return count_tokens_for_messages(
        [{"role": one.role, "content": one.content} for one in memory.history("talk")[-2 * K :]]
    )


def shows_last_turns(context: Context, memory: Memory) -> bool:
    return tail_seqs(context)[-2 * K :] == [one.seq for one in memory.history("talk")[-2 * K :]]


@pytest.mark.parametrize("language", ["en", "ar"])
def test_the_last_turns_are_in_every_prompt_that_they_fit_into(open_memory: Open, language: str) -> None:
    memory = talk(open_memory, language, settings="briefs")
    question = QUESTIONS[language]
    caller = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    needed = count_tokens_for_messages(caller) + tokens_of_last_turns(memory)
    for budget in (needed, needed + 1, needed + 40, needed + 200, 1000, 1500, 2000, 2001, 2500, 3000, 4000):
        context = memory.context("talk", question, system_prompt=SYSTEM, budget=budget)
        assert context.tokens <= budget
        assert shows_last_turns(context, memory), budget
        words = [one["content"] for one in context.messages]
        assert all(any(one.content in text for text in words) for one in memory.history("talk")[-2 * K :])
    context = memory.context("talk", question, system_prompt=SYSTEM, budget=needed - 1)
    assert not shows_last_turns(context, memory)
    assert 0 < context.tokens < needed


@on_sqlite
def test_brief_and_recall_shrink_before_the_tail_does(open_memory: Open) -> None:
    memory = talk(open_memory, "en", settings="briefs")
    memory_tokens = []
    for budget in (3000, 2400, 1600, 1200, 900, 700):
        context = memory.context("talk", QUESTIONS["en"], budget=budget)
        assert shows_last_turns(context, memory)
        parts = [context_part(context, name) for name in ("important_data", "summary", "recall")]
        memory_tokens.append(sum(part.get("tokens", 0) for part in parts))
    assert memory_tokens == sorted(memory_tokens, reverse=True)
    assert memory_tokens[0] > 1000 > memory_tokens[-1]
    assert memory_tokens[-1] > 0  # they still get what the tail leaves


@on_sqlite
def test_by_default_recall_comes_first_in_a_small_budget(open_memory: Open) -> None:
    """The share of recall up to 2,000 tokens is at least 60 % of what system prompt and question leave."""
    memory = talk(open_memory, "en")
    budget = 1000
    context = memory.context("talk", QUESTIONS["en"], budget=budget)
    left = budget - context_part(context, "question")["tokens"]
    assert context_part(context, "recall")["tokens"] >= 0.6 * left
    assert not shows_last_turns(context, memory)


@on_sqlite
def test_the_tail_first_is_a_setting_of_its_own(open_memory: Open) -> None:
    memory = talk(open_memory, "en", settings=Settings(memory_tail_first=True, memory_k_raw_turns=2))
    context = memory.context("talk", QUESTIONS["en"], budget=800)
    assert tail_seqs(context)[-4:] == [85, 86, 87, 88]
    memory.change_settings(memory_prompt_token_budget=800)
    assert tail_seqs(memory.context("talk", QUESTIONS["en"]))[-4:] == [85, 86, 87, 88]


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 120), min_size=1, max_size=6),
    st.integers(200, 2500),
    st.integers(1, 40),
)
def test_whatever_the_sizes_are_the_budget_holds_and_turns_that_fit_are_there(
    sizes: list[int], budget: int, question_words: int
) -> None:
    question = "cork " * question_words
    with Memory(":memory:", settings="briefs", worker=False, embedder=FakeEmbedder()) as memory:
        for number, words in enumerate(sizes):
            memory.add("talk", "user", f"Turn {number}: " + "floor " * words)
            memory.add("talk", "assistant", "cork " * words)
        context = memory.context("talk", question, budget=budget)
        last = [{"role": one.role, "content": one.content} for one in memory.history("talk")[-2 * K :]]
        needed = count_tokens_for_messages([*last, {"role": "user", "content": question}])
        assert context.tokens <= budget
        if needed <= budget:
            shown = [one["content"] for one in context.messages[-len(last) - 1 : -1]]
            shown[0] = shown[0].rpartition(f"{fence.CLOSE_TAG}\n\n")[2]  # memory stands before the first message
            assert shown == [one["content"] for one in last]
