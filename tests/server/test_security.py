"""Nobody gets at what is not theirs, whatever they send, wherever they come from and however much it is."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from recollect.core.errors import InvalidInput, StoreUnavailable
from recollect.server.app import Options
from recollect.server.launch import check
from recollect.storage.server_state import Serving
from recollect.testing import FakeClock
from support.serving import Browser, Served, bytes_of, made
from support.upstream import ANSWER, ModelServer

CANARY = "quetzalcanary"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to see that it is refused
OPEN = ("/healthz", "/readyz", "/api/v1/session")
ADMIN = {
    ("get", "/api/v1/keys"), ("post", "/api/v1/keys"), ("delete", "/api/v1/keys/{key}"),
    ("get", "/api/v1/memory/check"),
}  # fmt: skip
READS_BY_POST = {("post", "/api/v1/conversations/{conversation}/context")}
# Where a name of Sara's names something of Omar's own: conversations belong to the person.
OWN = {
    ("post", "/api/v1/conversations/{conversation}/messages"), ("post", "/api/v1/conversations/{conversation}/chat"),
    ("post", "/api/v1/conversations/{conversation}/chat/stop"), ("get", "/api/v1/conversations/{conversation}/topics"),
    ("post", "/api/v1/conversations/{conversation}/context"), ("get", "/api/v1/conversations/{conversation}/similar"),
    ("get", "/api/v1/conversations/{conversation}/brief/versions"),
    ("post", "/api/v1/conversations/{conversation}/compress"),
}  # fmt: skip


# Every operation there is


class Sara:
    """Somebody with something in every place, on a server with keys."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.admin = served.key("root", scopes=["read", "write", "admin"])
        self.key = served.key("sara")
        self.client = served.new_client(self.key)
        path = "/api/v1/conversations/sara-trip"
        for number in range(8):
            text = f"My {CANARY} number {number} is hidden under stone {number} in the garden."
            self.client.post(f"{path}/messages", json={"role": "user", "content": text, "id": f"sara-{number}"})
        self.client.patch(path, json={"title": f"{CANARY} title", "tags": [f"{CANARY}-tag"]})
        served.wait(served.memory.drain())
        self.client.post(f"{path}/compress", json={"force": True}).raise_for_status()
        assert CANARY in self.client.get(f"{path}/brief").text
        topics = self.client.get(f"{path}/topics").json()["topics"]
        self.ids = {
            "conversation": "sara-trip", "message": "sara-0", "topic": topics[0]["id"], "key": self.key.split("_")[1],
        }  # fmt: skip
        self.openapi = self.client.get("/api/v1/openapi.json").json()

    def operations(self) -> Iterator[tuple[str, str, Any]]:
        for path, item in self.openapi["paths"].items():
            for method, operation in item.items():
                yield method, path, operation

    def request(self, client: httpx.Client, method: str, path: str, operation: Any) -> httpx.Response:
        """An operation with Sara's ids in every place, and a body that fits."""
        params = {}
        for one in operation.get("parameters", ()):
            if one["in"] == "query" and one.get("required"):
                params[one["name"]] = "sara" if one["name"] == "person" else "hidden under which stone in the garden?"
        body = operation.get("requestBody")
        schema = body["content"]["application/json"]["schema"] if body else None
        json_body = self.example(schema) if schema else None
        return client.request(method.upper(), path.format(**self.ids), params=params, json=json_body)

    def example(self, schema: Any) -> Any:
        """The smallest body that a schema allows; where an id may stand, one of Sara's stands."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            special = {
                "ChatIn": {"content": "hidden under which stone in the garden?"},
                "MergeIn": {"topic": self.ids["topic"]},
                "SplitIn": {"messages": ["sara-1"]}, "ConversationChange": {"title": "mine now"},
                "TopicChange": {"title": "mine now"}, "KeyIn": {"person": "sara"},
                "SettingsChange": {"changes": {"rag_hybrid": False}}, "LoginIn": {"key": "rk_wrong_key"},
            }  # fmt: skip
            return special.get(name) or self.example(self.openapi["components"]["schemas"][name])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self.example(schema[several][0])
        if "enum" in schema:
            return "user" if "user" in schema["enum"] else schema["enum"][0]
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            wanted = set(schema.get("required", ())) | ({"content"} & set(schema.get("properties", ())))
            return {name: self.example(schema["properties"][name]) for name in sorted(wanted)}
        if kind == "array":
            return [self.example(schema["items"])] * schema.get("minItems", 0)
        return {"string": "hidden under which stone?", "integer": 1, "number": 0, "boolean": False}.get(kind)


@pytest.fixture(scope="module")
def sara(shared: Served) -> Sara:
    return Sara(shared)


def test_nobody_gets_at_what_is_saras_by_any_operation_and_nothing_of_hers_changes(sara: Sara) -> None:
    before = sara.client.get("/api/v1/memory/export").text
    settings = sara.client.get("/api/v1/memory/settings").json()
    asked = 0
    for method, path, operation in sara.operations():
        asked += 1
        omar = sara.served.new_client(sara.served.key(f"omar{asked}"))
        reply = sara.request(omar, method, path, operation)
        told = f"{method} {path}: {reply.status_code} {reply.text[:300]}"
        assert reply.status_code < 500, told
        assert CANARY not in reply.text, told
        assert CANARY not in str(reply.headers), told
        if (method, path) in ADMIN:
            assert reply.status_code == 403, told
        elif ("{message}" in path or "{topic}" in path or "{conversation}" in path) and (method, path) not in OWN:
            assert reply.status_code == 404, told
        if path == "/api/v1/memory" and method == "delete":
            assert reply.status_code in (403, 404, 422), told
    assert asked > 35
    assert sara.client.get("/api/v1/memory/export").text == before
    assert sara.client.get("/api/v1/memory/settings").json() == settings


def test_without_a_key_every_operation_is_refused_but_those_that_tell_nothing(sara: Sara) -> None:
    for key in (None, "rk_wrong_key", sara.key[:-1], "none"):
        client = sara.served.new_client(key)
        for method, path, operation in sara.operations():
            reply = sara.request(client, method, path, operation)
            assert reply.status_code == 401 or path in OPEN, f"{method} {path}"
            assert CANARY not in reply.text
    for scheme in ("Basic", "bearer\t", "Digest"):
        shown = {"Authorization": f"{scheme} {sara.key}"}
        assert sara.served.client.get("/api/v1/conversations", headers=shown).status_code == 401


def test_a_key_for_reading_changes_nothing_and_a_key_for_writing_is_no_operators_key(sara: Sara) -> None:
    reader = sara.served.new_client(sara.served.key("nadia", scopes=["read"]))
    for method, path, operation in sara.operations():
        if path in OPEN:
            continue
        reply = sara.request(reader, method, path, operation)
        allowed = (method == "get" or (method, path) in READS_BY_POST) and (method, path) not in ADMIN
        assert (reply.status_code != 403) == allowed, f"{method} {path}: {reply.status_code} {reply.text[:200]}"
    changes: list[Any] = [
        {"changes": {"rag_hybrid": False}, "everybody": True}, {"changes": {"chat_system_prompt": "Obey."}},
        {"changes": {"server_rate_per_minute": 1}}, {"changes": {"model_url": "http://127.0.0.1:9/"}},
        {"changes": {"aaa": 1, "chat_system_prompt": "Obey."}},
    ]  # fmt: skip
    for change in changes:
        reply = sara.client.patch("/api/v1/memory/settings", json=change)
        assert reply.status_code in (403, 422), change
    fixed = {"changes": {"model_url": "http://127.0.0.1:9/"}, "everybody": True}
    assert sara.served.new_client(sara.admin).patch("/api/v1/memory/settings", json=fixed).status_code == 422
    assert sara.client.get("/api/v1/memory/settings").json()["settings"]["chat_system_prompt"] != "Obey."


def test_guessed_ids_and_names_with_anything_in_them_break_nothing(location: str) -> None:
    hostile = ["%00", "..%2f..%2fetc", "%F0%9F%A6%86", "'%20OR%201=1--", "%ED%A0%80", "a" * 201, "%0d%0aX-A:%20b"]
    with made(location) as served:
        served.chat("trip", "hello")
        routes = [
            ("GET", "/api/v1/conversations/{}", None), ("GET", "/api/v1/conversations/{}/messages", None),
            ("DELETE", "/api/v1/conversations/{}", None), ("GET", "/api/v1/topics/{}", None),
            ("DELETE", "/api/v1/topics/{}", None), ("DELETE", "/api/v1/conversations/trip/messages/{}", None),
            ("POST", "/api/v1/conversations/trip/messages/{}/feedback", {"value": 1}),
            ("POST", "/api/v1/conversations/{}/messages", {"role": "user", "content": "x"}),
            ("POST", "/api/v1/conversations/{}/chat", {"content": "x"}),
            ("POST", "/api/v1/conversations/{}/chat/stop", None),
            ("GET", "/api/v1/recall?q={}", None), ("GET", "/api/v1/recall?q=a&conversation={}", None),
            ("GET", "/api/v1/recall?q=a&since={}", None), ("GET", "/api/v1/topics?q={}", None),
            ("DELETE", "/api/v1/keys/{}", None), ("DELETE", "/api/v1/memory?person={}", None),
        ]  # fmt: skip
        for method, route, body in routes:
            for text in hostile:
                reply = served.client.request(method, route.format(text), json=body)
                assert reply.status_code < 500, f"{method} {route} {text}: {reply.text}"
                assert "x-a" not in reply.headers


# Keys and sessions over HTTP


def test_a_key_that_is_revoked_or_over_is_refused_by_the_very_next_request(db: str) -> None:
    clock = FakeClock()
    with made(db, clock=clock) as served:
        admin = served.new_client(served.key("root", scopes=["read", "write", "admin"]))
        made_key = admin.post("/api/v1/keys", json={"person": "sara", "days": 1}).json()
        sara = served.new_client(made_key["token"])
        assert sara.get("/api/v1/conversations").status_code == 200
        assert "token" not in str([key for key in admin.get("/api/v1/keys").json()["keys"] if key["token"]])
        clock.advance(timedelta(days=1))
        assert sara.get("/api/v1/conversations").status_code == 401
        other = admin.post("/api/v1/keys", json={"person": "sara"}).json()
        sara = served.new_client(other["token"])
        assert sara.get("/api/v1/conversations").status_code == 200
        assert admin.delete(f"/api/v1/keys/{other['id']}").status_code == 204
        assert sara.get("/api/v1/conversations").status_code == 401
    for token in (made_key["token"], other["token"]):
        assert token.split("_", 2)[2].encode() not in bytes_of(db)


def test_a_login_gives_an_opaque_cookie_that_scripts_and_other_sites_never_have(sara: Sara) -> None:
    browser = Browser(sara.served, sara.key)
    assert browser.login.status_code == 200
    cookie = SimpleCookie(browser.login.headers["set-cookie"])["recollect_session"]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert cookie["path"] == "/"
    assert not cookie["secure"]
    assert sara.key not in browser.login.text
    assert sara.key.split("_", 2)[2] not in cookie.value
    assert browser.client.get("/api/v1/session").json()["person"] == "sara"
    safe = sara.served.new_client().post(
        "/api/v1/session", json={"key": sara.key}, headers={"X-Forwarded-Proto": "https"}
    )
    assert SimpleCookie(safe.headers["set-cookie"])["recollect_session"]["secure"]
    assert Browser(sara.served, "rk_wrong_key").login.status_code in (401, 403)


def test_a_page_must_send_its_token_and_say_where_it_comes_from(sara: Sara) -> None:
    browser, other = Browser(sara.served, sara.key), Browser(sara.served, sara.key)
    assert browser.client.get("/api/v1/conversations").status_code == 200
    assert browser.add() == 403
    assert browser.add(Origin=browser.url) == 403
    assert browser.add(**{"X-CSRF-Token": browser.csrf}) == 403
    assert browser.add(Origin="https://evil.example", **{"X-CSRF-Token": browser.csrf}) == 403
    assert browser.add(Origin="null", **{"X-CSRF-Token": browser.csrf}) == 403
    assert browser.add(Origin=browser.url, **{"X-CSRF-Token": other.csrf}) == 403
    strange: Any = {"X-CSRF-Token": "é".encode()}
    assert browser.add(Origin=browser.url, **strange) == 403
    assert browser.add(Origin=browser.url, **{"X-CSRF-Token": browser.csrf}) == 201


def test_a_session_ends_with_logout_with_its_key_and_with_time(db: str) -> None:
    clock = FakeClock()
    with made(db, clock=clock, server_session_hours=2) as served:
        key = served.key("sara")
        first, second, third = (Browser(served, key) for _ in range(3))
        value = first.client.cookies["recollect_session"]
        assert first.client.delete("/api/v1/session", headers={"Origin": served.url, "X-CSRF-Token": first.csrf})
        assert "recollect_session" not in first.client.cookies
        shown = {"Cookie": f"recollect_session={value}"}
        assert served.client.get("/api/v1/conversations", headers=shown).status_code == 401
        assert second.client.get("/api/v1/conversations").status_code == 200
        clock.advance(timedelta(hours=2))
        assert second.client.get("/api/v1/conversations").status_code == 401
        fourth = Browser(served, key)
        served.wait(served.access.revoke_key(key.split("_")[1]))
        assert fourth.client.get("/api/v1/conversations").status_code == 401
        assert third.client.get("/api/v1/session").json()["person"] is None


def test_nobody_is_logged_out_by_a_request_without_the_token(sara: Sara) -> None:
    browser = Browser(sara.served, sara.key)
    reply = browser.client.delete("/api/v1/session")
    assert reply.status_code == 403


def test_cookies_that_are_none_are_read_as_no_cookie(sara: Sara) -> None:
    for cookie in ("recollect_session", "recollect_session=", 'a="\\', "\x7f=1; recollect_session=x", "=" * 5000):
        reply = sara.served.client.get("/api/v1/conversations", headers={"Cookie": cookie.encode("latin-1")})
        assert reply.status_code in (400, 401)


# Where requests come from


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "evil@127.0.0.1",
        "[::2]",
        "0.0.0.0",  # noqa: S104 - a name to be refused
        "[bad",
    ],
)
def test_a_host_that_the_server_does_not_go_by_is_refused(host: str, shared: Served) -> None:
    for path in ("/api/v1/conversations", "/healthz", "/v1/models", "/api/docs"):
        reply = shared.client.get(path, headers={"Host": host})
        assert (reply.status_code, reply.json()["code"]) == (421, "unknown_host")


def test_hosts_and_origins_are_opened_by_settings_and_cookies_never_travel(db: str) -> None:
    page = "https://page.example"
    with made(db, server_hosts="memory.example, other.example", server_origins=page) as served:
        for host in ("memory.example", "other.example:8377", "localhost", f"127.0.0.1:{served.port}", "[::1]:80"):
            assert served.client.get("/healthz", headers={"Host": host}).status_code == 200
        asked = {
            "Origin": page,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        preflight = served.client.options("/api/v1/conversations/trip/messages", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == page
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        reply = served.client.get("/api/v1/conversations", headers={"Origin": page})
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, page)
        assert "Origin" in reply.headers["vary"]
        assert "access-control-allow-credentials" not in reply.headers
        for origin in ("https://page.example.evil", "http://page.example", "https://page.example:444", "null"):
            reply = served.client.get("/api/v1/conversations", headers={"Origin": origin})
            assert reply.status_code == 403
            assert "access-control-allow-origin" not in reply.headers


def test_pages_that_may_call_may_also_name_a_conversation_and_a_mode(db: str) -> None:
    with made(db, server_origins="https://page.example") as served:
        reply = served.client.options("/v1/chat/completions", headers={"Origin": "https://page.example"})
        allowed = reply.headers["access-control-allow-headers"].lower()
        assert "x-recollect-conversation" in allowed
        assert "x-recollect-mode" in allowed
        assert "*" in allowed.split(", ")  # clients of the OpenAI API have headers of their own
        assert reply.headers["access-control-expose-headers"] == "*"


def test_pages_of_other_sites_are_refused_and_told_nothing(shared: Served) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        reply = shared.client.request(method, "/api/v1/conversations", headers={"Origin": "https://evil.example"})
        assert reply.status_code == 403
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_every_answer_forbids_guessing_framing_and_telling(shared: Served) -> None:
    for path in ("/healthz", "/api/v1/conversations", "/nowhere", "/api/docs", "/v1/models"):
        headers = shared.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


# How much


def test_a_body_over_the_limit_is_refused_however_it_is_sent(db: str, model: ModelServer) -> None:
    with made(db, model, server_body_bytes=20_000) as served:
        big = json.dumps({"role": "user", "content": "x" * 30_000}).encode()
        asked = json.dumps({"messages": [{"role": "user", "content": "x" * 30_000}]}).encode()
        json_type = {"Content-Type": "application/json"}

        def in_pieces(body: bytes) -> Iterator[bytes]:
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        for path, body in (
            ("/api/v1/conversations/trip/messages", big), ("/api/v1/conversations/trip/chat", big),
            ("/v1/chat/completions", asked), ("/api/v1/session", big),
        ):  # fmt: skip
            for content in (body, in_pieces(body)):
                reply = served.new_client().post(path, content=content, headers=json_type)
                assert reply.status_code == 413, path
        assert served.said("trip") == []
        assert served.chat("trip", "hello").text == ANSWER


def test_a_body_that_says_it_is_small_is_believed_by_nobody(db: str) -> None:
    """Content-Length and what comes: the parser takes what was announced, and no more."""
    with made(db, server_body_bytes=20_000) as served, socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.settimeout(10)
        head = "POST /api/v1/conversations/trip/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n"
        raw.sendall(head.encode() + b"x" * 100)
        assert b" 400 " in raw.recv(1000)
        assert served.client.get("/healthz").status_code == 200


def test_who_asks_too_often_is_told_when_to_come_again_and_others_are_not_kept_waiting(db: str) -> None:
    with made(db, server_rate_per_minute=60) as served:
        sara, omar = served.new_client(served.key("sara")), served.new_client(served.key("omar"))
        replies = [sara.get("/api/v1/conversations") for _ in range(40)]
        refused = [reply for reply in replies if reply.status_code == 429]
        assert refused
        assert all(int(reply.headers["retry-after"]) >= 1 and reply.json()["retryable"] for reply in refused)
        assert omar.get("/api/v1/conversations").status_code == 200
        assert served.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("body", [b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000])
def test_json_that_is_nested_without_end_is_refused_everywhere(body: bytes, shared: Served, sara: Sara) -> None:
    client = shared.new_client(sara.admin, **{"Content-Type": "application/json"})
    for method, path, operation in sara.operations():
        if "requestBody" in operation:
            reply = client.request(method.upper(), path.format(**sara.ids | {"conversation": "mine"}), content=body)
            assert 400 <= reply.status_code < 500, f"{method} {path}: {reply.status_code}"


@pytest.mark.parametrize("depth", [65, 200, 500, 900])
def test_what_is_nested_deep_in_metadata_is_stored_and_given_back_or_refused(depth: int, location: str) -> None:
    metadata = b'{"a":' * depth + b"1" + b"}" * depth
    with made(location) as served:
        path = "/api/v1/conversations/trip/messages"
        body = b'{"role": "user", "content": "x", "metadata": ' + metadata + b"}"
        reply = served.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code in (201, 400, 413, 422), reply.text[:200]
        if reply.status_code == 201:
            for read in (path, "/api/v1/memory/export", "/api/v1/recall?q=x"):
                assert served.client.get(read).status_code == 200, read


def test_json_nested_deeper_than_64_is_refused(shared: Served) -> None:
    client = shared.new_client(shared.key("digger"))
    body = b'{"role": "user", "content": "x", "metadata": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}"
    path, headers = "/api/v1/conversations/deep/messages", {"Content-Type": "application/json"}
    assert client.post(path, content=body, headers=headers).status_code in (400, 413, 422)


# Beginning, and being there


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "memory.example", "127.0.0.1.example", ""])
def test_the_server_does_not_listen_for_others_without_keys(host: str, db: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(check(Options(db=db, host=host)))
    assert refused.value.code == "keys_needed"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_the_server_listens_for_this_machine_without_keys(host: str, db: str) -> None:
    asyncio.run(check(Options(db=db, host=host)))


def test_with_a_key_the_server_listens_for_others(db: str) -> None:
    with made(db) as served:
        served.key("sara")
    asyncio.run(check(Options(db=db, host=EVERYWHERE)))


@pytest.fixture
def without_database(db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    async def fail(_: Serving) -> bool:
        raise StoreUnavailable("store_unavailable", "The database does not answer.")

    with made(db) as served:
        monkeypatch.setattr(Serving, "has_keys", fail)
        yield served


def test_a_database_that_does_not_answer_closes_the_door(without_database: Served) -> None:
    for path in ("/readyz", "/api/v1/conversations", "/v1/models", "/metrics"):
        assert without_database.client.get(path).status_code == 503


def test_a_process_is_alive_also_while_its_database_does_not_answer(without_database: Served) -> None:
    assert without_database.client.get("/healthz").status_code == 200


def test_who_is_refused_for_want_of_the_database_is_told_to_come_again(without_database: Served) -> None:
    for path in ("/readyz", "/api/v1/conversations"):
        reply = without_database.client.get(path)
        assert reply.json()["retryable"]
        assert "retry-after" in reply.headers


def test_debug_stats_tell_what_a_person_has(shared: Served, sara: Sara) -> None:
    reply = sara.client.get("/api/v1/memory/debug/stats")
    assert reply.status_code == 200
    assert reply.json()["totalMessages"] >= 8


def test_without_keys_whatever_is_shown_as_a_key_is_ignored(db: str) -> None:
    with made(db) as served:
        client = served.new_client("anything")
        assert client.get("/api/v1/conversations").status_code == 200
        assert client.get("/api/v1/session").json() == {
            "person": "local", "scopes": ["read", "write", "admin"], "csrf": None, "keys": False,
        }  # fmt: skip
