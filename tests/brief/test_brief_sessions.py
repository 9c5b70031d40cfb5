"""The preset `sessions`, without a model and with one that answers well."""

from __future__ import annotations

import json
import logging
import re
from functools import partial

import pytest

from recollect import Memory, count_tokens, count_tokens_for_messages
from recollect.settings import Settings
from recollect.testing import FakeClock, FakeModel
from support.summaries import (
    SYSTEM,
    Open,
    SlowModel,
    count_words,
    long_turns,
    run_at_once,
    sound_brief,
    tail_seqs,
    user_turns,
)

LEDGER = [
    "user_preferences", "key_decisions", "important_facts", "source_urls", "document_structure", "entities",
    "custom_fields",
]  # fmt: skip


# Tokens, narrative, ledger, fallback, prompt.


def test_tokens_are_those_of_the_models_own_tokenizer() -> None:
    """B phase 1: exact; gpt-4o-mini counts by o200k_base (spec §3), 4 tokens frame a message."""
    text = "This is a test message with some content."
    assert count_tokens(text) == count_tokens(text, model="gpt-4o-mini") == 9
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there! How can I help?"}]
    assert count_tokens_for_messages(messages) == (4 + 1 + 1) + (4 + 1 + 8)
    arabic = "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645"
    assert count_tokens(arabic, model="gpt-4o-mini") < count_tokens(arabic, model="gpt-4")  # which has cl100k_base


def test_the_stored_counts_are_the_known_ones(memory: Memory) -> None:
    """B scenario 5: token accuracy, not only within 5 %: a known word is one token."""
    memory.add_many("trip", [{"role": "user", "content": " ".join(["word"] * n)} for n in (1, 10, 200, 3000)])
    memory.drain()
    assert memory.stats()["tokens"] == 3211 + 4 * (4 + 1)


def test_the_brief_has_the_promised_structure_and_persists(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 2: memory_compression with its fields, the same after opening again."""
    memory = open_memory(settings="B", model=model)
    assert memory.brief("trip") is None
    memory.add_many("trip", long_turns(11))
    memory.drain()
    brief = sound_brief(memory)
    assert list(brief.ledger) == LEDGER
    stored = brief.to_dict()
    for name in ("narrative", "ledger", "version", "created_at", "messages_summarized_count", "last_keep_window_index"):
        assert name in stored
    assert json.loads(json.dumps(stored["grounding"])) == brief.grounding
    assert brief.summary_version == 1
    assert (brief.messages_summarized_count, brief.last_keep_window_index) == (brief.through_seq, brief.through_seq + 1)
    memory.close()
    assert open_memory(settings="B").brief("trip") == brief


def test_the_newest_turns_that_fit_are_kept(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3: 15 × 2 messages of 200 words; the keep window fits in 2500 tokens and is as large as it can be."""
    memory = open_memory(settings="B", model=model)
    for n in range(15):
        memory.add("trip", "user", f"Message {n}: " + "word " * 200, id=f"u{n}")
        memory.add("trip", "assistant", f"Response {n}: " + "word " * 200, id=f"a{n}")
    memory.drain()
    brief = sound_brief(memory)
    kept = [{"role": m.role, "content": m.content} for m in memory.history("trip") if m.seq > brief.through_seq]
    turn = count_tokens_for_messages(kept[:2])
    assert count_tokens_for_messages(kept) <= 2500 < count_tokens_for_messages(kept) + turn
    assert kept[0]["role"] == "user"
    assert brief.messages_summarized_count + len(kept) == 30


def test_a_short_conversation_is_left_alone(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3.5 and scenario 1: nothing is summarised, every message is in the prompt."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", [*long_turns(2), {"role": "user", "content": "And the fifth."}])
    memory.drain()
    assert memory.brief("trip") is None
    assert memory.brief_versions("trip") == []
    assert memory.compress("trip") is None
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    *said, fifth = (m.content for m in memory.history("trip"))
    assert [one["content"] for one in context.messages[1:]] == [*said, f"{fifth}\n\nhello"]
    assert "[CONVERSATION SUMMARY]" not in context.text
    assert model is None or model.calls == []


def test_the_system_prompt_counts_for_the_threshold(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 3: "helper to estimate tokens including system prompt and summaries"; spec §4's table."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", long_turns(9))
    memory.drain()
    assert memory.brief("trip") is None  # about 2800 tokens
    memory.context("trip", "hello", system_prompt="You are a helpful assistant. " * 100)  # 600 more
    memory.add_many("trip", user_turns("thanks"))
    memory.drain()
    assert memory.brief("trip") is not None


def test_important_data_is_extracted(open_memory: Open, model: FakeModel | None) -> None:
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
            *long_turns(11),
        ],
    )
    memory.drain()
    found = sound_brief(memory).ledger
    assert "dark" in json.dumps(found["user_preferences"])
    assert ["Introduction", "Methods", "Results"] in found["document_structure"].values()
    assert found["source_urls"] == ["https://example.com/paper1", "https://example.com/paper2"]
    assert any("X causes Y" in fact for fact in found["important_facts"])


def test_new_data_is_merged_with_the_old(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 4.3: both preferences, both links, each once, in the order of time."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    memory.add_many("trip", user_turns("I prefer dark mode. See https://example.com/url1 please.", "Thanks a lot."))
    memory.compress("trip", force=True)
    memory.add_many(
        "trip",
        user_turns(
            "My favorite font is Arial.", "See https://example.com/url2 or https://example.com/url1.", "Bye.", first=9
        ),
    )
    memory.compress("trip", force=True)
    found = sound_brief(memory).ledger
    assert found["source_urls"] == ["https://example.com/url1", "https://example.com/url2"]
    preferences = json.dumps(found["user_preferences"]).lower()
    assert "dark" in preferences
    assert "arial" in preferences


def test_messages_without_important_data_give_the_empty_structure(open_memory: Open) -> None:
    """B phase 4.5."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1))
    memory.add_many("trip", [{"role": "user", "content": "hm"}, {"role": "user", "content": "ok"}])
    memory.add("trip", "user", "")
    memory.compress("trip", force=True)
    found = sound_brief(memory).ledger
    assert list(found) == LEDGER
    assert not any(found.values())


def test_the_summary_grows_by_the_ladder(open_memory: Open, model: FakeModel | None) -> None:
    """B phases 5.1, 5.2 and 6.5, scenarios 2 and 3: 100–150, 200–250, 300–350, 400–450, then 500–750 words."""
    memory = open_memory(settings="B", model=model)
    lengths: dict[int, int] = {}
    turns = 0
    while len(lengths) < 7 and turns < 60:
        more = 4 if turns else 11
        memory.add_many("trip", long_turns(more, first=turns))
        turns += more
        memory.drain()
        brief = sound_brief(memory)
        lengths[brief.version] = count_words(brief.narrative)
        assert brief.tokens <= 1000
        assert memory.context("trip", "hello", system_prompt=SYSTEM).tokens <= 3000
    ladder = [(100, 150), (200, 250), (300, 350), (400, 450), (500, 750), (500, 750), (500, 750)]
    assert [
        least <= lengths[version] <= most for version, (least, most) in enumerate(ladder, start=1)
    ] == [True] * 7, lengths  # fmt: skip


def test_old_and_new_are_both_told(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 5.3: incremental summarisation keeps the old context and adds the new."""
    memory = open_memory(settings=Settings(memory_k_raw_turns=1, narrative_policy="words"), model=model)
    memory.add_many("trip", user_turns("Our windmill needs new sails.", "Thanks a lot."))
    memory.compress("trip", force=True)
    memory.add_many("trip", user_turns("Now let's discuss the submarine.", "Bye for today.", first=9))
    memory.compress("trip", force=True)
    told = sound_brief(memory).narrative
    assert "windmill" in told
    assert "submarine" in told


def test_a_very_long_conversation_is_told_shortly(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 5.5: 20,000 tokens at once, folded in steps."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", long_turns(60))
    memory.drain()
    brief = sound_brief(memory)
    assert brief.version >= 2
    assert count_words(brief.narrative) <= 750
    assert memory.context("trip", "hello").tokens <= 3000


def test_it_compresses_again_only_when_there_is_enough_again(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """B phase 6.1 to 6.5: at 3000 tokens, not at the next messages, then at 3000 again."""
    caplog.set_level(logging.INFO, "recollect")
    memory = open_memory(settings="B", model=model)

    def folds() -> int:
        return sum(record.getMessage().startswith("brief: version=") for record in caplog.records)

    memory.add_many("trip", long_turns(8))
    memory.drain()
    assert folds() == 0
    memory.add_many("trip", long_turns(3, first=8))
    memory.drain()
    assert folds() == 1
    memory.add_many("trip", user_turns("hello", "thanks", first=100))
    memory.drain()
    assert (folds(), sound_brief(memory).version) == (1, 1)
    memory.add_many("trip", long_turns(4, first=11))
    memory.drain()
    assert (folds(), sound_brief(memory).version) == (2, 2)


def test_the_prompt_is_in_the_promised_order(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 7: system → important data → summary → recent messages, and no summarised message in the tail."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", user_turns("I prefer dark mode.", "We decided to use PostgreSQL."))
    memory.add_many("trip", long_turns(11, first=2))
    memory.drain()
    brief = sound_brief(memory)
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
    assert min(tail_seqs(context)) > brief.through_seq
    assert tail_seqs(context)[-1] == memory.history("trip")[-1].seq
    assert context.tokens <= 3000
    assert context.explain["brief"] == {"version": 1, "through_seq": brief.through_seq}


def test_a_conversation_without_summary_works_normally(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 7.4."""
    memory = open_memory(settings="B", model=model)
    memory.add("new", "user", "First message")
    context = memory.context("new", "hello")
    assert [one["content"] for one in context.messages] == ["First message\n\nhello"]


def test_a_failing_model_breaks_nothing(open_memory: Open) -> None:
    """B phase 8.1, corrected by spec §4: not everything is sent; the built-in compressor stands in, by name."""
    memory = open_memory(settings="B", model=FakeModel([ValueError("invalid API key")]))
    memory.add_many("trip", long_turns(20))
    memory.drain()
    brief = memory.brief("trip")
    assert brief is not None
    assert (brief.model_used, brief.degraded) == ("recollect-extractive", "ValueError")
    context = memory.context("trip", "hello")
    assert context.tokens <= 3000
    assert "summarizer" in context.degraded


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_single_very_long_message_is_handled(open_memory: Open, model: FakeModel | None, place: str) -> None:
    """B phase 8.2: one message of more than 3000 tokens."""
    memory = open_memory(settings="B", model=model)
    long = {"role": "user", "content": "I keep " + "word " * 4000 + "and the vault code is 5512.", "id": "long"}
    around = long_turns(4, count=2)
    at = {"first": 0, "middle": 4, "last": 8}[place]
    memory.add_many("trip", [*around[:at], long, *around[at:]])
    memory.drain()
    context = memory.context("trip", "What is the vault code?")
    assert context.tokens <= 3000
    assert len(memory.history("trip")) == 9
    brief = sound_brief(memory)
    assert count_words(brief.narrative) <= 150
    assert (brief.through_seq >= 9) is False


def test_an_empty_conversation_is_no_error(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 8.4."""
    memory = open_memory(settings="B", model=model)
    assert (memory.brief("nowhere"), memory.compress("nowhere"), memory.compress("nowhere", force=True)) == (None,) * 3
    assert memory.brief_versions("nowhere") == []
    assert [one["content"] for one in memory.context("nowhere", "hello").messages] == ["hello"]
    memory.add("blank", "user", "")
    assert memory.drain().complete
    assert memory.compress("blank", force=True) is None


def test_messages_sent_rapidly_are_all_kept(open_memory: Open, model: FakeModel | None) -> None:
    """B phase 8.5: concurrent requests on one conversation with a worker at work."""
    memory = open_memory(settings="B", model=model, worker=True)
    texts = [one | {"id": f"r{n}"} for n, one in enumerate(long_turns(12))]
    added = run_at_once(*(partial(memory.add, "trip", **one) for one in texts))
    assert not [one for one in added if isinstance(one, BaseException)]
    assert memory.drain(timeout=30).complete
    assert sorted(m.id for m in memory.history("trip")) == sorted(one["id"] for one in texts)
    versions = memory.brief_versions("trip")
    assert [one["version"] for one in versions] == list(range(1, len(versions) + 1))
    assert len(versions) >= 1


# What the tests above have not shown.


def test_first_summarisation(open_memory: Open, model: FakeModel | None, clock: FakeClock) -> None:
    """B scenario 2: version 1, 100–150 words, data, a time, under 1000 tokens; the next prompt rests on it."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", user_turns("I am allergic to peanuts and I live in Riyadh."))
    memory.add_many("trip", long_turns(12, first=1))
    memory.drain()
    brief = sound_brief(memory)
    assert brief.summary_version == 1
    assert 100 <= count_words(brief.narrative) <= 150
    assert any(brief.ledger.values())
    assert brief.last_summarized_at == clock.now()
    assert brief.tokens < 1000
    context = memory.context("trip", "Plan dinner for me", system_prompt=SYSTEM)
    assert "peanuts" in context.text
    assert len(tail_seqs(context)) < len(memory.history("trip"))


def test_what_was_important_stays(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 4: preferences, structure and sources of the first fold are there after the second and third."""
    memory = open_memory(settings="B", model=model)
    memory.add_many(
        "trip",
        user_turns(
            "I prefer dark mode.",
            "Document structure: Intro, Methods, Results, Conclusion",
            "Key sources: https://example.com/url1, https://example.com/url2",
        ),
    )
    memory.add_many("trip", long_turns(11, first=10))
    memory.drain()
    first = sound_brief(memory)
    memory.add_many("trip", user_turns("We decided to publish in May.", "I am allergic to nuts.", first=50))
    for start in (30, 40, 50):
        memory.add_many("trip", long_turns(8, first=start))
        memory.drain()
    last = sound_brief(memory)
    assert last.version > first.version
    for found in (first.ledger, last.ledger):
        assert "dark" in json.dumps(found["user_preferences"])
        assert ["Intro", "Methods", "Results", "Conclusion"] in found["document_structure"].values()
        assert found["source_urls"][:2] == ["https://example.com/url1", "https://example.com/url2"]
    assert any("May" in decision for decision in last.ledger["key_decisions"])
    assert "nuts" in json.dumps(last.ledger)
    assert last.entries[: len(first.entries)] == first.entries  # nothing was lost, and the order is that of time


def test_requests_do_not_wait_for_the_model(open_memory: Open) -> None:
    """B scenario 6, with spec §4 for "synchronously": adds and contexts are done while the model still thinks."""
    model = SlowModel()
    memory = open_memory(settings="B", model=model, worker=True)
    memory.add_many("trip", long_turns(11))
    assert model.asked.wait(300)
    before = memory.add("trip", "user", "Are you there?")
    context = memory.context("trip", "Anything new?")
    assert not model.may_answer.is_set()
    assert memory.brief("trip") is None
    assert before.seq == 23
    assert context.tokens <= 3000
    assert 23 in tail_seqs(context)
    model.may_answer.set()
    assert memory.drain(timeout=30).complete
    assert sound_brief(memory).through_seq < 23


def test_the_whole_history_is_still_shown(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 7: summarising never changes what people see."""
    memory = open_memory(settings="B", model=model)
    memory.add_many("trip", long_turns(20))
    before = memory.history("trip")
    memory.drain()
    assert sound_brief(memory).version >= 1
    assert memory.history("trip") == before
    assert [m.content for m in before] == [one["content"] for one in long_turns(20)]
    assert [m.seq for m in memory.history("trip", before=5, limit=2)] == [3, 4]


def test_conversations_have_briefs_of_their_own(open_memory: Open, model: FakeModel | None) -> None:
    """B scenario 8: no data of one conversation in the brief of another."""
    memory = open_memory(settings="B", model=model)
    for place, name in enumerate(("one", "two", "three")):
        told = user_turns(f"My favorite animal is the {('zebra', 'walrus', 'ostrich')[place]}.", first=100 * place)
        filler = [one | {"id": f"{name}{one['id']}"} for one in long_turns(11, first=100 * place)]
        memory.add_many(name, [*told, *filler])
    memory.drain()
    for name, own in (("one", "zebra"), ("two", "walrus"), ("three", "ostrich")):
        brief = sound_brief(memory, name)
        everything = json.dumps(brief.to_dict(), default=str)
        assert own in everything
        assert not {"zebra", "walrus", "ostrich"} - {own} & set(re.findall(r"\w+", everything))
        ids = {m.id for m in memory.history(name)}
        assert {one for sources in brief.grounding.values() for one in sources} <= ids
