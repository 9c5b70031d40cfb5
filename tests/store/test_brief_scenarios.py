"""The test scenarios of documents A, B and D, each without a model and with one that answers well.

Where spec.md corrects a document, its word stands: o200k counts for gpt-4o-mini, nothing is folded inside a request,
turns are not cut, and a failure never sends everything.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recollect import Memory, count_tokens, count_tokens_for_messages
from recollect.core.brief import Brief
from recollect.core.models import Context
from recollect.settings import Settings
from recollect.testing import FakeClock, FakeModel, ModelCall
from summaries import Thinking, asked, at_once, good_reply, new_sentences, reply, said, sentence, talk, words

Open = Callable[..., Memory]
SYSTEM = "You are a helpful assistant."
LEDGER = [
    "user_preferences", "key_decisions", "important_facts", "source_urls", "document_structure", "entities",
    "custom_fields",
]  # fmt: skip
RECORD = {
    "original_message_count": int, "compressed_message_count": int, "compression_ratio": float, "timespan": str,
    "summary": str, "intent": str, "key_facts": list, "decisions": list, "missing_data": list, "timestamp": str,
    "model_used": str,
}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SQLite without a model and PostgreSQL with one; in the long lane each with both."""
    if "model" in metafunc.fixturenames:
        kinds = ["built-in", "model"] if metafunc.config.getoption("--long") else [None]
        metafunc.parametrize("model", kinds, indirect=True, ids=lambda kind: kind or "one way")


@pytest.fixture
def model(request: pytest.FixtureRequest, location: str) -> FakeModel | None:
    """None for the built-in compressor, or a model that answers well."""
    default = "model" if location.startswith("postgresql:") else "built-in"
    return FakeModel(good_reply) if (request.param or default) == "model" else None


def brief_of(memory: Memory, conversation: str = "trip") -> Brief:
    """The brief, which must be there and written by whom it should be."""
    brief = memory.brief(conversation)
    assert brief is not None
    assert brief.degraded is None
    return brief


def part(context: Context, name: str) -> dict[str, Any]:
    found = [one for one in context.explain["parts"] if one["name"] == name]
    return found[0] if found else {"items": []}


def tail_of(context: Context) -> list[int]:
    return [one["seq"] for one in part(context, "tail")["items"]]


# Document A, component 1.


def test_a_at_five_messages_all_but_the_last_three_are_folded(open_memory: Open, model: FakeModel | None) -> None:
    """A option A: at 5 messages compress all but the last 3; what is kept is widened to a turn."""
    memory = open_memory(settings="A", model=model)
    memory.add_many("trip", talk(2, count=1))
    memory.drain()
    assert memory.brief("trip") is None
    memory.add_many("trip", talk(1, first=2, count=1))
    memory.drain()
    brief = brief_of(memory)
    assert (brief.version, brief.through_seq) == (1, 2)  # 4 of 6 are kept: the third last is in the middle of a turn
    assert tail_of(memory.context("trip", "hello"))[-4:] == [3, 4, 5, 6]


def test_a_tokens_go_from_the_oldest_until_half_is_left(open_memory: Open, model: FakeModel | None) -> None:
    """A option B: above 3000 tokens, compress from the oldest until at most 1500 are left."""
    settings = Settings(compress_tokens_above=3000, compress_tokens_until=1500, memory_chunk_summarize_threshold=0)
    memory = open_memory(settings=settings, model=model)
    memory.add_many("trip", talk(11))
    memory.drain()
    brief = brief_of(memory)
    kept = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq > brief.through_seq]
    one_more = [{"role": m.role, "content": m.content} for m in memory.history("trip")[-len(kept) - 2 :]]
    assert count_tokens_for_messages(kept) <= 1500 < count_tokens_for_messages(one_more)


def test_a_on_a_new_day_what_came_before_is_folded(
    open_memory: Open, model: FakeModel | None, clock: FakeClock
) -> None:
    """A option C: when the local date changes, yesterday's messages become the summary."""
    settings = Settings(compress_daily=True, memory_chunk_summarize_threshold=0)
    memory = open_memory(settings=settings, model=model)
    memory.add_many("trip", talk(3, count=1))
    memory.drain()
    assert memory.brief("trip") is None
    clock.advance(timedelta(days=1))
    memory.add_many("trip", talk(2, first=3, count=1))
    memory.drain()
    assert brief_of(memory).through_seq == 6
    assert tail_of(memory.context("trip", "hello"))[-4:] == [7, 8, 9, 10]


def test_a_the_record_has_every_field_of_a_compressed_conversation(
    open_memory: Open, model: FakeModel | None, clock: FakeClock
) -> None:
    """A compression format."""
    memory = open_memory(settings="A", model=model)
    start = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    told = said(
        "I want to plan a trip to Norway in June.",
        "We decided to take the night train.",
        "My budget is 900 euros.",
        "What about the tickets?",
    )
    memory.add_many("trip", [one | {"at": start + timedelta(minutes=45 * n)} for n, one in enumerate(told)])
    memory.drain()
    record = brief_of(memory).record
    assert {name: type(record[name]) for name in RECORD} == RECORD
    assert record["original_message_count"] == 4
    assert record["compressed_message_count"] == 1
    assert record["timespan"] == "10:00–12:15"
    assert "Norway" in record["intent"]
    assert 1 <= len(record["key_facts"]) <= 3
    assert any("night train" in decision for decision in record["decisions"])
    assert record["timestamp"] == clock.now().isoformat()
    assert record["model_used"] == (model.name if model else "recollect-extractive")


def test_a_ten_messages_become_two_kilobytes_at_most(open_memory: Open, model: FakeModel | None) -> None:
    """A success criteria: 10 messages → 2 KB, a ratio above 80 %."""
    memory = open_memory(settings="A", model=model)
    memory.add_many("trip", talk(7, count=12))
    memory.drain()
    brief = brief_of(memory)
    assert brief.record["original_message_count"] == 10
    assert len(brief.narrative.encode()) <= 2048
    assert brief.record["compression_ratio"] > 0.8


def test_a_a_long_history_shrinks_by_most_and_stays_below_four_thousand_tokens(
    open_memory: Open, model: FakeModel | None
) -> None:
    """A design goal and success criteria: 70–90 % smaller, history < 4000 tokens before each call."""
    memory = open_memory(settings="A", model=model)
    for first in range(0, 30, 5):
        memory.add_many("trip", talk(5, first=first, count=6))
        memory.drain()
        assert memory.context("trip", "hello", system_prompt=SYSTEM).tokens < 4000
    brief = brief_of(memory)
    covered = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq <= brief.through_seq]
    assert 1 - brief.tokens / count_tokens_for_messages(covered) > 0.8


def test_a_the_summary_is_fenced_data_and_not_a_system_message(open_memory: Open, model: FakeModel | None) -> None:
    """A flow step 7: new history = compressed summary + last messages; spec §5: not as a system message."""
    memory = open_memory(settings="A", model=model)
    memory.add_many("trip", talk(5, count=2))
    memory.drain()
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    roles = [one["role"] for one in context.messages]
    assert roles.count("system") == 1
    assert context.messages[1]["role"] == "user"
    assert context.messages[1]["content"].startswith("<memory>")
    assert brief_of(memory).narrative[:40] in context.messages[1]["content"]


def test_a_whole_messages_are_summarised_and_not_their_first_200_characters(open_memory: Open) -> None:
    """A's sketch cuts at 200 characters; spec §4: whole messages."""
    model = FakeModel(good_reply)
    memory = open_memory(settings="A", model=model)
    long = "filler " * 100 + "My locker code is 7319."
    memory.add_many("trip", [{"role": "user", "content": long}, *talk(3, count=1)])
    memory.drain()
    assert long in asked(model.calls[0])


# Document B, phases 1 to 9.


def test_b_phase_1_tokens_are_those_of_the_models_own_tokenizer() -> None:
    """B phase 1: exact; gpt-4o-mini counts by o200k_base (spec §3), 4 tokens frame a message."""
    text = "This is a test message with some content."
    assert count_tokens(text) == count_tokens(text, model="gpt-4o-mini") == 9
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there! How can I help?"}]
    assert count_tokens_for_messages(messages) == (4 + 1 + 1) + (4 + 1 + 8)
    arabic = "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645"
    assert count_tokens(arabic, model="gpt-4o-mini") < count_tokens(arabic, model="gpt-4")  # which has cl100k_base


def test_b_scenario_5_the_stored_counts_are_the_known_ones(memory: Memory) -> None:
    """B scenario 5: token accuracy, not only within 5 %: a known word is one token."""
    memory.add_many("trip", [{"role": "user", "content": " ".join(["word"] * n)} for n in (1, 10, 200, 3000)])
    memory.drain()
    assert memory.stats()["tokens"] == 3211 + 4 * (4 + 1)


def test_b_phase_2_the_brief_has_the_documents_structure_and_persists(
    open_memory: Open, model: FakeModel | None
) -> None:
    """B phase 2: memory_compression with its fields, the same after opening again."""
    memory = open_memory(settings="B", model=model)
    assert memory.brief("trip") is None
    memory.add_many("trip", talk(11))
    memory.drain()
    brief = brief_of(memory)
    assert list(brief.ledger) == LEDGER
    stored = brief.to_dict()
    for name in ("narrative", "ledger", "version", "created_at", "messages_summarized_count", "last_keep_window_index"):
        assert name in stored
    assert json.loads(json.dumps(stored["grounding"])) == brief.grounding
    assert brief.summary_version == 1
    assert (brief.messages_summarized_count, brief.last_keep_window_index) == (brief.through_seq, brief.through_seq + 1)
    memory.close()
    assert open_memory(settings="B").brief("trip") == brief


def test_b_phase_3_the_newest_turns_that_fit_are_kept(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3: 15 × 2 messages of 200 words; the keep window fits in 2500 tokens and is as large as it can be."""
    memory = open_memory(settings="B", model=model)
    for n in range(15):
        memory.add("trip", "user", f"Message {n}: " + "word " * 200, id=f"u{n}")
        memory.add("trip", "assistant", f"Response {n}: " + "word " * 200, id=f"a{n}")
    memory.drain()
    brief = brief_of(memory)
    kept = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq > brief.through_seq]
    turn = count_tokens_for_messages(kept[:2])
    assert count_tokens_for_messages(kept) <= 2500 < count_tokens_for_messages(kept) + turn
    assert kept[0]["role"] == "user"
    assert brief.messages_summarized_count + len(kept) == 30


def test_b_phase_3_a_short_conversation_is_left_alone(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3.5 and scenario 1: nothing is summarised, every message is in the prompt."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", [*talk(2), {"role": "user", "content": "And the fifth."}])
    memory.drain()
    assert memory.brief("trip") is None
    assert memory.brief_versions("trip") == []
    assert memory.compress("trip") is None
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    assert [one["content"] for one in context.messages if one["role"] != "system"] == [
        *(m.content for m in memory.history("trip")),
        "hello",
    ]
    assert "[CONVERSATION SUMMARY]" not in context.text
    assert model is None or model.calls == []


def test_b_phase_3_the_system_prompt_counts_for_the_threshold(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3: "helper to estimate tokens including system prompt and summaries"; spec §4's table."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", talk(9))
    memory.drain()
    assert memory.brief("trip") is None  # about 2800 tokens
    memory.context("trip", "hello", system_prompt="You are a helpful assistant. " * 100)  # 600 more
    memory.add_many("trip", said("thanks"))
    memory.drain()
    assert memory.brief("trip") is not None


def test_b_phase_4_important_data_is_extracted(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 4: preferences, structure, sources, facts."""
    memory = open_memory(settings="B", model=model)
    memory.add_many(
        "trip",
        [
            {
                "role": "user",
                "content": "I prefer dark mode. My document should have sections for Introduction, Methods, Results.",
            },
            {"role": "assistant", "content": "Noted. I'll structure your document accordingly."},
            {
                "role": "user",
                "content": "Important sources: https://example.com/paper1, https://example.com/paper2",
            },
            {"role": "user", "content": "The key finding is that X causes Y. This is critical for the paper."},
            *talk(11),
        ],
    )
    memory.drain()
    found = brief_of(memory).ledger
    assert "dark" in json.dumps(found["user_preferences"])
    assert ["Introduction", "Methods", "Results"] in found["document_structure"].values()
    assert found["source_urls"] == ["https://example.com/paper1", "https://example.com/paper2"]
    assert any("X causes Y" in fact for fact in found["important_facts"])


def test_b_phase_4_new_data_is_merged_with_the_old(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 4.3: both preferences, both links, each once, in the order of time."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    memory.add_many("trip", said("I prefer dark mode. See https://example.com/url1 please.", "Thanks a lot."))
    memory.compress("trip", force=True)
    memory.add_many(
        "trip",
        said(
            "My favorite font is Arial.", "See https://example.com/url2 or https://example.com/url1.", "Bye.", first=9
        ),
    )
    memory.compress("trip", force=True)
    found = brief_of(memory).ledger
    assert found["source_urls"] == ["https://example.com/url1", "https://example.com/url2"]
    preferences = json.dumps(found["user_preferences"]).lower()
    assert "dark" in preferences
    assert "arial" in preferences


def test_b_phase_4_messages_without_important_data_give_the_empty_structure(open_memory: Open) -> None:
    """B phase 4.5."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1))
    memory.add_many("trip", [{"role": "user", "content": "hm"}, {"role": "user", "content": "ok"}])
    memory.add("trip", "user", "")
    memory.compress("trip", force=True)
    found = brief_of(memory).ledger
    assert list(found) == LEDGER
    assert not any(found.values())


def test_b_phase_5_the_summary_grows_by_the_ladder(open_memory: Open, model: FakeModel | None) -> None:
    """B phases 5.1, 5.2 and 6.5, scenarios 2 and 3: 100–150, 200–250, 300–350, 400–450, then 500–750 words."""
    memory = open_memory(settings="B", model=model)
    lengths: dict[int, int] = {}
    turns = 0
    while len(lengths) < 7 and turns < 60:
        more = 4 if turns else 11
        memory.add_many("trip", talk(more, first=turns))
        turns += more
        memory.drain()
        brief = brief_of(memory)
        lengths[brief.version] = words(brief.narrative)
        assert brief.tokens <= 1000
        assert memory.context("trip", "hello", system_prompt=SYSTEM).tokens <= 3000
    ladder = [(100, 150), (200, 250), (300, 350), (400, 450), (500, 750), (500, 750), (500, 750)]
    assert [
        least <= lengths[version] <= most for version, (least, most) in enumerate(ladder, start=1)
    ] == [True] * 7, lengths  # fmt: skip


def test_b_phase_5_old_and_new_are_both_told(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 5.3: incremental summarisation keeps the old context and adds the new."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1, narrative_policy="words"), model=model)
    memory.add_many("trip", said("Our windmill needs new sails.", "Thanks a lot."))
    memory.compress("trip", force=True)
    memory.add_many("trip", said("Now let's discuss the submarine.", "Bye for today.", first=9))
    memory.compress("trip", force=True)
    told = brief_of(memory).narrative
    assert "windmill" in told
    assert "submarine" in told


def test_b_phase_5_a_very_long_conversation_is_told_shortly(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 5.5: 20,000 tokens at once, folded in steps."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", talk(60))
    memory.drain()
    brief = brief_of(memory)
    assert brief.version >= 2
    assert words(brief.narrative) <= 750
    assert memory.context("trip", "hello").tokens <= 3000


def test_b_phase_6_it_folds_again_only_when_there_is_enough_again(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """B phase 6.1 to 6.5: at 3000 tokens, not at the next messages, then at 3000 again."""
    caplog.set_level(logging.INFO, "recollect")
    memory = open_memory(settings="B", model=model)

    def folds() -> int:
        return sum(record.getMessage().startswith("brief: version=") for record in caplog.records)

    memory.add_many("trip", talk(8))
    memory.drain()
    assert folds() == 0
    memory.add_many("trip", talk(3, first=8))
    memory.drain()
    assert folds() == 1
    memory.add_many("trip", said("hello", "thanks", first=100))
    memory.drain()
    assert (folds(), brief_of(memory).version) == (1, 1)
    memory.add_many("trip", talk(4, first=11))
    memory.drain()
    assert (folds(), brief_of(memory).version) == (2, 2)


def test_b_phase_7_the_prompt_is_in_the_documents_order(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 7: system → important data → summary → recent messages, and no summarised message in the tail."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", said("I prefer dark mode.", "We decided to use PostgreSQL."))
    memory.add_many("trip", talk(11, first=2))
    memory.drain()
    brief = brief_of(memory)
    context = memory.context("trip", "What theme do I like?", system_prompt=SYSTEM)
    places = [
        context.text.index(mark)
        for mark in (
            SYSTEM,
            "[IMPORTANT DATA FROM PREVIOUS CONVERSATIONS]",
            "[CONVERSATION SUMMARY]",
            "[RECENT MESSAGES]",
            "What theme do I like?",
        )
    ]
    assert places == sorted(places)
    assert "dark" in context.text[places[1] : places[2]]
    assert min(tail_of(context)) > brief.through_seq
    assert tail_of(context)[-1] == memory.history("trip")[-1].seq
    assert context.tokens <= 3000
    assert context.explain["brief"] == {"version": 1, "through_seq": brief.through_seq}


def test_b_phase_7_a_conversation_without_summary_works_normally(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 7.4."""
    memory = open_memory(settings="B", model=model)
    memory.add("new", "user", "First message")
    context = memory.context("new", "hello")
    assert [one["content"] for one in context.messages] == ["First message", "hello"]


def test_b_phase_8_a_failing_model_breaks_nothing(open_memory: Open) -> None:
    """B phase 8.1, corrected by spec §4: not everything is sent; the built-in compressor stands in, by name."""
    memory = open_memory(settings="B", model=FakeModel([ValueError("invalid API key")]))
    memory.add_many("trip", talk(20))
    memory.drain()
    brief = memory.brief("trip")
    assert brief is not None
    assert (brief.model_used, brief.degraded) == ("recollect-extractive", "ValueError")
    context = memory.context("trip", "hello")
    assert context.tokens <= 3000
    assert "summarizer" in context.degraded


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_b_phase_8_a_single_very_long_message_is_handled(
    open_memory: Open, model: FakeModel | None, place: str
) -> None:
    """B phase 8.2: one message of more than 3000 tokens."""
    memory = open_memory(settings="B", model=model)
    long = {"role": "user", "content": "I keep " + "word " * 4000 + "and the vault code is 5512.", "id": "long"}
    around = talk(4, count=2)
    at = {"first": 0, "middle": 4, "last": 8}[place]
    memory.add_many("trip", [*around[:at], long, *around[at:]])
    memory.drain()
    context = memory.context("trip", "What is the vault code?")
    assert context.tokens <= 3000
    assert len(memory.history("trip")) == 9
    brief = brief_of(memory)
    assert words(brief.narrative) <= 150
    assert (brief.through_seq >= 9) is False


def test_b_phase_8_an_empty_conversation_is_no_error(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 8.4."""
    memory = open_memory(settings="B", model=model)
    assert (memory.brief("nowhere"), memory.compress("nowhere"), memory.compress("nowhere", force=True)) == (None,) * 3
    assert memory.brief_versions("nowhere") == []
    assert [one["content"] for one in memory.context("nowhere", "hello").messages] == ["hello"]
    memory.add("blank", "user", "")
    assert memory.drain().complete
    assert memory.compress("blank", force=True) is None


def test_b_phase_8_messages_sent_rapidly_are_all_kept(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 8.5: concurrent requests on one conversation with a worker at work."""
    memory = open_memory(settings="B", model=model, worker=True)
    texts = [one | {"id": f"r{n}"} for n, one in enumerate(talk(12))]
    added = at_once(*(lambda one=one: memory.add("trip", **one) for one in texts))  # type: ignore[misc]
    assert not [one for one in added if isinstance(one, BaseException)]
    assert memory.drain(timeout=30).complete
    assert sorted(m.id for m in memory.history("trip")) == sorted(one["id"] for one in texts)
    versions = memory.brief_versions("trip")
    assert [one["version"] for one in versions] == list(range(1, len(versions) + 1))
    assert len(versions) >= 1


# Document B, phase 9: what the phases above have not shown.


def test_b_scenario_2_first_summarisation(open_memory: Open, model: FakeModel | None, clock: FakeClock) -> None:
    """B scenario 2: version 1, 100–150 words, data, a time, under 1000 tokens; the next prompt rests on it."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", said("I am allergic to peanuts and I live in Riyadh."))
    memory.add_many("trip", talk(12, first=1))
    memory.drain()
    brief = brief_of(memory)
    assert brief.summary_version == 1
    assert 100 <= words(brief.narrative) <= 150
    assert any(brief.ledger.values())
    assert brief.last_summarized_at == clock.now()
    assert brief.tokens < 1000
    context = memory.context("trip", "Plan dinner for me", system_prompt=SYSTEM)
    assert "peanuts" in context.text
    assert len(tail_of(context)) < len(memory.history("trip"))


def test_b_scenario_4_what_was_important_stays(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 4: preferences, structure and sources of the first fold are there after the second and third."""
    memory = open_memory(settings="B", model=model)
    memory.add_many(
        "trip",
        said(
            "I prefer dark mode.",
            "Document structure: Intro, Methods, Results, Conclusion",
            "Key sources: https://example.com/url1, https://example.com/url2",
        ),
    )
    memory.add_many("trip", talk(11, first=10))
    memory.drain()
    first = brief_of(memory)
    memory.add_many("trip", said("We decided to publish in May.", "I am allergic to nuts.", first=50))
    for start in (30, 40, 50):
        memory.add_many("trip", talk(8, first=start))
        memory.drain()
    last = brief_of(memory)
    assert last.version > first.version
    for found in (first.ledger, last.ledger):
        assert "dark" in json.dumps(found["user_preferences"])
        assert ["Intro", "Methods", "Results", "Conclusion"] in found["document_structure"].values()
        assert found["source_urls"][:2] == ["https://example.com/url1", "https://example.com/url2"]
    assert any("May" in decision for decision in last.ledger["key_decisions"])
    assert "nuts" in json.dumps(last.ledger)
    assert last.entries[: len(first.entries)] == first.entries  # nothing was lost, and the order is that of time


def test_b_scenario_6_requests_do_not_wait_for_the_model(open_memory: Open) -> None:
    """B scenario 6, with spec §4 for "synchronously": adds and contexts are done while the model still thinks."""
    model = Thinking()
    memory = open_memory(settings="B", model=model, worker=True)
    memory.add_many("trip", talk(11))
    assert model.asked.wait(20)
    before = memory.add("trip", "user", "Are you there?")
    context = memory.context("trip", "Anything new?")
    assert not model.may_answer.is_set()
    assert memory.brief("trip") is None
    assert before.seq == 23
    assert context.tokens <= 3000
    assert 23 in tail_of(context)
    model.may_answer.set()
    assert memory.drain(timeout=30).complete
    assert brief_of(memory).through_seq < 23


def test_b_scenario_7_the_whole_history_is_still_shown(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 7: summarising never changes what people see."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", talk(20))
    before = memory.history("trip")
    memory.drain()
    assert brief_of(memory).version >= 1
    assert memory.history("trip") == before
    assert [m.content for m in before] == [one["content"] for one in talk(20)]
    assert [m.seq for m in memory.history("trip", before=5, limit=2)] == [3, 4]


def test_b_scenario_8_conversations_have_briefs_of_their_own(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 8: no data of one conversation in the brief of another."""
    memory = open_memory(settings="B", model=model)
    for place, name in enumerate(("one", "two", "three")):
        told = said(f"My favorite animal is the {('zebra', 'walrus', 'ostrich')[place]}.", first=100 * place)
        filler = [one | {"id": f"{name}{one['id']}"} for one in talk(11, first=100 * place)]
        memory.add_many(name, [*told, *filler])
    memory.drain()
    for name, own in (("one", "zebra"), ("two", "walrus"), ("three", "ostrich")):
        brief = brief_of(memory, name)
        everything = json.dumps(brief.to_dict(), default=str)
        assert own in everything
        assert not {"zebra", "walrus", "ostrich"} - {own} & set(re.findall(r"\w+", everything))
        ids = {m.id for m in memory.history(name)}
        assert {one for sources in brief.grounding.values() for one in sources} <= ids


# Document D.


def test_d_8_1_tokens_are_counted_by_one_counter(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.1: the builder, the trigger and the caller count alike."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(22))
    memory.drain()
    brief = brief_of(memory)
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    assert context.tokens == count_tokens_for_messages(context.messages)
    assert context.tokens == sum(one["tokens"] for one in context.explain["parts"])
    assert count_tokens(brief.narrative) <= 500
    assert brief.tokens >= count_tokens(brief.narrative)


def test_d_8_1_the_tail_is_the_last_k_turns(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.1 and 5.1: what is folded leaves exactly K turns, and they stand word for word in the prompt."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(22))
    memory.drain()
    assert brief_of(memory).through_seq == 38
    context = memory.context("trip", "hello")
    assert tail_of(context) == [39, 40, 41, 42, 43, 44]
    assert [one["content"] for one in context.messages[-7:-1]] == [m.content for m in memory.history("trip")[-6:]]
    assert "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):" in context.text


def test_d_8_1_the_oldest_turns_of_the_tail_give_way_first(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 5.1 step 5 and 8.1, 8.3: near the budget the tail loses its oldest turns, down to one, and a log says so."""
    caplog.set_level(logging.INFO, "recollect")
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(22))
    memory.drain()
    sizes = []
    for budget in (4000, 3000, 2500, 2100, 1500, 800, 300):
        context = memory.context("trip", "hello", budget=budget)
        assert context.tokens <= budget
        sizes.append(len(tail_of(context)))
        if tail_of(context):
            assert tail_of(context)[-1] == 44
    assert sizes[0] == 6
    assert sizes == sorted(sizes, reverse=True)
    assert any("of the newest turns had no room" in record.getMessage() for record in caplog.records)


def test_d_8_1_a_summary_too_long_is_made_anew_and_not_cut(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 5.1 step 5, corrected by spec §5, and 8.3: whole statements, and a log line."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(30))
    memory.drain()
    caplog.set_level(logging.INFO, "recollect")
    memory.change_settings(memory_brief_token_budget=250)
    statements = [one.text for one in brief_of(memory).statements]
    context = memory.context("trip", "hello")
    shown = [one["text"] for one in part(context, "summary")["items"]]
    assert shown
    assert len(shown) < len(statements)
    assert set(shown) <= set(statements)
    assert part(context, "summary")["tokens"] <= 250
    assert any("summary shortened by" in record.getMessage() for record in caplog.records)


def test_d_8_1_turns_of_several_models_are_treated_alike(open_memory: Open, model: FakeModel | None) -> None:
    """D 6, 8.1 and 8.2: switching between models in mid-chat changes nothing."""
    briefs = []
    for name, variants in (("plain", [None]), ("mixed", ["arco", "arco-pro", "deep-dive"])):
        memory = open_memory(settings="D", model=model)
        for n, one in enumerate(talk(22)):
            variant = variants[n % len(variants)] if one["role"] == "assistant" else None
            memory.add(name, model_variant=variant, **one)
        memory.drain()
        briefs.append(brief_of(memory, name))
        assert memory.context(name, "hello").tokens <= 3000
    assert briefs[0].narrative == briefs[1].narrative
    assert (briefs[0].through_seq, briefs[0].ledger) == (briefs[1].through_seq, briefs[1].ledger)


def test_d_8_1_it_folds_only_above_the_threshold_and_with_more_than_k_turns(
    open_memory: Open, model: FakeModel | None
) -> None:
    """D 5.2 and 8.1: neither many small turns nor few large ones."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("small", talk(18))  # about 5600 tokens
    huge = [{"role": "user", "content": " ".join(map(sentence, range(100 * n, 100 * n + 100)))} for n in range(3)]
    memory.add_many("few", huge)  # more than 6000, in three turns
    memory.drain()
    assert (memory.brief("small"), memory.brief("few")) == (None, None)
    memory.add_many("few", said("And a fourth."))
    memory.drain()
    assert brief_of(memory, "few").through_seq == 1


def test_d_8_1_the_cursor_advances_to_the_last_folded_message(open_memory: Open, model: FakeModel | None) -> None:
    """D 5.2 step 5 and 8.1: last_summarized_message_id moves on, and what is behind it is not read again."""
    memory = open_memory(settings="D", model=model)
    cursors = []
    for first, turns in ((0, 21), (21, 18), (39, 18)):
        memory.add_many("trip", talk(turns, first=first))
        memory.drain()
        cursors.append(brief_of(memory).through_seq)
    assert cursors == [36, 72, 108]
    history = memory.history("trip")
    assert history[cursors[-1] - 1].role == "assistant"
    if model is not None:
        read = [new_sentences(asked(call)) for call in model.calls]
        assert len(read) >= 3
        assert not set(read[0]) & set(read[-1])
        assert "=== EXISTING_SUMMARY ===\nNONE\n" in asked(model.calls[0])
        assert "NONE" not in asked(model.calls[-1])


def test_d_5_2_much_that_comes_at_once_is_folded_down_to_the_last_k_turns(
    open_memory: Open, model: FakeModel | None
) -> None:
    """D 5.2 step 3 and spec §4: all but the last K, also when it takes several steps."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(25))
    memory.drain()
    assert brief_of(memory).through_seq == 44


def test_d_8_2_a_short_chat_is_a_sliding_window(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.2: the summary stays empty."""
    memory = open_memory(settings="D", model=model)
    for n in range(8):
        memory.add_many("trip", talk(1, first=n, count=1))
        memory.drain()
        context = memory.context("trip", "hello")
        assert memory.brief("trip") is None
        assert all(m.content in context.text for m in memory.history("trip"))
    assert model is None or not model.calls


def test_d_8_2_older_facts_are_in_the_summary_after_chunk_borders(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.2: long chats keep their last K turns word for word, and their oldest facts in the brief."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", said("My piano teacher is called Ingrid and I play the cello too."))
    for first in (1, 23, 45):
        memory.add_many("trip", talk(22, first=first))
        memory.drain()
        context = memory.context("trip", "Who teaches me the piano?")
        last = [m.content for m in memory.history("trip")[-6:]]
        assert [one["content"] for one in context.messages[-7:-1]] == last
        assert "Ingrid" in context.text
        assert "Ingrid" in json.dumps(brief_of(memory).ledger) + brief_of(memory).narrative


def test_d_8_3_a_run_is_logged_with_its_numbers_and_without_its_text(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 8.3, 9.4: tokens before and after, turns, ms, model."""
    caplog.set_level(logging.INFO, "recollect")
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", talk(22))
    memory.drain()
    (line,) = [one for record in caplog.records if (one := record.getMessage()).startswith("brief: ")]
    found = dict(pair.split("=", 1) for pair in line.removeprefix("brief: ").split())
    brief = brief_of(memory)
    assert found["turns"] == "19"
    assert found["messages"] == "38"
    assert found["trigger"] == "chunk"
    assert found["model"] == brief.model_used
    assert int(found["tokens_after"]) == brief.tokens
    assert int(found["tokens_before"]) > 5000
    assert int(found["ms"]) >= 0
    assert not any("harbour" in record.getMessage() for record in caplog.records)


def test_d_9_folding_goes_on_when_the_client_has_gone(open_memory: Open) -> None:
    """D 9.1: the worker of another process finishes what a closed one left."""
    model = Thinking()
    gone = open_memory(settings="D", model=model, worker=True)
    gone.add_many("trip", talk(22))
    assert model.asked.wait(20)
    gone.close()
    memory = open_memory(settings="D", model=FakeModel(good_reply), worker=True)
    assert memory.drain(timeout=30).complete
    assert brief_of(memory).through_seq == 38


def test_d_5_2_the_input_has_the_documents_layout_to_the_letter(open_memory: Open) -> None:
    """D 5.2 step 4."""

    def answer(call: ModelCall) -> str:
        return reply(" ".join(new_sentences(asked(call))))

    model = FakeModel(answer)
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    memory.add_many("trip", said("I like tea.", "I like milk in it.", "Good night."))
    memory.compress("trip", force=True)
    memory.add_many("trip", said("I like cake.", "Bye.", first=20))
    memory.compress("trip", force=True)
    assert asked(model.calls[0]) == (
        "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: I like tea.\nAssistant: Noted.\n\nTurn 2:\nUser: I like milk in it.\nAssistant: Noted.\n"
        "=== END_NEW_TURNS ==="
    )
    old = memory.brief("trip", version=1)
    assert old is not None
    assert asked(model.calls[1]) == (
        f"=== EXISTING_SUMMARY ===\n{old.narrative}\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: Good night.\nAssistant: Noted.\n\nTurn 2:\nUser: I like cake.\nAssistant: Noted.\n"
        "=== END_NEW_TURNS ==="
    )


# Spec §4: what all documents share.


def test_every_sentence_and_entry_names_messages_that_are_there(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", said("I prefer dark mode.", "We decided to use PostgreSQL."))
    memory.add_many("trip", talk(15, first=5))
    memory.drain()
    brief = brief_of(memory)
    by_id = {m.id: m for m in memory.history("trip")}
    assert len(brief.grounding) >= len(brief.statements) > 0
    for sources in brief.grounding.values():
        assert sources
        assert all(by_id[one].seq <= brief.through_seq for one in sources)


def test_every_version_is_kept_as_it_was(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    made = []
    for n, city in enumerate(("Berlin", "Lisbon", "Cairo")):
        memory.add_many("trip", said(f"I live in {city}.", "Good night.", first=10 * n))
        memory.compress("trip", force=True)
        made.append(brief_of(memory))
    assert [brief.version for brief in made] == [1, 2, 3]
    assert [memory.brief("trip", version=n) for n in (1, 2, 3)] == made
    assert memory.brief("trip", version=4) is None
    homes = [[one.value for one in brief.entries if one.slot == "home" and one.holds] for brief in made]
    assert homes == [["Berlin"], ["Lisbon"], ["Cairo"]]
    ended = [one for one in made[2].entries if one.slot == "home" and not one.holds]
    assert [one.value for one in ended] == ["Berlin", "Lisbon"]


def test_tool_calls_and_their_results_are_folded_together(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings="A", model=model)
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    memory.add("trip", "user", "How is the weather in Oslo?")
    memory.add("trip", "assistant", "", tool_calls=calls)
    memory.add("trip", "tool", "12 degrees", tool_call_id="c1")
    memory.add("trip", "assistant", "It is 12 degrees in Oslo.")
    memory.add_many("trip", talk(1, first=5, count=1))
    memory.drain()
    assert memory.brief("trip") is None  # three are to be kept, and they begin in the middle of the first turn
    memory.add_many("trip", talk(1, first=6, count=1))
    memory.drain()
    assert brief_of(memory).through_seq == 4
    assert [one["role"] for one in memory.context("trip", "hello").messages][-5:] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
