"""The server connects to nothing that people name, and no secret reaches logs, metrics or other people."""

from __future__ import annotations

import io
import json
import logging
import random
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from recollect.memory import AsyncMemory
from recollect.runtime.log_lines import JsonLogFormatter, PlainLogFormatter
from support.fault_server import Reply
from support.serving import Browser, RunningServer, make_server, read_all_bytes
from support.upstream import ModelServer

CANARY = "quetzalcanary"


# Outgoing connections


@contextmanager
def listener() -> Iterator[tuple[str, list[Any]]]:
    """Yield a URL that must not be connected to, and the list of clients that did.

    It has a loopback address of its own, where the system has more than one: a client of another test may still try a
    port that its server has left.
    """
    met: list[Any] = []
    own_host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(2, 255)}"
    host = own_host if sys.platform == "linux" else "127.0.0.1"
    with socket.create_server((host, 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                met.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://{host}:{server.getsockname()[1]}", met
        server.shutdown(socket.SHUT_RDWR)
    thread.join(300)


def test_urls_in_requests_are_never_connected_to(db: str, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as (url, met):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, url)
        monkeypatch.setenv("NO_PROXY", "")
        with make_server(db, model, worker=True) as server:
            image = [{"type": "image_url", "image_url": {"url": f"{url}/a.png"}}, {"type": "text", "text": url}]
            audio = [{"type": "input_audio", "input_audio": {"url": url}}, {"type": "file", "file": {"file_url": url}}]
            for parts in (image, audio):
                server.complete({"role": "user", "content": parts}, metadata={"conversation": url, "callback": url})
            server.complete("hello", model=url, user=url, base_url=url, api_base=url)
            server.complete(
                "hello", tools=[{"type": "mcp", "server_url": url}], headers={"X-Recollect-Conversation": url}
            )
            server.chat("trip", f"Read {url} ![x]({url}/x.png)", model=url, system_prompt=url)
            server.client.post(
                "/api/v1/conversations/trip/messages",
                json={"role": "user", "content": url, "name": url, "metadata": {"url": url}},
            )
            for change in ("model_url", "embedder_url", "memory_summarizer_model"):
                server.client.patch("/api/v1/memory/settings", json={"changes": {change: url}, "everybody": True})
            server.client.get("/v1/models", headers={"X-Forwarded-Host": url, "Referer": url})
            server.run(server.memory.drain())
            assert {asked["model"] for asked in model.bodies} >= {url, "gpt-test"}
        assert met == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_of_the_model_are_not_followed(status: int, shared: RunningServer, shared_model: ModelServer) -> None:
    with listener() as (url, met):
        elsewhere = Reply(status, headers={"Location": f"{url}/v1/chat/completions"})
        shared_model.then(elsewhere, elsewhere, elsewhere)
        key = shared.new_key("walker")
        client = shared.new_client(key)
        assert shared.chat("away", "hello", client=client).done["error"]["code"] == "provider_rejected"
        assert shared.complete("hello", client=client).status_code == 502
        assert shared.complete("hello", stream=True, client=client).status_code == 502
        assert met == []


# What reaches logs


@contextmanager
def logged() -> Iterator[list[io.StringIO]]:
    """Yield what all loggers write, in both formats."""
    outputs = [io.StringIO(), io.StringIO()]
    handlers = []
    for output, form in zip(outputs, (JsonLogFormatter(), PlainLogFormatter()), strict=True):
        handler = logging.StreamHandler(output)
        handler.setFormatter(form)
        handlers.append(handler)
    plain = logging.StreamHandler(outputs[1])  # as uvicorn and asyncio would write by themselves
    loggers = [logging.getLogger(name) for name in ("recollect", "uvicorn", "uvicorn.error", "asyncio", "fastapi")]
    levels = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        for handler in handlers if logger.name == "recollect" else [plain]:
            logger.addHandler(handler)
    try:
        yield outputs
    finally:
        for logger, level in levels:
            logger.setLevel(level)
            for handler in (*handlers, plain):
                logger.removeHandler(handler)


def test_no_secret_reaches_logs_or_metrics_in_success_or_failure(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = [f"canary{number:02d}x{number * 7919:05d}" for number in range(50)]
    left = iter(made_up)
    known: list[str] = []

    def secret() -> str:
        known.append(next(left))
        return known[-1]

    upstream_key = secret()
    model_words = [secret(), secret()]
    with (
        logged() as outputs,
        ModelServer(" ".join(model_words)) as model,
        make_server(db, model, api_key=upstream_key, worker=True) as server,
    ):
        admin = server.new_key("root", scopes=["read", "write", "admin"])
        sara = server.new_key("sara")
        browser = Browser(server, sara)
        keys = [admin, sara, browser.client.cookies["recollect_session"], browser.csrf]
        client = server.new_client(sara)

        def everything() -> None:
            path = "/api/v1/conversations/trip"
            client.post(f"{path}/messages", json={"role": "user", "content": secret(), "name": secret()})
            server.chat("trip", secret(), client=client, system_prompt=secret())
            server.complete(secret(), client=client, tools=[{"type": "function", "function": {"name": secret()}}])
            server.complete(secret(), client=client, stream=True, user=secret())
            for query in ("/api/v1/recall", "/api/v1/memory/debug/retrieval", f"{path}/similar", "/api/v1/topics"):
                client.get(query, params={"q": secret()})
            client.post(f"{path}/context", json={"query": secret()})
            client.patch(path, json={"title": secret()})
            client.post(f"{path}/messages", content=f'{{"role": "{secret()}", broken'.encode())
            client.get("/api/v1/recall", params={"q": "x", "limit": secret()})
            client.get(f"/nowhere/{secret()}", params={"token": secret()})
            server.client.get("/api/v1/conversations", headers={"Authorization": f"Bearer rk_{secret()}_{secret()}"})
            server.client.get("/api/v1/conversations", headers={"Cookie": f"recollect_session={secret()}"})
            server.client.post("/api/v1/session", json={"key": secret()})

        everything()
        error = json.dumps({"error": {"message": secret(), "code": "overloaded"}}).encode()
        model.then(Reply(500, error))
        server.chat("trip", "hello", client=client)

        async def crash(_: AsyncMemory, *args: Any, **more: Any) -> None:
            raise RuntimeError(f"It broke at {args} {more}")

        for method in ("recall", "context", "merge", "append", "similar", "update_conversation"):
            monkeypatch.setattr(AsyncMemory, method, crash)
        everything()
        figures = client.get("/metrics").text
    assert len(known) > 45
    logs = "".join(output.getvalue() for output in outputs)
    assert "failed unexpectedly: RuntimeError" in logs
    for word in (*known, *keys, *(key.split("_", 2)[2] for key in (admin, sara))):
        assert word not in logs, f"{word}: {[line for line in logs.splitlines() if word in line][:2]}"
        assert word not in figures
    assert model.requests[-1].headers["authorization"] == f"Bearer {upstream_key}"


def test_the_key_and_address_of_the_model_are_in_no_answer(db: str, model: ModelServer) -> None:
    with make_server(db, model, api_key="upstreamcanary") as server:
        model.then(
            Reply(401, b'{"error": {"message": "Incorrect API key: upstreamcanary", "code": "upstreamcanary!"}}')
        )
        shown = server.chat("trip", "hello").reply.text
        for path in ("/api/v1/memory/settings", "/metrics", "/api/v1/memory/check", "/api/v1/memory/export"):
            shown += server.client.get(path).text
        assert "upstreamcanary" not in shown
        assert '/v1"' not in server.client.get("/api/v1/memory/settings").text
        assert "model_url" not in server.client.get("/api/v1/memory/settings").json()["settings"]
    assert b"upstreamcanary" not in read_all_bytes(db)


def test_unknown_http_methods_do_not_become_metric_labels(shared: RunningServer) -> None:
    for number in range(3):
        shared.client.request(f"CANARY{chr(65 + number) * 8}", "/healthz")
    client = shared.new_client(shared.new_key("watcher"))
    assert "CANARY" not in client.get("/metrics").text
