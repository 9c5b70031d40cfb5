"""The page of the API's reference: complete, safe, and with samples that work."""

from __future__ import annotations

import html
import json
import re
import shlex
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from recollect.server import api_page
from recollect.server.app import build_openapi
from support.serving import RunningServer, make_server


class Elements(HTMLParser):
    """Collects the elements of a page: their names, and the values of their attributes."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements are not nested"


@pytest.fixture(scope="module")
def page(shared: RunningServer) -> str:
    return shared.client.get("/api/docs").text


def samples(page: str) -> list[list[str]]:
    """Return the words of each command on a page."""
    return [shlex.split(html.unescape(text)) for text in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)]


def test_every_operation_is_on_the_page_with_its_parameters_and_a_sample(page: str, shared: RunningServer) -> None:
    document = build_openapi(shared.app, keys=False)
    operations = [(path, method, item[method]) for path, item in document["paths"].items() for method in item]
    assert {method for _, method, _ in operations} <= set(api_page.METHODS)
    articles = re.findall(r"<article.*?</article>", page, re.DOTALL)
    assert len(articles) == len(operations) > 40
    for path, method, operation in operations:
        (article,) = [each for each in articles if f">{method.upper()}</span> {html.escape(path)}<" in each]
        assert html.escape(operation["description"].split("`")[0].split("\n")[0]) in article
        for parameter in operation.get("parameters", ()):
            assert f"<code>{parameter['name']}</code>" in article
        assert article.count("<pre>") == 1
        identifier = re.findall(r'<article id="([^"]+)"', article)[0]
        assert f'href="#{identifier}"' in page


def test_the_page_runs_nothing_loads_nothing_and_says_so(page: str, shared: RunningServer) -> None:
    elements = Elements(page)
    assert elements.open == []
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(elements.names)
    names = [name for name, _ in elements.attributes]
    assert not [name for name in names if name.startswith("on") or name in ("style", "src", "action")]
    addresses = {value for name, value in elements.attributes if name == "href"}
    assert all(value is not None and value.startswith(("#", "/api/")) for value in addresses)
    policy = shared.client.get("/api/docs").headers["content-security-policy"]
    assert policy == api_page.POLICY
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_anchors_are_unique(page: str) -> None:
    identifiers = [value for name, value in Elements(page).attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))


def test_all_texts_of_the_document_are_escaped() -> None:
    evil = "<script>alert(1)</script>\"'&`<b>`"
    shape = {"type": "object", "description": evil, "required": [evil], "properties": {evil: {"description": evil}}}
    operation = {
        "operationId": evil, "summary": evil, "description": evil, "tags": [evil],
        "parameters": [
            {"name": evil, "in": "query", "required": True, "schema": {"enum": [evil]}, "description": evil}
        ],
        "requestBody": {"content": {"application/json": {"schema": shape}}},
        "responses": {"200": {"description": evil, "content": {evil: {"schema": shape}}}, "404": {"description": evil}},
    }  # fmt: skip
    document = {
        "info": {"title": evil, "version": evil, "description": evil},
        "paths": {f"/{evil}": {"get": operation}},
    }
    text = api_page.render_page(document, address=f"http://{evil}", keys=True)
    assert not {"script", "b"} & set(Elements(text).names)


def test_samples_show_a_key_where_one_is_needed(shared: RunningServer) -> None:
    document = build_openapi(shared.app, keys=True)
    keyed = samples(api_page.render_page(document, address="https://memory.example", keys=True))
    without = [words for words in keyed if "Authorization: Bearer $RECOLLECT_KEY" not in words]
    assert {words[-1].removeprefix("https://memory.example") for words in without if "-d" not in words} == {
        "/healthz", "/readyz", "/api/v1/session",
    }  # fmt: skip


def test_samples_say_something_a_reader_could_send(page: str) -> None:
    commands = [words for words in samples(page) if "-d" in words]
    bodies = {next(word for word in words if "://" in word): words[words.index("-d") + 1] for words in commands}
    assert len(bodies) > 10
    assert [body for body in bodies.values() if "…" in body and "rk_…" not in body] == []
    (completion,) = [json.loads(body) for url, body in bodies.items() if url.endswith("/v1/chat/completions")]
    (message,) = completion["messages"]
    assert message["role"] == "user" and message["content"].endswith("?")
    (merged,) = [(url, json.loads(body)) for url, body in bodies.items() if url.endswith("/merge")]
    assert merged[1]["topic"] not in merged[0]


def test_samples_are_requests_that_the_server_understands(page: str, db: str) -> None:
    def send(words: list[str]) -> Any:
        options = dict(pairwise(words))
        body = options.get("-d")
        (address,) = [word for word in words if word.startswith("http://")]
        method = options.get("-X", "GET" if body is None else "POST")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        path = "/" + address.split("/", 3)[3]
        return server.client.request(method, path, content=None if body is None else body.encode(), headers=headers)

    with make_server(db) as server:
        understood = 0
        for words in samples(page):
            if not words[-1].startswith("{") or "/keys" not in " ".join(words):  # a first key would lock the test out
                reply = send(words)
                assert reply.status_code not in (400, 405, 415, 422), (words, reply.text)
                understood += 1
        assert understood > 40
