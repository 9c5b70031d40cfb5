"""The record of a brief: the main goal, key facts without repetition, and its names in every face."""

from __future__ import annotations

from itertools import pairwise

import pytest

from recollect import Settings
from recollect.core.compression.record import drop_repetitions
from recollect.testing import FakeClock, FakeModel
from support.realistic_talks import realistic_turns
from support.summaries import Open, on_sqlite, prompt_layout, reply, sound_brief, user_turns

EVERY_TURN = Settings(memory_k_raw_turns=1)


@on_sqlite
@pytest.mark.parametrize("name", ["compact", "sessions", "recall"])
@pytest.mark.parametrize(("language", "goal"), [("en", "renovate the kitchen"), ("ar", "أجدد مطبخ شقتنا")])
def test_the_intent_stays_the_main_goal_over_all_versions(
    open_memory: Open, name: str, language: str, goal: str
) -> None:
    memory = open_memory(settings=name)
    for turn in realistic_turns(language)[:18]:  # the first of the projects
        memory.add_many("talk", turn)
        memory.compress("talk")
    memory.compress("talk", force=True)
    versions = memory.brief_versions("talk")
    assert versions
    for version in versions:
        brief = memory.brief("talk", version=version["version"])
        assert brief is not None
        assert goal in brief.record["intent"]


@on_sqlite
@pytest.mark.parametrize(
    ("texts", "goal"),
    [
        (
            (
                "Hello there! I'd like to plan our wedding at the vineyard near Siena.",
                "How many guests fit into the vineyard? The wedding is in May.",
                "I want to buy new headphones too, by the way.",
                "Which flowers go with a wedding in a vineyard?",
                "I have to go to bed now.",
            ),
            "wedding",
        ),
        (
            (
                "I need to book a dentist appointment for Monday.",
                "Done, thanks. Now I want to write a novel about a lighthouse keeper.",
                "The lighthouse keeper of the novel is called Ada, and the lighthouse stands on a rock.",
                "In chapter two of the novel Ada leaves the lighthouse for a night.",
                "How should the novel end? The lighthouse keeper may come back.",
            ),
            "novel",
        ),
        (
            (
                "I'm trying to fix the sink this week.",
                "My main goal is to sell the house before the summer.",
                "The sink still drips, and the sink was new.",
            ),
            "sell the house",
        ),
        (
            (
                "مرحبا! أريد أن أتعلم العزف على العود هذا العام.",
                "كم ساعة أتدرب على العود كل أسبوع؟",
                "أريد أن أشتري قهوة في الطريق.",
                "أي مقام أبدأ به في العزف على العود؟",
            ),
            "العود",
        ),
        (("Good morning! Which trains go to Bergen on Sundays?", "And how long do they take?", "Thanks."), "Bergen"),
    ],
)
def test_the_intent_is_what_the_conversation_keeps_to_and_not_what_was_said_last(
    open_memory: Open, texts: tuple[str, ...], goal: str
) -> None:
    memory = open_memory(settings=EVERY_TURN)
    for number, text in enumerate(texts):
        memory.add_many("trip", user_turns(text, first=2 * number))
        if number % 2:
            memory.compress("trip", force=True)
    memory.add_many("trip", user_turns("Good night.", first=100))
    memory.compress("trip", force=True)
    assert goal in sound_brief(memory).record["intent"]


@on_sqlite
@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("name", ["compact", "sessions", "briefs", "recall"])
def test_key_facts_are_two_or_three_and_none_repeats_another(open_memory: Open, name: str, language: str) -> None:
    memory = open_memory(settings=name)
    for turn in realistic_turns(language)[: 20 if name in ("compact", "recall") else 40]:
        memory.add_many("talk", turn)
        memory.compress("talk")
    versions = memory.brief_versions("talk")
    assert versions
    for version in versions:
        brief = memory.brief("talk", version=version["version"])
        assert brief is not None
        facts = brief.record["key_facts"]
        assert 2 <= len(facts) <= 3
        assert drop_repetitions(facts) == facts
        assert not any(fact.endswith(("?", "؟")) for fact in facts)


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        (["budget 6,400 euros", "The user: My total budget is 6,400 euros and I have five hours."], 1),
        (["bought ten litres of RAL 9010", "I bought the primer and ten litres of RAL 9010 for 118 euros"], 1),
        (["حساسية من الفول السوداني", "مهمة: عندي حساسية من الفول السوداني، فلا أريد منه شيئا"], 1),
        (["lives in Lisbon", "lives in Lisbon.", "The user lives in Lisbon."], 1),
        (["lives in Lisbon", "works in Porto", "allergic to nuts"], 3),
        (["رقم الطلب SA-48213", "الموعد يوم 21 أغسطس"], 2),
    ],
)
def test_texts_that_say_the_same_count_as_repetitions(facts: list[str], kept: int) -> None:
    assert drop_repetitions(facts) == facts[:kept]


@on_sqlite
def test_key_facts_of_a_model_are_kept_without_repetition(open_memory: Open) -> None:
    said = ["I live in Lisbon near the river.", "My dog is called Rex.", "I play the cello."]
    facts = ["The user lives in Lisbon near the river.", "Lives in Lisbon.", "The dog is called Rex.", said[2]]
    model = FakeModel(lambda call: reply(" ".join(said), key_facts=facts, intent="I play the cello."))
    memory = open_memory(settings=EVERY_TURN, model=model)
    memory.add_many("trip", user_turns(*said, "Good night."))
    memory.compress("trip", force=True)
    assert sound_brief(memory).record["key_facts"] == [facts[0], facts[2], facts[3]]
    task = str(model.calls[0].messages[0]["content"])
    assert "main goal in the whole conversation" in task
    assert prompt_layout(model.calls[0])


def test_a_brief_names_its_version_and_its_moment_as_json_too(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory(settings=EVERY_TURN)
    for number in range(2):
        memory.add_many("trip", user_turns("I live in Lisbon.", "Good night.", first=10 * number))
        memory.compress("trip", force=True)
    stored = sound_brief(memory).to_dict()
    assert (stored["summary_version"], stored["version"]) == (2, 2)
    assert stored["last_summarized_at"] == stored["created_at"] == clock.now().isoformat()


@on_sqlite
def test_arabic_sentences_have_arabic_speakers(open_memory: Open) -> None:
    memory = open_memory(settings="sessions")
    memory.add_many("talk", [one for turn in realistic_turns("ar")[:20] for one in turn])
    memory.compress("talk")
    narrative = sound_brief(memory, "talk").narrative
    assert "The user" not in narrative
    assert "The assistant" not in narrative
    assert "المستخدم: " in narrative


@on_sqlite
def test_the_narrative_of_each_version_keeps_what_was_told_first(open_memory: Open) -> None:
    memory = open_memory(settings="sessions")
    briefs = []
    for turn in realistic_turns("en")[:50]:
        memory.add_many("talk", turn)
        if brief := memory.compress("talk"):
            briefs.append(brief)
    assert len(briefs) >= 3
    assert all("kitchen" in brief.narrative for brief in briefs)
    assert all(earlier.version + 1 == later.version for earlier, later in pairwise(briefs))
