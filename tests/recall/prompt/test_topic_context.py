"""The active topic in a prompt: what is told of it, and how recall leans to it."""

from __future__ import annotations

import pytest

from recollect import Memory, count_tokens_for_messages
from recollect.settings import Settings, preset
from recollect.testing import FakeModel
from support.prompts import Open, part
from support.summaries import good_reply, nth_sentence
from support.talks import MarkerEmbedder, add_message, add_turns, topic_of_marker


def tell(memory: Memory, marker: int, turns: int, *, first: int = 0) -> None:
    """Questions and answers that say something, each with words of its own."""
    for n in range(first, first + turns):
        add_message(memory, marker, nth_sentence(2 * n))
        memory.add("trip", "assistant", f"#{marker} {nth_sentence(2 * n + 1)}")


@pytest.fixture
def directed(open_memory: Open) -> Memory:
    return open_memory(settings="C", embedder=MarkerEmbedder())


def test_preset_c_has_the_numbers_of_the_document_and_no_brief(directed: Memory) -> None:
    now = preset("C")
    assert (now.max_topics, now.max_messages_per_topic, now.recent_message_keep) == (20, 12, 4)
    assert (now.base_half_life_seconds, now.max_half_life_seconds) == (86_400, 2_592_000)
    assert now.access_threshold_for_lt == 5
    tell(directed, 1, 30)
    directed.drain()
    assert directed.brief("trip") is None


def test_where_no_brief_is_written_the_active_topic_is_told_in_its_place(directed: Memory) -> None:
    tell(directed, 1, 8)
    tell(directed, 2, 8, first=8)
    directed.drain()
    context = directed.context("trip", "#2 hello")
    told = [one["text"] for one in part(context, "summary")]
    summaries = {marker: topic_of_marker(directed, marker).summary or "" for marker in (1, 2)}
    assert told
    assert all(one in summaries[2] for one in told)
    assert not any(one in summaries[1] for one in told)
    assert context.explain["brief"] is None
    assert context.explain["topic"] == {
        "id": topic_of_marker(directed, 2).id,
        "title": topic_of_marker(directed, 2).title,
    }
    assert all(one["sources"] for one in part(context, "summary"))


def test_what_the_brief_tells_already_is_not_told_twice(open_memory: Open) -> None:
    memory = open_memory(settings=Settings(memory_chunk_summarize_threshold=300), embedder=MarkerEmbedder())
    tell(memory, 1, 62)  # more than can be shown whole
    memory.drain()
    context = memory.context("trip", "#1 hello", budget=4000)
    told = [one["text"] for one in part(context, "summary")]
    assert told
    assert len(told) == len(set(told))
    sources = [one["sources"][0] for one in part(context, "summary")]
    brief = memory.brief("trip")
    assert brief is not None
    assert {one.text for one in brief.statements} & set(told)
    assert len(sources) == len(set(sources))


@pytest.mark.parametrize("budget", [200, 500, 1000, 3000])
def test_the_budget_holds_with_what_is_told_of_a_topic(directed: Memory, budget: int) -> None:
    tell(directed, 1, 20)
    directed.drain()
    context = directed.context("trip", "#1 what of the harbour?", budget=budget)
    assert context.tokens <= budget
    assert count_tokens_for_messages(context.messages) == context.tokens


def test_recall_leans_to_the_active_topic(directed: Memory) -> None:
    add_turns(directed, 1, 2)
    add_turns(directed, 2, 2)
    directed.drain()
    why = {hit.text.split()[0]: hit.why for hit in directed.recall("question number 2", conversation="trip")}
    assert why["#2"]["topic"] == pytest.approx(0.01)
    assert "topic" not in why["#1"]


def test_a_model_tells_topics_where_they_stand_in_for_the_brief(open_memory: Open) -> None:
    model = FakeModel(replies=good_reply)
    memory = open_memory(settings="C", model=model, embedder=MarkerEmbedder())
    tell(memory, 1, 8)
    memory.drain()
    assert len(model.calls) == 1
    assert topic_of_marker(memory, 1).summary
    tell(memory, 1, 8, first=8)
    memory.drain()
    assert len(model.calls) == 2


def test_a_model_that_writes_briefs_is_not_asked_for_topics_too(open_memory: Open) -> None:
    model = FakeModel(replies=good_reply)
    memory = open_memory(settings="D", model=model, embedder=MarkerEmbedder())
    tell(memory, 1, 8)
    memory.drain()
    assert model.calls == []
    assert topic_of_marker(memory, 1).summary


def test_a_model_that_fails_costs_nothing(open_memory: Open) -> None:
    memory = open_memory(settings="C", model=FakeModel(replies=["no JSON"]), embedder=MarkerEmbedder())
    tell(memory, 1, 8)
    assert memory.drain().complete
    assert topic_of_marker(memory, 1).summary
    assert topic_of_marker(memory, 1).archived_messages == 11
