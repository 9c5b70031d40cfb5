"""Attacks by characters: names in paths, queries and headers that are no text, or that are read as another name.

Different bytes never name the same thing, and what is no UTF-8 names nothing. What people write may hold anything: it
is stored, and what no database can hold is replaced and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from recollect.server.app import build_openapi
from support.raw_http import RawConnection, RawReply, message, request
from support.serving import RunningServer, make_server

Targets = list[tuple[str, str]]

NOT_UTF8 = {
    "a byte that never occurs": "%FF",
    "half of a character": "%D9",
    "an overlong slash": "%C0%AF",
    "a longer overlong slash": "%E0%80%AF",
    "an overlong NUL": "%C0%80",
    "half a surrogate pair": "%ED%A0%80",
    "a surrogate pair as CESU-8": "%ED%A0%BD%ED%B8%80",
    "beyond Unicode": "%F4%90%80%80",
}
STAND_IN = "%EE%80%AF"  # U+E02F
REFUSED = {"NUL": "a%00b", "nothing visible": "%20", "a line end alone": "%0A", "too long": "a" * 201}
ODD_NAMES = {
    "a slash": ("a%2Fb", "a/b"),
    "a slash in lower case": ("a%2fb", "a/b"),
    "two dots": ("%2e%2e", ".."),
    "a path upwards": ("..%2F..%2Fetc", "../../etc"),
    "a percent sign": ("100%25", "100%"),
    "an escaped escape": ("a%252Fb", "a%2Fb"),
    "a backslash": ("a%5Cb", "a\\b"),
    "right to left": ("%E2%80%AEabc", "\u202eabc"),
    "zero width": ("a%E2%80%8Bb", "a\u200bb"),
    "an emoji": ("%F0%9F%A6%86", "🦆"),
    "the replacement character itself": ("%EF%BF%BD", "\ufffd"),
    "a slash in full width": ("a%EF%BC%8Fb", "a\uff0fb"),
    "Arabic": ("%D8%B1%D8%AD%D9%84%D8%A9", "رحلة"),
    "a new line inside": ("a%0D%0AX-A:%20b", "a\r\nX-A: b"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with make_server(str(tmp_path_factory.mktemp("names") / "memory.db")) as running:
        yield running


def send(server: RunningServer, data: bytes) -> RawReply:
    with RawConnection(server.port) as connection:
        return connection.send(data).reply()


def names(server: RunningServer) -> set[str]:
    listed = server.client.get("/api/v1/conversations?limit=1000").json()["conversations"]
    return {conversation["name"] for conversation in listed}


@pytest.fixture(scope="module")
def targets(server: RunningServer) -> Targets:
    """Return method and path of every operation and every parameter of its path and query, with {} for that one."""
    found = []
    for path, item in build_openapi(server.app, keys=False)["paths"].items():
        for method, operation in item.items():
            parameters = [each for each in operation.get("parameters", ()) if each["in"] in ("path", "query")]
            filled = path.replace("{", "\0").replace("}", "\1")
            for chosen in parameters:
                target = filled
                for each in parameters:
                    if each["in"] == "path":
                        target = target.replace(f"\0{each['name']}\1", "{}" if each is chosen else "x")
                found.append((method.upper(), target if chosen["in"] == "path" else f"{target}?{chosen['name']}={{}}"))
    return found


def test_there_are_operations_to_attack(targets: Targets) -> None:
    assert len(targets) > 40
    assert {method for method, _ in targets} >= {"GET", "POST", "PATCH", "DELETE"}


@pytest.mark.parametrize("text", NOT_UTF8.values(), ids=NOT_UTF8)
def test_bytes_that_are_no_utf8_are_refused_in_every_path_and_query(
    text: str, server: RunningServer, targets: Targets, full_count: bool
) -> None:
    before = names(server)
    with RawConnection(server.port) as connection:
        for method, target in targets:
            for odd in (text, f"a{text}", f"{text}b") if full_count else (f"a{text}",):
                reply = connection.send(request(method, target.format(odd), body=b"{}")).reply()
                assert (reply.status, reply.code) == (400, "invalid_path"), (method, target)
    assert names(server) == before


def test_the_character_that_stands_for_a_slash_inside_is_refused_from_outside(
    server: RunningServer, targets: Targets
) -> None:
    before = names(server)
    with RawConnection(server.port) as connection:
        for method, target in targets:
            if "?" not in target:
                for text in (STAND_IN, f"a{STAND_IN}b", f"a%2Fb{STAND_IN}", STAND_IN.lower()):
                    reply = connection.send(request(method, target.format(text), body=b"{}")).reply()
                    assert (reply.status, reply.code) == (400, "invalid_path"), (method, target)
    assert names(server) == before


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_names_that_cannot_be_stored_are_refused_in_every_path(
    text: str, server: RunningServer, targets: Targets
) -> None:
    with RawConnection(server.port) as connection:
        for method, target in targets:
            reply = connection.send(request(method, target.format(text), body=b"{}")).reply()
            assert reply.status < 500, (method, target)
            if "?" not in target:
                invalid = 400 if target.startswith("/v1/") else 422  # OpenAI's API says 400
                assert reply.status in (404, invalid), (method, target)


@pytest.mark.parametrize("text", [*NOT_UTF8.values(), STAND_IN, *REFUSED.values()])
def test_no_operation_fails_unexpectedly_because_of_a_header(text: str, server: RunningServer) -> None:
    for name in ("Idempotency-Key", "X-Recollect-Conversation", "X-Recollect-Mode", "X-CSRF-Token", "If-None-Match"):
        body = b'{"messages": [{"role": "user", "content": "Hello"}]}'
        for path in ("/v1/chat/completions", "/api/v1/conversations/odd-header/messages"):
            reply = send(server, request("POST", path, f"{name}: {text}", body=body))
            assert reply.status < 500, (name, path)


@pytest.mark.parametrize(("encoded", "name"), ODD_NAMES.values(), ids=ODD_NAMES)
def test_odd_names_are_stored_and_found_as_they_are(encoded: str, name: str, server: RunningServer) -> None:
    path = f"/api/v1/conversations/{encoded}"
    reply = send(server, request("POST", f"{path}/messages", body=message(f"in {encoded}")))
    assert (reply.status, json.loads(reply.body)["messages"][0]["conversation"]) == (201, name)
    assert "x-a" not in reply.headers
    assert json.loads(send(server, request("GET", path)).body)["name"] == name
    assert name in names(server)
    question = quote(f"in {encoded}", safe="")
    recalled = json.loads(send(server, request("GET", f"/api/v1/recall?q={question}&conversation={encoded}")).body)
    hits = [(hit["conversation"], hit["text"]) for hit in recalled["hits"]]
    assert (name, f"in {encoded}") in hits  # others may follow: here is little to find


@pytest.mark.parametrize("text", NOT_UTF8.values(), ids=NOT_UTF8)
def test_a_conversation_in_a_header_must_be_utf8(text: str, server: RunningServer) -> None:
    before = names(server)
    body = b'{"messages": [{"role": "user", "content": "Hello"}]}'
    header = f"X-Recollect-Conversation: a{text}"
    reply = send(server, request("POST", "/v1/chat/completions", header, body=body))
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "invalid_conversation")
    assert names(server) == before


@pytest.mark.parametrize("target", ["/api/v1/conversations/é", "/api/v1/recall?q=شاي", "/api/v1/recall?q=\x7f"])
def test_a_target_that_is_not_encoded_is_refused(target: str, server: RunningServer) -> None:
    assert send(server, request("GET", target)).status == 400


# Half surrogate pairs in JSON


HALF_PAIRS = ["\ud800", "\udfff", "a\ud83db", "\udc00\ud800"]


def post(server: RunningServer, path: str, body: Any) -> Any:
    """Send JSON in which half a pair stands as an escape, as JSON allows it."""
    encoded = json.dumps(body).encode()
    assert b"\\ud" in encoded
    return server.client.post(path, content=encoded, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("text", HALF_PAIRS)
def test_half_pairs_in_messages_are_replaced_and_counted_over_rest(text: str, location: str) -> None:
    halves = sum("\ud800" <= character <= "\udfff" for character in text)
    with make_server(location) as server:
        body = {"role": "user", "content": text, "name": text, "metadata": {"note": text, text: 1}}
        reply = post(server, "/api/v1/conversations/trip/messages", body)
        assert reply.status_code == 201, reply.text
        stored = reply.json()["messages"][0]
        clean = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        assert (stored["content"], stored["name"], stored["metadata"]["note"]) == (clean, clean, clean)
        assert stored["replaced"] == 4 * halves
        (again,) = server.client.get("/api/v1/conversations/trip/messages").json()["messages"]
        assert again == stored


@pytest.mark.parametrize("text", HALF_PAIRS)
def test_half_pairs_in_questions_titles_and_profiles_are_replaced(text: str, server: RunningServer) -> None:
    server.client.post("/api/v1/conversations/half/messages", json={"role": "user", "content": "tea"})
    path = "/api/v1/conversations/half"
    question = f"What about {text}?"
    assert post(server, f"{path}/context", {"query": question, "system_prompt": text}).status_code == 200
    chat = post(server, f"{path}/chat", {"content": question})
    assert chat.status_code == 200
    assert "\ufffd" in chat.text
    body = {"model": "recollect", "messages": [{"role": "user", "content": question}]}
    assert post(server, "/v1/chat/completions", body).status_code == 200
    headers = {"Content-Type": "application/json"}
    title = server.client.patch(path, content=json.dumps({"title": text}).encode(), headers=headers)
    assert "\ufffd" in title.json()["title"]


@pytest.mark.parametrize("text", HALF_PAIRS)
def test_half_pairs_in_names_and_ids_are_refused(text: str, server: RunningServer) -> None:
    path = "/api/v1/conversations/half/messages"
    for field in ("id", "tool_call_id"):
        reply = post(server, path, {"role": "user", "content": "tea", field: text})
        assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert post(server, "/api/v1/keys", {"person": text}).status_code == 422
    assert post(server, "/api/v1/conversations/half/chat", {"content": "tea", "model": text}).status_code == 422
