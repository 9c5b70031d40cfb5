"""The preset `compact`, and what all presets share, without a model and with one that answers well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recollect import count_tokens_for_messages
from recollect.settings import Settings
from recollect.testing import FakeClock, FakeModel
from support.summaries import (
    SYSTEM,
    Open,
    good_reply,
    long_turns,
    nth_sentence,
    prompt_layout,
    sound_brief,
    tail_seqs,
    user_turns,
)

RECORD = {
    "original_message_count": int, "compressed_message_count": int, "compression_ratio": float, "timespan": str,
    "summary": str, "intent": str, "key_facts": list, "decisions": list, "missing_data": list, "timestamp": str,
    "model_used": str,
}  # fmt: skip


# Where spec.md corrects a document, its word stands: o200k counts for gpt-4o-mini, nothing is folded inside a request,
# turns are not cut, and a failure never sends everything.

# Compression every few messages.


def test_a_at_five_messages_all_but_the_last_three_are_folded(open_memory: Open, model: FakeModel | None) -> None:
    """A option A: at 5 messages compress all but the last 3; what is kept is widened to a turn."""
    memory = open_memory(settings="A", model=model)
    memory.add_many("trip", long_turns(2))
    memory.drain()
    assert memory.brief("trip") is None
    memory.add_many("trip", long_turns(1, first=2))
    memory.drain()
    brief = sound_brief(memory)
    assert (brief.version, brief.through_seq) == (1, 2)  # 4 of 6 are kept: the third last is in the middle of a turn
    assert tail_seqs(memory.context("trip", "hello"))[-4:] == [3, 4, 5, 6]


def test_a_tokens_go_from_the_oldest_until_half_is_left(open_memory: Open, model: FakeModel | None) -> None:
    """A option B: above 3000 tokens, compress from the oldest until at most 1500 are left, with the summary."""
    settings = Settings(compress_tokens_above=3000, compress_tokens_until=1500, memory_chunk_summarize_threshold=0)
    memory = open_memory(settings=settings, model=model)
    memory.add_many("trip", long_turns(11))
    memory.drain()
    brief = sound_brief(memory)
    kept = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq > brief.through_seq]
    one_more = [{"role": m.role, "content": m.content} for m in memory.history("trip")[-len(kept) - 2 :]]
    assert brief.tokens + count_tokens_for_messages(kept) <= 1500 < 600 + count_tokens_for_messages(one_more)


def test_a_on_a_new_day_what_came_before_is_folded(
    open_memory: Open, model: FakeModel | None, clock: FakeClock
) -> None:
    """A option C: when the local date changes, yesterday's messages become the summary."""
    settings = Settings(compress_daily=True, memory_chunk_summarize_threshold=0)
    memory = open_memory(settings=settings, model=model)
    memory.add_many("trip", long_turns(3, count=4))
    memory.drain()
    assert memory.brief("trip") is None
    clock.advance(timedelta(days=1))
    memory.add_many("trip", long_turns(2, first=3, count=4))
    memory.drain()
    assert sound_brief(memory).through_seq == 6
    assert tail_seqs(memory.context("trip", "hello"))[-4:] == [7, 8, 9, 10]


def test_a_the_record_has_every_field_of_a_compressed_conversation(
    open_memory: Open, model: FakeModel | None, clock: FakeClock
) -> None:
    """A compression format."""
    memory = open_memory(settings="A", model=model)
    filler = " ".join(nth_sentence(n) for n in range(14))
    start = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    told = user_turns(
        f"I want to plan a trip to Norway in June. {filler}",
        "We decided to take the night train.",
        "My budget is 900 euros.",
        "What about the tickets?",
    )
    memory.add_many("trip", [one | {"at": start + timedelta(minutes=45 * n)} for n, one in enumerate(told)])
    memory.drain()
    record = sound_brief(memory).record
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
    memory.add_many("trip", long_turns(7, count=12))
    memory.drain()
    brief = sound_brief(memory)
    assert brief.record["original_message_count"] == 10
    assert len(brief.narrative.encode()) <= 2048
    assert brief.record["compression_ratio"] > 0.8


def test_a_a_long_history_shrinks_by_most_and_stays_below_four_thousand_tokens(
    open_memory: Open, model: FakeModel | None
) -> None:
    """A design goal and success criteria: 70–90 % smaller, history < 4000 tokens before each call."""
    memory = open_memory(settings="A", model=model)
    for first in range(0, 30, 5):
        memory.add_many("trip", long_turns(5, first=first, count=6))
        memory.drain()
        assert memory.context("trip", "hello", system_prompt=SYSTEM).tokens < 4000
    brief = sound_brief(memory)
    covered = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq <= brief.through_seq]
    assert 1 - brief.tokens / count_tokens_for_messages(covered) > 0.8


def test_a_the_summary_is_fenced_data_and_not_a_system_message(open_memory: Open, model: FakeModel | None) -> None:
    """A flow step 7: new history = compressed summary + last messages; spec §5: not as a system message."""
    memory = open_memory(settings="A", model=model)
    memory.add_many("trip", long_turns(12))
    memory.drain()
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    roles = [one["role"] for one in context.messages]
    assert roles.count("system") == 1
    assert context.messages[1]["role"] == "user"
    assert context.messages[1]["content"].startswith("<memory>")
    assert sound_brief(memory).narrative[:40] in context.messages[1]["content"]


def test_a_whole_messages_are_summarised_and_not_their_first_200_characters(open_memory: Open) -> None:
    """A's sketch cuts at 200 characters; spec §4: whole messages."""
    model = FakeModel(good_reply)
    memory = open_memory(settings="A", model=model)
    long = "filler " * 100 + "My locker code is 7319."
    memory.add_many("trip", [{"role": "user", "content": long}, *long_turns(3, count=1)])
    memory.drain()
    assert long in prompt_layout(model.calls[0])


# Spec §4: what all documents share.


def test_every_sentence_and_entry_names_messages_that_are_there(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", user_turns("I prefer dark mode.", "We decided to use PostgreSQL."))
    memory.add_many("trip", long_turns(15, first=5))
    memory.drain()
    brief = sound_brief(memory)
    by_id = {m.id: m for m in memory.history("trip")}
    assert len(brief.grounding) >= len(brief.statements) > 0
    for sources in brief.grounding.values():
        assert sources
        assert all(by_id[one].seq <= brief.through_seq for one in sources)


def test_every_version_is_kept_as_it_was(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    made = []
    for n, city in enumerate(("Berlin", "Lisbon", "Cairo")):
        memory.add_many("trip", user_turns(f"I live in {city}.", "Good night.", first=10 * n))
        memory.compress("trip", force=True)
        made.append(sound_brief(memory))
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
    memory.add("trip", "user", "How is the weather in Oslo? " + " ".join(nth_sentence(n) for n in range(6)))
    memory.add("trip", "assistant", "", tool_calls=calls)
    memory.add("trip", "tool", "12 degrees", tool_call_id="c1")
    memory.add("trip", "assistant", "It is 12 degrees in Oslo.")
    memory.add_many("trip", long_turns(1, first=5, count=1))
    memory.drain()
    assert memory.brief("trip") is None  # three are to be kept, and they begin in the middle of the first turn
    memory.add_many("trip", long_turns(1, first=6, count=1))
    memory.drain()
    assert sound_brief(memory).through_seq == 4
    assert [one["role"] for one in memory.context("trip", "hello").messages][-5:] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
