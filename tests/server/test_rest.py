"""The REST routes one by one: pages, ETags, names, settings, profile and consent, what operators see."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from recollect.core.models import Context
from recollect.memory import AsyncMemory
from recollect.runtime.log_lines import JsonLogFormatter
from recollect.server import json_body
from recollect.server.exports import MAX_EXPORTS, ExportSlots
from recollect.server.guard import Refusal
from support.serving import RunningServer, make_server, read_all_bytes, wait_for
from support.upstream import ANSWER, ModelServer

CANARY = "zephyrine"


@pytest.fixture
def server(location: str) -> Iterator[RunningServer]:
    with make_server(location, worker=True) as running:
        yield running


def add(server: RunningServer, conversation: str, *texts: str) -> Any:
    messages = [{"role": "user", "content": text, "id": f"m{index}"} for index, text in enumerate(texts, 1)]
    return server.client.post(f"/api/v1/conversations/{conversation}/messages", json={"messages": messages})


def test_messages_come_in_pages_from_the_newest_back_to_the_first(server: RunningServer) -> None:
    assert add(server, "trip", *(f"message {n}" for n in range(1, 8))).status_code == 201
    assert add(server, "trip", *(f"message {n}" for n in range(1, 8))).status_code == 200  # all were known
    seen: list[int] = []
    before = None
    while True:
        asked = {"limit": 3} | ({} if before is None else {"before": before})
        page = server.client.get("/api/v1/conversations/trip/messages", params=asked).json()
        seen = [message["seq"] for message in page["messages"]] + seen
        before = page["next"]
        if before is None:
            break
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert server.client.get("/api/v1/conversations/nobody/messages").status_code == 404


def test_conversations_come_in_pages(server: RunningServer) -> None:
    for n in range(5):
        add(server, f"talk-{n}", "hello")
    first = server.client.get("/api/v1/conversations", params={"limit": 3}).json()
    second = server.client.get("/api/v1/conversations", params={"limit": 3, "offset": first["next"]}).json()
    names = [listed["name"] for page in (first, second) for listed in page["conversations"]]
    assert sorted(names) == [f"talk-{n}" for n in range(5)]
    assert second["next"] is None


def test_a_brief_names_its_version_and_when_it_was_made(server: RunningServer) -> None:
    add(server, "trip", *(f"I visited harbour number {n} on the way to Lisbon." for n in range(1, 8)))
    path = "/api/v1/conversations/trip"
    assert server.client.post(f"{path}/compress", json={"force": True}).status_code == 200
    brief = server.client.get(f"{path}/brief").json()
    assert (brief["summary_version"], brief["version"]) == (1, 1)
    assert brief["last_summarized_at"] == brief["created_at"]
    assert {"tokens_before", "tokens_after", "compression_ratio", "intent", "key_facts"} <= set(brief["record"])


def test_a_caller_with_the_current_etag_gets_an_empty_304(server: RunningServer) -> None:
    add(server, "trip", "hello")
    path = "/api/v1/conversations/trip/messages"
    tag = server.client.get(path).headers["etag"]
    again = server.client.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    server.client.post(path, json={"role": "user", "content": "more"})
    assert server.client.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "تقرير", "with space", "?q=1", "#1", "a\\b", "😀"])
def test_a_conversation_may_have_any_name(name: str, server: RunningServer) -> None:
    from urllib.parse import quote

    path = f"/api/v1/conversations/{quote(name, safe='')}"
    assert server.client.post(f"{path}/messages", json={"role": "user", "content": "hello"}).status_code == 201
    assert server.dialogue(name) == [("user", "hello")]
    assert server.client.get(path).json()["name"] == name
    assert server.client.delete(path).json()["counts"]["messages"] == 1


def test_settings_are_personal_or_everybodys_and_some_only_the_operator_changes(location: str) -> None:
    with make_server(location) as server:
        sara, omar = (server.new_client(server.new_key(name)) for name in ("sara", "omar"))
        operator = server.new_client(server.new_key("root", scopes=("read", "write", "admin")))
        path = "/api/v1/memory/settings"
        mine = sara.patch(path, json={"changes": {"rag_token_budget": 700}}).json()
        assert (mine["settings"]["rag_token_budget"], mine["origins"]["rag_token_budget"]) == (700, "stored")
        for changes, everybody in (({"rag_hybrid": False}, True), ({"worker_poll_seconds": 5.0}, False)):
            refused = omar.patch(path, json={"changes": changes, "everybody": everybody})
            assert (refused.status_code, refused.json()["code"]) == (403, "scope_needed")
        body = {"changes": {"rag_token_budget": 400, "memory_k_raw_turns": 2}, "everybody": True}
        assert operator.patch(path, json=body).status_code == 200
        server.run(server.memory.of(server.memory.principal.__class__("omar"))._current.refresh())
        found = omar.get(path).json()
        assert (found["settings"]["rag_token_budget"], found["origins"]["rag_token_budget"]) == (400, "operator")
        assert sara.get(path).json()["settings"]["rag_token_budget"] == 700
        taken_back = sara.patch(path, json={"changes": {"rag_token_budget": None}}).json()
        assert taken_back["settings"]["rag_token_budget"] == 400
        assert not {"api_key", "embedder_api_key", "model_url", "embedder_url"} & taken_back["settings"].keys()


# Profile and consent


def everything(client: httpx.Client) -> str:
    """Return the answers of all routes that read or use what the person has stored."""
    context = client.post(
        "/api/v1/conversations/trip/context", json={"query": f"what about {CANARY[:4]} and languages?"}
    )
    shown = [context.text]
    for path in (
        "/api/v1/memory/profile", "/api/v1/memory/consent", "/api/v1/memory/audit", "/api/v1/memory/metrics",
        "/api/v1/memory/export", "/api/v1/memory/debug/stats", "/api/v1/memory/settings", "/api/v1/conversations",
        "/api/v1/conversations/trip/messages", "/api/v1/recall?q=languages+notes", "/metrics",
        "/api/v1/memory/debug/retrieval?q=notes",
    ):  # fmt: skip
        reply = client.get(path)
        assert reply.status_code == 200, path
        shown.append(reply.text)
    shown.append(client.post("/api/v1/conversations/trip/chat", json={"content": "What do you know of me?"}).text)
    asked = {"model": "recollect", "messages": [{"role": "user", "content": "What are my notes?"}]}
    shown.append(client.post("/v1/chat/completions", json=asked).text)
    return "\n".join(shown)


def test_without_consent_the_profile_is_in_no_answer_log_metric_or_prompt(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ModelServer() as model, make_server(location, model, worker=True) as server:
        add(server, "trip", "hello there")
        profile = {"preferences": {"languages": [CANARY]}, "notes": f"{CANARY} is what I wrote."}
        stored = server.client.put("/api/v1/memory/profile", json=profile)
        assert (stored.status_code, stored.json()["stored"], stored.json()["consent"]) == (200, True, False)
        shown = stored.text + everything(server.client)
        assert CANARY not in shown
        assert CANARY not in json.dumps(model.bodies)
        server.client.put("/api/v1/memory/consent", json={"consent": True})
        assert CANARY in server.client.get("/api/v1/memory/profile").text
        assert CANARY in everything(server.client)
        assert CANARY in json.dumps(model.bodies)  # so the canary could be seen
        asked = len(model.bodies)
        receipt = server.client.delete("/api/v1/memory/consent").json()
        assert receipt["counts"]["profiles"] == 1
        assert CANARY not in everything(server.client)
        assert CANARY not in json.dumps(model.bodies[asked:])
        uses = [entry["action"] for entry in server.client.get("/api/v1/memory/audit").json()["entries"]]
        assert {"profile_changed", "consent_granted", "profile_used", "consent_revoked"} <= set(uses)
        assert CANARY not in "\n".join(JsonLogFormatter().format(record) for record in caplog.records)
    assert CANARY.encode() not in read_all_bytes(location)


# Diagnostics and operation


def test_the_debug_routes_have_their_documented_fields(server: RunningServer) -> None:
    add(server, "trip", "The function computeTotal() adds tax.", "I like tea.")
    server.run(server.memory.drain())
    found = server.client.get("/api/v1/memory/debug/retrieval", params={"q": "computeTotal", "conversationId": "trip"})
    retrieval = found.json()
    assert retrieval["query"] == "computeTotal"
    assert "computeTotal" in retrieval["results"][0]["content"]
    assert {"content", "score", "source", "type"} <= retrieval["results"][0].keys()
    assert {"totalMs", "denseMs", "ftsMs", "rerankMs"} <= retrieval["metrics"].keys()
    assert retrieval["flags"] == {"hybrid": True, "chunking": True, "tokenBudget": 1000}
    assert {"conversationDense", "globalDense", "ftsLexical", "summaries", "profile"} <= retrieval["sources"].keys()
    assert len(retrieval["topSimilarities"]) == len(retrieval["topScores"]) <= 3
    stats = server.client.get("/api/v1/memory/debug/stats").json()
    assert (stats["totalMessages"], stats["totalConversations"], stats["profileConsent"]) == (2, 1, False)
    assert stats["totalChunks"] == 2
    assert stats["indexSizes"].keys() == {"messages", "embeddings", "fts"}
    metrics = server.client.get("/api/v1/memory/metrics").json()
    assert metrics["queries"] == 1
    assert metrics["briefs"] == {"written": 0, "answers": 0, "answers_per_brief": None}
    assert metrics["ms"]["total"].keys() == {"p50", "p95", "p99"}


def test_a_conversation_has_one_name_in_all_routes_and_its_older_name_in_the_debug_route(server: RunningServer) -> None:
    add(server, "trip", "The function computeTotal() adds tax.")
    path, results = "/api/v1/memory/debug/retrieval", []
    for names in (
        {"conversation": "trip"},
        {"conversationId": "trip"},
        {"conversation": "trip", "conversationId": "trip"},
    ):
        found = server.client.get(path, params={"q": "computeTotal", **names})
        assert found.status_code == 200
        results.append([hit["messageId"] for hit in found.json()["results"]])
    assert results[0] == results[1] == results[2] != []


def test_an_export_can_be_imported_and_everything_can_be_erased(server: RunningServer, tmp_path: Any) -> None:
    add(server, "trip", "hello", "there")
    exported = server.client.get("/api/v1/memory/export")
    assert exported.headers["content-type"].startswith("application/x-ndjson")
    file = tmp_path / "mine.ndjson"
    file.write_bytes(exported.content)
    assert server.client.delete("/api/v1/memory").status_code == 422  # not without saying so
    receipt = server.client.delete("/api/v1/memory", params={"confirm": "everything"}).json()
    assert receipt["counts"]["messages"] == 2
    assert server.run(server.memory.import_file(file)).added == 2


def test_metrics_have_routes_and_outcomes_and_no_content(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat(CANARY, f"{CANARY} said this")
        server.client.get("/api/v1/recall", params={"q": CANARY})
        text = server.client.get("/metrics").text
    assert 'recollect_requests_total{method="GET",route="/api/v1/recall",status="200"} 1.0' in text
    assert 'recollect_answers_total{model="model",outcome="ok"} 1.0' in text
    assert "recollect_context_seconds_count 1.0" in text
    assert CANARY not in text


def test_spans_have_the_route_and_the_model_and_no_content(db: str, model: ModelServer) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with make_server(db, model) as server:
        assert server.chat("trip", f"{CANARY} said this").text == ANSWER
        server.client.get("/api/v1/recall", params={"q": CANARY})
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert spans["GET /api/v1/recall"]["http.response.status_code"] == 200
    assert spans["chat gpt-test"]["gen_ai.request.model"] == "gpt-test"
    assert CANARY not in str(spans)


def test_all_that_requests_share_is_in_the_parts_of_the_server(server: RunningServer) -> None:
    assert set(server.app.state._state) == {"parts"}


def test_a_context_is_encoded_like_all_other_answers() -> None:
    message = {"role": "user", "content": "naïve “quotes” \u2028 العربية 🦊 \x00 \\"}
    explain = {"budget": 3000, "parts": [{"name": "recall", "score": 0.1234, "none": None}], "topic": {"id": "1"}}
    for text in ("plain", "half \ud83d of one", message["content"]):
        context = Context((message, message | {"tool_calls": [{"id": "1"}]}), text, 12, explain, ("vectors",))
        assert json_body.encode_json(context) == json_body._ENCODER.encode(context).encode("utf-8", "replace")
        assert json.loads(json_body.encode_json(context))["tokens"] == 12


def test_a_person_has_one_export_at_a_time_and_a_process_only_some(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_exporting, may_go_on = threading.Event(), threading.Event()
    export = AsyncMemory.export

    async def slow_export(self: AsyncMemory, target: Any) -> int:
        is_exporting.set()
        assert await asyncio.to_thread(may_go_on.wait, 60)
        return await export(self, target)

    with make_server(db) as server, ThreadPoolExecutor(1) as pool:
        add(server, "trip", "hello there")
        monkeypatch.setattr(AsyncMemory, "export", slow_export)
        first = pool.submit(server.new_client().get, "/api/v1/memory/export")
        assert is_exporting.wait(60)
        refused = server.client.get("/api/v1/memory/export")
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (
            429, "too_many_exports", True,
        )  # fmt: skip
        assert refused.headers["Retry-After"] == "5"
        may_go_on.set()
        assert first.result(60).text.count("hello there") == 1
        wait_for(
            lambda: server.client.get("/api/v1/memory/export").status_code == 200
        )  # its end is sent before it ends
    slots = ExportSlots()
    releases = [slots.claim(f"person {number}") for number in range(MAX_EXPORTS)]
    with pytest.raises(Refusal):
        slots.claim("one more")
    releases[0]()
    slots.claim("one more")
