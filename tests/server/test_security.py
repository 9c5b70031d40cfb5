"""Requests reach only what belongs to their person, whatever they contain, and are refused above the limits."""

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

from recollect.core.errors import InvalidInput, RecollectError, StoreUnavailable
from recollect.server.app import ServerOptions
from recollect.server.launch import check_and_bind
from recollect.storage.server_state import ServerStateStore
from recollect.testing import FakeClock
from support.serving import Browser, RunningServer, make_server, read_all_bytes
from support.upstream import ANSWER, ModelServer

CANARY = "quetzalcanary"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to see that it is refused
OPEN = ("/healthz", "/readyz", "/api/v1/session")
DOCUMENTATION = ("/", "/api/docs", "/api/v1/openapi.json")
ADMIN = {
    ("get", "/api/v1/keys"), ("post", "/api/v1/keys"), ("delete", "/api/v1/keys/{key}"),
    ("get", "/api/v1/memory/check"),
}  # fmt: skip
READS_BY_POST = {("post", "/api/v1/conversations/{conversation}/context"), ("post", "/v1/embeddings")}
# Operations in which the name of Sara's conversation means one of the caller's own.
OWN = {
    ("post", "/api/v1/conversations/{conversation}/messages"), ("post", "/api/v1/conversations/{conversation}/chat"),
    ("post", "/api/v1/conversations/{conversation}/chat/stop"), ("get", "/api/v1/conversations/{conversation}/topics"),
    ("post", "/api/v1/conversations/{conversation}/context"), ("get", "/api/v1/conversations/{conversation}/similar"),
    ("get", "/api/v1/conversations/{conversation}/brief/versions"),
    ("post", "/api/v1/conversations/{conversation}/compress"),
}  # fmt: skip


# Every operation of the OpenAPI


class Sara:
    """A person with a conversation, a brief and topics, on a server with keys."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.admin = server.new_key("root", scopes=["read", "write", "admin"])
        self.key = server.new_key("sara")
        self.client = server.new_client(self.key)
        path = "/api/v1/conversations/sara-trip"
        for number in range(8):
            text = f"My {CANARY} number {number} is hidden under stone {number} in the garden."
            self.client.post(f"{path}/messages", json={"role": "user", "content": text, "id": f"sara-{number}"})
        self.client.patch(path, json={"title": f"{CANARY} title", "tags": [f"{CANARY}-tag"]})
        server.run(server.memory.drain())
        self.client.post(f"{path}/compress", json={"force": True}).raise_for_status()
        assert CANARY in self.client.get(f"{path}/brief").text
        topics = self.client.get(f"{path}/topics").json()["topics"]
        self.ids = {
            "conversation": "sara-trip", "message": "sara-0", "topic": topics[0]["id"], "key": self.key.split("_")[1],
            "model": "recollect",
        }  # fmt: skip
        self.openapi = self.client.get("/api/v1/openapi.json").json()

    def operations(self) -> Iterator[tuple[str, str, Any]]:
        for path, item in self.openapi["paths"].items():
            for method, operation in item.items():
                yield method, path, operation

    def request(self, client: httpx.Client, method: str, path: str, operation: Any) -> httpx.Response:
        """Call an operation with Sara's ids and a valid body."""
        params = {}
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter.get("required"):
                params[parameter["name"]] = (
                    "sara" if parameter["name"] == "person" else "hidden under which stone in the garden?"
                )
        body = operation.get("requestBody")
        schema = body["content"]["application/json"]["schema"] if body else None
        json_body = self.example(schema) if schema else None
        return client.request(method.upper(), path.format(**self.ids), params=params, json=json_body)

    def example(self, schema: Any) -> Any:
        """Return the smallest body that a schema allows, with Sara's ids where ids are taken."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            special = {
                "ChatIn": {"content": "hidden under which stone in the garden?"},
                "MergeIn": {"topic": self.ids["topic"]},
                "SplitIn": {"messages": ["sara-1"]}, "ConversationChangeIn": {"title": "mine now"},
                "TopicChangeIn": {"title": "mine now"}, "KeyIn": {"person": "sara"},
                "SettingsChangeIn": {"changes": {"rag_hybrid": False}}, "LoginIn": {"key": "rk_wrong_key"},
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
            names = set(schema.get("required", ())) | ({"content"} & set(schema.get("properties", ())))
            return {name: self.example(schema["properties"][name]) for name in sorted(names)}
        if kind == "array":
            return [self.example(schema["items"])] * schema.get("minItems", 0)
        return {"string": "hidden under which stone?", "integer": 1, "number": 0, "boolean": False}.get(kind)


@pytest.fixture(scope="module")
def sara(shared: RunningServer) -> Sara:
    return Sara(shared)


def test_no_operation_lets_another_person_read_or_change_what_is_saras(sara: Sara) -> None:
    before = sara.client.get("/api/v1/memory/export").text
    settings = sara.client.get("/api/v1/memory/settings").json()
    asked = 0
    for method, path, operation in sara.operations():
        asked += 1
        omar = sara.server.new_client(sara.server.new_key(f"omar{asked}"))
        reply = sara.request(omar, method, path, operation)
        failure = f"{method} {path}: {reply.status_code} {reply.text[:300]}"
        assert reply.status_code < 500, failure
        assert CANARY not in reply.text, failure
        assert CANARY not in str(reply.headers), failure
        if (method, path) in ADMIN:
            assert reply.status_code == 403, failure
        elif ("{message}" in path or "{topic}" in path or "{conversation}" in path) and (method, path) not in OWN:
            assert reply.status_code == 404, failure
        if path == "/api/v1/memory" and method == "delete":
            assert reply.status_code in (403, 404, 422), failure
    assert asked > 35
    assert sara.client.get("/api/v1/memory/export").text == before
    assert sara.client.get("/api/v1/memory/settings").json() == settings


def test_without_a_key_every_operation_is_refused_except_the_open_ones(sara: Sara) -> None:
    for key in (None, "rk_wrong_key", sara.key[:-1], "none"):
        client = sara.server.new_client(key)
        for method, path, operation in sara.operations():
            reply = sara.request(client, method, path, operation)
            assert reply.status_code == 401 or path in OPEN, f"{method} {path}"
            assert CANARY not in reply.text
    for scheme in ("Basic", "bearer\t", "Digest"):
        shown = {"Authorization": f"{scheme} {sara.key}"}
        assert sara.server.client.get("/api/v1/conversations", headers=shown).status_code == 401


def test_only_the_documentation_is_read_without_a_key_besides_the_operations_that_are_open(sara: Sara) -> None:
    stranger = sara.server.new_client()
    for path in (*DOCUMENTATION, *(path for method, path, _ in sara.operations() if method == "get")):
        reply = stranger.get(path)
        assert (reply.status_code != 401) == (path in (*OPEN, *DOCUMENTATION)), path
    for path in ("/api/docs", "/api/v1/openapi.json"):
        assert stranger.get(path).status_code == 200
        assert CANARY not in stranger.get(path).text
        for near in (f"{path}/", f"{path}/x", f"{path}%2F", f"{path}%2f..", f"/{path}", path.upper()):
            assert stranger.get(near).status_code == 401, near
    for path in DOCUMENTATION:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert stranger.request(method, path).status_code == 401, f"{method} {path}"


def test_the_root_leads_a_browser_to_the_documentation(sara: Sara) -> None:
    reply = sara.server.new_client().get("/", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (307, "/api/docs")


def test_a_read_key_cannot_write_and_a_write_key_cannot_administer(sara: Sara) -> None:
    reader = sara.server.new_client(sara.server.new_key("nadia", scopes=["read"]))
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
    assert sara.server.new_client(sara.admin).patch("/api/v1/memory/settings", json=fixed).status_code == 422
    assert sara.client.get("/api/v1/memory/settings").json()["settings"]["chat_system_prompt"] != "Obey."


def test_hostile_ids_and_names_break_nothing(location: str) -> None:
    hostile = ["%00", "..%2f..%2fetc", "%F0%9F%A6%86", "'%20OR%201=1--", "%ED%A0%80", "a" * 201, "%0d%0aX-A:%20b"]
    with make_server(location) as server:
        server.chat("trip", "hello")
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
                reply = server.client.request(method, route.format(text), json=body)
                assert reply.status_code < 500, f"{method} {route} {text}: {reply.text}"
                assert "x-a" not in reply.headers


# Keys and sessions over HTTP


def test_a_revoked_or_expired_key_is_refused_at_the_very_next_request(db: str) -> None:
    clock = FakeClock()
    with make_server(db, clock=clock) as server:
        admin = server.new_client(server.new_key("root", scopes=["read", "write", "admin"]))
        made_key = admin.post("/api/v1/keys", json={"person": "sara", "days": 1}).json()
        sara = server.new_client(made_key["token"])
        assert sara.get("/api/v1/conversations").status_code == 200
        assert "token" not in str([key for key in admin.get("/api/v1/keys").json()["keys"] if key["token"]])
        clock.advance(timedelta(days=1))
        assert sara.get("/api/v1/conversations").status_code == 401
        other = admin.post("/api/v1/keys", json={"person": "sara"}).json()
        sara = server.new_client(other["token"])
        assert sara.get("/api/v1/conversations").status_code == 200
        assert admin.delete(f"/api/v1/keys/{other['id']}").status_code == 204
        assert sara.get("/api/v1/conversations").status_code == 401
    for token in (made_key["token"], other["token"]):
        assert token.split("_", 2)[2].encode() not in read_all_bytes(db)


def test_a_login_sets_an_opaque_cookie_that_scripts_and_other_sites_cannot_use(sara: Sara) -> None:
    browser = Browser(sara.server, sara.key)
    assert browser.login.status_code == 200
    cookie = SimpleCookie(browser.login.headers["set-cookie"])["recollect_session"]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert cookie["path"] == "/"
    assert not cookie["secure"]
    assert sara.key not in browser.login.text
    assert sara.key.split("_", 2)[2] not in cookie.value
    assert browser.client.get("/api/v1/session").json()["person"] == "sara"
    safe = sara.server.new_client().post(
        "/api/v1/session", json={"key": sara.key}, headers={"X-Forwarded-Proto": "https"}
    )
    assert SimpleCookie(safe.headers["set-cookie"])["recollect_session"]["secure"]
    assert Browser(sara.server, "rk_wrong_key").login.status_code in (401, 403)


def test_a_page_must_send_its_csrf_token_and_its_origin(sara: Sara) -> None:
    browser, other = Browser(sara.server, sara.key), Browser(sara.server, sara.key)
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


def test_a_session_ends_at_logout_with_its_key_and_after_its_hours(db: str) -> None:
    clock = FakeClock()
    with make_server(db, clock=clock, server_session_hours=2) as server:
        key = server.new_key("sara")
        first, second, third = (Browser(server, key) for _ in range(3))
        value = first.client.cookies["recollect_session"]
        assert first.client.delete("/api/v1/session", headers={"Origin": server.url, "X-CSRF-Token": first.csrf})
        assert "recollect_session" not in first.client.cookies
        shown = {"Cookie": f"recollect_session={value}"}
        assert server.client.get("/api/v1/conversations", headers=shown).status_code == 401
        assert second.client.get("/api/v1/conversations").status_code == 200
        clock.advance(timedelta(hours=2))
        assert second.client.get("/api/v1/conversations").status_code == 401
        fourth = Browser(server, key)
        server.run(server.access.revoke_key(key.split("_")[1]))
        assert fourth.client.get("/api/v1/conversations").status_code == 401
        assert third.client.get("/api/v1/session").json()["person"] is None


def test_a_logout_needs_the_csrf_token(sara: Sara) -> None:
    browser = Browser(sara.server, sara.key)
    reply = browser.client.delete("/api/v1/session")
    assert reply.status_code == 403


def test_malformed_cookies_count_as_no_cookie(sara: Sara) -> None:
    for cookie in ("recollect_session", "recollect_session=", 'a="\\', "\x7f=1; recollect_session=x", "=" * 5000):
        reply = sara.server.client.get("/api/v1/conversations", headers={"Cookie": cookie.encode("latin-1")})
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
def test_an_unknown_host_header_is_refused(host: str, shared: RunningServer) -> None:
    for path in ("/api/v1/conversations", "/healthz", "/v1/models", "/api/docs"):
        reply = shared.client.get(path, headers={"Host": host})
        problem = reply.json()["error"] if path.startswith("/v1/") else reply.json()
        assert (reply.status_code, problem["code"]) == (421, "unknown_host")


def test_settings_allow_hosts_and_origins_but_never_cookies_across_origins(db: str) -> None:
    page = "https://page.example"
    with make_server(db, server_hosts="memory.example, other.example", server_origins=page) as server:
        for host in ("memory.example", "other.example:8377", "localhost", f"127.0.0.1:{server.port}", "[::1]:80"):
            assert server.client.get("/healthz", headers={"Host": host}).status_code == 200
        asked = {
            "Origin": page,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        preflight = server.client.options("/api/v1/conversations/trip/messages", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == page
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        reply = server.client.get("/api/v1/conversations", headers={"Origin": page})
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, page)
        assert "Origin" in reply.headers["vary"]
        assert "access-control-allow-credentials" not in reply.headers
        for origin in ("https://page.example.evil", "http://page.example", "https://page.example:444", "null"):
            reply = server.client.get("/api/v1/conversations", headers={"Origin": origin})
            assert reply.status_code == 403
            assert "access-control-allow-origin" not in reply.headers


def test_allowed_pages_may_send_the_headers_of_recollect_and_of_openai_clients(db: str) -> None:
    with make_server(db, server_origins="https://page.example") as server:
        reply = server.client.options("/v1/chat/completions", headers={"Origin": "https://page.example"})
        allowed = reply.headers["access-control-allow-headers"].lower()
        assert "x-recollect-conversation" in allowed
        assert "x-recollect-mode" in allowed
        assert "*" in allowed.split(", ")  # clients of the OpenAI API have headers of their own
        assert reply.headers["access-control-expose-headers"] == "*"


def test_pages_of_other_sites_are_refused_without_cors_headers(shared: RunningServer) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        reply = shared.client.request(method, "/api/v1/conversations", headers={"Origin": "https://evil.example"})
        assert reply.status_code == 403
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_every_answer_has_the_security_headers(shared: RunningServer) -> None:
    for path in ("/healthz", "/api/v1/conversations", "/nowhere", "/api/docs", "/v1/models"):
        headers = shared.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


# Limits


def test_a_body_over_the_limit_is_refused_however_it_is_sent(db: str, model: ModelServer) -> None:
    with make_server(db, model, server_body_bytes=20_000) as server:
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
                reply = server.new_client().post(path, content=content, headers=json_type)
                assert reply.status_code == 413, path
        assert server.dialogue("trip") == []
        assert server.chat("trip", "hello").text == ANSWER


def test_an_invalid_content_length_is_refused(db: str) -> None:
    """The HTTP parser refuses it before the application sees it."""
    with (
        make_server(db, server_body_bytes=20_000) as server,
        socket.create_connection(("127.0.0.1", server.port)) as raw,
    ):
        raw.settimeout(10)
        head = "POST /api/v1/conversations/trip/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n"
        raw.sendall(head.encode() + b"x" * 100)
        assert b" 400 " in raw.recv(1000)
        assert server.client.get("/healthz").status_code == 200


def test_a_key_over_its_rate_gets_a_retry_after_and_other_keys_are_served(db: str) -> None:
    with make_server(db, server_rate_per_minute=60) as server:
        sara, omar = server.new_client(server.new_key("sara")), server.new_client(server.new_key("omar"))
        replies = [sara.get("/api/v1/conversations") for _ in range(40)]
        refused = [reply for reply in replies if reply.status_code == 429]
        assert refused
        assert all(int(reply.headers["retry-after"]) >= 1 and reply.json()["retryable"] for reply in refused)
        assert omar.get("/api/v1/conversations").status_code == 200
        assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("body", [b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000])
def test_json_nested_thousands_of_levels_deep_is_refused_everywhere(
    body: bytes, shared: RunningServer, sara: Sara
) -> None:
    client = shared.new_client(sara.admin, **{"Content-Type": "application/json"})
    for method, path, operation in sara.operations():
        if "requestBody" in operation:
            reply = client.request(method.upper(), path.format(**sara.ids | {"conversation": "mine"}), content=body)
            assert 400 <= reply.status_code < 500, f"{method} {path}: {reply.status_code}"


@pytest.mark.parametrize("depth", [65, 200, 500, 900])
def test_deeply_nested_metadata_is_either_stored_and_readable_or_refused(depth: int, location: str) -> None:
    metadata = b'{"a":' * depth + b"1" + b"}" * depth
    with make_server(location) as server:
        path = "/api/v1/conversations/trip/messages"
        body = b'{"role": "user", "content": "x", "metadata": ' + metadata + b"}"
        reply = server.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code in (201, 400, 413, 422), reply.text[:200]
        if reply.status_code == 201:
            for read in (path, "/api/v1/memory/export", "/api/v1/recall?q=x"):
                assert server.client.get(read).status_code == 200, read


def test_json_nested_deeper_than_64_is_refused(shared: RunningServer) -> None:
    client = shared.new_client(shared.new_key("digger"))
    body = b'{"role": "user", "content": "x", "metadata": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}"
    path, headers = "/api/v1/conversations/deep/messages", {"Content-Type": "application/json"}
    assert client.post(path, content=body, headers=headers).status_code in (400, 413, 422)


# Start and health


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.5", "memory.example", "127.0.0.1.example", ""])
def test_without_keys_the_server_refuses_addresses_that_others_can_reach(host: str, db: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(check_and_bind(ServerOptions(db=db, host=host, port=0)))
    assert refused.value.code == "keys_needed"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_without_keys_the_server_accepts_loopback_addresses(host: str, db: str) -> None:
    try:
        bound, has_keys = asyncio.run(check_and_bind(ServerOptions(db=db, host=host, port=0)))
    except RecollectError as error:
        assert (error.code, host) == ("cannot_listen", "::1")
        pytest.skip("this machine has no IPv6")
    bound.close()
    assert not has_keys


def test_with_a_key_the_server_accepts_any_address(db: str) -> None:
    with make_server(db) as server:
        server.new_key("sara")
    bound, has_keys = asyncio.run(check_and_bind(ServerOptions(db=db, host=EVERYWHERE, port=0)))
    bound.close()
    assert has_keys


@pytest.fixture
def without_database(db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    async def fail(_: ServerStateStore) -> bool:
        raise StoreUnavailable("store_unavailable", "The database does not answer.")

    with make_server(db) as server:
        monkeypatch.setattr(ServerStateStore, "requires_keys", fail)
        yield server


def test_while_the_database_does_not_answer_requests_get_503(without_database: RunningServer) -> None:
    for path in ("/readyz", "/api/v1/conversations", "/v1/models", "/metrics"):
        assert without_database.client.get(path).status_code == 503


def test_healthz_answers_also_while_the_database_does_not(without_database: RunningServer) -> None:
    assert without_database.client.get("/healthz").status_code == 200


def test_a_503_for_want_of_the_database_is_retryable(without_database: RunningServer) -> None:
    for path in ("/readyz", "/api/v1/conversations"):
        reply = without_database.client.get(path)
        assert reply.json()["retryable"]
        assert "retry-after" in reply.headers


def test_debug_stats_count_what_a_person_has(shared: RunningServer, sara: Sara) -> None:
    reply = sara.client.get("/api/v1/memory/debug/stats")
    assert reply.status_code == 200
    assert reply.json()["totalMessages"] >= 8


def test_without_keys_an_authorization_header_is_ignored(db: str) -> None:
    with make_server(db) as server:
        client = server.new_client("anything")
        assert client.get("/api/v1/conversations").status_code == 200
        assert client.get("/api/v1/session").json() == {
            "person": "local", "scopes": ["read", "write", "admin", "act_as"], "csrf": None, "keys": False,
        }  # fmt: skip
