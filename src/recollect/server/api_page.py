"""Renders the API's reference as one HTML page from the OpenAPI document.

The page has no script and loads nothing: its one style sheet is inside, and `POLICY` allows that one by its hash.
Every text of the document is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final
from urllib.parse import quote

from recollect.server.openapi_reader import Schema, SchemaField, SchemaReader

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c2430; --dim: #5b6675; --page: #fff; --side: #f6f7f9; --line: #dfe3e8;
  --code: #f1f3f6; --link: #0b57a4; --get: #0b6b3a; --post: #0b57a4; --put: #8a5a00; --patch: #8a5a00;
  --delete: #b3261e }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --dim: #9aa5b4; --page: #14181e; --side: #1a1f27;
  --line: #2c343f; --code: #1f2630; --link: #7cb7f5; --get: #63c78f; --post: #7cb7f5; --put: #e0b35c; --patch: #e0b35c;
  --delete: #f2918a } }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--page); direction: ltr;
  text-align: left; display: grid; grid-template-columns: 19rem minmax(0, 1fr) }
a { color: var(--link); text-decoration: none } a:hover, a:focus { text-decoration: underline }
nav { background: var(--side); border-right: 1px solid var(--line); padding: 1.5rem 1rem; height: 100vh;
  position: sticky; top: 0; overflow-y: auto; font-size: .86rem }
nav h2 { font-size: .78rem; letter-spacing: .06em; text-transform: uppercase; color: var(--dim);
  margin: 1.4rem 0 .3rem }
nav ul { list-style: none; margin: 0; padding: 0 } nav li { margin: .1rem 0; display: flex; gap: .5rem }
nav .method { font-size: .66rem; width: 3.2rem; flex: none; padding: .15rem 0 0 }
main { padding: 2rem clamp(1rem, 4vw, 4rem) 6rem; max-width: 62rem }
h1 { margin: 0; font-size: 2rem } .dim { color: var(--dim) }
h2.tag { margin: 4rem 0 0; padding-bottom: .4rem; border-bottom: 2px solid var(--line); font-size: 1.5rem }
article { margin: 0; padding: 2rem 0 1rem; border-bottom: 1px solid var(--line) }
article h3 { margin: 0 0 .4rem; font-size: 1.15rem } article h4 { margin: 1.4rem 0 .3rem; font-size: .9rem }
.target { font: 600 .95rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
.method { font: 700 .8rem/1.5 ui-monospace, monospace; color: var(--dim) }
.get { color: var(--get) } .post { color: var(--post) } .put { color: var(--put) } .patch { color: var(--patch) }
.delete { color: var(--delete) }
code { font: .88em/1.5 ui-monospace, monospace; background: var(--code); padding: .1em .3em; border-radius: 4px;
  overflow-wrap: anywhere }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto;
  font: .84rem/1.5 ui-monospace, monospace }
pre code { background: none; padding: 0; font: inherit; overflow-wrap: normal }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th { text-align: left; font-weight: 600; color: var(--dim); font-size: .8rem }
th, td { padding: .4rem 1rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td:first-child { white-space: nowrap } td:nth-child(2) { width: 38% }
.must { color: var(--delete); font-size: .78rem; margin-left: .4rem }
details { margin: .4rem 0 } summary { cursor: pointer; font-size: .92rem }
@media (max-width: 56rem) { body { display: block } nav { position: static; height: auto; border: 0 } }
@media print { nav { display: none } body { display: block } }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PATHS: Final = frozenset(("/", "/api/docs", "/api/v1/openapi.json"))  # read without a key: they hold no data
METHODS: Final = ("get", "post", "put", "patch", "delete")
_TAGS: Final = {  # what a group is about
    "conversations": "The log: messages, and what is kept of older ones.",
    "recall": "Ask memory: for passages, or for a whole prompt.",
    "memory": "All that one person has: figures, settings, export, erase.",
    "profile": "What people say about themselves, their consent, and the audit log.",
    "topics": "What is spoken of, and what people do with it.",
    "chat": "Answers with memory, as server-sent events.",
    "OpenAI-compatible": "For clients of the OpenAI API: the same address and the same form, with memory.",
    "access": "Keys and logins.",
    "operation": "For operators.",
}
_TRY_FIRST: Final = ("add_messages", "context", "recall", "chat")  # names of the operations to begin with


def render_page(document: Schema, *, address: str, keys: bool) -> str:
    """Render all operations. Samples call the server at `address`; with `keys` they show a key."""
    return "".join(_Page(document, address.rstrip("/"), keys).render())


class _Page:
    def __init__(self, document: Schema, address: str, keys: bool) -> None:
        self._document, self._address, self._keys = document, address, keys
        self._reader = SchemaReader(document)
        self._groups: dict[str, list[tuple[str, str, Schema]]] = {}
        for path, item in document["paths"].items():
            for method in (each for each in METHODS if each in item):
                tag = (item[method].get("tags") or ["others"])[0]
                self._groups.setdefault(tag, []).append((method, path, item[method]))
        operations = [operation for group in self._groups.values() for *_, operation in group]
        statuses = [set(operation["responses"]) for operation in operations]
        self._common = set.intersection(*statuses) if statuses else set()

    def render(self) -> Iterator[str]:
        """Yield the parts of the page."""
        info = self._document["info"]
        title = f"{info['title']}: the API"
        yield f'<!doctype html><html lang="en" dir="ltr"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f"<style>{_STYLE}</style></head><body>"
        yield from self._render_contents()
        yield f'<main><h1>{escape(title)}</h1><p class="dim">Version {escape(info["version"])} · '
        yield '<a href="/api/v1/openapi.json">OpenAPI document</a></p>'
        yield from (f"<p>{text}</p>" for text in _paragraphs(info.get("description", "")))
        yield from self._render_introduction()
        for tag, operations in self._groups.items():
            yield f'<h2 class="tag" id="{_anchor(tag)}">{escape(tag.capitalize() if tag.islower() else tag)}</h2>'
            yield f'<p class="dim">{escape(_TAGS.get(tag, ""))}</p>'
            for method, path, operation in operations:
                yield from self._render_operation(method, path, operation)
        yield "</main></body></html>"

    def _render_contents(self) -> Iterator[str]:
        yield '<nav aria-label="Operations"><a href="#begin">Begin here</a>'
        for tag, operations in self._groups.items():
            yield f'<h2><a href="#{_anchor(tag)}">{escape(tag)}</a></h2><ul>'
            for method, _, operation in operations:
                name = operation["operationId"]
                yield f'<li><span class="method {method}">{method.upper()}</span>'
                yield f'<a href="#{_anchor(name)}">{escape(_title(operation))}</a></li>'
            yield "</ul>"
        yield "</nav>"

    def _render_introduction(self) -> Iterator[str]:
        key = "every request has a key, <code>Authorization: Bearer rk_…</code>"
        yield '<section id="begin"><h4>Who asks</h4><p>'
        if not self._keys:
            yield "This server has no keys: everyone who can reach it acts as one person. "
        yield f"{'Here' if self._keys else 'With keys,'} {key}; a browser logs in (<code>POST /api/v1/session</code>)."
        yield "</p><h4>What can go wrong</h4><p>Errors are <code>application/problem+json</code> with "
        yield "<code>code</code>, <code>detail</code> and <code>retryable</code>. Codes never change. "
        yield "Any operation may answer "
        yield ", ".join(f"{escape(status)} ({escape(self._meaning(status))})" for status in sorted(self._common))
        yield ".</p><p>Names in a path are percent-encoded UTF-8, a slash too (<code>%2F</code>).</p>"
        yield "<h4>What to try first</h4><ol>"
        for name in _TRY_FIRST:
            for method, path, operation in (each for group in self._groups.values() for each in group):
                if operation["operationId"].split("_api_")[0] == name:
                    yield f'<li><a href="#{_anchor(operation["operationId"])}">{escape(_title(operation))}</a> '
                    yield f'<span class="dim">{method.upper()} {escape(path)}</span></li>'
        yield "</ol></section>"

    def _meaning(self, status: str) -> str:
        responses = next(iter(next(iter(self._groups.values()))))[2]["responses"]
        return str(responses[status]["description"]).lower()

    def _render_operation(self, method: str, path: str, operation: Schema) -> Iterator[str]:
        yield f'<article id="{_anchor(operation["operationId"])}"><h3>{escape(_title(operation))}</h3>'
        yield f'<div class="target"><span class="method {method}">{method.upper()}</span> {escape(path)}</div>'
        yield from (f"<p>{text}</p>" for text in _paragraphs(operation.get("description", "")))
        yield from self._render_parameters(operation)
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if body is not None:
            yield "<h4>Body</h4>"
            yield from self._render_schema(body)
        yield f"<h4>Try it</h4><pre><code>{escape(self._command(method, path, operation, body))}</code></pre>"
        yield from self._render_responses(operation)
        yield "</article>"

    def _render_parameters(self, operation: Schema) -> Iterator[str]:
        parameters = operation.get("parameters", ())
        if parameters:
            fields = []
            for each in parameters:
                schema = each["schema"]
                meaning = each.get("description") or schema.get("description", "")
                if schema.get("default") is not None:
                    meaning = f"{meaning}{'; ' if meaning else ''}default `{schema['default']}`"
                place = f"in the {each['in']}: {self._reader.describe(schema)}"
                fields.append(SchemaField(each["name"], place, bool(each.get("required")), meaning))
            yield "<h4>Parameters</h4>"
            yield from _render_fields(fields)

    def _render_schema(self, schema: Schema) -> Iterator[str]:
        shapes = self._reader.shapes(schema)
        if not shapes:
            yield f"<p>{_inline(self._reader.describe(schema))}</p>"
        elif len(shapes) > 1:
            yield "<p>One of these:</p>"
        for name, meaning, fields in shapes:
            if len(shapes) > 1 or meaning:
                yield f"<p>{f'<code>{escape(name)}</code> ' if name else ''}{_inline(meaning)}</p>"
            yield from _render_fields(fields)

    def _render_responses(self, operation: Schema) -> Iterator[str]:
        yield "<h4>Answers</h4>"
        for status, response in sorted(operation["responses"].items()):
            if status in self._common and not status.startswith("2"):
                continue
            content: Mapping[str, Any] = response.get("content", {})
            kinds = ", ".join(content)
            heading = (
                f"<code>{escape(status)}</code> {_inline(response['description'].replace('Successful Response', 'OK'))}"
            )
            heading += f' <span class="dim">{escape(kinds)}</span>' if kinds else ""
            schema = next((each["schema"] for each in content.values() if each.get("schema")), None)
            if schema is None or status.startswith(("4", "5")):
                yield f"<p>{heading}</p>"
            else:
                yield f"<details><summary>{heading}</summary>"
                yield from self._render_schema(schema)
                yield "</details>"

    def _command(self, method: str, path: str, operation: Schema, body: Schema | None) -> str:
        """Return a call of the operation by curl."""
        query = []
        for each in operation.get("parameters", ()):
            sample = quote(str(self._reader.sample(each["schema"], each["name"])), safe="")
            if each["in"] == "path":
                path = path.replace(f"{{{each['name']}}}", "k-1a2b" if each["name"] == "key" else sample)
            elif each["in"] == "query" and each.get("required"):
                query.append(f"{each['name']}={sample}")
        target = f"{self._address}{path}{'?' if query else ''}{'&'.join(query)}"
        lines = [f"curl -s{'' if method in ('get', 'post') else f' -X {method.upper()}'} {shlex.quote(target)}"]
        if method == "post" and body is None:
            lines[0] = lines[0].replace("curl -s", "curl -s -X POST", 1)
        if self._keys and "security" in operation:
            lines.append('  -H "Authorization: Bearer $RECOLLECT_KEY"')
        if body is not None:
            sample = json.dumps(self._reader.sample(body), ensure_ascii=False)
            lines += ["  -H 'Content-Type: application/json'", f"  -d {shlex.quote(sample)}"]
        return " \\\n".join(lines)


def _render_fields(fields: Iterable[SchemaField]) -> Iterator[str]:
    yield "<table><thead><tr><th>name</th><th>type</th><th>meaning</th></tr></thead><tbody>"
    for field in fields:
        must = '<span class="must">required</span>' if field.is_required else ""
        yield f"<tr><td><code>{escape(field.name)}</code>{must}</td><td>{_inline(field.type)}</td>"
        yield f"<td>{_inline(field.meaning)}</td></tr>"
    yield "</tbody></table>"


def _title(operation: Schema) -> str:
    """Return the operation's name as a sentence has it: only its first letter is large."""
    return str(operation.get("summary", operation["operationId"])).capitalize()


def _paragraphs(text: str) -> list[str]:
    return [_inline(part) for part in text.split("\n\n") if part.strip()]


def _inline(text: str) -> str:
    """Escape a text, and set what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
