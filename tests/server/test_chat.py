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
from support.serving import ChatReply, RunningServer, make_server, parse_chat_reply, read_all_bytes
from support.upstream import ANSWER, ModelServer, Trouble

CANARY = "zanzibarcanary"


def _answering(server: RunningServer) -> Any:
    """Return a model's answer function, and the list in which it keeps what was stored at each request."""
    seen: list[list[tuple[str, str]]] = []

    def answer(asked: Any) -> str:
        seen.append(server.dialogue("trip"))
        return f"answer {len(seen)}"

    return answer, seen


def test_the_question_is_stored_before_the_model_is_asked_and_the_answer_after(location: str) -> None:
    with ModelServer() as model, make_server(location, model) as server:
        model.answer, seen = _answering(server)
        first = server.chat("trip", "I am allergic to peanuts.")
        second = server.chat("trip", "What can I not eat?")
        assert seen == [
            [("user", "I am allergic to peanuts.")],
            [("user", "I am allergic to peanuts."), ("assistant", "answer 1"), ("user", "What can I not eat?")],
        ]
        assert server.dialogue("trip") == [*seen[1], ("assistant", "answer 2")]
        assert first.events[0][0] == "sources"
        assert first.sources["message"]["content"] == "I am allergic to peanuts."
        assert second.done["message"]["seq"] == 4
        assert second.done["message"]["metadata"]["answers"] == second.sources["message"]["id"]


def test_the_model_is_asked_with_memory_and_with_the_question_last_and_once(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        for number in range(12):
            server.chat("trip", f"Fact number {number}: the ferry of day {number} has {number * 7} seats.")
        server.chat("trip", "How many seats has the ferry of day 1?", system_prompt="Be brief.")
        asked = model.bodies[-1]
        assert asked["model"] == "gpt-test"
        assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
        assert asked["messages"][-1] == {"role": "user", "content": "How many seats has the ferry of day 1?"}
        texts = [message["content"] for message in asked["messages"]]
        assert sum("How many seats has the ferry of day 1?" in text for text in texts) == 1
        assert any("day 1 has 7 seats" in text for text in texts)


def test_sources_and_times_say_what_memory_did_for_an_answer(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        for number in range(12):
            server.chat("trip", f"Fact number {number}: the ferry of day {number} has {number * 7} seats.")
        reply = server.chat("trip", "How many seats has the ferry of day 1?", budget=900)
        context, ms = reply.sources["context"], reply.done["ms"]
        assert 0 < context["tokens"] <= context["budget"] == 900
        assert 0 < context["ms"] <= ms["first"] <= ms["total"]
        assert ms["context"] == context["ms"]
        assert {source["part"] for source in reply.sources["sources"]} & {"recall", "summary", "important_data"}
        assert reply.done["model"] == reply.done["message"]["model_variant"] == "gpt-test"


def test_each_answer_says_which_model_wrote_it_when_models_change_in_the_middle(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat("trip", "one")
        server.chat("trip", "two", model="gpt-other")
        server.chat("trip", "three", model="recollect")
        server.chat("trip", "four")
        variants = [message.model_variant for message in server.history("trip") if message.role == "assistant"]
        assert variants == ["gpt-test", "gpt-other", "recollect", "gpt-test"]
        assert [asked["model"] for asked in model.bodies] == ["gpt-test", "gpt-other", "gpt-test"]
        assert [message.model_variant for message in server.history("trip") if message.role == "user"] == [None] * 4


# Memory on, read, off


@pytest.mark.parametrize("built_in", [True, False])
def test_with_memory_off_not_one_byte_is_stored_and_nothing_is_remembered(built_in: bool, location: str) -> None:
    with ModelServer(f"{CANARY} answered") as model, make_server(location, model) as server:
        server.chat("trip", "I am allergic to peanuts.", model="recollect")
        before = server.dialogue("trip")
        past = [{"role": "user", "content": f"{CANARY} before"}, {"role": "assistant", "content": f"{CANARY} too"}]
        reply = server.chat(
            "trip",
            f"{CANARY}: What can I not eat?",
            memory="off",
            history=past,
            model="recollect" if built_in else None,
        )
        assert reply.done["error"] is None
        assert reply.done["message"] is None
        assert "peanuts" not in reply.text
        if not built_in:
            assert reply.text == f"{CANARY} answered"
            sent = [message for message in model.bodies[-1]["messages"] if message["role"] != "system"]
            assert sent == [*past, {"role": "user", "content": f"{CANARY}: What can I not eat?"}]
        assert server.dialogue("trip") == before
    assert CANARY.encode() not in read_all_bytes(location)


@pytest.mark.parametrize("built_in", [True, False])
def test_with_memory_read_it_is_used_and_nothing_is_stored(built_in: bool, location: str) -> None:
    with ModelServer(f"{CANARY} answered") as model, make_server(location, model) as server:
        server.chat("trip", "I am allergic to peanuts.", model="recollect")
        before = server.dialogue("trip")
        reply = server.chat(
            "trip", f"What am I allergic to, {CANARY}?", memory="read", model="recollect" if built_in else None
        )
        assert reply.done["message"] is None
        if built_in:
            assert "I am allergic to peanuts." in reply.text
        else:
            assert any("allergic to peanuts" in message["content"] for message in model.bodies[-1]["messages"])
        assert server.dialogue("trip") == before
    assert CANARY.encode() not in read_all_bytes(location)


@pytest.mark.parametrize(
    "memory",
    [
        "read",
        "off",
    ],
)
def test_the_reported_tokens_are_those_of_the_whole_prompt(memory: str, db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat("trip", "I am allergic to peanuts.")
        past = [{"role": "user", "content": "word " * 500}, {"role": "assistant", "content": "word " * 500}]
        reply = server.chat("trip", "What am I allergic to?", memory=memory, history=past)
        assert reply.sources["context"]["tokens"] == count_tokens_for_messages(model.bodies[-1]["messages"])


def test_there_is_nothing_to_retry_where_nothing_is_stored(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        for memory in ("read", "off"):
            assert server.chat("trip", retry=True, memory=memory).status == 422
        assert server.chat("trip", retry=True).status == 404
        assert server.chat("trip", "  ").status == 422


# Idempotency


def test_a_hundred_repeats_at_once_store_one_question_and_one_answer_and_all_get_the_same_answer(location: str) -> None:
    """The model answers differently each time, so a second request to it would show."""
    asked = []

    def answer(body: Any) -> str:
        asked.append(body)
        return f"answer {len(asked)}"

    async def ask_often(server: RunningServer) -> list[ChatReply]:
        async def ask(client: Any) -> ChatReply:
            body, headers = {"content": "Only once, please."}, {"Idempotency-Key": "once"}
            reply = await client.post("/api/v1/conversations/trip/chat", json=body, headers=headers)
            return parse_chat_reply(reply)

        async with server.new_async_client() as client:
            return await asyncio.gather(*(ask(client) for _ in range(100)))

    with ModelServer(answer) as model, make_server(location, model, server_streams=1000) as server:
        replies = asyncio.run(ask_often(server))
        assert {reply.status for reply in replies} == {200}
        assert server.dialogue("trip") == [("user", "Only once, please."), ("assistant", "answer 1")]
        assert {reply.done["message"]["id"] for reply in replies} == {server.history("trip")[1].id}
        assert len(asked) == 1
        assert {reply.text for reply in replies} == {"answer 1"}


def test_a_repeat_after_the_answer_gets_it_again_and_another_body_is_a_conflict(location: str) -> None:
    with ModelServer() as model, make_server(location, model) as server:
        key = {"Idempotency-Key": "once"}
        first = server.chat("trip", "Only once.", headers=key)
        again = server.chat("trip", "Only once.", headers=key)
        assert again.text == first.text == ANSWER
        assert again.done["message"] == first.done["message"]
        assert server.chat("trip", "Something else.", headers=key).status == 409
        assert server.chat("other", "Only once.", headers=key).status == 409
        assert len(model.bodies) == 1
        assert len(server.dialogue("trip")) == 2


def test_a_repeat_is_answered_from_the_log_however_long_ago_it_was(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        key = {"Idempotency-Key": "once"}
        first = server.chat("trip", "Only once.", headers=key)
        many = [{"role": "user", "content": f"message {number}"} for number in range(120)]
        server.client.post("/api/v1/conversations/trip/messages", json={"messages": many})
        model.answer = "something else"
        assert server.chat("trip", "Only once.", headers=key).text == first.text


def test_a_repeat_of_an_answer_that_broke_off_is_marked_as_incomplete(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        key = {"Idempotency-Key": "once"}
        model.then(Trouble.CUT)
        first = server.chat("trip", "Only once.", headers=key)
        assert first.done["error"] is not None
        again = server.chat("trip", "Only once.", headers=key)
        assert again.done["finish_reason"] != "stop" or again.text == ANSWER


def test_a_retry_with_an_idempotency_key_is_done_once_too(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat("trip", "A question.")
        for _ in range(3):
            server.chat("trip", retry=True, headers={"Idempotency-Key": "retry"})
        assert [role for role, _ in server.dialogue("trip")] == ["user", "assistant", "assistant"]


def test_messages_with_an_idempotency_key_are_stored_once_however_often_they_come_at_once(location: str) -> None:
    async def add_often(server: RunningServer) -> list[Any]:
        async with server.new_async_client() as client:
            body, key = {"role": "user", "content": "Only once."}, {"Idempotency-Key": "once"}
            path = "/api/v1/conversations/trip/messages"
            return await asyncio.gather(*(client.post(path, json=body, headers=key) for _ in range(100)))

    with make_server(location) as server:
        replies = asyncio.run(add_often(server))
        assert {(reply.status_code, reply.text) for reply in replies} == {(201, replies[0].text)}
        assert server.dialogue("trip") == [("user", "Only once.")]


def test_an_idempotency_key_that_is_used_again_after_it_was_deleted_loses_no_message(db: str) -> None:
    clock = FakeClock()
    with make_server(db, clock=clock) as server:
        path, key = "/api/v1/conversations/trip/messages", {"Idempotency-Key": "1"}
        server.client.post(path, json={"role": "user", "content": "in January"}, headers=key)
        clock.advance(timedelta(days=8))
        reply = server.client.post(path, json={"role": "user", "content": "a week later"}, headers=key)
        assert reply.status_code == 409 or ("user", "a week later") in server.dialogue("trip")


# Retry


def test_a_retry_does_not_show_the_old_answer_to_the_model_and_both_are_kept(location: str) -> None:
    with ModelServer(f"{CANARY} is the first answer") as model, make_server(location, model) as server:
        server.chat("trip", "I am allergic to peanuts.", model="recollect")
        server.chat("trip", "What can I not eat?")
        model.answer = "the second answer"
        reply = server.chat("trip", retry=True)
        assert reply.text == "the second answer"
        assert CANARY not in str(model.bodies[-1])
        assert model.bodies[-1]["messages"][-1] == {"role": "user", "content": "What can I not eat?"}
        answers = [message for message in server.history("trip") if message.role == "assistant"][1:]
        assert [message.content for message in answers] == [f"{CANARY} is the first answer", "the second answer"]
        assert len({message.metadata["answers"] for message in answers}) == 1
        server.chat("trip", "Thank you.")
        assert "the second answer" in str(model.bodies[-1])


def test_a_retry_does_not_recall_the_old_answer(db: str, model: ModelServer) -> None:
    """The old answer is older than the tail reaches."""
    with make_server(db, model) as server:
        for number in range(30):
            server.chat("trip", f"Fact {number}: the hotel of day {number} is called House {number}.")
        model.answer = f"the hotel is called {CANARY}"
        server.chat("trip", "What is the hotel of day 3 called?")
        server.run(server.memory.drain())
        model.answer = "House 3"
        server.chat("trip", retry=True)
        assert CANARY not in str(model.bodies[-1])


# Limits


def test_a_person_has_at_most_as_many_answers_at_once_as_are_allowed(db: str, model: ModelServer) -> None:
    with make_server(db, model, server_streams=1) as server:
        model.then(Trouble.WAIT)
        path = "/api/v1/conversations/trip/chat"
        with server.client.stream("POST", path, json={"content": "one"}) as reply:
            assert model.is_waiting.wait(300)
            refused = server.new_client().post(path, json={"content": "two"})
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert int(refused.headers["retry-after"]) >= 1
            model.resume()
            reply.read()
        assert server.chat("trip", "three").text == ANSWER
        assert ("user", "two") not in server.dialogue("trip")


def test_streams_of_the_openai_api_count_towards_the_limit(db: str, model: ModelServer) -> None:
    with make_server(db, model, server_streams=1) as server:
        model.then(Trouble.WAIT)
        body = {"messages": [{"role": "user", "content": "one"}], "stream": True}
        with server.client.stream("POST", "/v1/chat/completions", json=body) as reply:
            assert model.is_waiting.wait(300)
            refused = server.complete("two", stream=True, client=server.new_client())
            model.resume()
            reply.read()
        assert refused.status_code == 429


def test_whole_answers_count_towards_the_limit_while_they_are_written(db: str, model: ModelServer) -> None:
    with make_server(db, model, server_streams=1) as server, ThreadPoolExecutor(1) as pool:
        model.then(Trouble.WAIT)
        first = pool.submit(server.complete, "one", client=server.new_client())
        assert model.is_waiting.wait(300)
        refused = [server.complete("two", stream=stream).status_code for stream in (False, True)]
        refused.append(server.chat("trip", "three").status)
        model.resume()
        assert first.result(300).status_code == 200
        assert refused == [429, 429, 429]
        for stream in (False, True, False):
            assert server.complete("four", stream=stream).status_code == 200
        model.then(Reply(400, b'{"error": {"message": "no"}}'))
        assert server.complete("five", stream=True).status_code == 400
        assert server.chat("trip", "six").text == ANSWER


def test_a_chat_is_answered_also_if_memory_cannot_be_read(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.memory import AsyncMemory

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the index is gone")

    with make_server(db, model) as server:
        monkeypatch.setattr(AsyncMemory, "context", fail)
        reply = server.chat("trip", "Are you there?", system_prompt="Be brief.")
        assert reply.text == ANSWER
        assert reply.sources["context"]["degraded"] == ["memory"]
        roles = [message["role"] for message in model.bodies[-1]["messages"]]
        assert roles == ["system", "user"]
        assert server.dialogue("trip") == [("user", "Are you there?"), ("assistant", ANSWER)]


def test_a_system_prompt_too_big_for_the_budget_is_an_error_and_the_question_is_stored(
    db: str, model: ModelServer
) -> None:
    with make_server(db, model) as server:
        reply = server.chat("trip", "Are you there?", system_prompt="word " * 1000, budget=300)
        assert reply.done["error"]["code"] == "budget_too_small"
        assert server.dialogue("trip") == [("user", "Are you there?")]
        assert model.bodies == []


def test_two_people_with_conversations_of_the_same_name_get_only_their_own(location: str) -> None:
    with ModelServer() as model, make_server(location, model) as server:
        sara = server.new_client(server.new_key("sara"))
        omar = server.new_client(server.new_key("omar"))
        server.chat("trip", f"{CANARY} is my secret.", client=sara)
        model.then(Trouble.WAIT)
        stopped: list[Any] = []
        with sara.stream("POST", "/api/v1/conversations/trip/chat", json={"content": "Go on."}) as reply:
            assert model.is_waiting.wait(300)
            stopped.append(omar.post("/api/v1/conversations/trip/chat/stop").json())
            model.resume()
            assert "stopped" in reply.read().decode()
        assert stopped == [{"stopped": 0}]
        assert server.history("trip", "sara")[-1].content == ANSWER
        omars = server.chat("trip", "What is my secret?", client=omar)
        assert CANARY not in omars.reply.text
        assert CANARY not in str(model.bodies[-1])


def test_an_answer_that_cannot_be_stored_is_sent_and_followed_by_the_error(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.core.errors import StoreUnavailable
    from recollect.memory import AsyncMemory

    submit = AsyncMemory.submit

    def fail(self: AsyncMemory, conversation: str, messages: Any, **options: Any) -> Any:
        if messages[0]["role"] == "assistant":
            raise StoreUnavailable("disk_full", "The disk is full.")
        return submit(self, conversation, messages, **options)

    with make_server(db, model) as server:
        monkeypatch.setattr(AsyncMemory, "submit", fail)
        reply = server.chat("trip", "Are you there?")
        assert reply.text == ANSWER
        assert reply.done["error"]["code"] == "disk_full"
        assert reply.done["message"] is None


def test_a_question_that_cannot_be_stored_is_refused_and_the_model_not_asked(
    db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.core.errors import StoreUnavailable
    from recollect.memory import AsyncMemory

    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("disk_full", "The disk is full.")

    with make_server(db, model) as server:
        monkeypatch.setattr(AsyncMemory, "submit", fail)
        reply = server.chat("trip", "Are you there?")
        assert (reply.status, reply.reply.json()["code"]) == (503, "disk_full")
        assert model.bodies == []


def test_an_erase_also_deletes_stop_marks_and_idempotency_keys(location: str) -> None:
    with make_server(location) as server:
        for name in (f"{CANARY}one", f"{CANARY}two"):
            server.chat(name, "hello")
            server.client.post(f"/api/v1/conversations/{name}/chat/stop")
        server.chat("plain", "hello", headers={"Idempotency-Key": f"{CANARY}-key"})
        receipt = server.client.delete(f"/api/v1/conversations/{CANARY}one")
        assert receipt.status_code == 200
        assert f"{CANARY}one".encode() not in read_all_bytes(location)
        assert server.client.delete("/api/v1/memory", params={"confirm": "everything"}).status_code == 200
    assert CANARY.encode() not in read_all_bytes(location)


def test_a_rate_limit_of_the_model_is_reported_as_retryable(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        model.then(Reply(429, headers={"Retry-After": "7"}))
        error = server.chat("trip", "Are you there?").done["error"]
        assert (error["code"], error["retryable"]) == ("provider_rate_limited", True)
