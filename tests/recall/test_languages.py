"""Languages with the built-in embedder: Arabic by meaning, other scripts by words, and no pretending."""

from __future__ import annotations

import pytest

from recollect import Memory

ARABIC = ["أختي تعيش في باريس.", "نسيت كلمة المرور.", "الاجتماع يوم الثلاثاء.", "أحب شرب القهوة في الصباح."]
ENGLISH = ["My sister lives in Paris.", "I forgot my password.", "The meeting is on Tuesday.", "I like coffee at dawn."]
RUSSIAN = [
    "Моя сестра живёт в Лиссабоне вместе с двумя собаками.",
    "Какую погоду обещают на завтра в Москве?",
    "Не могу вспомнить пароль от своей почты.",
    "Где можно купить хороший чай недалеко от дома?",
]


def tell(memory: Memory, texts: list[str], name: str = "talk") -> None:
    memory.add_many(name, [{"role": "user", "content": text} for text in texts])
    assert memory.drain().complete


@pytest.fixture
def built_in() -> Memory:
    return Memory(":memory:", worker=False)


@pytest.mark.parametrize(
    ("told", "question", "expected"),
    [
        (ARABIC, "Where does my sister live?", 0),
        (ARABIC, "What do I drink?", 3),
        (ENGLISH, "أين تسكن أختي؟", 0),
        (ENGLISH, "متى الاجتماع؟", 2),
        (ARABIC, "ما هو مشروبي المفضل؟", 3),
    ],
)
def test_english_and_arabic_find_each_other_by_meaning(
    built_in: Memory, told: list[str], question: str, expected: int
) -> None:
    with built_in as memory:
        tell(memory, told)
        recalled = memory.recall(question)

        assert recalled[0].text == told[expected]
        assert recalled[0].why["dense"] > 0
        assert recalled.degraded == ()


def test_a_question_that_cannot_be_read_is_answered_by_words_and_says_so(built_in: Memory) -> None:
    with built_in as memory:
        tell(memory, [*ENGLISH, *RUSSIAN[:1]])

        recalled = memory.recall("Где живёт сестра?")

        assert recalled.degraded == ("language",)
        assert recalled[0].text == RUSSIAN[0]
        assert "dense" not in recalled[0].why
        assert memory.recall("Where does my sister live?").degraded == ()


def test_a_readable_question_to_messages_that_cannot_be_read_says_so_too(built_in: Memory) -> None:
    with built_in as memory:
        tell(memory, [*RUSSIAN, ENGLISH[0]])

        assert memory.recall("Where does my sister live?").degraded == ("language",)


def test_what_cannot_be_read_is_similar_to_nothing(built_in: Memory) -> None:
    with built_in as memory:
        tell(memory, RUSSIAN, "old")
        tell(memory, ["hello"], "new")

        assert memory.similar("new", RUSSIAN[2]) == []
        assert memory.similar("new", "Где мой пароль от почты?") == []
        assert memory.similar("new", "Where is my password?") == []


def test_what_cannot_be_read_is_one_topic_and_what_can_is_several(built_in: Memory) -> None:
    with built_in as memory:
        tell(memory, RUSSIAN, "russian")
        tell(memory, ARABIC, "arabic")

        assert len(memory.topics("russian")) == 1
        assert len(memory.topics("arabic")) > 1
