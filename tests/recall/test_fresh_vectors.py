"""Just now: what was said a moment ago is found by its meaning, before the worker has come to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import AsyncMemory, Memory, ProviderUnavailable
from recollect.core.language import analyser
from recollect.providers.minilm import MiniLM
from recollect.recall.fresh_vectors import MAX_FRESH_MESSAGES, MAX_FRESH_PASSAGES, MAX_KEPT
from recollect.testing import FakeClock, FakeEmbedder

Open = Callable[..., Memory]

TOLD = json.loads((Path(__file__).parents[1] / "data" / "recall" / "just_now.json").read_text("utf-8"))
AWAY = ProviderUnavailable("provider_unreachable", "nobody answers")


@pytest.fixture(scope="module")
def built_in() -> MiniLM:
    return MiniLM()


def by_meaning(memory: Memory, query: str, **options: Any) -> set[str]:
    """Return the ids of messages that recall finds with a part of their score from vectors."""
    found = memory.recall(query, limit=100, min_relevance=0, **options)
    return {str(hit.message_id) for hit in found if hit.why.get("dense")}


def add_numbered(memory: Memory, count: int, *, to: str = "talk") -> list[str]:
    return [memory.add(to, "user", f"message number {number}").id for number in range(count)]


def kept(memory: Memory) -> int:
    return len(memory._engine._recaller.fresh._rows)


class OnlyQuestions(FakeEmbedder):
    """Embeds single texts that end with a question mark, and fails for all others."""

    failed = 0  # calls

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not (len(texts) == 1 and texts[0].endswith("?")):
            self.failed += 1
            raise AWAY
        return await super().embed(texts)


# Found at once


def test_facts_and_questions_share_no_telling_word() -> None:
    for pair in TOLD["english"]:
        assert not set(analyser.query_words(pair["question"])) & set(analyser.words(pair["fact"])), pair
    assert len(TOLD["english"]) == 10


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "no worker"])
def test_a_fact_is_found_by_its_meaning_right_after_it_was_added(
    open_memory: Open, built_in: MiniLM, worker: bool
) -> None:
    memory = open_memory(worker=worker, embedder=built_in)
    for text in TOLD["chatter"]:
        memory.add("talk", "user", text)
    places = {}
    for pair in TOLD["english"]:
        added = memory.add("talk", "user", pair["fact"])
        found = memory.recall(pair["question"], conversation="talk")
        places[pair["fact"]] = [hit.message_id for hit in found].index(added.id)
        assert found[places[pair["fact"]]].why["dense"] > 0
        assert found.degraded == ()
        assert added.content in memory.context("talk", pair["question"]).text
    assert list(places.values()).count(0) >= 9
    assert max(places.values()) < 5


def test_a_fact_of_another_conversation_is_found_by_its_meaning_at_once(open_memory: Open, built_in: MiniLM) -> None:
    memory = open_memory(embedder=built_in)
    for number, pair in enumerate(TOLD["english"]):
        memory.add(f"talk-{number}", "user", pair["fact"])
    for number, pair in enumerate(TOLD["english"]):
        assert f"talk-{number}" in {hit.conversation for hit in memory.recall(pair["question"], limit=3)}
        assert pair["fact"] in memory.context("new", pair["question"]).text


# Bounds


def test_a_question_embeds_the_newest_sixteen_messages_and_says_nothing(open_memory: Open, clock: FakeClock) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    ids = []
    for number in range(MAX_FRESH_MESSAGES + 1):
        ids.append(memory.add("talk", "user", f"message number {number}").id)
        clock.advance(timedelta(seconds=1))
    assert by_meaning(memory, "message number") == set(ids[1:])
    assert memory.recall("message number").degraded == ()
    assert sum(map(len, embedder.calls)) == MAX_FRESH_MESSAGES + 1  # and the question
    oldest = memory.recall("message number 0", limit=50, min_relevance=0)
    assert ids[0] in [hit.message_id for hit in oldest]  # by its words


@pytest.mark.parametrize("in_one_call", [True, False])
def test_of_messages_from_one_moment_those_added_last_are_the_newest(open_memory: Open, in_one_call: bool) -> None:
    memory = open_memory()
    texts = [f"message number {number}" for number in range(MAX_FRESH_MESSAGES + 4)]
    if in_one_call:
        ids = [one.id for one in memory.add_many("talk", [{"role": "user", "content": text} for text in texts])]
    else:
        ids = [memory.add("talk", "user", text).id for text in texts]
    assert by_meaning(memory, "message number") == set(ids[-MAX_FRESH_MESSAGES:])


def test_the_newest_of_all_conversations_are_embedded(open_memory: Open, clock: FakeClock) -> None:
    memory = open_memory()
    ids = []
    for number in range(30):
        ids.append(memory.add(f"talk-{number % 5}", "user", f"message number {number}").id)
        clock.advance(timedelta(seconds=1))
    assert by_meaning(memory, "message number") == set(ids[-MAX_FRESH_MESSAGES:])


def test_a_question_says_when_most_messages_have_no_vectors(open_memory: Open) -> None:
    memory = open_memory()
    add_numbered(memory, 2 * MAX_FRESH_MESSAGES + 8)
    assert memory.recall("message number").degraded == ("vectors",)
    assert "vectors" in memory.context("talk", "message number").degraded
    memory.drain()
    assert memory.recall("message number").degraded == ()


def test_long_messages_do_not_keep_others_from_being_embedded(open_memory: Open) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    short = memory.add("talk", "user", "The ferry leaves at nine.")
    long = memory.add("talk", "user", "\n\n".join(f"Paragraph {n}. " + "word " * 120 for n in range(40)))
    assert by_meaning(memory, "ferry") == {short.id}
    assert max(map(len, embedder.calls)) <= MAX_FRESH_PASSAGES
    assert long.id in {hit.message_id for hit in memory.recall("paragraph", min_relevance=0)}


def test_system_messages_and_messages_without_words_take_no_place(open_memory: Open, clock: FakeClock) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    fact = memory.add("talk", "user", "The ferry leaves at nine.")
    for text in ("", "  \n", "…"):
        for role in ("system", "user"):
            clock.advance(timedelta(seconds=1))
            memory.add("talk", role, text)
    for number in range(MAX_FRESH_MESSAGES + 1):
        clock.advance(timedelta(seconds=1))
        memory.add("talk", "system", f"Rule {number}: never mention ferries.")
    assert by_meaning(memory, "When does the ferry leave?") == {fact.id}
    assert not any("Rule" in text for call in embedder.calls for text in call)


def test_vectors_are_made_once_and_not_again_for_each_question(open_memory: Open) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    add_numbered(memory, 3)
    for question in ("one", "two", "three"):
        memory.recall(question)
        memory.context("talk", question)
    texts = [text for call in embedder.calls for text in call]
    assert sorted(texts) == sorted(["message number 0", "message number 1", "message number 2", "one", "two", "three"])


def test_what_is_kept_is_bounded(open_memory: Open) -> None:
    memory = open_memory()
    for batch in range(MAX_KEPT // MAX_FRESH_MESSAGES + 2):
        for number in range(MAX_FRESH_MESSAGES):
            memory.add(f"talk-{batch}", "user", f"message {batch} {number}")
        memory.recall("message", conversation=f"talk-{batch}", min_relevance=0)
    assert kept(memory) <= MAX_KEPT


# The worker's vectors


def test_scores_stay_the_same_once_the_worker_has_made_the_vectors(open_memory: Open, built_in: MiniLM) -> None:
    memory = open_memory(embedder=built_in)
    for number, pair in enumerate(TOLD["english"]):
        memory.add("talk", "user" if number % 3 else "assistant", pair["fact"], name=(None, "Sara")[number % 2])
    memory.add("talk", "user", "خالي سعيد عنده حساسية من المكسرات.")
    long = "\n\n".join(f"{pair['fact']} " * 10 for pair in TOLD["english"][:2])
    memory.add("talk", "user", long)
    questions = [pair["question"] for pair in TOLD["english"]]
    before = [{hit.message_id: hit for hit in memory.recall(one, limit=20, min_relevance=0)} for one in questions]
    assert memory.drain().complete
    assert kept(memory) > 0
    after = [{hit.message_id: hit for hit in memory.recall(one, limit=20, min_relevance=0)} for one in questions]
    for early, late in zip(before, after, strict=True):
        assert early.keys() == late.keys()
        for message_id, hit in early.items():
            assert late[message_id].why == pytest.approx(hit.why, abs=1e-5)
            assert (late[message_id].score, late[message_id].relevance) == pytest.approx(
                (hit.score, hit.relevance), abs=1e-3
            )


def test_new_messages_wait_for_the_worker_while_another_embedder_takes_over(location: str, open_memory: Open) -> None:
    first = open_memory(embedder=FakeEmbedder(64))
    old = first.add("talk", "user", "The ferry leaves at nine.")
    first.drain()
    second = open_memory(embedder=FakeEmbedder(32))
    new = second.add("talk", "user", "The ferry is late.")
    found = second.recall("ferry", min_relevance=0)
    assert {hit.message_id for hit in found} == {old.id, new.id}  # by words
    assert "dense" not in {part for hit in found for part in hit.why}
    assert found.degraded == ("embedder_changed",)
    second.drain()
    assert by_meaning(second, "ferry") == {old.id, new.id}


# Erasing


@pytest.mark.parametrize("by", ["message", "conversation", "person"])
def test_erased_messages_are_not_found_and_their_vectors_are_forgotten(open_memory: Open, by: str) -> None:
    memory = open_memory()
    gone = memory.add("talk", "user", "The ferry leaves at nine.")
    stays = memory.add("other", "user", "The bus leaves at ten.")
    assert by_meaning(memory, "ferry leaves") == {gone.id, stays.id}
    memory.erase(**{by: {"message": gone.id, "conversation": "talk", "person": "local"}[by]})
    assert kept(memory) == 0
    assert gone.id not in by_meaning(memory, "ferry leaves")
    assert gone.content not in memory.context("new", "When does the ferry leave?").text


class Interrupted(FakeEmbedder):
    """Calls a function before it embeds, once, on another thread."""

    before: Callable[[], object] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        before, self.before = self.before, None
        if before is not None:
            await asyncio.to_thread(before)
        return await super().embed(texts)


def test_a_question_is_answered_although_something_is_erased_while_it_embeds(open_memory: Open) -> None:
    embedder = Interrupted()
    memory, other = open_memory(embedder=embedder), open_memory()
    memory.add("talk", "user", "The ferry leaves at nine.")
    memory.recall("ferry")  # the first message has vectors now, the second none
    second = memory.add("talk", "user", "The ferry is late.")
    other.add("elsewhere", "user", "to be erased")
    embedder.before = lambda: memory.erase(conversation="elsewhere")
    assert second.id in by_meaning(memory, "ferry late")
    assert kept(memory) == 0  # what was being made may be of a text that is erased now


# Failures


def test_an_embedder_that_fails_degrades_and_does_not_raise(open_memory: Open) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    fact = memory.add("talk", "user", "The ferry leaves at nine.")
    embedder.failure = AWAY
    found = memory.recall("ferry")
    assert found.degraded == ("embedder",)
    assert [hit.message_id for hit in found] == [fact.id]
    assert fact.content in memory.context("talk", "ferry").text
    embedder.failure = None
    assert by_meaning(memory, "ferry") == {fact.id}


@pytest.mark.parametrize("failure", [AWAY, ValueError("odd"), KeyError("x")], ids=["away", "value", "key"])
def test_an_embedder_that_fails_for_new_messages_alone_leaves_the_others_as_they_are(
    open_memory: Open, failure: Exception
) -> None:
    embedder = FakeEmbedder()
    memory = open_memory(embedder=embedder)
    old = add_numbered(memory, 5)
    memory.drain()
    memory.recall("message ferry")  # the vector of the question is kept
    new = memory.add("talk", "user", "A ferry message.")
    embedder.failure = failure
    found = memory.recall("message ferry", limit=50, min_relevance=0)
    assert {hit.message_id for hit in found} == {*old, new.id}
    assert found.degraded == ("embedder",)
    assert by_meaning(memory, "message ferry") == set(old)


def test_an_embedder_that_failed_for_new_messages_is_not_asked_again_for_the_other_conversations(
    open_memory: Open,
) -> None:
    embedder = OnlyQuestions()
    memory = open_memory(embedder=embedder)
    add_numbered(memory, 3)
    memory.add("new", "user", "Hello.")
    found = memory.recall("What was message number 2?", conversation="new")
    assert len(found) >= 3
    assert found.degraded == ("embedder", "vectors")
    assert embedder.failed == 1


# Persons


def test_nothing_of_one_person_reaches_another_through_kept_vectors(location: str) -> None:
    """Two people of one open memory share the vectors that are kept, but only those of texts that both wrote."""

    async def run() -> None:
        embedder = FakeEmbedder()
        sara = AsyncMemory(location, worker=False, embedder=embedder, person="sara")
        omar = sara.of("omar")
        await sara.add("talk", "user", "My bank account is 1234.", id="secret")
        await sara.add("talk", "user", "Good morning.", id="greeting")
        assert {hit.message_id for hit in await sara.recall("bank account")} >= {"secret"}
        assert len(await omar.recall("bank account")) == 0
        await omar.add("talk", "user", "Good morning.", id="own")
        found = await omar.recall("bank account morning", limit=50, min_relevance=0)
        assert {hit.message_id for hit in found} == {"own"}
        assert "1234" not in (await omar.context("talk", "What is the bank account?")).text
        await omar.erase(person="omar")
        assert {hit.message_id for hit in await sara.recall("bank account")} >= {"secret"}
        await sara.close()

    asyncio.run(run())
