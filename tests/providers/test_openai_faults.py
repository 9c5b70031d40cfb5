"""The OpenAI-compatible model and embedder against a server that fails: retries, deadlines, the circuit breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from recollect.core.errors import ProviderUnavailable
from recollect.providers.openai import OpenAIModel
from recollect.providers.resilience import BreakerSettings, Timeouts, Timing, parse_retry_after
from support.fault_server import Fault, FaultServer, Reply
from support.provider_calls import ASK, KEY, START, FakeTime, ask, failure, run
from support.waiting import GIVE_UP_SECONDS, NEVER_SECONDS, run_to_end

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
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=0.5), retries=0)
    began = time.perf_counter()

    error = failure(lambda: run_to_end(lambda: ask(model)))

    assert (error.code, error.retryable) == ("provider_timeout", True)
    assert time.perf_counter() - began >= 0.5
    assert len(server.requests) == 1


def test_a_timeout_is_retried(server: FaultServer, fake_time: FakeTime) -> None:
    server.then(Fault.HANG)
    # Retries to spare: on a busy machine a good answer may take longer than an attempt.
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=0.5), retries=9, timing=fake_time.timing)

    assert ask(model) == "ok"
    assert len(server.requests) >= 2


def test_the_total_deadline_covers_all_attempts(server: FaultServer) -> None:
    server.always = Fault.HANG
    model = OpenAIModel(server.url, "small", timeout=Timeouts(attempt=NEVER_SECONDS, total=0.15), retries=5)

    assert failure(lambda: run_to_end(lambda: ask(model))).code == "provider_timeout"


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
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


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


def test_a_success_forgets_earlier_failures(server: FaultServer, fake_time: FakeTime) -> None:
    model = OpenAIModel(server.url, "small", retries=0, breaker=BreakerSettings(failures=2), timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        server.then(Reply(500))
        codes = [await outcome(model), await outcome(model)]
        server.then(Reply(500))
        return [*codes, await outcome(model), await outcome(model)]

    assert run(model, story) == ["provider_error", "ok", "provider_error", "ok"]


def test_a_half_open_circuit_lets_one_call_probe_and_survives_its_cancellation(
    server: FaultServer, fake_time: FakeTime
) -> None:
    server.then(Reply(500), Fault.HANG)
    breaker = BreakerSettings(failures=1, open_seconds=30)
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
