"""Writes the generated reference pages: python docs/generate_reference.py

Settings, REST operations and records are read from the code, so that the pages cannot differ from it. Each page has
text of its own around a generated block, which stands between `<!-- generated -->` and `<!-- end -->`. No server is
started and nothing is fetched.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import recollect
from recollect import Memory, Settings
from recollect.settings import CHOSEN_BY_PERSON, FIXED_AT_START

MAX_LISTED_VALUES: Final = 12  # of an enumeration; time zones are hundreds
REFERENCE: Final = Path(__file__).parent / "reference"
BLOCK: Final = re.compile(r"<!-- generated -->\n.*?<!-- end -->", re.DOTALL)
SHORT_NAMES: Final = ("memory_", "rag_", "prompt_", "backfill_")  # settings that have a second variable
GROUPS: Final = (
    ("The prompt", ("memory_k_raw_turns", "memory_prompt_token_budget", "memory_brief_token_budget")),
    ("The brief", ("memory_", "compress_", "narrative_", "prompt_", "rag_summary_frequency")),
    ("Recall", ("rag_", "backfill_")),
    ("Topics", ("max_", "similarity_", "base_", "access_", "recent_", "topic_")),
    ("Models and embedders", ("model_", "embedder_", "api_key", "provider_")),
    ("Chat", ("chat_",)),
    ("The server", ("server_",)),
    ("The worker and imports", ("worker_", "import_")),
)


def row(*cells: object) -> str:
    """Return one row of a table; line breaks and bars inside a cell would end it."""
    return "| " + " | ".join(str(cell).replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    names = list(head)
    return [row(*names), "|" + "---|" * len(names), *(row(*cells) for cells in rows)]


# Settings


def settings_block() -> str:
    """Return a table of settings for each group."""
    left = dict(Settings.model_fields)
    lines: list[str] = []
    for title, prefixes in (*GROUPS, ("Others", ("",))):
        names = [name for name in left if name.startswith(prefixes)]
        if names:
            head = ("setting", "type", "default", "environment variable", "changed by", "meaning")
            rows = [_setting(name, left.pop(name)) for name in names]
            lines += [f"### {title}", "", *table(head, rows), ""]
    return "\n".join(lines).rstrip()


def _setting(name: str, field: Any) -> tuple[str, ...]:
    changed_by = "fixed" if name in FIXED_AT_START else "the person" if name in CHOSEN_BY_PERSON else "the operator"
    named = " or ".join(f"`{variable}`" for variable in variables(name))
    return (f"`{name}`", _setting_type(field), _default(field.default), named, changed_by, field.description or "")


def _setting_type(field: Any) -> str:
    names = [_type_name(one) for one in typing.get_args(field.annotation) or (field.annotation,)]
    bounds = [
        f"{sign} {getattr(bound, name):,}"
        for bound in field.metadata
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if hasattr(bound, name)
    ]
    return ", ".join([" or ".join(names), *bounds])


def _type_name(kind: object) -> str:
    return {type(None): "none", str: "text", int: "integer", float: "number", bool: "true or false"}.get(
        kind,  # type: ignore[call-overload]
        f"`{kind}`",
    )


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}"
    return f"`{value}`" if value else "empty"


def variables(name: str) -> list[str]:
    """Return the environment variables that set a setting, strongest first."""
    return [f"RECOLLECT_{name.upper()}", *([name.upper()] if name.startswith(SHORT_NAMES) else [])]


# REST


def openapi() -> dict[str, Any]:
    """Return the OpenAPI schema of a server that asks for keys, without starting one."""
    from recollect.server.app import build_openapi, make_app

    options = typing.get_type_hints(make_app)["options"]  # what `recollect serve` is told
    return build_openapi(make_app(options(db=":memory:")), keys=True)


def rest_block() -> str:
    """Return a section for each operation, under a heading for each group of operations."""
    schema = openapi()
    groups: dict[str, list[str]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["others"])[0]
            groups.setdefault(tag, []).extend(_operation(method, path, operation, schema))
    lines: list[str] = []
    for tag, sections in groups.items():
        lines += [f"## {tag[0].upper()}{tag[1:]}", "", *sections]
    return "\n".join(lines).rstrip()


def _operation(method: str, path: str, operation: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    said = operation.get("description") or f"{operation.get('summary', '')}."
    lines = [f"### {method.upper()} {path}", "", _plain(said), ""]
    parameters = [
        (f"`{one['name']}`", one["in"], _json_type(one["schema"]), _need(one["schema"], required=one.get("required")),
         _plain(one.get("description") or one["schema"].get("description", "")))
        for one in operation.get("parameters", ())
    ]  # fmt: skip
    if parameters:
        lines += [*table(("parameter", "in", "type", "required", "meaning"), parameters), ""]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        lines += _body(content["schema"], schema)
    return [*lines, *_answers(operation["responses"], schema), ""]


def _need(one: Mapping[str, Any], *, required: bool | None) -> str:
    if required:
        return "yes"
    default = one.get("default")
    return "no" if default in (None, "", [], {}) or isinstance(default, dict) else f"no: {default}"


def _body(body: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    kinds = body.get("anyOf") or [body]
    lines = []
    for number, kind in enumerate(kinds):
        fields = _resolve(kind, schema)
        named = kind.get("$ref", "").rpartition("/")[2]
        lead = "Body" if not number else "or"
        lines += [f"{lead}{f' `{named}`' if named else ''}:", ""]
        required = fields.get("required", ())
        rows = [
            (f"`{name}`", _json_type(one), _need(one, required=name in required), _plain(one.get("description", "")))
            for name, one in fields.get("properties", {}).items()
        ]
        lines += [*table(("field", "type", "required", "meaning"), rows), ""]
    return lines


def _answers(responses: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    lines = []
    for status in sorted(one for one in responses if one < "300"):
        kinds = [_answer(media, content, schema) for media, content in responses[status].get("content", {}).items()]
        said = responses[status].get("description", "")
        shown = "" if said in ("", "Successful Response") else f" {_plain(said)}"
        lines.append(f"- **{status}**: {', or '.join(kind for kind in kinds if kind) or 'no body'}.{shown}")
    refused = ", ".join(sorted(status for status in responses if status >= "300"))
    return [*lines, *([f"- **refused with:** {refused}"] if refused else [])]


def _answer(media: str, content: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return what an answer is: a record by its name, another object by its fields, or a kind of content."""
    kind = content.get("schema") or {}
    if media != "application/json" or not kind:
        return f"`{media}`" if media != "application/json" else ""
    name = kind.get("$ref", "").rpartition("/")[2]
    if name in {record.__name__ for record in _records()}:
        return f"[`{name}`](records.md#{name.lower()})"
    fields = _resolve(kind, schema).get("properties", {})
    if fields:
        return "an object with " + ", ".join(f"`{field}` ({_json_type(one)})" for field, one in fields.items())
    return _json_type(kind)


def _resolve(one: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in one:
        found: Mapping[str, Any] = schema["components"]["schemas"][one["$ref"].rpartition("/")[2]]
        return found
    return one


def _json_type(one: Mapping[str, Any]) -> str:
    """Return a type as a reader says it: "integer or null", "list of `Topic`"."""
    if "$ref" in one:
        return f"`{one['$ref'].rpartition('/')[2]}`"
    if "anyOf" in one:
        return " or ".join(dict.fromkeys(_json_type(kind) for kind in one["anyOf"]))
    if len(one.get("enum", ())) > MAX_LISTED_VALUES:
        return "name of a time zone" if "UTC" in one["enum"] else "one of many names"
    if "enum" in one:
        return " or ".join(f"`{value}`" for value in one["enum"])
    if "const" in one:
        return f"`{one['const']}`"
    kind = one.get("type", "")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_json_type(one.get('items', {})) or 'anything'}"
    return f"time ({one['format']})" if one.get("format") == "date-time" else str(kind)


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


# Records


def records_block() -> str:
    """Return a section for each record that a method of `Memory` returns, in the order of their names."""
    lines: list[str] = []
    for kind in sorted(_records(), key=lambda one: one.__name__):
        hints = typing.get_type_hints(kind)
        fields = [one for one in dataclasses.fields(kind) if "internal" not in one.metadata]
        rows = [(f"`{one.name}`", f"`{_annotation(hints[one.name])}`") for one in fields]
        said = "\n".join(inspect.cleandoc(kind.__doc__ or "").splitlines())
        exported = "" if kind.__name__ in recollect.__all__ else " It is returned, and not exported by `recollect`."
        lines += [f"## {kind.__name__}", "", said.replace("<", "&lt;") + exported, ""]
        lines += [*table(("field", "type"), rows), ""]
    return "\n".join(lines).rstrip()


def _records() -> set[type[Any]]:
    """Collect the dataclasses in the return types of all public methods, and in the fields of those."""
    found: set[type[Any]] = set()
    waiting = [
        typing.get_type_hints(method).get("return")
        for name, method in inspect.getmembers(Memory, inspect.isfunction)
        if not name.startswith("_") and name not in ("tune", "bench")  # their types are imported when they run
    ]
    waiting += [getattr(recollect, name) for name in recollect.__all__]
    while waiting:
        for kind in _parts(waiting.pop()):
            if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind not in found:
                found.add(kind)
                waiting += typing.get_type_hints(kind).values()
    return found


def _parts(kind: object) -> Iterator[object]:
    """Yield a type and the types it is made of."""
    yield kind
    for part in typing.get_args(kind):
        yield from _parts(part)


def _annotation(kind: Any) -> str:
    text = inspect.formatannotation(kind)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace("NoneType", "None")


# Pages


PAGES: Final = {"settings.md": settings_block, "rest.md": rest_block, "records.md": records_block}


def generated(name: str) -> str:
    """Return a page with its generated block as the code is today."""
    page = (REFERENCE / name).read_text("utf-8")
    block = f"<!-- generated -->\n\n{PAGES[name]()}\n\n<!-- end -->"
    return BLOCK.sub(lambda _: block, page)


def write() -> None:
    """Write every page that differs."""
    for name in PAGES:
        page = generated(name)
        if page != (REFERENCE / name).read_text("utf-8"):
            (REFERENCE / name).write_text(page, "utf-8")


if __name__ == "__main__":
    write()
