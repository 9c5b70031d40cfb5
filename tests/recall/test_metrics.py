"""Metrics of recall tell the truth: where hits come from, what they are, how near they are, and what each arm took."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recollect import Memory, Settings
from recollect.testing import FakeClock, FakeEmbedder
from support import recall_cases

Open = Callable[..., Memory]


def tell(memory: Memory, conversation: str, *texts: str) -> None:
    for text in texts:
        memory.add(conversation, "user", text)


def test_metrics_split_what_was_found_by_meaning_into_this_conversation_and_others(memory: Memory) -> None:
    tell(memory, "trip", "The ferry to Crete leaves at nine.")
    tell(memory, "work", "The ferry terminal needs new signs.", "The budget of the ferry project is 40k.")
    memory.drain()
    sources = memory.recall("ferry", conversation="trip").metrics["sources"]
    assert (sources["conversation"], sources["other_conversations"]) == (1, 2)
    assert (sources["conversation_dense"], sources["other_dense"]) == (1, 2)
    everywhere = memory.recall("ferry").metrics["sources"]
    assert (everywhere["conversation_dense"], everywhere["other_dense"]) == (0, everywhere["dense"]) == (0, 3)


def test_metrics_count_messages_passages_briefs_and_profile_lines_apart(open_memory: Open) -> None:
    memory = open_memory(settings=Settings(compress_messages_at=4, compress_messages_keep=2))
    paragraphs = [f"Paragraph {number} is about the harbour and its {number} cranes. " * 8 for number in range(4)]
    tell(memory, "port", "The harbour master is Lena.", "\n\n".join(paragraphs), *(f"Note {n}." for n in range(6)))
    memory.set_profile({"notes": "I manage the harbour."})
    memory.set_consent(True)
    memory.drain()
    recalled = memory.recall("Who is the harbour master?", conversation="port")
    kinds = [hit.kind for hit in recalled]
    assert {"message", "passage", "profile"} <= set(kinds)
    assert recalled.metrics["types"] == {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    context = memory.context("port", "Who is the harbour master?")
    parts: dict[str, list[Any]] = {part["name"]: part["items"] for part in context.explain["parts"]}
    quoted = [item["type"] for item in parts.get("recall", [])]
    added = memory.metrics()["types"]
    assert added["profile"] == kinds.count("profile") + len(parts["profile"])
    assert added.get("passage", 0) == kinds.count("passage") + quoted.count("passage")
    briefs = kinds.count("brief") + len(parts.get("summary", [])) + len(parts.get("important_data", []))
    assert added.get("brief", 0) == briefs > 0


def test_similarities_are_cosines_and_not_scores(open_memory: Open) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    tell(memory, "talk", "green tea with honey", "a quite different remark")
    memory.drain()
    metrics = memory.recall("green tea with honey").metrics
    assert metrics["similarities"][0] == pytest.approx(1.0, abs=0.02)  # the same text; vectors are stored in 8 bits
    assert metrics["top"][0] != metrics["similarities"][0]
    assert memory.metrics()["top_similarity"] == metrics["similarities"][0]


def test_the_time_of_full_text_is_measured_where_words_are_compared(memory: Memory) -> None:
    tell(memory, "talk", *(f"remark {number} on tea" for number in range(50)))
    memory.drain()
    ms = memory.recall("tea").metrics["ms"]
    assert 0 < ms["words"] + ms["vectors"] <= ms["score"] <= ms["total"]


def test_flags_tell_the_share_of_questions_that_were_asked_with_them(open_memory: Open) -> None:
    plain, preset = open_memory(), open_memory(settings=Settings(rag_summary_frequency=5, rag_hybrid=False))
    tell(plain, "talk", "tea")
    for memory in (plain, plain, plain, preset):
        memory.recall("tea")
    preset.metrics()  # writes what it has buffered
    assert plain.metrics()["flags"] == {"hybrid": 0.75, "chunking": 1.0, "summary_frequency": 0.25}


def test_metrics_say_how_often_briefs_are_written(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory(settings=Settings(rag_summary_frequency=2, compress_must_pay=False))
    remark = "The harbour authority wants the report on dredging by Friday, with the depth of each berth. "
    for number in range(6):
        memory.add("port", "user", f"Question {number}: {remark * 4}")
        memory.add("port", "assistant", f"Answer {number}: {remark * 4}")
        memory.drain()
    briefs = memory.metrics()["briefs"]
    versions = len(memory.brief_versions("port"))
    assert briefs == {"written": versions, "answers": 6, "answers_per_brief": round(6 / versions, 1)}
    assert versions >= 2
    clock.advance(timedelta(days=31))
    assert memory.metrics()["briefs"] == {"written": 0, "answers": 0, "answers_per_brief": None}


def test_a_prompt_without_room_for_all_passages_is_logged_and_counted(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    tell(memory, "talk", *(f"Remark {number} on the green tea of village {number}." for number in range(60)))
    memory.drain()
    with caplog.at_level(logging.INFO, "recollect"):
        roomy = memory.context("talk", "What of green tea?", budget=20_000)
    assert roomy.explain["passages_left_out"] == 0
    assert "no room" not in caplog.text
    with caplog.at_level(logging.INFO, "recollect"):
        tight = memory.context("talk", "What of green tea?", budget=300)
    left_out = tight.explain["passages_left_out"]
    assert left_out >= len([item for item in tight.explain["left_out"] if item["reason"] == "no room"]) > 0
    assert f"{left_out} passages had no room" in caplog.text
    assert "tea" not in caplog.text
    assert memory.metrics()["overflows"] == 0.5


def test_the_hit_rate_counts_what_passed_the_floor(memory: Memory) -> None:
    tell(memory, "talk", "The ferry to Crete leaves at nine.", "The bus leaves at ten.")
    memory.drain()
    found = memory.recall("When does the ferry leave?", conversation="talk")
    assert found.metrics["hits"] == len(found) == 2
    kept_out = memory.recall("When does the ferry leave?", conversation="talk", min_relevance=1)
    assert (kept_out.metrics["hits"], len(kept_out)) == (0, 0)
    assert (kept_out.metrics["top"], kept_out.metrics["similarities"], kept_out.metrics["types"]) == ([], [], {})
    assert kept_out.metrics["scope"] == 2
    assert set(kept_out.metrics["sources"].values()) == {0}
    assert memory.metrics()["hit_rate"] == 0.5


def test_a_prompt_that_quotes_nothing_is_no_hit() -> None:
    facts = recall_cases.read_facts("english", "test", 40)[0]
    with Memory(":memory:", worker=False) as memory:
        recall_cases.tell_facts(memory, facts)
        assert list(recall_cases.quoted_ids(memory.context("new", "What drug must doctors never give me?"))) != []
        assert memory.metrics()["hit_rate"] == 1.0
        assert recall_cases.memory_tokens(memory.context("new", "What is the difference between TCP and UDP?")) == 0
        assert memory.metrics()["hit_rate"] == 0.5


def test_a_prompt_with_a_brief_and_no_quote_is_no_hit() -> None:
    with Memory(
        ":memory:", worker=False, settings=Settings(compress_messages_at=4, compress_messages_keep=2)
    ) as memory:
        tell(memory, "port", *(f"Crane {n} of the harbour was painted by Lena in week {n}." for n in range(40)))
        memory.drain()
        context = memory.context("port", "What is the difference between TCP and UDP?")
        parts = {part["name"]: len(part["items"]) for part in context.explain["parts"]}
        assert parts["summary"] > 0
        assert "recall" not in parts
        assert memory.metrics()["hit_rate"] == 0
