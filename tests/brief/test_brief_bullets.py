"""The narrative as bullet points of at most 200 tokens, as the preset `recall` wants it."""

from __future__ import annotations

import pytest

from recollect import Memory, Settings, count_tokens
from recollect.core.compression.brief import Brief
from recollect.core.compression.narrative import split_bullets
from recollect.recall.prompt.fence import parse_fence
from recollect.testing import FakeModel, ModelCall
from support.realistic_talks import realistic_turns
from support.summaries import Open, new_sentences, on_sqlite, prompt_layout, reply, sound_brief, user_turns


def bullet_reply(call: ModelCall) -> str:
    """Return some sentences of the new turns as bullets, one of them with two sentences, and one that nobody said."""
    said = [one for one in new_sentences(prompt_layout(call)) if 5 < len(one.split()) < 18][:6]
    lines = [f"- {said[0]} {said[1]}", *(f"* {one}" for one in said[2:]), "- The user owns a castle in Scotland."]
    return reply("\n".join(lines))


def talk(memory: Memory, language: str, turns: int) -> Brief:
    for turn in realistic_turns(language)[:turns]:
        memory.add_many("talk", turn)
        memory.drain(briefs=False)
        memory.compress("talk")
    return sound_brief(memory, "talk")


def check_bullets(brief: Brief) -> None:
    lines = brief.narrative.split("\n")
    assert count_tokens(brief.narrative) <= 200
    assert len(lines) == len(brief.statements) >= 3
    assert all(line.startswith("- ") and len(line) > 5 for line in lines)
    assert all(brief.grounding[str(number)] for number in range(len(lines)))


@pytest.mark.parametrize("language", ["en", "ar"])
def test_the_recall_preset_writes_bullets_of_at_most_200_tokens(
    open_memory: Open, location: str, language: str
) -> None:
    """SQLite without a model, PostgreSQL with one."""
    model = FakeModel(bullet_reply) if location.startswith("postgresql:") else None
    memory = open_memory(settings="recall", model=model)
    brief = talk(memory, language, 16)
    ids = {message.id for message in memory.history("talk")}
    check_bullets(brief)
    assert {source for statement in brief.statements for source in statement.sources} <= ids
    assert "castle" not in brief.narrative
    if model is not None:
        assert brief.model_used == model.name
        assert brief.dropped
        assert "bullet points" in str(model.calls[0].messages[0]["content"])
        tasks = [str(call.messages[0]["content"]) for call in model.calls]
        assert any("at most 200 tokens" in task for task in tasks)


def test_bullets_are_stored_and_read_back_as_bullets(open_memory: Open) -> None:
    memory = open_memory(settings="recall")
    brief = talk(memory, "en", 12)
    memory.close()
    again = open_memory(settings="recall").brief("talk")
    assert again == brief
    assert again is not None
    assert again.to_dict()["form"] == "bullets"


@on_sqlite
def test_a_line_of_a_model_stands_on_all_messages_of_its_sentences(open_memory: Open) -> None:
    lines = (
        "- The user lives in Riyadh. The user is allergic to peanuts.",
        "2) The user plays the oud in a band.",
        "• Nothing.",
    )
    text = "\n\n".join(lines)
    memory = open_memory(
        settings=Settings(memory_k_raw_turns=1, narrative_form="bullets"), model=FakeModel(lambda _: reply(text))
    )
    said = ("I live in Riyadh.", "I am allergic to peanuts.", "I play the oud in a band.", "Good night.")
    memory.add_many("trip", user_turns(*said))
    memory.compress("trip", force=True)
    brief = sound_brief(memory)
    assert brief.narrative == (
        "- The user lives in Riyadh. The user is allergic to peanuts.\n- The user plays the oud in a band."
    )
    assert [statement.sources for statement in brief.statements] == [("s0", "s2"), ("s4",)]


@on_sqlite
def test_the_prompt_shows_the_bullets_as_lines_inside_the_fence(open_memory: Open) -> None:
    memory = open_memory(settings="recall")
    brief = talk(memory, "en", 32)
    context = memory.context("talk", "What comes next?")
    fenced = next(one["content"] for one in context.messages if one["content"].startswith("<memory>"))
    block = fenced[: fenced.index("</memory>") + len("</memory>")]
    (summary,) = [found.text for found in parse_fence(block) if found.part == "summary"]
    assert summary == f"\n{brief.narrative}"
    assert f"\n {brief.narrative.splitlines()[1]}\n" in block
    assert context.tokens <= 3000


@on_sqlite
def test_other_presets_write_prose(open_memory: Open) -> None:
    memory = open_memory(settings="sessions")
    brief = talk(memory, "en", 20)
    assert brief.form == "prose"
    assert "\n" not in brief.narrative


def test_marks_of_any_kind_are_taken_off() -> None:
    assert split_bullets("- one\n* two\n • three\n4. four\n5) five\n– six\nseven\n\n  \n-eight") == [
        "one", "two", "three", "four", "five", "six", "seven", "-eight",
    ]  # fmt: skip
