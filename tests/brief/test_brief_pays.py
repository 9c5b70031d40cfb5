"""A compression never makes a prompt longer, and its record tells what it saved."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from recollect import Memory, Settings, count_tokens
from recollect.core.compression.source_check import split_sentences
from recollect.settings import preset
from recollect.testing import FakeModel, ModelCall
from support.realistic_talks import realistic_turns
from support.summaries import Open, item, on_sqlite, prompt_layout, reply, user_turns

OFF = {
    "compress_messages_at": 0, "rag_summary_frequency": 0, "compress_tokens_above": 0,
    "memory_chunk_summarize_threshold": 0,
}  # fmt: skip
QUESTIONS = {
    "en": ("And what comes next?", "What did we decide about the floor?", "How much is my budget?"),
    "ar": ("وماذا بعد ذلك؟", "ماذا قررنا بشأن الأرضية؟", "كم ميزانيتي؟"),
}


def short_turns(language: str) -> list[list[dict[str, Any]]]:
    """Return turns of a talk in which people write little: the first sentence of each message."""
    return [
        [one | {"content": one["content"].split(". ")[0].split("\n")[0]} for one in turn]
        for turn in realistic_turns(language)
    ]


def without_triggers(name: str) -> Settings:
    return Settings(**preset(name).model_dump(exclude_unset=True) | OFF)


@on_sqlite
@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("name", ["compact", "recall"])
@pytest.mark.parametrize("turns_of", [realistic_turns, short_turns])
def test_no_compression_makes_a_prompt_longer(open_memory: Open, name: str, language: str, turns_of: Any) -> None:
    compressing, plain = open_memory(settings=name), open_memory(settings=without_triggers(name))
    shorter = 0
    for turn in turns_of(language)[:13]:
        for memory, conversation in ((compressing, "one"), (plain, "two")):
            memory.add_many(conversation, [one | {"id": f"{conversation}-{one['id']}"} for one in turn])
        compressing.compress("one")
        for question in QUESTIONS[language]:
            tokens = [
                memory.context(conversation, question).tokens
                for memory, conversation in ((compressing, "one"), (plain, "two"))
            ]
            assert tokens[0] <= tokens[1]
            shorter += tokens[0] < tokens[1]
    assert plain.brief("two") is None
    assert turns_of is short_turns or (compressing.brief("one") is not None and shorter)


@pytest.mark.parametrize("name", ["compact", "recall"])
def test_a_very_short_chat_gets_no_brief_and_no_model_is_asked(
    open_memory: Open, model: FakeModel | None, name: str
) -> None:
    memory = open_memory(settings=name, model=model)
    memory.add_many("trip", user_turns("Good morning!", "Is it raining?", "And tomorrow?", "Fine.", "Thanks.", "Bye."))
    memory.drain()
    assert memory.brief("trip") is None
    assert memory.compress("trip") is None
    assert model is None or not model.calls
    assert memory.compress("trip", force=True) is not None  # whoever asks for one gets it


def test_what_is_put_off_is_compressed_as_soon_as_it_pays(open_memory: Open, model: FakeModel | None) -> None:
    memory = open_memory(settings="compact", model=model)
    turns = realistic_turns("en")
    memory.add_many("trip", [one for turn in turns[:3] for one in turn])
    memory.drain()
    assert memory.brief("trip") is None
    memory.add_many("trip", [one for turn in turns[3:6] for one in turn])
    memory.drain()
    brief = memory.brief("trip")
    assert brief is not None
    assert brief.through_seq == 8  # the last four messages stay: three, widened to a turn
    assert brief.messages_summarized_count == 8


@on_sqlite
def test_a_model_that_writes_too_much_is_put_off_and_not_asked_at_every_turn(open_memory: Open) -> None:
    def talkative(call: ModelCall) -> str:
        """Return everything that the user said again, as three kinds of entries."""
        lines = [line for line in prompt_layout(call).splitlines() if line.startswith("User: ")]
        texts = [text for line in lines for text in split_sentences(line.removeprefix("User: "))]
        kinds = ("fact", "decision", "preference")
        data = [item(kind, f"{kind} {n}", text) for n, text in enumerate(texts) for kind in kinds]
        return reply(" ".join(texts), ledger=data)

    model = FakeModel(talkative)
    memory = open_memory(settings="compact", model=model)
    calls = []
    for turn in realistic_turns("en")[:9]:
        memory.add_many("trip", turn)
        memory.drain()
        calls.append(len(model.calls))
        brief = memory.brief("trip")
        assert brief is None or brief.record["tokens_after"] < brief.record["tokens_before"]
    assert calls[:6] == [0, 0, 0, 1, 1, 1]  # it was asked once, in vain, and again when there is twice as much
    assert calls[-1] > 1
    assert memory.brief("trip") is not None


@pytest.mark.parametrize("name", ["compact", "sessions", "briefs", "recall"])
@pytest.mark.parametrize("language", ["en", "ar"])
@on_sqlite
def test_the_record_tells_the_tokens_of_a_prompt_before_and_after(open_memory: Open, name: str, language: str) -> None:
    memory = open_memory(settings=name)
    for turn in realistic_turns(language)[: 16 if name == "compact" else 40]:
        memory.add_many("talk", turn)
        memory.compress("talk")
    for version in memory.brief_versions("talk"):
        brief = memory.brief("talk", version=version["version"])
        assert brief is not None
        record = brief.record
        assert record["tokens_after"] == brief.tokens < record["tokens_before"]
        assert record["compression_ratio"] == round(1 - record["tokens_after"] / record["tokens_before"], 4)
        assert 0 < record["compression_ratio"] < 1
    context = memory.context("talk", "?")
    parts = {part["name"]: part["tokens"] for part in context.explain["parts"]}
    assert brief.tokens - 60 <= parts.get("summary", 0) + parts.get("important_data", 0) <= brief.tokens + 60


@on_sqlite
def test_a_brief_that_was_asked_for_and_saves_nothing_says_so(open_memory: Open) -> None:
    memory = open_memory(settings=Settings(memory_k_raw_turns=1))
    memory.add_many("trip", user_turns("I live in Lisbon and my dog is called Rex.", "Good night."))
    brief = memory.compress("trip", force=True)
    assert brief is not None
    assert brief.record["tokens_after"] == brief.tokens > brief.record["tokens_before"] > 0
    assert brief.record["compression_ratio"] == 0.0


def test_one_log_line_tells_the_milliseconds_of_the_call_and_of_the_save(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "recollect")
    memory: Memory = open_memory(settings="briefs", model=model)
    memory.add_many("trip", [one for turn in realistic_turns("en")[:40] for one in turn])
    memory.drain()
    (line,) = [one for record in caplog.records if (one := record.getMessage()).startswith("brief: ")]
    figures = dict(pair.split("=", 1) for pair in line.removeprefix("brief: ").split())
    brief = memory.brief("trip")
    assert brief is not None
    assert int(figures["ms"]) >= int(figures["call_ms"]) + int(figures["save_ms"]) >= 0
    assert (figures["model"], int(figures["turns"])) == (brief.model_used, 37)
    assert int(figures["tokens_before"]) == brief.record["tokens_before"] > 5000
    assert int(figures["tokens_after"]) == brief.tokens
    assert count_tokens(brief.narrative) < brief.tokens
