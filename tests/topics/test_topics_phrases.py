"""With the built-in embedder: phrases that an assistant says to everything do not glue topics together."""

from __future__ import annotations

import pytest

from recollect import Memory

QUESTIONS = (
    "How do I get red wine out of a wool carpet?",
    "Which documents do I need for a residence permit in Germany?",
    "Explain how a hash map resolves collisions.",
    "What should I plant on a shady balcony in March?",
    "My bike chain keeps slipping under load, why?",
    "Write a polite reminder for an unpaid invoice.",
)
PHRASES = {
    "the same": ("Sure, I can help with that! Let me know if you have any other questions.",) * 6,
    "in other words": (
        "Sure, I can help with that!",
        "Of course! I'd be happy to help you with that.",
        "Certainly, I can help you with that. Let me know if you need anything else.",
        "Great question! I'm happy to help with this.",
        "Absolutely, happy to help! Just let me know if anything is unclear.",
        "Sure thing! Let me help you with that right away.",
    ),
}
ANSWERS = (
    "Blot the wine stain, then work cold water and wool soap into the carpet.",
    "For the permit you need your passport, an insurance certificate and proof of income.",
    "A hash map keeps colliding keys in a list for each bucket, or probes the next slot.",
    "On a shady balcony ferns and hostas do well if you plant them in March.",
    "A worn chain or cassette lets the bike's chain slip when you push hard.",
    "Dear Sir, our invoice is still unpaid; may we kindly remind you of it?",
)


@pytest.mark.parametrize("phrases", PHRASES)
def test_phrases_that_fit_any_question_do_not_glue_topics(phrases: str) -> None:
    with Memory(":memory:", worker=False) as memory:
        for question, phrase in zip(QUESTIONS, PHRASES[phrases], strict=True):
            memory.add("talk", "user", question)
            memory.add("talk", "assistant", phrase)
        memory.drain()
        assert {topic.title for topic in memory.topics("talk")} == set(QUESTIONS)


def test_an_answer_still_belongs_to_the_topic_of_its_question() -> None:
    with Memory(":memory:", worker=False) as memory:
        for question, phrase, answer in zip(QUESTIONS, PHRASES["the same"], ANSWERS, strict=True):
            memory.add("talk", "user", question)
            memory.add("talk", "assistant", phrase)
            memory.add("talk", "assistant", answer)
        memory.drain()
        topics = memory.topics("talk")
        assert {topic.title: topic.messages for topic in topics} == dict.fromkeys(QUESTIONS, 3)
