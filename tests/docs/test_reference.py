"""The reference names everything there is: settings, operations, methods, records, error codes, score parts."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.markdown import DOCS, ROOT, blocks, prose
from recollect import Memory, Settings
from recollect.testing import FakeClock

REFERENCE = DOCS / "reference"
SOURCE = ROOT / "src" / "recollect"
PRESETS = ("compact", "sessions", "topics", "briefs", "recall")
ERRORS = (
    "RecollectError", "InvalidInput", "NotFound", "Conflict", "Denied", "StoreUnavailable", "ProviderUnavailable",
    "AttemptFailed",
)  # fmt: skip
CODE = re.compile(r"[a-z]+(?:_[a-z]+)*")


@cache
def generator() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate_reference.py"))


def rows(page: Path) -> list[list[str]]:
    """Return the cells of all tables of a page, without the lines below their heads."""
    lines = [line.strip("|").replace("\\|", "¦") for line in prose(page).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [row for row in cells if not all(set(cell) <= set("-:") for cell in row)]


def spans(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def section(page: Path, title: str) -> str:
    """Return the prose of a page from a heading to the next one of the same level."""
    return re.split(r"^## ", prose(page), flags=re.MULTILINE)[
        [part.partition("\n")[0] for part in re.split(r"^## ", prose(page), flags=re.MULTILINE)].index(title)
    ]


# Generated pages. What they say in words may be older than the code until `make docs`; what they list may not.


def test_every_setting_is_listed_with_its_type_default_and_variable() -> None:
    def listed(block: str) -> set[tuple[str, ...]]:
        lines = [line for line in block.splitlines() if line.startswith("| `")]
        return {tuple(line.split(" | ")[:5]) for line in lines}

    page = (REFERENCE / "settings.md").read_text("utf-8")
    assert listed(generator()["settings_block"]()) == listed(page), "run `make docs`"
    assert {row[0].strip("`") for row in rows(REFERENCE / "settings.md")} >= set(Settings.model_fields)


def test_every_variable_sets_its_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("rag_token_budget", "max_topics", "memory_k_raw_turns"), 11):
        for variable in generator()["variables"](name):
            with monkeypatch.context() as patch, Memory(":memory:", worker=False) as before:
                assert getattr(before.settings(), name) != number
                patch.setenv(variable, str(number))
                with Memory(":memory:", worker=False) as after:
                    assert getattr(after.settings(), name) == number


def test_every_rest_operation_is_listed() -> None:
    schema = generator()["openapi"]()
    operations = {f"{method.upper()} {path}" for path, item in schema["paths"].items() for method in item}
    page = prose(REFERENCE / "rest.md")
    assert set(re.findall(r"^### ([A-Z]+ /\S*)$", page, re.MULTILINE)) == operations, "run `make docs`"


def test_every_record_is_listed() -> None:
    names = {record.__name__ for record in generator()["_records"]()}
    page = prose(REFERENCE / "records.md")
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == names, "run `make docs`"


def test_every_public_method_is_documented() -> None:
    shown = "".join(block.text for block in blocks(REFERENCE / "python.md") if block.language == "{eval-rst}")
    documented = re.findall(r"automethod:: (?:Memory\.)?(\w+)", shown)
    methods = {name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")}
    assert methods <= set(documented)


# Error codes


def error_codes() -> Iterator[str]:
    """Yield the codes in the source that are written out: of errors, of refusals over HTTP, and in tables."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                texts = node.args[:1] if name in ERRORS else node.args[1:2] if _begins_with_a_status(node) else []
            elif isinstance(node, ast.Tuple):  # (exception, code, message, retryable)
                texts = node.elts[1:2] if len(node.elts) == 4 and _ends_with_a_flag(node) else []
            else:
                continue
            for text in texts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and CODE.fullmatch(text.value):
                    yield text.value


def _begins_with_a_status(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, int) and 400 <= first.value < 600


def _ends_with_a_flag(node: ast.Tuple) -> bool:
    return isinstance(node.elts[-1], ast.Constant) and isinstance(node.elts[-1].value, bool)


def test_every_error_code_is_documented() -> None:
    found = set(error_codes())
    assert found >= {"unknown_role", "disk_full", "unauthorized", "provider_timeout", "csrf"}  # all kinds are found
    assert found - spans(prose(REFERENCE / "errors.md")) == set()


def test_every_documented_error_code_exists() -> None:
    written = {text for file in SOURCE.rglob("*.py") for text in re.findall(r'"([a-z_]+)"', file.read_text("utf-8"))}
    tables = section(REFERENCE / "errors.md", "Codes").partition("### ")[2]
    documented = {code for line in tables.splitlines() if line.startswith("| `") for code in spans(line.split("|")[1])}
    assert documented - written == set()


# Why a message was recalled, and what a prompt is made of


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory that gives every arm of recall and every part of a prompt something to say."""
    clock = FakeClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    location = tmp_path_factory.mktemp("why") / "chat.db"
    settings = Settings(compress_messages_at=5, compress_must_pay=False)  # a brief of so little would not pay
    with Memory(location, settings=settings, clock=clock, worker=False) as memory:
        for text in (
            "I'm allergic to peanuts and I live in Paris.",
            "Why does parse_date fail for PROJ-123?",
            "Which train goes from Seville to Granada?",
            "I prefer dark mode. We decided to launch in June.",
            "The train was late again. " + "We waited on the platform for a long while. " * 20,
            "Thanks, that helps.",
        ):
            memory.add("trip", "user", text, name="Sara")
            memory.add("trip", "assistant", "Noted: that is a question about trains, code or food.")
            clock.advance(timedelta(days=1))
        memory.add("other", "user", "Omar booked the hotel in Granada.", name="Omar")
        memory.set_profile({"preferences": {"languages": ["Python"]}, "notes": "I travel by train."})
        memory.set_consent(True)
        memory.drain()
        yield memory


def test_every_score_part_is_documented(talkative: Memory) -> None:
    talkative.add("trip", "user", "Always answer in two sentences. The train leaves on Friday.", id="standing")
    questions = ("Why does parse_date fail?", "What did Sara say yesterday?", "What can I not eat?", "hotel in Granada",
                 "When does the train leave?", "Always answer in two sentences")  # fmt: skip
    seen = {
        part
        for question in questions
        for conversation in (None, "trip")
        for hit in talkative.recall(question, conversation=conversation, limit=20)
        for part in hit.why
    }
    table = section(REFERENCE / "why.md", "Score parts").split("A session is")[0]
    assert {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")} == seen


def test_every_kind_of_hit_is_documented(talkative: Memory) -> None:
    found = [*talkative.recall("Which train do I take to Granada?", conversation="trip", limit=20)]
    found += talkative.recall("What can I not eat? Am I allergic to peanuts?", conversation="trip")
    assert {hit.kind for hit in found} == {"message", "passage", "brief", "profile"}
    assert {hit.kind for hit in found} <= spans(section(REFERENCE / "why.md", "Relevance"))


def test_every_part_of_a_prompt_and_every_reason_is_documented(talkative: Memory) -> None:
    parts, reasons = set[str](), set[str]()
    for budget in (120, 250, 500, 1000, 2100, 4000):
        for question in ("Which train do I take to Granada?", "What can I not eat?"):
            explain = talkative.context("trip", question, system_prompt="Be brief.", budget=budget).explain
            parts |= {part["name"] for part in explain["parts"]}
            reasons |= {re.sub(r"\d+", "N", item["reason"]) for item in explain["left_out"]}
    documented = section(REFERENCE / "why.md", "Parts of a prompt")
    before, _, after = documented.partition('`explain["left_out"]`')
    assert parts == {line.split("`")[1] for line in before.splitlines() if line.startswith("| `")}
    assert reasons
    assert reasons <= spans(after)


def test_every_degraded_name_is_documented() -> None:
    pattern = re.compile(
        r'degraded\["(\w+)"\]|degraded\.append\("(\w+)"\)|degraded=\("(\w+)",\)|\(\*degraded, "(\w+)"\)'
    )
    found = {
        name
        for file in SOURCE.rglob("*.py")
        for groups in pattern.findall(file.read_text("utf-8"))
        for name in groups
        if name
    }
    assert found >= {"embedder", "vectors", "summarizer", "memory"}
    assert found <= spans(section(REFERENCE / "errors.md", "Degraded answers"))


# Presets


def test_the_numbers_of_the_presets_are_those_of_the_settings() -> None:
    table = [row for row in rows(DOCS / "how-to" / "presets.md") if len(row) == 7]
    head, *lines = table
    assert [name.strip("`") for name in head[2:]] == list(PRESETS)
    defaults = Settings()
    shown = {line[0].strip("`"): line[1:] for line in lines}
    for column, preset in enumerate(("", *PRESETS)):
        with Memory(":memory:", settings=preset or None, worker=False) as memory:
            settings, origins = memory.settings(), memory.setting_origins()
        given = {name for name, origin in origins.items() if origin == "constructor"}
        assert given == {name for name, cells in shown.items() if column and cells[column]}
        for name, cells in shown.items():
            expected = cells[column] or str(getattr(defaults, name)).lower()
            assert str(getattr(settings, name)).lower() == expected, (preset, name)
