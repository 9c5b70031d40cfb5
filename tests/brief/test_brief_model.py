"""Briefs by a real OpenAI-compatible model over HTTP: what it is asked, and what happens when the server fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from recollect import Memory
from recollect.core.compression.brief import Brief
from recollect.settings import Settings
from recollect.testing import FakeClock, FakeEmbedder, ModelCall
from support.fault_server import Fault, FaultServer, Reply
from support.provider_calls import KEY
from support.summaries import good_reply, long_turns, new_sentences, old_sentences, user_turns, wait_until
from support.waiting import NEVER_SECONDS, run_to_end

OpenModel = Callable[..., Memory]
FACTS = ("I live in Riyadh.", "I am allergic to peanuts.", "Good night.")


def answered(request: Any) -> str:
    """As a good model answers a chat request, and a hosted prompt the layout alone."""
    if "input" in request:
        return " ".join([*old_sentences(request["input"]), *new_sentences(request["input"])])
    return good_reply(ModelCall(tuple(request["messages"]), None, None))


@pytest.fixture
def open_model(db: str, server: FaultServer) -> Iterator[OpenModel]:
    """Opens memories whose model is at the test's server."""
    server.answer = answered
    with ExitStack() as stack:

        def open_one(*, worker: bool = False, **changes: Any) -> Memory:
            values: dict[str, Any] = {
                "model_url": server.url, "model_name": "small", "api_key": KEY, "provider_timeout_seconds": 30,
                "provider_retries": 0, "memory_k_raw_turns": 1, "compress_messages_at": 4, "compress_messages_keep": 1,
                "compress_must_pay": False,
                "memory_chunk_summarize_threshold": 0,
            }  # fmt: skip
            settings = Settings(**values | changes)
            memory = Memory(db, settings=settings, worker=worker, clock=FakeClock(), embedder=FakeEmbedder())
            return stack.enter_context(memory)

        yield open_one


def folded(memory: Memory, *texts: str, first: int = 0) -> Brief:
    memory.add_many("trip", user_turns(*texts, first=first))
    brief = memory.compress("trip")
    assert brief is not None
    return brief


def test_one_structured_call_writes_the_brief(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model()
    brief = folded(memory, *FACTS)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = request.json()
    assert (body["model"], body["temperature"]) == ("small", 0)
    shape = body["response_format"]
    assert (shape["type"], shape["json_schema"]["strict"]) == ("json_schema", True)
    schema = shape["json_schema"]["schema"]
    assert set(schema["required"]) == set(schema["properties"]) >= {"narrative", "ledger", "intent", "missing_data"}
    assert [one["role"] for one in body["messages"]] == ["system", "user"]
    assert body["messages"][-1]["content"] == (
        "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: I live in Riyadh.\nAssistant: Noted.\n\n"
        "Turn 2:\nUser: I am allergic to peanuts.\nAssistant: Noted.\n=== END_NEW_TURNS ==="
    )
    assert (brief.model_used, brief.degraded, brief.record["model_used"]) == ("small", None, "small")
    assert brief.narrative == "I live in Riyadh. I am allergic to peanuts."  # without what says nothing
    assert "peanuts" in json.dumps(brief.ledger)


def test_the_summarisers_own_model_is_asked_where_one_is_named(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model(memory_summarizer_model="nano")
    assert folded(memory, *FACTS).model_used == "nano"
    assert [one.json()["model"] for one in server.requests] == ["nano"]


def test_the_next_call_has_the_old_summary_and_its_data(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model()
    old = folded(memory, *FACTS)
    folded(memory, "I like tea.", "I like cake.", first=20)
    messages = server.requests[1].json()["messages"]
    assert f"=== EXISTING_SUMMARY ===\n{old.narrative}\n=== END_EXISTING_SUMMARY ===" in messages[-1]["content"]
    assert "=== EXISTING_DATA ===" in messages[1]["content"]
    assert "peanuts" in messages[1]["content"]


def test_one_repair_is_asked_for(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model()
    server.then(Fault.PROSE)
    brief = folded(memory, *FACTS)
    assert (brief.model_used, brief.degraded) == ("small", None)
    first, second = (request.json() for request in server.requests)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert [one["role"] for one in second["messages"][-2:]] == ["assistant", "user"]
    assert second["response_format"] == first["response_format"]


def test_after_a_repair_that_is_none_the_built_in_compressor_writes(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model()
    server.always = Fault.PROSE
    brief = folded(memory, *FACTS)
    assert len(server.requests) == 2
    assert brief.model_used == "recollect-extractive"
    assert (brief.degraded or "").startswith("invalid reply")


# A hosted prompt.


def hosted(open_model: OpenModel, **more: Any) -> Memory:
    prompt = {"prompt_id_summary_global": "pmpt_6917", "prompt_version_summary_global": "3"}
    return open_model(**prompt | {"model_name": None} | more)


def test_a_hosted_prompt_gets_the_layout_alone_and_answers_with_text(
    open_model: OpenModel, server: FaultServer
) -> None:
    """D 5.2 step 4: prompt id and version, a single input string, output_text becomes the summary."""
    server.answer = "The user lives in Riyadh. The user is allergic to peanuts."
    memory = hosted(open_model)
    brief = folded(memory, *FACTS)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/responses")
    body = request.json()
    assert body["prompt"] == {"id": "pmpt_6917", "version": "3"}
    assert body["input"] == (
        "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: I live in Riyadh.\nAssistant: Noted.\n\n"
        "Turn 2:\nUser: I am allergic to peanuts.\nAssistant: Noted.\n=== END_NEW_TURNS ==="
    )
    assert "model" not in body
    assert brief.narrative == server.answer
    assert brief.degraded is None
    assert "peanuts" in json.dumps(brief.ledger)  # by the rules
    server.answer = "The user lives in Riyadh. The user is allergic to peanuts. The user likes tea."
    second = folded(memory, "I like tea.", "I like cake.", first=20)
    assert f"=== EXISTING_SUMMARY ===\n{brief.narrative}\n=== END" in server.requests[1].json()["input"]
    assert second.narrative == server.answer


def test_a_brief_by_a_hosted_prompt_says_by_whom_it_was_written(open_model: OpenModel, server: FaultServer) -> None:
    server.answer = "The user lives in Riyadh."
    brief = folded(hosted(open_model), *FACTS)
    assert brief.model_used
    assert brief.record["model_used"] == brief.model_used


def test_what_a_hosted_prompt_invents_is_dropped(open_model: OpenModel, server: FaultServer) -> None:
    server.answer = "The user lives in Riyadh. The user owns 12 yachts. Dragons guard purple volcanoes."
    brief = folded(hosted(open_model), *FACTS)
    assert (brief.narrative, brief.dropped) == ("The user lives in Riyadh.", 2)


@pytest.mark.parametrize("answer", ['{"a": 1}', "[]", "   ", "Dragons guard purple volcanoes."])
def test_a_hosted_prompt_that_says_nothing_is_not_asked_again(
    open_model: OpenModel, server: FaultServer, answer: str
) -> None:
    server.answer = answer
    brief = folded(hosted(open_model), *FACTS)
    assert (brief.model_used, bool(brief.degraded)) == ("recollect-extractive", True)
    assert len(server.requests) == 1


# Servers that fail.


@pytest.mark.parametrize("is_hosted", [False, True], ids=["chat", "hosted"])
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Reply(429), "provider_rate_limited"),
        (Reply(500), "provider_error"),
        (Reply(503), "provider_error"),
        (Reply(401), "provider_unauthorized"),
        (Reply(404), "provider_rejected"),
        (Fault.HANG, "provider_timeout"),
        (Fault.DRIP, "provider_timeout"),
        (Fault.RESET, "provider_unreachable"),
        (Fault.CUT, "provider_unreachable"),
        (Fault.TRUNCATED, "provider_bad_reply"),
        (Fault.EMPTY, "provider_bad_reply"),
    ],
    ids=str,
)
def test_a_server_that_fails_is_stood_in_for_and_asked_again_later(
    open_model: OpenModel, server: FaultServer, fault: Fault | Reply, code: str, is_hosted: bool
) -> None:
    """R6: by the built-in compressor, by name; unaided when the server is well."""
    # A missing answer is given up soon. All others have time, so that a busy machine changes nothing.
    timeout = {"provider_timeout_seconds": 1.0 if code == "provider_timeout" else 30}
    memory = hosted(open_model, **timeout) if is_hosted else open_model(**timeout)
    server.always = fault
    brief = folded(memory, *FACTS)
    assert (brief.model_used, brief.degraded) == ("recollect-extractive", code)
    memory.drain()
    context = memory.context("trip", "What may I not eat?")
    assert context.degraded == ("summarizer",)
    assert "peanuts" in context.text
    server.always = None
    second = folded(memory, "I like tea.", "I like cake.", first=20)
    assert (second.version, second.degraded) == (2, None)
    assert second.model_used != "recollect-extractive"
    assert "peanuts" in json.dumps(second.ledger)
    assert memory.context("trip", "What may I not eat?").degraded == ()


def test_a_server_that_keeps_failing_is_left_in_peace(open_model: OpenModel, server: FaultServer) -> None:
    """R6: the breaker opens after five failures; folds go on without a request."""
    memory = open_model()
    server.always = Reply(500)
    reasons = []
    for n in range(8):
        reasons.append(folded(memory, f"I like lamp number {n}.", "Good night.", first=10 * n).degraded)
    assert reasons == ["provider_error"] * 5 + ["provider_circuit_open"] * 3
    assert len(server.requests) == 5


def test_a_worker_beside_a_server_that_hangs_holds_up_nobody(open_model: OpenModel, server: FaultServer) -> None:
    memory = open_model(worker=True, provider_timeout_seconds=NEVER_SECONDS)
    server.always = Fault.HANG
    memory.add_many("trip", long_turns(3, count=1))
    assert wait_until(lambda: server.requests)
    memory.add("trip", "user", "Are you there?")
    assert "Are you there?" in memory.context("trip", "hello").text
    assert memory.brief("trip") is None
    run_to_end(memory.close)
    assert wait_until(lambda: server.open_connections == 0)


def test_neither_key_nor_text_is_logged(
    open_model: OpenModel, server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    memory = open_model()
    server.then(Reply(401), Fault.PROSE)
    folded(memory, *FACTS)
    folded(memory, "I like tea.", "I like cake.", first=20)
    assert caplog.records
    assert not [text for text in ("peanuts", "Riyadh", "tea", KEY) if text in caplog.text]
