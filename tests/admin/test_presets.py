"""Each preset has its own numbers, under its name and its letter."""

from __future__ import annotations

import pytest

from recollect import InvalidInput, Memory, Settings
from recollect.brief.turn_sizes import active_triggers
from recollect.core.compression.triggers import Chunk, EveryAnswers, ManyMessages, ManyTokens, NewDay
from recollect.settings import preset


@pytest.mark.parametrize(
    ("letter", "name", "triggers", "policy", "budget"),
    [
        ("A", "compact", [ManyMessages(5, 3)], "tokens", 4000),
        ("B", "sessions", [ManyTokens(3000, 2500)], "words", 3000),
        ("C", "topics", [], "tokens", 3000),
        ("D", "briefs", [Chunk(6000, 3)], "tokens", 3000),
        ("E", "recall", [EveryAnswers(5)], "tokens", 3000),
    ],
)
def test_a_preset_has_its_own_numbers(letter: str, name: str, triggers: list[object], policy: str, budget: int) -> None:
    settings = preset(letter)
    assert preset(name) == preset(letter.lower()) == settings
    assert active_triggers(settings) == triggers
    assert (settings.narrative_policy, settings.memory_prompt_token_budget) == (policy, budget)


def test_presets_say_how_the_tail_and_the_narrative_are() -> None:
    by_name = {name: preset(name) for name in ("compact", "sessions", "topics", "briefs", "recall")}
    assert [name for name, settings in by_name.items() if settings.memory_tail_first] == ["briefs"]
    assert {name: settings.memory_k_raw_turns for name, settings in by_name.items()} == dict.fromkeys(by_name, 3) | {
        "compact": 2
    }
    assert [name for name, settings in by_name.items() if settings.narrative_form == "bullets"] == ["recall"]
    assert by_name["recall"].memory_summary_token_cap == 200
    assert (Settings().memory_tail_first, Settings().narrative_form) == (False, "prose")


def test_by_default_only_chunks_are_compressed() -> None:
    settings = Settings()
    assert active_triggers(settings) == [Chunk(6000, 3)]
    assert (settings.narrative_policy, settings.memory_summary_token_cap) == ("tokens", 500)
    assert settings.memory_prompt_token_budget == 3000


def test_the_recall_preset_has_its_own_weights() -> None:
    settings = preset("E")
    weights = (settings.rag_rerank_alpha, settings.rag_rerank_beta, settings.rag_rerank_gamma)
    assert weights == (0.6, 0.3, 0.1)
    assert settings.rag_token_budget == 1000


def test_variants_and_days_are_settings_too() -> None:
    settings = Settings(
        compress_tokens_above=3000,
        compress_tokens_until=1500,
        compress_daily=True,
        memory_chunk_summarize_threshold=0,
    )
    assert active_triggers(settings) == [ManyTokens(3000, 2500, 1500), NewDay()]


def test_an_unknown_preset_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="compact") as caught:
        Memory(":memory:", settings="Z")
    assert caught.value.code == "unknown_preset"


def test_what_a_preset_says_comes_from_the_constructor() -> None:
    with Memory(":memory:", settings="briefs", worker=False) as memory:
        assert memory.settings().memory_chunk_summarize_threshold == 6000
        assert memory.setting_origins()["memory_chunk_summarize_threshold"] == "constructor"
        assert memory.setting_origins()["rag_hybrid"] == "default"
