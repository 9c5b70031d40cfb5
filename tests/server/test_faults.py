"""Whatever the model does, the question is stored, the answer says what failed, and the next one is answered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from recollect.providers.resilience import Timeouts
from support.fault_server import Reply
from support.serving import RunningServer, join_chunks, make_server, parse_chunks, wait_for
from support.upstream import ANSWER, ModelServer, Trouble, closed_port

HALF = "Peanuts are what you cannot eat, and "
WAYS = ("chat", "stream", "whole")


@dataclass(frozen=True)
class Failure:
    """A fault of the model, and how it is reported.

    `early` is the status if no stream has begun, `whole` that of an answer that is not streamed.
    """

    outcome: Any
    code: str
    early: int | None
    whole: int
    whole_code: str | None = None
    partial: bool = False


FAILURES = {
    "429": Failure(Reply(429, headers={"Retry-After": "7"}), "provider_rate_limited", 429, 429),
    "500": Failure(Reply(500), "provider_error", 502, 502),
    "redirect": Failure(Reply(302, headers={"Location": "http://127.0.0.1:9/"}), "provider_rejected", 502, 502),
    "unauthorized": Failure(Reply(401), "provider_unauthorized", 502, 502),
    "hang": Failure(Trouble.HANG, "provider_timeout", 504, 504),
    "drip": Failure(Trouble.DRIP, "provider_timeout", 504, 504),
    "hang inside": Failure(Trouble.HANG_INSIDE, "provider_timeout", None, 504, partial=True),
    "cut": Failure(Trouble.CUT, "provider_unreachable", None, 502, partial=True),
    "unfinished": Failure(Trouble.UNFINISHED, "provider_cut_off", None, 502, "provider_unreachable", partial=True),
    "error inside": Failure(Trouble.ERROR_INSIDE, "provider_error", None, 502, "provider_bad_reply", partial=True),
    "a page": Failure(Trouble.HTML, "provider_bad_reply", 502, 502),
    "no JSON": Failure(Trouble.NOT_JSON, "provider_bad_reply", 502, 502),
    "wrong shape": Failure(Trouble.WRONG_SHAPE, "provider_bad_reply", 502, 502),
}


def _cases() -> list[Any]:
    return [pytest.param(name, way, id=f"{name}-{way}") for name in FAILURES for way in WAYS]


@pytest.mark.parametrize(("name", "way"), _cases())
def test_a_failure_is_reported_the_question_is_stored_and_the_next_answer_succeeds(
    name: str, way: str, shared: RunningServer, shared_model: ModelServer
) -> None:
    failure, conversation = FAILURES[name], f"{name}-{way}".replace(" ", "-")
    shared_model.then(failure.outcome)

    with impatience(shared) if failure.code == "provider_timeout" else nullcontext():
        _ask_and_fail(shared, conversation, way, failure)

    stored = shared.history(conversation)
    assert (stored[0].role, stored[0].content) == ("user", "What can I not eat?")
    if failure.partial and way != "whole":
        assert [(message.role, message.content) for message in stored[1:]] == [("assistant", HALF)]
        assert stored[1].metadata["incomplete"] == failure.code
    else:
        assert len(stored) == 1
    assert shared.client.get("/healthz").json()["status"] == "ok"
    again = shared.chat(conversation, "And now?")
    assert (again.text, again.done["error"]) == (ANSWER, None)


@contextmanager
def impatience(server: RunningServer) -> Iterator[None]:
    """Wait less than a second for a piece and two for an answer, but only here: good answers have time."""
    upstream: Any = server.memory._components.upstream
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upstream, "_piece_timeout", 0.8)
        patch.setattr(upstream, "_answer_timeout", 2)
        patch.setattr(upstream._endpoint, "_timeout", Timeouts(attempt=2, total=2))
        yield


def _ask_and_fail(server: RunningServer, conversation: str, way: str, failure: Failure) -> None:
    if way == "chat":
        reply = server.chat(conversation, "What can I not eat?")
        assert reply.done["error"]["code"] == failure.code
        assert reply.named("error") == [reply.done["error"]]
        assert reply.done["finish_reason"] == "error"
        assert reply.text == (HALF if failure.partial else "")
        assert (reply.done["message"] is not None) == failure.partial
        return
    named = {"X-Recollect-Conversation": conversation}
    reply = server.complete("What can I not eat?", stream=way == "stream", headers=named)
    if way == "stream" and failure.early is None:
        *pieces, last = parse_chunks(reply.text)
        assert join_chunks(pieces) == HALF
        assert last["error"]["code"] == failure.code
        assert last["error"]["type"] == "server_error"
        return
    expected = (failure.whole, failure.whole_code or failure.code) if way == "whole" else (failure.early, failure.code)
    assert (reply.status_code, reply.json()["error"]["code"]) == expected
    assert reply.json()["error"]["message"]
    if reply.status_code == 429:
        assert reply.headers["retry-after"] == "7"


def test_an_unreachable_model_is_reported_and_the_built_in_assistant_still_answers(db: str) -> None:
    with closed_port() as port, make_server(db, f"http://127.0.0.1:{port}/v1") as server:
        named = {"X-Recollect-Conversation": "trip"}
        assert server.chat("trip", "first").done["error"]["code"] == "provider_unreachable"
        for stream in (True, False):
            reply = server.complete("second", stream=stream, headers=named)
            assert (reply.status_code, reply.json()["error"]["code"]) == (502, "provider_unreachable")
        assert server.dialogue("trip") == [("user", "first"), ("user", "second")]
        assert server.chat("trip", "What was the first?", model="recollect").done["error"] is None
        assert server.client.get("/v1/models").status_code == 200
        assert server.client.get("/healthz").status_code == 200


def test_an_empty_answer_is_an_error_of_a_chat_and_passes_through_to_clients_of_the_api(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.EMPTY, Trouble.EMPTY, Trouble.EMPTY)
    assert shared.chat("empty", "hello?").done["error"]["code"] == "provider_bad_reply"
    named = {"X-Recollect-Conversation": "empty"}
    assert shared.complete("hello?", headers=named).json()["choices"][0]["message"]["content"] == ""
    assert parse_chunks(shared.complete("hello?", stream=True, headers=named).text)[-1] == "[DONE]"
    assert shared.dialogue("empty") == [("user", "hello?")]


# Answers that are too long


def test_an_answer_of_a_chat_that_is_too_long_is_cut_marked_and_sent_as_it_is_stored(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.HUGE)
    reply = shared.chat("huge-chat", "Tell me everything.")
    stored = shared.history("huge-chat")[1]
    assert stored.content.startswith("word word")
    assert reply.text == stored.content
    assert stored.metadata["incomplete"] == "length"


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_by_the_api_that_is_too_long_reaches_the_client_whole_and_is_stored_cut(
    stream: bool, shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.HUGE)
    named = {"X-Recollect-Conversation": f"huge-{stream}"}
    reply = shared.complete("Tell me everything.", stream=stream, headers=named)
    assert len(reply.content) > 3_000_000
    _, answer = shared.history(f"huge-{stream}")
    assert answer.content.startswith("word word")
    assert answer.metadata["incomplete"]


def test_a_model_that_never_ends_its_answer_does_not_fill_the_memory(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    page = b'{"choices": [{"message": {"content": "' + b"x" * (17 << 20) + b'"}}]}'
    shared_model.then(Reply(200, page))
    reply = shared.complete("Tell me everything.")
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "provider_bad_reply")


# Errors of the caller


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_request_that_the_model_refuses_is_the_callers_error(
    status: int, shared: RunningServer, shared_model: ModelServer
) -> None:
    body = b'{"error": {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}}'
    shared_model.then(Reply(status, body))
    reply = shared.complete("Far too long.")
    assert reply.status_code in (400, status)
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_a_whole_answer_may_take_as_long_as_a_streamed_one(db: str) -> None:
    def think(asked: Any) -> str:
        time.sleep(0.9)  # it is what the model takes, not a wait for anything
        return ANSWER

    with (
        ModelServer(think) as model,
        make_server(db, model, provider_timeout_seconds=0.5, chat_timeout_seconds=30) as server,
    ):
        assert server.complete("Think.").status_code == 200


# Clients that leave or stop


def test_an_answer_goes_on_after_its_client_has_gone_and_is_stored_whole(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.WAIT)
    headers = {"Idempotency-Key": "gone"}
    path, body = "/api/v1/conversations/gone/chat", {"content": "Will you wait?"}
    with shared.client.stream("POST", path, json=body, headers=headers) as reply:
        lines = reply.iter_lines()
        while not next(lines).startswith("event: delta"):
            pass
    shared_model.resume()

    reply = shared.chat("gone", "Will you wait?", headers=headers)

    assert reply.text == ANSWER
    assert shared.dialogue("gone") == [("user", "Will you wait?"), ("assistant", ANSWER)]
    assert "incomplete" not in shared.history("gone")[1].metadata


def test_an_answer_whose_api_client_has_gone_is_stored_as_incomplete(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.WAIT)
    body = {"messages": [{"role": "user", "content": "Will you wait?"}], "stream": True}
    named = {"X-Recollect-Conversation": "gone-api"}
    with shared.client.stream("POST", "/v1/chat/completions", json=body, headers=named) as reply:
        lines = reply.iter_lines()
        while "Peanuts" not in next(lines):
            pass
        assert shared_model.is_waiting.wait(300)
    answer = wait_for(lambda: shared.history("gone-api")[1:])[0]
    shared_model.resume()
    assert HALF.startswith(answer.content)
    assert answer.metadata["incomplete"] == "client_gone"


def test_a_stopped_answer_ends_at_once_and_what_was_written_is_stored(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Trouble.WAIT)
    path, body = "/api/v1/conversations/stopped/chat", {"content": "Go on and on."}
    with shared.client.stream("POST", path, json=body) as reply:
        lines = reply.iter_lines()
        heard = ""
        while heard != HALF:
            line = next(lines)
            if line.startswith("data: ") and "content" in (data := json.loads(line[6:])):
                heard += data["content"]
        assert shared.new_client().post(f"{path}/stop").json() == {"stopped": 1}
        rest = "\n".join(lines)
    shared_model.resume()
    done = json.loads(rest.rsplit("data: ", 1)[1])
    assert (done["stopped"], done["finish_reason"], done["error"]) == (True, "stopped", None)
    _, answer = shared.history("stopped")
    assert (answer.content, answer.metadata["incomplete"]) == (HALF, "stopped")
    assert shared.client.post(f"{path}/stop").json() == {"stopped": 0}


def test_a_question_whose_answer_failed_is_answered_by_a_retry_and_stored_once(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    shared_model.then(Reply(500))
    assert shared.chat("again", "Are you there?").done["error"]["code"] == "provider_error"
    reply = shared.chat("again", retry=True)
    assert (reply.done["error"], reply.text) == (None, ANSWER)
    assert shared.dialogue("again") == [("user", "Are you there?"), ("assistant", ANSWER)]


# The circuit breaker


class ManualTime:
    """A monotonic clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_five_failures_the_model_is_left_alone_and_later_asked_again(db: str, model: ModelServer) -> None:
    clock = ManualTime()
    with make_server(db, model, monotonic=clock) as server:
        model.always = Reply(500)
        for number in range(5):
            assert server.chat("trip", f"question {number}").done["error"]["code"] == "provider_error"
        refused = server.chat("trip", "question 5")
        assert refused.done["error"]["code"] == "provider_circuit_open"
        assert server.complete("question 6", metadata={"conversation": "trip"}).status_code in (502, 503)
        assert len(model.bodies) == 5
        model.always = None
        clock.now += 31
        assert server.chat("trip", "question 7").text == ANSWER
        assert server.chat("trip", "question 8").text == ANSWER
        assert [text for role, text in server.dialogue("trip") if role == "user"] == [f"question {n}" for n in range(9)]


@pytest.mark.parametrize("trouble", [Trouble.ERROR_INSIDE, Trouble.NOT_JSON])
def test_errors_inside_streams_count_as_failures_too(trouble: Trouble, db: str, model: ModelServer) -> None:
    with make_server(db, model, monotonic=ManualTime()) as server:
        model.always = trouble
        for number in range(6):
            server.chat("trip", f"question {number}")
        assert len(model.bodies) == 5


def test_a_model_that_one_person_broke_stops_nobody_who_asks_another_model(db: str, model: ModelServer) -> None:
    with make_server(db, model, monotonic=ManualTime()) as server:
        first, second = (server.new_client(server.new_key(person)) for person in ("first", "second"))
        model.always = Reply(500)
        for number in range(6):
            server.complete(f"question {number}", model="broken", client=first)
            server.chat("trip", f"question {number}", model="broken", client=first)
        assert len(model.bodies) == 5
        model.always = None
        assert server.chat("trip", "And me?", client=second).text == ANSWER
        assert server.complete("And me?", model="healthy", client=second).status_code == 200
        assert server.complete("And me?", model="broken", client=second).json()["error"]["code"] == (
            "provider_circuit_open"
        )


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429])
def test_requests_that_a_model_refuses_never_stop_the_requests_of_others(
    status: int, db: str, model: ModelServer
) -> None:
    with make_server(db, model, monotonic=ManualTime()) as server:
        first, second = (server.new_client(server.new_key(person)) for person in ("first", "second"))
        model.always = Reply(status)
        for number in range(7):
            server.complete("Hello?", model=f"unknown-{number}", client=first)
            server.complete("Hello?", model="gpt-test", client=first)
        assert len(model.bodies) == 14
        model.always = None
        assert server.complete("And me?", model="gpt-test", client=second).status_code == 200


def test_a_stopped_probe_does_not_keep_the_circuit_open(db: str, model: ModelServer) -> None:
    clock = ManualTime()
    with make_server(db, model, monotonic=clock) as server:
        model.then(*[Reply(500)] * 5, Trouble.WAIT)
        for number in range(5):
            server.chat("trip", f"question {number}")
        clock.now += 31
        path = "/api/v1/conversations/trip/chat"
        with server.client.stream("POST", path, json={"content": "the probe"}) as reply:
            assert model.is_waiting.wait(300)
            server.new_client().post(f"{path}/stop")
            reply.read()
        model.resume()
        assert server.chat("trip", "and now?").text == ANSWER


# Other requests meanwhile


def test_messages_are_stored_while_the_model_hangs(db: str, model: ModelServer) -> None:
    """Eight answers hang until the test stops them. Appends neither wait for them nor ask the model."""
    with make_server(db, model, provider_timeout_seconds=3600, chat_timeout_seconds=3600) as server:
        path = "/api/v1/conversations/log/messages"
        model.always = Trouble.HANG
        clients = [server.new_client() for _ in range(8)]
        open_streams = [
            client.send(
                client.build_request("POST", f"/api/v1/conversations/hang{place}/chat", json={"content": "?"}),
                stream=True,
            )
            for place, client in enumerate(clients)
        ]
        wait_for(lambda: len(model.bodies) == 8)
        for number in range(200):
            assert server.client.post(path, json={"role": "user", "content": f"{number}"}).status_code == 201
        assert len(model.bodies) == 8
        for reply in open_streams:
            reply.close()
        for place in range(8):
            assert server.client.post(f"/api/v1/conversations/hang{place}/chat/stop").json() == {"stopped": 1}
        assert [message.content for message in server.history("log")] == [f"{number}" for number in range(200)]
