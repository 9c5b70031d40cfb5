"""The OpenAI-compatible model and embedder against a real server: answers, secrets, replies that cannot be used."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from recollect.core.errors import InvalidInput
from recollect.providers.endpoint import MAX_REPLY_BYTES
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.providers.resilience import Timeouts
from support.fault_server import Fault, FaultServer, Reply
from support.provider_calls import ASK, KEY, SCHEMA, FakeTime, ask, embed, failure, run

# Answers.


def test_a_chat_answer_is_returned_and_the_request_is_deterministic(server: FaultServer) -> None:
    answer = ask(OpenAIModel(server.url, "small", KEY), max_tokens=50)

    [request] = server.requests
    assert answer == "ok"
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json() == {"model": "small", "messages": ASK, "temperature": 0.0, "max_tokens": 50}


def test_without_a_key_no_authorization_is_sent(server: FaultServer) -> None:
    ask(OpenAIModel(server.url + "/", "small", temperature=None))

    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].path == "/v1/chat/completions"
    assert "temperature" not in server.requests[0].json()


def test_a_schema_is_sent_as_a_strict_response_format(server: FaultServer) -> None:
    server.answer = '{"a": "b"}'

    assert json.loads(ask(OpenAIModel(server.url, "small"), schema=SCHEMA)) == {"a": "b"}
    assert server.requests[0].json()["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    }


def test_prose_instead_of_the_schema_is_still_returned(server: FaultServer) -> None:
    server.then(Fault.PROSE)

    assert ask(OpenAIModel(server.url, "small"), schema=SCHEMA).startswith("Sure!")
    assert len(server.requests) == 1


def test_a_hosted_prompt_gets_the_last_message_through_responses(server: FaultServer) -> None:
    model = OpenAIModel(server.url, "small", prompt_id="pmpt_1", prompt_version="3")
    messages = [{"role": "system", "content": "no"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]

    assert run(model, lambda m: m.complete(messages, max_tokens=9)) == "ok"
    assert server.requests[0].path == "/v1/responses"
    assert server.requests[0].json() == {
        "prompt": {"id": "pmpt_1", "version": "3"},
        "input": "hi",
        "max_output_tokens": 9,
    }


def test_output_text_of_a_hosted_prompt_is_read_too(server: FaultServer) -> None:
    server.then(Reply(200, b'{"output_text": "short"}'))

    assert ask(OpenAIModel(server.url, "small", prompt_id="pmpt_1")) == "short"
    assert server.requests[0].json()["prompt"] == {"id": "pmpt_1"}


def test_vectors_come_in_the_order_of_the_texts_whatever_the_batches_and_the_reply(server: FaultServer) -> None:
    texts = [f"text {number}" for number in range(5)]
    expected = embed(OpenAIEmbedder(server.url, "e", 8), *texts)
    server.then(Fault.SHUFFLED, Fault.SHUFFLED, Fault.SHUFFLED)

    assert embed(OpenAIEmbedder(server.url, "e", 8, api_key=KEY, batch=2), *texts) == expected
    assert [len(request.json()["input"]) for request in server.requests] == [5, 2, 2, 1]
    assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_an_empty_text_does_not_spoil_its_batch(server: FaultServer) -> None:
    assert len(embed(OpenAIEmbedder(server.url, "e", 8), "", "a")) == 2
    assert server.requests[0].json()["input"] == [" ", "a"]


def test_no_texts_need_no_request(server: FaultServer) -> None:
    assert embed(OpenAIEmbedder(server.url, "e", 8)) == []
    assert server.requests == []


def test_text_that_is_not_valid_unicode_is_sent_anyway(server: FaultServer) -> None:
    model = OpenAIModel(server.url, "small")

    assert run(model, lambda m: m.complete([{"role": "user", "content": "a\ud800"}])) == "ok"


# Replies that cannot be used.


@pytest.mark.parametrize("prompt_id", [None, "pmpt_1"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault.TRUNCATED,
        Fault.EMPTY,
        Reply(200, b"<html>hello</html>"),
        Reply(200, b""),
        Reply(200, b"\xff\xfe"),
        Reply(200, b"[" * 200_000),
        Reply(200, b'"text"'),
        Reply(200, b'{"choices": [], "output": []}'),
        Reply(200, b'{"choices": [{"message": {"content": null}}], "output": [{"content": null}]}'),
        Reply(200, b'{"choices": [{"message": {"content": ""}}], "output_text": ""}'),
        Reply(200, b'{"choices": {"0": 1}, "output": 7}'),
    ],
    ids=lambda fault: str(fault)[:60],
)
def test_a_reply_without_text_is_a_bad_reply(server: FaultServer, fault: Fault | Reply, prompt_id: str | None) -> None:
    server.then(fault)

    error = failure(lambda: ask(OpenAIModel(server.url, "small", prompt_id=prompt_id)))

    assert (error.code, error.retryable) == ("provider_bad_reply", True)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault.WRONG_DIMENSIONS,
        Fault.NOT_FINITE,
        Fault.ONE_SHORT,
        Fault.PROSE,
        Fault.TRUNCATED,
        Fault.EMPTY,
        Reply(200, b'{"data": [{"index": 0, "embedding": [1,1]}, {"index": 0, "embedding": [1,1]}]}'),
        Reply(200, b'{"data": [{"index": 0, "embedding": [1,1]}, {"index": 2, "embedding": [1,1]}]}'),
        Reply(200, b'{"data": [{"index": 0, "embedding": [1,"1"]}, {"index": 1, "embedding": [1,1]}]}'),
        Reply(200, b'{"data": [{"index": 0, "embedding": [1,1e999]}, {"index": 1, "embedding": [1,1]}]}'),
        Reply(200, b'{"data": [{"index": 0, "embedding": [1,1' + b"0" * 400 + b']}, {"index": 1, "embedding": []}]}'),
        Reply(200, b'{"data": [7, null]}'),
    ],
    ids=lambda fault: str(fault)[:90],
)
def test_vectors_that_cannot_be_trusted_are_a_bad_reply(server: FaultServer, fault: Fault | Reply) -> None:
    server.then(fault)
    dimensions = 2 if isinstance(fault, Reply) else 8

    error = failure(lambda: embed(OpenAIEmbedder(server.url, "e", dimensions), "one", "two"))

    assert error.code == "provider_bad_reply"
    assert len(server.requests) == 1


def test_a_reply_beyond_the_size_limit_is_not_read_to_its_end(server: FaultServer) -> None:
    server.then(Reply(200, b" " * (MAX_REPLY_BYTES + 1)))

    assert failure(lambda: ask(OpenAIModel(server.url, "small"))).code == "provider_bad_reply"


# Secrets.


@pytest.mark.parametrize(
    "fault",
    [
        Reply(401, json.dumps({"error": {"message": f"bad key {KEY}", "code": KEY}}).encode()),
        Reply(400, json.dumps({"error": {"message": "a private question", "type": KEY.lower()}}).encode()),
        Reply(500, KEY.encode()),
        Reply(200, f"not json {KEY}".encode()),
        Fault.RESET,
        Fault.HANG,
    ],
    ids=lambda fault: str(getattr(fault, "status", fault)),
)
def test_neither_key_nor_content_reaches_errors_reprs_or_logs(
    server: FaultServer, fake_time: FakeTime, caplog: pytest.LogCaptureFixture, fault: Fault | Reply
) -> None:
    server.always = fault
    model = OpenAIModel(server.url, "small", KEY, timeout=Timeouts(attempt=0.05), timing=fake_time.timing)
    embedder = OpenAIEmbedder(server.url, "e", 8, api_key=KEY, retries=0, timeout=Timeouts(attempt=0.05))

    with caplog.at_level(logging.DEBUG):
        errors = [failure(lambda: ask(model)), failure(lambda: embed(embedder, "a private question"))]

    shown = [repr(model), repr(embedder), caplog.text]
    for error in errors:
        cause: BaseException | None = error
        while cause is not None:
            shown += [str(cause), repr(cause)]
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    for text in shown:
        assert KEY.lower() not in text.lower()
        assert "private question" not in text


@pytest.mark.parametrize("key", ["sk-\u00e9", "sk-a\nX-Evil: 1", "sk a", "   "])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAIModel("http://model.test/v1", "small", key)

    assert caught.value.code == "invalid_api_key"
    assert key.strip()[:3] not in str(caught.value) or not key.strip()


@pytest.mark.parametrize(
    "url",
    ["", "model.test/v1", "ftp://model.test", "http://", "http://u:p@model.test", "http://h/v1?k=1", "http://h:x"],
)
def test_a_base_url_that_cannot_work_or_hides_a_password_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAIModel(url, "small")

    assert caught.value.code == "invalid_base_url"


# Life.


def test_a_closed_provider_says_so(server: FaultServer) -> None:
    model = OpenAIModel(server.url, "small")
    ask(model)

    error = failure(lambda: ask(model))

    assert (error.code, error.retryable) == ("provider_closed", False)


def test_one_connection_serves_many_calls(server: FaultServer) -> None:
    async def story(model: OpenAIModel) -> int:
        for _ in range(5):
            await model.complete(ASK)
        return server.open_connections

    assert run(OpenAIModel(server.url, "small"), story) == 1


def test_an_embedder_with_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidInput, match="invalid_batch"):
        OpenAIEmbedder("http://model.test/v1", "e", 8, batch=0)


def test_importing_the_provider_does_not_import_httpx() -> None:
    program = "import sys, recollect.providers.openai; assert 'httpx' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
