"""The shape of the house: imports go one way, queries name a person, both faces have the same methods."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import recollect
from recollect import AsyncMemory, Memory
from recollect.storage import queries

SOURCE = Path(recollect.__file__).parent

# A part may import those of the lines above its own, and itself. Parts of one line do not know each other.
LAYERS = [
    {"core"},
    {"runtime", "settings", "testing"},
    {"providers", "formats", "storage"},
    {"jobs"},
    {"recall"},
    {"brief"},
    {"topics"},
    {"admin"},
    {"memory"},
    {"chat", "sync"},
    {"server"},
    {"cli"},
    {"__main__"},
]
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
IMPURE = {
    "time",
    "random",
    "os",
    "io",
    "socket",
    "pathlib",
    "asyncio",
    "threading",
    "subprocess",
    "secrets",
    "logging",
    "uuid",
}


def imports(file: Path) -> set[str]:
    """The names of the modules that a file imports, anywhere in it."""
    tree = ast.parse(file.read_text("utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = members if node.module == "recollect" else {name for name in members if is_module(name)}
            found |= modules if modules == members else modules | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def name_of(file: Path) -> str:
    return ".".join(("recollect", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def part_of(name: str) -> str:
    """Return the part of the package that a module belongs to."""
    return name.removeprefix("recollect.").split(".")[0]


def files() -> list[Path]:
    return [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file: Path) -> None:
    own = part_of(name_of(file))
    assert own in RANK, f"{own} has no place in the order of layers yet"
    used = {part_of(name) for name in imports(file) if name.startswith("recollect.")} - {own}
    assert {part for part in used if part not in RANK or RANK[part] >= RANK[own]} == set()


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name_of(file): imports(file) - {name_of(file)} for file in files()}
    _assert_no_circle({name: used & graph.keys() for name, used in graph.items()})


def _assert_no_circle(graph: Mapping[str, set[str]]) -> None:
    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name in done:
            return
        for used in graph[name]:
            visit(used, (*path, name))
        done.add(name)

    done: set[str] = set()
    for name in graph:
        visit(name, ())


def test_the_core_touches_no_clock_no_chance_and_no_outside() -> None:
    for file in (SOURCE / "core").glob("*.py"):
        assert {name.split(".")[0] for name in imports(file)} & IMPURE == set(), file.name
        assert "datetime.now" not in file.read_text("utf-8"), file.name


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_query_names_a_person_or_a_row_found_under_one_or_says_why_not(dialect: str) -> None:
    for query in queries.load(dialect).values():
        bound = {"person", "key", "owner"} & query.parameters or {"rows", "cursors"} & query.parameters
        assert bound or query.system, query.name


def test_both_dialects_have_the_same_queries() -> None:
    own = {"sqlite": set(), "postgres": {"schema_version", "lock_everything"}}
    names = {dialect: set(queries.load(dialect)) - own[dialect] for dialect in own}
    assert names["sqlite"] == names["postgres"]


def test_every_query_is_used() -> None:
    code = "\n".join(file.read_text("utf-8") for file in (SOURCE / "storage").glob("*.py"))
    for name in queries.load("sqlite") | queries.load("postgres"):
        assert f'"{name}"' in code, name


def test_sql_stands_in_sql_files_except_where_the_schema_is_not_there_yet() -> None:
    allowed = {"sqlite.py", "sqlite_file.py", "postgres.py"}
    for file in files():
        if file.name not in allowed:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    words = node.value.split()
                    assert not (words and words[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "PRAGMA"}), file.name


def test_every_store_method_that_reads_or_writes_content_takes_the_principal_first() -> None:
    from recollect.storage.archive import Archive
    from recollect.storage.audit import Audit
    from recollect.storage.briefs import Briefs
    from recollect.storage.profiles import Profiles
    from recollect.storage.server_state import Serving
    from recollect.storage.store import SqlStore
    from recollect.storage.topic_edits import TopicEdits
    from recollect.storage.topics import Topics
    from recollect.storage.vectors import Vectors

    whole_store = {
        "open", "close", "read_inline", "due", "finish_work", "pending_erasures", "finish_erasures", "purge",
        "still_said", "rewind_everything", "take_lease", "release_lease", "lease_holders", "free_leases",
        "backup", "restore", "tidy", "examine",
        "use", "embedders", "in_force", "save_recalls", "forget_recalls", "look_again", "holds",
        "given_settings", "save_acts", "forget_acts", "secret", "add_key", "keys", "key", "has_keys", "revoke_key",
        "add_session", "session", "end_session", "stops",
    }  # fmt: skip
    for part in (SqlStore, Archive, Audit, Briefs, TopicEdits, Profiles, Serving, Topics, Vectors):
        for name, method in inspect.getmembers(part, inspect.isfunction):
            if not name.startswith("_") and name not in whole_store:
                assert list(inspect.signature(method).parameters)[1] == "principal", (part, name)


def test_the_sync_face_has_the_same_methods_with_the_same_signatures() -> None:
    internal = {"open", "of", "submit", "notice", "closed_error", "work_until", "warm_up", "flush", "put"}

    def public(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(member)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    asynchronous, synchronous = public(AsyncMemory), public(Memory)
    assert set(asynchronous) - internal == set(synchronous)
    for name, signature in synchronous.items():
        assert str(signature) == str(asynchronous[name]), name
        assert inspect.getdoc(getattr(Memory, name)) == inspect.getdoc(getattr(AsyncMemory, name)) or name == "__init__"


def test_importing_reads_no_environment_opens_no_file_and_sets_up_no_logging() -> None:
    script = """
import sys, os, logging, builtins
import recollect
assert not logging.getLogger().handlers
assert not logging.getLogger("recollect").handlers
others = ("fastapi", "tiktoken", "httpx", "psycopg", "typer", "rich", "torch", "numpy", "onnxruntime", "zstandard")
patterns = ("recollect.core.extract", "recollect.core.compression.summariser", "recollect.core.dates.periods")
for name in (*others, *patterns):
    assert name not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
