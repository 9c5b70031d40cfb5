"""Chat: what is said is stored, then answered with memory, then the answer is stored."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from recollect import count_tokens_for_messages
from recollect.testing import FakeClock
from support.fault_server import Reply
from support.serving import Served, Told, bytes_of, made, told
from support.upstream import ANSWER, ModelServer, Trouble

CANARY = "zanzibarcanary"


def _answering(served: Served) -> Any:
    """A model that notes what was stored when it was asked."""
    seen: list[list[tuple[str, str]]] = []

    def answer(asked: Any) -> str:
        seen.append(served.said("trip"))
        return f"answer {len(seen)}"

    return answer, seen


def test_the_question_is_stored_before_the_model_is_asked_and_the_answer_after(location: str) -> None:
    with ModelServer() as model, made(location, model) as served:
        model.answer, seen = _answering(served)
        first = served.chat("trip", "I am allergic to peanuts.")
        second = served.chat("trip", "What can I not eat?")
        assert seen == [
            [("user", "I am allergic to peanuts.")],
            [("user", "I am allergic to peanuts."), ("assistant", "answer 1"), ("user", "What can I not eat?")],
        ]
        assert served.said("trip") == [*seen[1], ("assistant", "answer 2")]
        assert first.events[0][0] == "sources"
        assert first.sources["message"]["content"] == "I am allergic to peanuts."
        assert second.done["message"]["seq"] == 4
        assert second.done["message"]["metadata"]["answers"] == second.sources["message"]["id"]


def test_the_model_is_asked_with_memory_and_with_the_question_last_and_once(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        for number in range(12):
            served.chat("trip", f"Fact number {number}: the ferry of day {number} has {number * 7} seats.")
        served.chat("trip", "How many seats has the ferry of day 1?", system_prompt="Be brief.")
        asked = model.asked[-1]
        assert asked["model"] == "gpt-test"
        assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
        assert asked["messages"][-1] == {"role": "user", "content": "How many seats has the ferry of day 1?"}
        texts = [one["content"] for one in asked["messages"]]
        assert sum("How many seats has the ferry of day 1?" in text for text in texts) == 1
        assert any("day 1 has 7 seats" in text for text in texts)


def test_sources_and_times_say_what_memory_did_for_an_answer(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        for number in range(12):
            served.chat("trip", f"Fact number {number}: the ferry of day {number} has {number * 7} seats.")
        told = served.chat("trip", "How many seats has the ferry of day 1?", budget=900)
        context, ms = told.sources["context"], told.done["ms"]
        assert 0 < context["tokens"] <= context["budget"] == 900
        assert 0 < context["ms"] <= ms["first"] <= ms["total"]
        assert ms["context"] == context["ms"]
        assert {source["part"] for source in told.sources["sources"]} & {"recall", "summary", "important_data"}
        assert told.done["model"] == told.done["message"]["model_variant"] == "gpt-test"


def test_each_answer_says_which_model_wrote_it_when_models_change_in_the_middle(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        served.chat("trip", "one")
        served.chat("trip", "two", model="gpt-other")
        served.chat("trip", "three", model="recollect")
        served.chat("trip", "four")
        variants = [one.model_variant for one in served.history("trip") if one.role == "assistant"]
        assert variants == ["gpt-test", "gpt-other", "recollect", "gpt-test"]
        assert [asked["model"] for asked in model.asked] == ["gpt-test", "gpt-other", "gpt-test"]
        assert [one.model_variant for one in served.history("trip") if one.role == "user"] == [None] * 4


# On, read, off


@pytest.mark.parametrize("built_in", [True, False])
def test_with_memory_off_not_one_byte_is_stored_and_nothing_is_remembered(built_in: bool, location: str) -> None:
    with ModelServer(f"{CANARY} answered") as model, made(location, model) as served:
        served.chat("trip", "I am allergic to peanuts.", model="recollect")
        before = served.said("trip")
        past = [{"role": "user", "content": f"{CANARY} before"}, {"role": "assistant", "content": f"{CANARY} too"}]
        told = served.chat(
            "trip",
            f"{CANARY}: What can I not eat?",
            memory="off",
            history=past,
            model="recollect" if built_in else None,
        )
        assert told.done["error"] is None
        assert told.done["message"] is None
        assert "peanuts" not in told.text
        if not built_in:
            assert told.text == f"{CANARY} answered"
            sent = [one for one in model.asked[-1]["messages"] if one["role"] != "system"]
            assert sent == [*past, {"role": "user", "content": f"{CANARY}: What can I not eat?"}]
        assert served.said("trip") == before
    assert CANARY.encode() not in bytes_of(location)


@pytest.mark.parametrize("built_in", [True, False])
def test_with_memory_read_it_is_used_and_nothing_is_stored(built_in: bool, location: str) -> None:
    with ModelServer(f"{CANARY} answered") as model, made(location, model) as served:
        served.chat("trip", "I am allergic to peanuts.", model="recollect")
        before = served.said("trip")
        told = served.chat(
            "trip", f"What am I allergic to, {CANARY}?", memory="read", model="recollect" if built_in else None
        )
        assert told.done["message"] is None
        if built_in:
            assert "I am allergic to peanuts." in told.text
        else:
            assert any("allergic to peanuts" in one["content"] for one in model.asked[-1]["messages"])
        assert served.said("trip") == before
    assert CANARY.encode() not in bytes_of(location)


@pytest.mark.parametrize(
    "memory",
    [
        "read",
        "off",
    ],
)
def test_the_tokens_that_are_told_are_those_of_the_whole_prompt(memory: str, db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        served.chat("trip", "I am allergic to peanuts.")
        past = [{"role": "user", "content": "word " * 500}, {"role": "assistant", "content": "word " * 500}]
        told = served.chat("trip", "What am I allergic to?", memory=memory, history=past)
        assert told.sources["context"]["tokens"] == count_tokens_for_messages(model.asked[-1]["messages"])


def test_there_is_nothing_to_retry_where_nothing_is_stored(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        for memory in ("read", "off"):
            assert served.chat("trip", retry=True, memory=memory).status == 422
        assert served.chat("trip", retry=True).status == 404
        assert served.chat("trip", "  ").status == 422


# The built-in assistant


def test_the_built_in_assistant_quotes_with_dates_and_says_that_no_model_is_set(location: str) -> None:
    clock = FakeClock()
    with made(location, clock=clock) as served:
        served.chat("trip", "I am allergic to peanuts.")
        clock.advance(timedelta(days=3))
        told = served.chat("trip", "What am I allergic to?")
        assert "1 Jan 2026" in told.text
        assert "“I am allergic to peanuts.”" in told.text
        assert "No model is set" in told.text
        assert told.done["model"] == told.done["message"]["model_variant"] == "recollect"
        assert told.done["finish_reason"] == "stop"


def test_the_built_in_assistant_quotes_what_was_said_last_while_it_cannot_be_found_by_meaning(location: str) -> None:
    with made(location) as served:
        served.chat("trip", "I am allergic to peanuts.")
        other = served.complete("Which dishes should be avoided?", model="recollect", user="elsewhere").json()
        for text in (
            served.chat("trip", "Which dishes should be avoided?").text,
            other["choices"][0]["message"]["content"],
        ):
            assert "still being indexed" in text
            assert "you said: “I am allergic to peanuts.”" in text
            assert "“Which dishes" not in text
        assert "“I am allergic to peanuts.”" in served.chat("another", "Which dishes should be avoided?").text
        served.wait(served.memory.drain())
        assert "still being indexed" not in served.chat("trip", "Which dishes should be avoided?").text
        assert served.chat("fresh", "Which dishes should be avoided?").text.startswith(
            ("This is", "I remember nothing")
        )


def test_answers_of_the_built_in_assistant_are_never_remembered_as_something_that_was_said(location: str) -> None:
    with made(location, clock=FakeClock()) as served:
        for number in range(8):
            served.chat("trip", f"I am allergic to peanuts and to fruit number {number}.")
        served.complete("What am I allergic to?", model="recollect", user="trip")
        served.complete("What am I allergic to?", model="recollect", user="trip", stream=True)
        own = {one.id for one in served.history("trip") if one.role == "assistant"}
        assert len(own) == 10
        served.wait(served.memory.drain())
        for query in ("What am I allergic to?", "No model is set", "This is what I remember", "RECOLLECT_MODEL_URL"):
            for params in ({"q": query, "limit": 50}, {"q": query, "limit": 50, "conversation": "trip"}):
                hits = served.client.get("/api/v1/recall", params=params).json()["hits"]
                assert not own & {hit["message_id"] for hit in hits}
                assert "No model is set" not in str([hit["text"] for hit in hits])
            context = served.client.post("/api/v1/conversations/trip/context", json={"query": query}).json()
            memory = [part for part in context["explain"]["parts"] if part["name"] != "tail"]
            assert not own & {item.get("message_id") for part in memory for item in part["items"]}
        brief = served.client.post("/api/v1/conversations/trip/compress", json={"force": True}).json()
        assert "allergic" in str(brief["ledger"]) + brief["narrative"]
        told = brief["narrative"] + str(brief["ledger"]) + str(brief["record"])
        for words in ("No model is set", "This is what I remember", "RECOLLECT_MODEL_URL"):
            assert words not in told
        assert not own & {source for sources in brief["grounding"].values() for source in sources}


# Once


def test_a_hundred_repeats_at_once_are_one_question_and_one_answer_and_all_hear_the_same(location: str) -> None:
    """The model says something else each time it is asked, and is asked once."""
    asked = []

    def answer(body: Any) -> str:
        asked.append(body)
        return f"answer {len(asked)}"

    async def ask_often(served: Served) -> list[Told]:
        async def ask(client: Any) -> Told:
            body, headers = {"content": "Only once, please."}, {"Idempotency-Key": "once"}
            reply = await client.post("/api/v1/conversations/trip/chat", json=body, headers=headers)
            return told(reply)

        async with served.new_async_client() as client:
            return await asyncio.gather(*(ask(client) for _ in range(100)))

    with ModelServer(answer) as model, made(location, model, server_streams=1000) as served:
        heard = asyncio.run(ask_often(served))
        assert {one.status for one in heard} == {200}
        assert served.said("trip") == [("user", "Only once, please."), ("assistant", "answer 1")]
        assert {one.done["message"]["id"] for one in heard} == {served.history("trip")[1].id}
        assert len(asked) == 1
        assert {one.text for one in heard} == {"answer 1"}


def test_a_repeat_after_the_answer_hears_it_again_and_another_body_is_a_conflict(location: str) -> None:
    with ModelServer() as model, made(location, model) as served:
        key = {"Idempotency-Key": "once"}
        first = served.chat("trip", "Only once.", headers=key)
        again = served.chat("trip", "Only once.", headers=key)
        assert again.text == first.text == ANSWER
        assert again.done["message"] == first.done["message"]
        assert served.chat("trip", "Something else.", headers=key).status == 409
        assert served.chat("other", "Only once.", headers=key).status == 409
        assert len(model.asked) == 1
        assert len(served.said("trip")) == 2


def test_a_repeat_is_answered_from_the_log_however_long_ago_it_was(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        key = {"Idempotency-Key": "once"}
        first = served.chat("trip", "Only once.", headers=key)
        many = [{"role": "user", "content": f"message {number}"} for number in range(120)]
        served.client.post("/api/v1/conversations/trip/messages", json={"messages": many})
        model.answer = "something else"
        assert served.chat("trip", "Only once.", headers=key).text == first.text


def test_a_repeat_of_an_answer_that_broke_off_says_that_it_did(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        key = {"Idempotency-Key": "once"}
        model.then(Trouble.CUT)
        first = served.chat("trip", "Only once.", headers=key)
        assert first.done["error"] is not None
        again = served.chat("trip", "Only once.", headers=key)
        assert again.done["finish_reason"] != "stop" or again.text == ANSWER


def test_a_retry_with_a_key_is_done_once_too(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        served.chat("trip", "A question.")
        for _ in range(3):
            served.chat("trip", retry=True, headers={"Idempotency-Key": "retry"})
        assert [role for role, _ in served.said("trip")] == ["user", "assistant", "assistant"]


def test_messages_with_a_key_are_stored_once_however_often_they_come_at_once(location: str) -> None:
    async def add_often(served: Served) -> list[Any]:
        async with served.new_async_client() as client:
            body, key = {"role": "user", "content": "Only once."}, {"Idempotency-Key": "once"}
            path = "/api/v1/conversations/trip/messages"
            return await asyncio.gather(*(client.post(path, json=body, headers=key) for _ in range(100)))

    with made(location) as served:
        replies = asyncio.run(add_often(served))
        assert {(reply.status_code, reply.text) for reply in replies} == {(201, replies[0].text)}
        assert served.said("trip") == [("user", "Only once.")]


def test_a_key_that_was_forgotten_and_is_used_again_loses_no_message(db: str) -> None:
    clock = FakeClock()
    with made(db, clock=clock) as served:
        path, key = "/api/v1/conversations/trip/messages", {"Idempotency-Key": "1"}
        served.client.post(path, json={"role": "user", "content": "in January"}, headers=key)
        clock.advance(timedelta(days=8))
        reply = served.client.post(path, json={"role": "user", "content": "a week later"}, headers=key)
        assert reply.status_code == 409 or ("user", "a week later") in served.said("trip")


# Again


def test_a_retry_does_not_show_the_old_answer_to_the_model_and_both_are_kept(location: str) -> None:
    with ModelServer(f"{CANARY} is the first answer") as model, made(location, model) as served:
        served.chat("trip", "I am allergic to peanuts.", model="recollect")
        served.chat("trip", "What can I not eat?")
        model.answer = "the second answer"
        told = served.chat("trip", retry=True)
        assert told.text == "the second answer"
        assert CANARY not in str(model.asked[-1])
        assert model.asked[-1]["messages"][-1] == {"role": "user", "content": "What can I not eat?"}
        answers = [one for one in served.history("trip") if one.role == "assistant"][1:]
        assert [one.content for one in answers] == [f"{CANARY} is the first answer", "the second answer"]
        assert len({one.metadata["answers"] for one in answers}) == 1
        served.chat("trip", "Thank you.")
        assert "the second answer" in str(model.asked[-1])


def test_a_retry_keeps_the_old_answer_out_of_what_is_recalled_from_elsewhere(db: str, model: ModelServer) -> None:
    """Long after, when the tail does not reach it."""
    with made(db, model) as served:
        for number in range(30):
            served.chat("trip", f"Fact {number}: the hotel of day {number} is called House {number}.")
        model.answer = f"the hotel is called {CANARY}"
        served.chat("trip", "What is the hotel of day 3 called?")
        served.wait(served.memory.drain())
        model.answer = "House 3"
        served.chat("trip", retry=True)
        assert CANARY not in str(model.asked[-1])


# Limits


def test_no_more_answers_are_written_at_once_for_a_person_than_are_allowed(db: str, model: ModelServer) -> None:
    with made(db, model, server_streams=1) as served:
        model.then(Trouble.WAIT)
        path = "/api/v1/conversations/trip/chat"
        with served.client.stream("POST", path, json={"content": "one"}) as reply:
            assert model.is_waiting.wait(10)
            refused = served.new_client().post(path, json={"content": "two"})
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert int(refused.headers["retry-after"]) >= 1
            model.go_on()
            reply.read()
        assert served.chat("trip", "three").text == ANSWER
        assert ("user", "two") not in served.said("trip")


def test_streams_of_the_openai_api_count_as_well(db: str, model: ModelServer) -> None:
    with made(db, model, server_streams=1) as served:
        model.then(Trouble.WAIT)
        body = {"messages": [{"role": "user", "content": "one"}], "stream": True}
        with served.client.stream("POST", "/v1/chat/completions", json=body) as reply:
            assert model.is_waiting.wait(10)
            refused = served.complete("two", stream=True, client=served.new_client())
            model.go_on()
            reply.read()
        assert refused.status_code == 429


def test_whole_answers_count_as_well_and_no_longer_than_they_take(db: str, model: ModelServer) -> None:
    with made(db, model, server_streams=1) as served, ThreadPoolExecutor(1) as pool:
        model.then(Trouble.WAIT)
        first = pool.submit(served.complete, "one", client=served.new_client())
        assert model.is_waiting.wait(10)
        refused = [served.complete("two", stream=stream).status_code for stream in (False, True)]
        refused.append(served.chat("trip", "three").status)
        model.go_on()
        assert first.result(20).status_code == 200
        assert refused == [429, 429, 429]
        for stream in (False, True, False):
            assert served.complete("four", stream=stream).status_code == 200
        model.then(Reply(400, b'{"error": {"message": "no"}}'))
        assert served.complete("five", stream=True).status_code == 400
        assert served.chat("trip", "six").text == ANSWER


def test_memory_that_cannot_be_read_does_not_keep_a_chat_from_its_answer(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.memory import AsyncMemory

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the index is gone")

    with made(db, model) as served:
        monkeypatch.setattr(AsyncMemory, "context", fail)
        told = served.chat("trip", "Are you there?", system_prompt="Be brief.")
        assert told.text == ANSWER
        assert told.sources["context"]["degraded"] == ["memory"]
        roles = [one["role"] for one in model.asked[-1]["messages"]]
        assert roles == ["system", "user"]
        assert served.said("trip") == [("user", "Are you there?"), ("assistant", ANSWER)]


def test_a_prompt_too_big_for_its_budget_is_told_and_the_question_kept(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        told = served.chat("trip", "Are you there?", system_prompt="word " * 1000, budget=300)
        assert told.done["error"]["code"] == "budget_too_small"
        assert served.said("trip") == [("user", "Are you there?")]
        assert model.asked == []


def test_two_people_with_conversations_of_one_name_hear_only_their_own(location: str) -> None:
    with ModelServer() as model, made(location, model) as served:
        sara = served.new_client(served.key("sara"))
        omar = served.new_client(served.key("omar"))
        served.chat("trip", f"{CANARY} is my secret.", client=sara)
        model.then(Trouble.WAIT)
        stopped: list[Any] = []
        with sara.stream("POST", "/api/v1/conversations/trip/chat", json={"content": "Go on."}) as reply:
            assert model.is_waiting.wait(10)
            stopped.append(omar.post("/api/v1/conversations/trip/chat/stop").json())
            model.go_on()
            assert "stopped" in reply.read().decode()
        assert stopped == [{"stopped": 0}]
        assert served.history("trip", "sara")[-1].content == ANSWER
        told = served.chat("trip", "What is my secret?", client=omar)
        assert CANARY not in told.reply.text
        assert CANARY not in str(model.asked[-1])


def test_a_failure_of_the_store_after_the_answer_is_told_with_the_answer(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.core.errors import StoreUnavailable
    from recollect.memory import AsyncMemory

    submit = AsyncMemory.submit

    def fail(self: AsyncMemory, conversation: str, messages: Any) -> Any:
        if messages[0]["role"] == "assistant":
            raise StoreUnavailable("disk_full", "The disk is full.")
        return submit(self, conversation, messages)

    with made(db, model) as served:
        monkeypatch.setattr(AsyncMemory, "submit", fail)
        told = served.chat("trip", "Are you there?")
        assert told.text == ANSWER
        assert told.done["error"]["code"] == "disk_full"
        assert told.done["message"] is None


def test_a_question_that_cannot_be_stored_is_refused_and_the_model_not_asked(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.core.errors import StoreUnavailable
    from recollect.memory import AsyncMemory

    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("disk_full", "The disk is full.")

    with made(db, model) as served:
        monkeypatch.setattr(AsyncMemory, "submit", fail)
        told = served.chat("trip", "Are you there?")
        assert (told.status, told.reply.json()["code"]) == (503, "disk_full")
        assert model.asked == []


def test_an_erase_leaves_nothing_of_what_the_server_keeps_beside_the_log(location: str) -> None:
    """Names of conversations that were stopped, and keys of requests."""
    with made(location) as served:
        for name in (f"{CANARY}one", f"{CANARY}two"):
            served.chat(name, "hello")
            served.client.post(f"/api/v1/conversations/{name}/chat/stop")
        served.chat("plain", "hello", headers={"Idempotency-Key": f"{CANARY}-key"})
        receipt = served.client.delete(f"/api/v1/conversations/{CANARY}one")
        assert receipt.status_code == 200
        assert f"{CANARY}one".encode() not in bytes_of(location)
        assert served.client.delete("/api/v1/memory", params={"confirm": "everything"}).status_code == 200
    assert CANARY.encode() not in bytes_of(location)


def test_the_limit_of_the_model_is_told_with_when_to_come_again(db: str, model: ModelServer) -> None:
    with made(db, model) as served:
        model.then(Reply(429, headers={"Retry-After": "7"}))
        error = served.chat("trip", "Are you there?").done["error"]
        assert (error["code"], error["retryable"]) == ("provider_rate_limited", True)
