"""Relevance says how surely a hit bears on the question, and keeps out of prompts what does not.

How well it does is in `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import Memory, Settings
from recollect.core.errors import InvalidInput
from recollect.providers.minilm import MiniLM
from recollect.recall import order_weights
from recollect.recall.recaller import MIN_CALIBRATED_MESSAGES
from recollect.recall.relevance import Floor, PromptFloor, Relevance, estimate
from recollect.testing import FakeEmbedder
from support import recall_cases
from support.tables import ask

Open = Callable[..., Memory]

NUMBERS = st.floats(-1e6, 1e6, width=32)
FEATURES = (
    "nearest", "nearest_lead", "sure_coverage", "coverage", "session_nearest", "speaker", "near_instruction",
    "question_words", "question_unknown", "question_self", "question_asks", "question_scope",
)  # fmt: skip


@pytest.fixture(scope="module")
def built_in() -> MiniLM:
    return MiniLM()


def open_with_facts(embedder: Any, count: int, language: str = "english", **options: Any) -> Memory:
    memory = Memory(":memory:", worker=False, embedder=embedder, **options)
    recall_cases.tell_facts(memory, recall_cases.read_facts(language, "test", count)[0])
    return memory


def add_facts(memory: Memory, count: int) -> None:
    recall_cases.tell_facts(memory, recall_cases.read_facts("english", "test", count)[0])


# The estimate


@given(st.data())
def test_relevance_is_a_share_whatever_the_features_are(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    lists = st.lists(NUMBERS, min_size=count, max_size=count)
    features = {name: np.array(data.draw(lists), np.float32) for name in FEATURES}
    with np.errstate(over="ignore"):
        relevance = estimate(features, np.array(data.draw(lists), np.float32))
    assert 0 <= relevance.question <= 1
    assert relevance.messages.shape == (count,)
    for values in (relevance.messages, relevance.of_hits()):
        assert ((values >= 0) & (values <= 1)).all()


def test_every_number_of_the_models_is_used() -> None:
    features = {name: np.ones(2, np.float32) for name in FEATURES}
    for model in ("question_model", "message_model"):
        numbers = order_weights.QUESTION if model == "question_model" else order_weights.MESSAGE
        for name in numbers:
            with pytest.raises(KeyError):
                estimate(features, np.ones(2, np.float32), **{model: {n: v for n, v in numbers.items() if n != name}})


@given(st.floats(0, 1), st.lists(st.floats(0, 1), max_size=8), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_floor_never_lets_more_through(question: float, messages: list[float], one: float, two: float) -> None:
    relevance = Relevance(question, np.array(messages, np.float32))
    low, high = sorted((one, two))
    assert not (Floor(high).select(relevance) & ~Floor(low).select(relevance)).any()
    assert Floor(0.0).select(relevance).all()
    surer = Relevance(min(1.0, question + 0.1), relevance.messages)
    for floor in (Floor(), PromptFloor(), Floor(low)):
        assert not (floor.select(relevance) & ~floor.select(surer)).any()


def test_a_question_to_an_empty_memory_has_no_hits_and_no_relevance(open_memory: Open) -> None:
    memory = open_memory()
    for minimum in (None, 0, 1):
        assert len(memory.recall("anything", min_relevance=minimum)) == 0


# The floor of recall


def test_min_relevance_keeps_exactly_the_hits_that_reach_it(built_in: MiniLM) -> None:
    with open_with_facts(built_in, 40) as memory:
        for question in ("What drug must doctors never give me?", "hello", "Where do I sing?"):
            everything = list(memory.recall(question, limit=200, min_relevance=0))
            assert len(everything) == 40
            assert all(0 <= hit.relevance <= 1 for hit in everything)
            previous = [hit.message_id for hit in everything]
            for minimum in (0.001, 0.01, 0.05, 0.1, 0.3, 0.9, 1):
                ids = [hit.message_id for hit in memory.recall(question, limit=200, min_relevance=minimum)]
                # Relevance is shown with four digits.
                assert ids == [one.message_id for one in everything if one.message_id in ids]
                assert {one.message_id for one in everything if one.relevance >= minimum + 1e-4} <= set(ids)
                assert set(ids) <= {one.message_id for one in everything if one.relevance >= minimum - 1e-4}
                assert set(ids) <= set(previous)
                previous = ids


def test_the_default_floor_leaves_out_some_and_zero_none(built_in: MiniLM) -> None:
    with open_with_facts(built_in, 40) as memory:
        question = "What drug must doctors never give me?"
        by_default = [hit.message_id for hit in memory.recall(question, limit=200)]
        everything = [hit.message_id for hit in memory.recall(question, limit=200, min_relevance=0)]
        assert 0 < len(by_default) < len(everything) == 40
        assert by_default == [one for one in everything if one in by_default]
        assert by_default[0] == everything[0] == "test-001"


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), "0.5", True])
def test_min_relevance_must_be_a_share(memory: Memory, value: Any) -> None:
    with pytest.raises(InvalidInput):
        memory.recall("anything", min_relevance=value)


def test_min_relevance_leaves_out_brief_and_profile_too(open_memory: Open) -> None:
    """They have no relevance of their own."""
    memory = open_memory(settings=Settings(compress_messages_at=4, compress_messages_keep=2))
    memory.add("port", "user", "The harbour master is Lena.")
    for number in range(8):
        memory.add("port", "user", f"Paragraph {number} is about the harbour and its {number} cranes. " * 8)
    memory.set_profile({"notes": "I manage the harbour."})
    memory.set_consent(True)
    memory.drain()
    kinds = {hit.kind for hit in memory.recall("Who is the harbour master?", conversation="port", limit=30)}
    assert {"brief", "profile"} <= kinds
    found = memory.recall("Who is the harbour master?", conversation="port", limit=30, min_relevance=0)
    assert {hit.kind for hit in found} == kinds
    found = memory.recall("Who is the harbour master?", conversation="port", limit=30, min_relevance=0.0001)
    assert {hit.kind for hit in found} == {"message"}
    assert len(memory.recall("Who is the harbour master?", conversation="port", min_relevance=1)) == 0


# When nothing is left out


def test_nothing_is_left_out_before_there_are_enough_messages_to_compare(built_in: MiniLM) -> None:
    with open_with_facts(built_in, MIN_CALIBRATED_MESSAGES - 1) as memory:
        assert len(memory.recall("hello", limit=100)) == MIN_CALIBRATED_MESSAGES - 1
        memory.add("day-0", "user", "Our new rug is green.")
        memory.drain()
        assert len(memory.recall("hello", limit=100)) < MIN_CALIBRATED_MESSAGES - 1


def test_nothing_is_left_out_with_another_embedder_unless_asked(open_memory: Open) -> None:
    memory = open_memory(embedder=FakeEmbedder())
    add_facts(memory, 40)
    memory.add("day-0", "user", "Entirely different words.")
    memory.drain()
    question = "never the last word of my sister"
    everything = {hit.message_id for hit in memory.recall(question, limit=100, min_relevance=0)}
    assert {hit.message_id for hit in memory.recall(question, limit=100)} == everything
    assert len(memory.recall(question, limit=100, min_relevance=1)) == 0


def test_nothing_is_left_out_while_vectors_are_missing(built_in: MiniLM) -> None:
    with Memory(":memory:", worker=False, embedder=built_in) as memory:
        facts = recall_cases.read_facts("english", "test", 80)[0]
        memory.add_many("talk", [{"role": "user", "content": text} for text in facts.values()])
        question = "the party"
        found = memory.recall(question, limit=100)
        assert found.degraded == ("vectors",)
        assert len(found) == len(memory.recall(question, limit=100, min_relevance=0))
        memory.drain()
        assert len(memory.recall(question, limit=100)) < len(memory.recall(question, limit=100, min_relevance=0))


def test_something_is_left_out_while_the_built_in_embedder_makes_its_vectors_again(
    built_in: MiniLM, tmp_path: Path
) -> None:
    """Then the vectors of two conversations stand in two rows of the same embedder."""
    path = str(tmp_path / "memory.db")
    facts = list(recall_cases.read_facts("english", "test", 60)[0].values())
    with Memory(path, worker=False, embedder=built_in) as memory:
        for name, own in (("old", facts[:40]), ("new", facts[40:])):
            memory.add_many(name, [{"role": "user", "content": text} for text in own])
        memory.drain()
    for statement in (
        "INSERT INTO embedders (name, dimensions, passages, since) SELECT name, dimensions, 2, since FROM embedders",
        "UPDATE vectors SET embedder_key = 2 WHERE conversation_key = 1",
        "UPDATE conversations SET embedder_key = 2 WHERE key = 1",
        "DELETE FROM segments",
    ):
        ask(path, statement)
    with Memory(path, worker=False, embedder=built_in) as memory:
        assert len(memory.recall("hello", limit=100)) < 30


# Figures

# What was measured, in a new conversation of somebody with so many facts of one sentence. Tokens are those of memory in
# the prompt. The aim is 60 for unrelated questions: these bounds are what holds today, not what is wished for.
FIGURES = {
    # language of facts: facts, most tokens of unrelated questions in English and in Arabic, least share that is kept
    "english": (80, {"english": 220, "arabic": 210}, 0.90),  # 170, 152, 0.95
    "arabic": (65, {"english": 140, "arabic": 340}, 0.67),  # 95, 272, 0.72
}


@pytest.mark.slow
@pytest.mark.parametrize("language", FIGURES)
def test_unrelated_questions_bring_little_and_related_ones_their_fact(built_in: MiniLM, language: str) -> None:
    count, most_tokens, least_kept = FIGURES[language]
    facts, questions = recall_cases.read_facts(language, "test", count)
    with open_with_facts(built_in, count, language) as memory:
        related = [memory.context("new", question) for question, _ in questions]
        kept = [answer in recall_cases.quoted_ids(made) for made, (_, answer) in zip(related, questions, strict=True)]
        related_tokens = np.mean([recall_cases.memory_tokens(made) for made in related])
        print(f"\n{len(facts)} facts in {language}: {np.mean(kept):.3f} quoted, in {related_tokens:.0f} tokens")
        for asked, bound in most_tokens.items():
            tokens = [
                recall_cases.memory_tokens(memory.context("new", question))
                for question in recall_cases.read_unrelated(asked)
            ]
            print(f"  unrelated in {asked}: {np.mean(tokens):.0f} tokens, none for {np.mean(np.equal(tokens, 0)):.2f}")
            assert np.mean(tokens) <= bound
            assert np.mean(tokens) < related_tokens
    assert len(kept) == count
    assert np.mean(kept) >= least_kept


@pytest.mark.slow
def test_unrelated_questions_bring_less_than_related_ones_from_talks(built_in: MiniLM) -> None:
    talks = recall_cases.read_talks("told_talks", "english") + recall_cases.read_talks("told_talks", "arabic")
    with Memory(":memory:", worker=False, embedder=built_in) as memory:
        recall_cases.tell_talks(memory, talks)
        asked = [(text, talk.message_id(number)) for talk in talks for text, (number,) in talk.questions]
        contexts = [memory.context("new", text) for text, _ in asked]
        kept = [answer in recall_cases.quoted_ids(made) for made, (_, answer) in zip(contexts, asked, strict=True)]
        related = np.mean([recall_cases.memory_tokens(made) for made in contexts])
        unrelated = {}
        for language in ("english", "arabic"):
            texts = recall_cases.read_unrelated(language)
            unrelated[language] = np.mean([recall_cases.memory_tokens(memory.context("new", text)) for text in texts])
        print(f"\ntalks: tokens of unrelated questions {unrelated}, of related ones {related:.0f}")
    assert unrelated["english"] < 0.35 * related  # measured: 0.18
    assert unrelated["arabic"] < 0.7 * related  # measured: 0.43; Arabic small talk is often taken for a question
    assert sum(kept) >= len(kept) - 1
