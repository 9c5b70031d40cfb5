"""The OpenAI-compatible model and embedder against a real server that fails in every way we could think of."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from fault_server import Fault, FaultServer, Reply
from recollect.core.errors import InvalidInput, ProviderUnavailable
from recollect.providers.endpoint import LARGEST_REPLY
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.providers.resilience import BreakerSettings, Timeouts, Timing, parse_retry_after

KEY = "sk-test-4f9aVerySecret"
ASK = [{"role": "user", "content": "a private question"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeTime:
    """Time that moves only by sleeping; `waits` are the sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []
        self.timing = Timing(monotonic=lambda: self.seconds, now=self.now, sleep=self.sleep, random=lambda: 1.0)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


def run(provider: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Use a provider in a loop of its own and close it there."""

    async def use() -> Any:
        try:
            return await work(provider)
        finally:
            await provider.close()

    return asyncio.run(use())


def ask(model: OpenAIModel, **options: Any) -> str:
    answer = run(model, lambda m: m.complete(ASK, **options))
    assert isinstance(answer, str)
    return answer


def embed(embedder: OpenAIEmbedder, *texts: str) -> list[list[float]]:
    vectors: list[list[float]] = run(embedder, lambda e: e.embed(texts))
    return vectors


def failure(work: Callable[[], object]) -> ProviderUnavailable:
    with pytest.raises(ProviderUnavailable) as caught:
        work()
    return caught.value


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


# Retries.


@pytest.mark.parametrize(
    "fault",
    [Reply(408), Reply(409), Reply(429), Reply(500), Reply(503), Fault.RESET, Fault.CUT],
    ids=lambda fault: str(getattr(fault, "status", fault)),
)
def test_a_passing_failure_is_retried_with_growing_waits(
    server: FaultServer, fake_time: FakeTime, fault: Fault | Reply
) -> None:
    server.then(fault, fault)

    assert ask(OpenAIModel(server.url, "small", timing=fake_time.timing)) == "ok"
    assert len(server.requests) == 3
    assert fake_time.waits == [0.5, 1.0]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Reply(429), "provider_rate_limited"),
        (Reply(500), "provider_error"),
        (Reply(503), "provider_error"),
        (Fault.RESET, "provider_unreachable"),
        (Fault.CUT, "provider_unreachable"),
    ],
    ids=str,
)
def test_a_lasting_failure_is_named_after_the_retries(
    server: FaultServer, fake_time: FakeTime, fault: Fault | Reply, code: str
) -> None:
    server.always = fault

    error = failure(lambda: ask(OpenAIModel(server.url, "small", KEY, timing=fake_time.timing)))

    assert (error.code, error.retryable) == (code, True)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (301, "provider_rejected"),
        (400, "provider_rejected"),
        (401, "provider_unauthorized"),
        (403, "provider_unauthorized"),
        (404, "provider_rejected"),
        (422, "provider_rejected"),
    ],
)
def test_a_refusal_is_not_retried(server: FaultServer, status: int, code: str) -> None:
    server.always = Reply(status, headers={"Location": server.url})

    error = failure(lambda: ask(OpenAIModel(server.url, "small", KEY)))

    assert (error.code, error.retryable) == (code, False)
    assert "told_to_fail" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "wait"),
    [("2", 2.0), ("0", 0.0), ("86400", 30.0), ("Thu, 01 Jan 2026 00:00:07 GMT", 7.0), ("soon", 0.5)],
)
def test_retry_after_is_honoured_up_to_a_cap(
    server: FaultServer, fake_time: FakeTime, header: str, wait: float
) -> None:
    server.then(Reply(429, headers={"Retry-After": header}))

    assert ask(OpenAIModel(server.url, "small", timing=fake_time.timing)) == "ok"
    assert fake_time.waits == [wait]


def test_a_date_in_the_past_means_now() -> None:
    assert parse_retry_after("Wed, 31 Dec 2025 00:00:00 GMT", START) == 0.0
    assert parse_retry_after("Wed, 31 Dec 2025 00:00:00 -0000", START) == 0.0
    assert parse_retry_after("", START) is None
    assert parse_retry_after(None, START) is None


def test_waits_are_spread_by_chance(server: FaultServer, fake_time: FakeTime) -> None:
    server.then(Reply(500), Reply(500))
    timing = Timing(fake_time.timing.monotonic, fake_time.now, fake_time.sleep, random=lambda: 0.0)

    ask(OpenAIModel(server.url, "small", timing=timing))

    assert fake_time.waits == [0.25, 0.5]


def test_a_wait_that_would_pass_the_deadline_is_not_begun(server: FaultServer, fake_time: FakeTime) -> None:
    server.always = Reply(429, headers={"Retry-After": "20"})
    model = OpenAIModel(server.url, "small", timeout=Timeouts(total=30), retries=9, timing=fake_time.timing)

    assert failure(lambda: ask(model)).code == "provider_rate_limited"
    assert fake_time.waits == [20.0]


def test_a_port_where_nobody_listens_is_unreachable(fake_time: FakeTime) -> None:
    with FaultServer() as gone:
        url = gone.url

    error = failure(lambda: ask(OpenAIModel(url, "small", KEY, timing=fake_time.timing)))

    assert (error.code, error.retryable) == ("provider_unreachable", True)
    assert len(fake_time.waits) == 2


# Deadlines.


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
def test_a_deadline_ends_a_server_that_hangs_or_drips(server: FaultServer, fault: Fault) -> None:
    server.always = fault
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=0.1), retries=0)
    began = time.perf_counter()

    error = failure(lambda: ask(model))

    assert (error.code, error.retryable) == ("provider_timeout", True)
    assert 0.1 <= time.perf_counter() - began < 1.0
    assert len(server.requests) == 1


def test_a_timeout_is_retried(server: FaultServer, fake_time: FakeTime) -> None:
    server.then(Fault.HANG)
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=0.1), timing=fake_time.timing)

    assert ask(model) == "ok"
    assert len(server.requests) == 2


def test_the_total_deadline_covers_all_attempts(server: FaultServer) -> None:
    server.always = Fault.HANG
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=10, total=0.15), retries=5)
    began = time.perf_counter()

    assert failure(lambda: ask(model)).code == "provider_timeout"
    assert time.perf_counter() - began < 1.0


def test_a_connection_that_takes_too_long_is_a_timeout(fake_time: FakeTime) -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("too slow")

    transport = httpx.MockTransport(refuse)
    model = OpenAIModel("http://model.test/v1", "small", transport=transport, timing=fake_time.timing)

    assert failure(lambda: ask(model)).code == "provider_timeout"


def test_a_cancelled_call_leaves_no_connection_behind(server: FaultServer) -> None:
    server.always = Fault.HANG
    model = OpenAIModel(server.url, "small")

    async def cancel_midway() -> int:
        call = asyncio.create_task(model.complete(ASK))
        await until(lambda: len(server.requests) == 1)
        assert server.open_connections == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.open_connections == 0)  # while the client is still open
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await model.close()
        return len(tasks)

    assert asyncio.run(cancel_midway()) == 0


async def until(condition: Callable[[], bool]) -> None:
    """Poll: the server lives in another thread and loop."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


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
    server.then(Reply(200, b" " * (LARGEST_REPLY + 1)))

    assert failure(lambda: ask(OpenAIModel(server.url, "small"))).code == "provider_bad_reply"


# The circuit breaker.


def test_the_circuit_opens_after_five_failures_and_recovers_by_itself(server: FaultServer, fake_time: FakeTime) -> None:
    server.always = Reply(503)
    model = OpenAIModel(server.url, "small", retries=0, timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        codes = [await outcome(model) for _ in range(6)]
        fake_time.seconds += 29
        codes.append(await outcome(model))  # still open
        fake_time.seconds += 1
        codes.append(await outcome(model))  # half open: one probe, which fails
        codes.append(await outcome(model))  # open again
        fake_time.seconds += 30
        server.always = None
        codes += [await outcome(model), await outcome(model)]
        return codes

    codes = run(model, story)

    closed, opened = "provider_error", "provider_circuit_open"
    assert codes == [closed] * 5 + [opened] * 2 + [closed, opened, "ok", "ok"]
    assert len(server.requests) == 5 + 1 + 2


async def outcome(model: OpenAIModel) -> str:
    try:
        return await model.complete(ASK)
    except ProviderUnavailable as error:
        assert error.retryable
        return error.code


def test_an_open_circuit_ends_the_retries(server: FaultServer, fake_time: FakeTime) -> None:
    server.always = Reply(500)
    model = OpenAIModel(server.url, "small", retries=20, timing=fake_time.timing)

    assert failure(lambda: ask(model)).code == "provider_error"
    assert len(server.requests) == 5


def test_a_success_or_a_refusal_forgets_earlier_failures(server: FaultServer, fake_time: FakeTime) -> None:
    model = OpenAIModel(server.url, "small", retries=0, breaker=BreakerSettings(failures=2), timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        server.then(Reply(500))
        codes = [await outcome(model), await outcome(model)]
        server.then(Reply(500), Reply(400), Reply(500))
        codes.append(await outcome(model))
        with pytest.raises(ProviderUnavailable, match="provider_rejected"):
            await model.complete(ASK)
        return [*codes, await outcome(model), await outcome(model)]

    assert run(model, story) == ["provider_error", "ok", "provider_error", "provider_error", "ok"]


def test_a_half_open_circuit_lets_one_call_probe_and_survives_its_cancellation(
    server: FaultServer, fake_time: FakeTime
) -> None:
    server.then(Reply(500), Fault.HANG)
    breaker = BreakerSettings(failures=1, rest=30)
    model = OpenAIModel(server.url, "small", retries=0, breaker=breaker, timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        codes = [await outcome(model)]
        fake_time.seconds += 30
        probe = asyncio.create_task(model.complete(ASK))
        await until(lambda: len(server.requests) == 2)
        codes.append(await outcome(model))
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        return [*codes, await outcome(model)]

    assert run(model, story) == ["provider_error", "provider_circuit_open", "ok"]


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

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
