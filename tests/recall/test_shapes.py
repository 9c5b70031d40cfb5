"""Any shape of data: who has which role and name makes no difference to what is found.

Chats come from people and assistants with and without names, from rooms without roles, and from imports with the roles
the other way round. Each talk is told in every shape, and no shape may find less than the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from bench.cache import CachedEmbedder
from bench.figures import Figures, mean, score_ranking
from bench.shapes import SHAPES

from recollect import Memory
from recollect.recall.question import NEUTRAL_LEAN, parse_question
from recollect.testing import FakeEmbedder
from support.recall_cases import Talk, read_talks, tell_talks

Message = dict[str, Any]
Tell = Callable[[Iterable[Message]], list[Message]]

SMALL_SET_QUESTIONS = 100  # with fewer questions than this, one question is more than a point
ROLES = ("user", "assistant")


@pytest.fixture(scope="module")
def embedder() -> CachedEmbedder:
    """The built-in embedder. A text that several shapes tell in the same way is embedded once."""
    return CachedEmbedder(None)


def with_roles(choose: Callable[[int, str], str]) -> Tell:
    """Return a function that gives each message a role, by the number of its speaker and the role it had."""

    def tell(messages: Iterable[Message]) -> list[Message]:
        messages = list(messages)
        names = list(dict.fromkeys(message["name"] for message in messages))
        return [one | {"role": choose(names.index(one["name"]), one["role"])} for one in messages]

    return tell


ROOMS: dict[str, Tell] = {
    "as told": list,
    "all users": with_roles(lambda speaker, role: "user"),
    "all assistants": with_roles(lambda speaker, role: "assistant"),
    "roles reversed": with_roles(lambda speaker, role: ROLES[role == "user"]),
    "first is the assistant": with_roles(lambda speaker, role: ROLES[speaker == 0]),
    "every other is an assistant": with_roles(lambda speaker, role: ROLES[speaker % 2]),
}
PAIRS: dict[str, Tell] = {name: shape.tell for name, shape in SHAPES.items()}


def measure(talks: Sequence[Talk], tell: Tell, embedder: Any) -> list[Figures]:
    """Return the figures of each question to talks that are told in a shape."""
    with Memory(":memory:", worker=False, embedder=embedder) as memory:
        tell_talks(memory, talks, tell)
        figures = []
        for talk in talks:
            for question, evidence in talk.questions:
                ranked = [str(hit.message_id) for hit in memory.recall(question, conversation=talk.id, limit=20)]
                expected = [talk.message_id(number) for number in evidence]
                figures.append(score_ranking(ranked, expected, 10) | score_ranking(ranked, expected, 5))
        return figures


def check_losses(figures: dict[str, list[Figures]], metrics: Sequence[str]) -> None:
    """Assert that no shape finds fewer than one question less than the shape that finds most."""
    for metric in metrics:
        counts = {name: round(sum(one[metric] for one in own)) for name, own in figures.items()}
        size = len(next(iter(figures.values())))
        print(f"\n{metric} of {size}: {counts}")
        allowed = max(1, size // SMALL_SET_QUESTIONS)
        for name, count in counts.items():
            assert max(counts.values()) - count <= allowed, (metric, name)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["english", "arabic"])
def test_a_talk_with_an_assistant_is_recalled_alike_in_every_shape(embedder: CachedEmbedder, language: str) -> None:
    talks = read_talks("told_talks", language)
    figures = {name: measure(talks, tell, embedder) for name, tell in PAIRS.items()}
    check_losses(figures, ("any@10", "all@5"))
    assert min(mean(own, "all@5") for own in figures.values()) >= 0.9


@pytest.mark.slow
def test_questions_with_many_answers_lose_nothing_by_names(embedder: CachedEmbedder) -> None:
    talks = read_talks("lists", "stories")
    figures = {name: measure(talks, tell, embedder) for name, tell in PAIRS.items()}
    check_losses(figures, ("any@10", "all@10", "all@5"))
    ranks = {name: mean(own, "mrr") for name, own in figures.items()}
    assert min(ranks.values()) >= ranks["unnamed"] - 0.01  # the first that is found stands no lower
    assert min(mean(own, "any@10") for own in figures.values()) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("key", ["meetings", "rooms"])
def test_a_room_is_recalled_alike_whatever_the_roles_are(embedder: CachedEmbedder, key: str) -> None:
    talks = read_talks("shapes", key) + (read_talks("told_talks", "room") if key == "meetings" else [])
    figures = {name: measure(talks, tell, embedder) for name, tell in ROOMS.items()}
    check_losses(figures, ("any@10", "all@10", "all@5"))
    assert min(mean(own, "any@10") for own in figures.values()) >= 0.93


@pytest.mark.parametrize("shape", ["roles reversed", "both named, roles reversed", "names without roles"])
def test_roles_alone_never_change_a_score(shape: str) -> None:
    same = {"roles reversed": "unnamed"}.get(shape, "both named")
    talks = read_talks("told_talks", "english") + read_talks("told_talks", "arabic")
    scores = []
    for name in (same, shape):
        with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
            tell_talks(memory, talks, SHAPES[name].tell)
            scores.append(
                [
                    {hit.message_id: hit.why for hit in memory.recall(question, limit=30, min_relevance=0)}
                    for talk in talks
                    for question, _ in talk.questions
                ]
            )
    assert scores[0] == scores[1]


def test_a_question_that_names_somebody_prefers_what_they_said() -> None:
    """Whatever the role of the one who is named."""
    for roles in (("user", "user"), ("user", "assistant"), ("assistant", "user")):
        with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
            for role, name in zip(roles, ("Sara", "Omar"), strict=True):
                memory.add("room", role, "I bring the salad and the bread to the party.", name=name, id=name)
            memory.drain()
            assert memory.recall("What does Omar bring to the party?")[0].message_id == "Omar"
            assert memory.recall("What does Sara bring to the party?")[0].message_id == "Sara"
            assert "speaker" not in memory.recall("What do Sara and Omar bring to the party?")[0].why


def test_the_brief_speaker_is_taken_for_the_person_in_any_shape() -> None:
    """Prefer who writes briefly for a question about oneself, and who writes at length for one about advice."""
    advice = "You could take the night train to Vienna, which is cheaper than the plane and leaves you the whole day. "
    for name, shape in SHAPES.items():
        with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
            rows = []
            for number in range(6):
                rows.append({"role": "user", "content": f"Trip {number}: the train to Vienna.", "id": f"p{number}"})
                rows.append({"role": "assistant", "content": f"Trip {number}: {advice * 3}", "id": f"a{number}"})
            memory.add_many("trip", shape.tell(rows))
            memory.drain()
            parts = {
                question: {
                    str(hit.message_id)[0]: hit.why.get("role", 0.0)
                    for hit in memory.recall(question, limit=12, min_relevance=0)
                }
                for question in ("Which train do I take to Vienna?", "Which train did you recommend to Vienna?")
            }
            mine, yours = parts.values()
            assert mine["p"] > mine["a"], name
            assert yours["a"] > yours["p"], name


@pytest.mark.parametrize(
    ("question", "lean"),
    [
        ("What did you recommend?", 0.0),
        ("Which hotel did you really suggest to me?", 0.0),
        ("You told me about a train, which one?", 0.0),
        ("بماذا نصحتني؟", 0.0),
        ("Which train do I take?", 1.0),
        ("Did I tell you about the train?", 1.0),
        ("What did you do today?", NEUTRAL_LEAN),
        ("When does the train leave?", NEUTRAL_LEAN),
    ],
)
def test_a_question_says_whose_words_it_asks_for(question: str, lean: float) -> None:
    assert parse_question(question).lean == lean
