"""How often the preset `sessions` compresses: realistic talks, in English and in Arabic."""

from __future__ import annotations

from itertools import pairwise

import pytest

from recollect import Memory, Settings, count_tokens_for_messages
from recollect.testing import FakeModel
from support.realistic_talks import realistic_turns
from support.summaries import SYSTEM, Open, on_sqlite

LANGUAGES = pytest.mark.parametrize("language", ["en", "ar"])


def compressed_turns(memory: Memory, language: str, *, system_prompt: str = "") -> list[int]:
    """Add the turns of a talk one by one, and return the numbers of those after which something was compressed."""
    numbers = []
    for number, turn in enumerate(realistic_turns(language), start=1):
        memory.add_many("talk", turn)
        if system_prompt:
            memory.context("talk", "What comes next?", system_prompt=system_prompt)
        if memory.compress("talk") is not None:
            numbers.append(number)
    return numbers


def gaps_between(numbers: list[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(numbers)]


def test_the_talks_are_as_long_as_the_design_assumes() -> None:
    """15 to 20 turns reach 3000 tokens, and messages have 30 to 200."""
    for language in ("en", "ar"):
        turns = realistic_turns(language)
        assert len(turns) > 60
        assert 150 <= count_tokens_for_messages([one for turn in turns for one in turn]) / len(turns) <= 200
        sizes = [count_tokens_for_messages([one]) for turn in turns for one in turn]
        assert (min(sizes) >= 30, max(sizes) <= 200) == (True, True)


@LANGUAGES
def test_a_compression_of_the_sessions_preset_buys_ten_to_fifteen_turns(
    open_memory: Open, model: FakeModel | None, language: str
) -> None:
    memory = open_memory(settings="sessions", model=model)
    numbers = compressed_turns(memory, language)
    assert 15 <= numbers[0] <= 20
    assert len(numbers) >= 4
    assert all(10 <= gap <= 15 for gap in gaps_between(numbers)), numbers


@on_sqlite
def test_after_a_compression_a_third_of_the_threshold_is_left_with_the_brief(open_memory: Open) -> None:
    memory = open_memory(settings="sessions")
    for turn in realistic_turns("en"):
        memory.add_many("talk", turn)
        brief = memory.compress("talk")
        if brief is not None and brief.version <= 4:
            kept = [{"role": m.role, "content": m.content} for m in memory.history("talk") if m.seq > brief.through_seq]
            assert brief.tokens + count_tokens_for_messages(kept) <= 1000 + 188  # one turn stays in any case
            assert len(kept) >= 2


@on_sqlite
@pytest.mark.parametrize(("language", "words"), [("en", 900), ("ar", 100)])
def test_a_long_system_prompt_does_not_make_every_turn_a_compression(
    open_memory: Open, language: str, words: int
) -> None:
    memory = open_memory(settings="sessions")
    gaps = gaps_between(compressed_turns(memory, language, system_prompt="Answer with great care. " * (words // 4)))
    assert gaps
    assert all(8 <= gap <= 15 for gap in gaps), gaps


@on_sqlite
@pytest.mark.parametrize(
    "numbers",
    [
        {"compress_tokens_above": 3000, "compress_tokens_keep": 2900},
        {"compress_tokens_above": 3000, "compress_tokens_until": 2900},
    ],
    ids=str,
)
def test_no_choice_of_numbers_compresses_at_every_turn(open_memory: Open, numbers: dict[str, int]) -> None:
    memory = open_memory(settings=Settings(memory_chunk_summarize_threshold=0, **numbers))
    numbers_of_turns = compressed_turns(memory, "en")
    assert numbers_of_turns
    assert min(gaps_between(numbers_of_turns)) >= 3
    assert memory.context("talk", "What comes next?", system_prompt=SYSTEM).tokens <= 3000
