"""One circuit breaker for each model of a provider, and which failures count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from recollect.core.errors import ProviderUnavailable
from recollect.providers import resilience
from recollect.providers.chat import Upstream
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.providers.resilience import AttemptFailed, BreakerSettings, CircuitBreakers
from support.fault_server import FaultServer, Reply
from support.provider_calls import ASK, FakeTime, run
from support.upstream import ModelServer, Trouble

CALLERS_STATUSES = [400, 401, 403, 404, 408, 409, 413, 422, 429]


async def outcome(call: Callable[[], Any]) -> str:
    try:
        await call()
    except ProviderUnavailable as error:
        return error.code
    return "ok"


async def stream(upstream: Upstream, model: str) -> str:
    async def read() -> None:
        async with aclosing(upstream.stream({"model": model, "messages": ASK})) as pieces:
            async for _ in pieces:
                pass

    return await outcome(read)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_broken_model_stops_no_other_model_of_the_same_provider(streamed: bool) -> None:
    async def story(upstream: Upstream) -> list[str]:
        async def call(model: str) -> str:
            if streamed:
                return await stream(upstream, model)
            return await outcome(lambda: upstream.complete({"model": model, "messages": ASK}))

        server.always = Reply(500)
        codes = [await call("broken") for _ in range(6)]
        server.always = None
        return [*codes, await call("healthy"), await call("broken")]

    with ModelServer() as server:
        codes = run(Upstream(server.url, "gpt-test", timing=FakeTime().timing), story)
        assert codes == ["provider_error"] * 5 + ["provider_circuit_open", "ok", "provider_circuit_open"]
        assert len(server.requests) == 6


@pytest.mark.parametrize("status", CALLERS_STATUSES)
def test_refusals_that_the_caller_caused_never_open_a_circuit(
    status: int, server: FaultServer, fake_time: FakeTime
) -> None:
    server.always = Reply(status)
    for provider in (
        OpenAIModel(server.url, "small", retries=0, timing=fake_time.timing),
        OpenAIEmbedder(server.url, "small", 8, retries=0, timing=fake_time.timing),
    ):
        server.requests.clear()

        async def story(provider: Any) -> set[str]:
            ask = provider.embed if isinstance(provider, OpenAIEmbedder) else provider.complete
            argument = ["text"] if isinstance(provider, OpenAIEmbedder) else ASK
            return {await outcome(lambda: ask(argument)) for _ in range(12)}

        assert "provider_circuit_open" not in run(provider, story)
        assert len(server.requests) == 12


def test_an_error_inside_a_stream_counts_unless_it_says_that_the_caller_caused_it() -> None:
    piece = b"data: " + json.dumps({"error": {"message": "no such model", "code": 404}}).encode() + b"\n\n"

    async def story(upstream: Upstream) -> list[str]:
        server.always = Reply(200, piece, {"Content-Type": "text/event-stream"})
        codes = [await stream(upstream, "unknown") for _ in range(7)]
        server.always = Trouble.ERROR_INSIDE  # type: ignore[assignment]
        return [*codes, *[await stream(upstream, "broken") for _ in range(6)]]

    with ModelServer() as server:
        codes = run(Upstream(server.url, "gpt-test", timing=FakeTime().timing), story)
    assert codes == ["provider_error"] * 12 + ["provider_circuit_open"]


def test_a_refusal_neither_counts_nor_hides_that_a_model_fails(server: FaultServer, fake_time: FakeTime) -> None:
    model = OpenAIModel(server.url, "small", retries=0, breaker=BreakerSettings(failures=2), timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        server.then(Reply(500), Reply(400), Reply(500))
        return [await outcome(lambda: model.complete(ASK)) for _ in range(4)]

    assert run(model, story) == ["provider_error", "provider_rejected", "provider_error", "provider_circuit_open"]


def test_a_refused_probe_leaves_the_next_call_to_probe(server: FaultServer, fake_time: FakeTime) -> None:
    model = OpenAIModel(server.url, "small", retries=0, breaker=BreakerSettings(failures=1), timing=fake_time.timing)

    async def story(model: OpenAIModel) -> list[str]:
        server.then(Reply(500), Reply(400))
        codes = [await outcome(lambda: model.complete(ASK))]
        fake_time.seconds += 30
        return codes + [await outcome(lambda: model.complete(ASK)) for _ in range(3)]

    assert run(model, story) == ["provider_error", "provider_rejected", "ok", "ok"]


def test_a_list_of_models_that_fails_does_not_stop_answers() -> None:
    async def story(upstream: Upstream) -> str:
        for _ in range(6):
            upstream._models = None
            await upstream.models()
        server.always = None
        return await stream(upstream, "gpt-test")

    with ModelServer() as server:
        server.always = Reply(500)
        assert run(Upstream(server.url, "gpt-test", timing=FakeTime().timing), story) == "ok"


# What naming many models costs


def make_breakers() -> CircuitBreakers:
    return CircuitBreakers(BreakerSettings(failures=1), provider="here", monotonic=lambda: 0.0)


def fail(breakers: CircuitBreakers, model: str, *, is_fault: bool) -> None:
    with pytest.raises(AttemptFailed), breakers.of(model) as breaker, breaker.attempt():
        raise AttemptFailed("provider_error", "no", is_fault=is_fault)


def test_models_without_failures_are_not_remembered() -> None:
    breakers = make_breakers()
    for number in range(10_000):
        with breakers.of(f"model {number}") as breaker, breaker.attempt():
            pass
    for number in range(100):
        fail(breakers, f"unknown {number}", is_fault=False)
    assert len(breakers) == 0


def test_a_bounded_number_of_failing_models_is_remembered_and_the_oldest_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resilience, "MAX_TRACKED_MODELS", 10)
    breakers = make_breakers()
    for number in range(25):
        fail(breakers, f"model {number}" + "x" * 1000, is_fault=True)
    assert len(breakers) == 10
    with breakers.of("model 24" + "x" * 1000) as breaker:
        assert breaker.is_open
    with breakers.of("model 0" + "x" * 1000) as breaker:
        assert not breaker.is_open


def test_calls_at_the_same_time_share_a_breaker_and_no_failure_of_theirs_is_lost() -> None:
    breakers = make_breakers()

    async def story() -> None:
        with breakers.of("model") as first, breakers.of("model") as second:
            assert first is second
            with breakers.of("model") as third, third.attempt():
                pass  # a success while others still run must not make them use another breaker
            fail(breakers, "model", is_fault=True)
            assert first.is_open

    asyncio.run(story())
    assert len(breakers) == 1
