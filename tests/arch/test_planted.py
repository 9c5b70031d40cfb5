"""Each rule of the house finds a violation that is planted in the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from arch import rules
from arch.test_architecture import SCOPE_TABLES
from recollect.core.scope import KINDS, SUPPORTED, Scope

TREE = rules.Tree.read(Path(recollect.__file__).parent)  # keeps every rule: see test_architecture.py
Plant = Callable[[rules.Tree], rules.Tree]


def write(place: str, text: str) -> Plant:
    """Return a plant that adds a module."""
    return lambda tree: tree.with_module(place, text)


def append(place: str, text: str) -> Plant:
    """Return a plant that adds lines to a module that exists."""
    return lambda tree: tree.with_module(place, text, append=True)


LONG_FUNCTION = "def long() -> None:\n" + "    pass\n" * 60
PLANTS: dict[str, tuple[Callable[[rules.Tree], list[str]], Plant, str]] = {
    "core imports the store": (
        rules.wrong_arrows,
        write("core/deep/x.py", "from recollect.storage import rows\n"),
        "core/deep/x.py imports storage",
    ),
    "a part imports one of its own rank": (
        rules.wrong_arrows,
        write("formats/x.py", "from recollect.providers import chat\n"),
        "formats/x.py imports providers",
    ),
    "a lazy import goes up": (
        rules.wrong_arrows,
        write("recall/x.py", "def f() -> None:\n    import recollect.memory.log\n"),
        "recall/x.py imports memory",
    ),
    "a new part has no rank": (
        rules.wrong_arrows,
        write("news/x.py", ""),
        "news has no place in the order of layers yet",
    ),
    "two modules import each other": (
        rules.cycles,
        append("core/errors.py", "import recollect.core.models\nimport recollect.core.text\n"),
        " → ",
    ),
    "core asks for the time": (
        rules.impure_core,
        write("core/deep/deeper/x.py", "from datetime import datetime\nx = datetime.now()\n"),
        "core/deep/deeper/x.py asks for the time",
    ),
    "core reads a file": (
        rules.impure_core,
        append("core/extract/rules.py", "text = open('x')\n"),
        "core/extract/rules.py calls open",
    ),
    "core reads a packaged file": (
        rules.impure_core,
        append("core/archive.py", "from importlib.resources import files\n"),
        "core/archive.py imports importlib.resources",
    ),
    "core logs": (rules.impure_core, write("core/dates/x.py", "import logging\n"), "core/dates/x.py imports logging"),
    "a face imports the store": (
        rules.foreign_store_users,
        write("cli/x.py", "from recollect.storage.store import SqlStore\n"),
        "cli/x.py imports recollect.storage.store",
    ),
    "a face reaches for the store": (
        rules.foreign_store_users,
        write("server/x.py", "async def f(memory):\n    await memory.store.jobs.due()\n"),
        "server/x.py:2 reaches for the store",
    ),
    "a use case imports the SQLite layer": (
        rules.foreign_driver_users,
        append("admin/erase.py", "from recollect.storage.sqlite_file import find_in_files\n"),
        "admin/erase.py imports recollect.storage.sqlite_file",
    ),
    "a use case imports a database's library": (
        rules.foreign_driver_users,
        write("memory/x.py", "def f() -> None:\n    import psycopg.errors\n"),
        "memory/x.py imports psycopg.errors",
    ),
    "two classes share a name": (
        rules.classes_defined_twice,
        write("topics/x.py", "class Message:\n    pass\n"),
        "Message: core/message.py, topics/x.py",
    ),
    "a loose module": (rules.loose_modules, write("helpers.py", ""), "helpers.py"),
    "a gerund": (rules.gerund_modules, write("topics/placing.py", ""), "topics/placing.py"),
    "a long file": (rules.long_files_and_functions, write("topics/x.py", "\n" * 401), "topics/x.py has 401 lines"),
    "a long function": (
        rules.long_files_and_functions,
        write("topics/x.py", LONG_FUNCTION),
        "topics/x.py: long has 61 lines",
    ),
    "SQL in Python": (
        rules.sql_in_python,
        write("storage/x.py", 'QUERY = "SELECT 1"\n'),
        "storage/x.py:1: SELECT 1",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_violation_is_found(name: str) -> None:
    rule, plant, expected = PLANTS[name]
    violations = rule(plant(TREE))
    assert any(expected in violation for violation in violations), violations


class PlantedScope(Scope):
    """A new kind of scope."""


def test_a_kind_of_scope_that_no_operation_supports_is_found() -> None:
    violations = rules.unanswered_scopes(SCOPE_TABLES, SUPPORTED, (*KINDS, PlantedScope))
    assert violations == ["no operation supports PlantedScope"]


@pytest.mark.parametrize("operation", SUPPORTED)
def test_an_operation_without_an_answer_to_a_scope_it_supports_is_found(operation: str) -> None:
    supported = {**SUPPORTED, operation: SUPPORTED[operation] | {PlantedScope}}
    violations = rules.unanswered_scopes(SCOPE_TABLES, supported, (*KINDS, PlantedScope))
    assert violations == [f"{operation} has no answer to PlantedScope"]
    assert "PlantedScope is not in KINDS" in rules.unanswered_scopes(SCOPE_TABLES, supported, KINDS)


def test_an_answer_to_a_scope_that_is_not_declared_is_found() -> None:
    answered = {**SCOPE_TABLES, "erase": SCOPE_TABLES["erase"] | {PlantedScope}}
    violations = rules.unanswered_scopes(answered, SUPPORTED, KINDS)
    assert violations == ["erase answers PlantedScope, which is not declared"]


def test_a_cache_that_nothing_forgets_is_found() -> None:
    tree = TREE.with_module("recall/x.py", "from functools import lru_cache\n\n@lru_cache\ndef f(text): ...\n")
    violations = rules.unregistered_caches(tree, frozenset(), {})
    assert "recall/x.py keeps results that nothing forgets" in violations


def test_a_registered_cache_without_forget_is_found() -> None:
    tree = TREE.with_module("recall/x.py", "x = 1\n")
    violations = rules.unregistered_caches(tree, frozenset({"recollect.recall.x"}), {})
    assert "recall/x.py has no function forget()" in violations
