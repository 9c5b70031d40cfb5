"""The shape of the house: imports go one way, queries name a person, both faces have the same methods."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from arch import rules
from recollect import AsyncMemory, Memory
from recollect.admin import transfer
from recollect.core import access_rules
from recollect.core.models import Principal
from recollect.core.scope import KINDS, SUPPORTED
from recollect.memory import caches
from recollect.recall import scope_cache
from recollect.storage import erase, jobs, queries
from recollect.storage.store import SqlStore
from recollect.storage.tables import TABLES

SOURCE = Path(recollect.__file__).parent
TREE = rules.Tree.read(SOURCE)
RULES: list[Callable[[rules.Tree], list[str]]] = [
    rules.wrong_arrows, rules.cycles, rules.impure_core, rules.foreign_store_users, rules.foreign_driver_users,
    rules.classes_defined_twice, rules.loose_modules, rules.gerund_modules, rules.long_files_and_functions,
    rules.sql_in_python,
]  # fmt: skip
CACHES_WITHOUT_WORDS = {
    "recollect.storage.queries": "our own SQL",
    "recollect.storage.shipped_dictionary": "the dictionary that is shipped",
}
CACHES_OF_INSTANCES = {
    "recollect.providers.minilm.arabic_table": "cleared by the embedder that owns it",
    "recollect.providers.minilm.wordpiece": "cleared by the embedder that owns it",
}
# Kinds of scopes that each operation has an answer to. A new kind of scope must appear in `SUPPORTED` of
# `core/scope.py`, and in the table of every operation that supports it.
SCOPE_TABLES = {
    "recall": frozenset(scope_cache.CONVERSATION_OF),
    "erase": frozenset(erase.ERASERS),
    "export": frozenset(transfer.EXPORTED),
    "rebuild": jobs.REBUILT,
    "forget": frozenset(caches.FORGOTTEN),
}


# Methods of the store that serve everybody: opening, derived work, keys and sessions, clean-up.
WHOLE_STORE = {
    "open", "hurry", "close", "enable_inline_reads", "due", "finish", "pending_erasures", "finish_erasures", "purge",
    "still_contains", "take_lease", "release_lease", "lease_holders", "free_leases", "forget", "find_in_files",
    "read_start", "find_erased", "backup", "restore", "work_left", "maintain", "examine",
    "use_embedder", "embedders", "current_embedder", "save_recalls", "forget_recalls", "recheck", "recheck_crowded",
    "contains", "slice_end",
    "setting_values", "save_acts", "forget_acts", "save_prompt_sizes", "secret", "stored_secret", "secret_digest",
    "add_key", "keys", "key", "requires_keys", "count_valid_keys", "revoke_key",
    "add_session", "session", "end_session", "delete_expired", "stops_since",
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rules(rule: Callable[[rules.Tree], list[str]]) -> None:
    assert rule(TREE) == []


def test_every_cache_of_words_can_be_forgotten() -> None:
    registered = frozenset(caches.MODULE_CACHES)
    assert rules.unregistered_caches(TREE, registered, CACHES_WITHOUT_WORDS | CACHES_OF_INSTANCES) == []


def test_every_kind_of_scope_is_answered_by_every_operation_that_supports_it() -> None:
    assert rules.unanswered_scopes(SCOPE_TABLES, SUPPORTED, KINDS) == []
    assert len({kind.kind for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("dialect", queries.DIALECTS)
def test_every_query_names_a_person_or_a_row_found_under_one_or_says_why_not(dialect: str) -> None:
    by_person = set(access_rules.sql_parameters(Principal())) & {"person"}
    for query in queries.load(dialect).values():
        bound = (by_person | {"key", "owner"}) & query.parameters or {"rows", "cursors"} & query.parameters
        assert bound or query.system, query.name


def test_both_dialects_have_the_same_queries() -> None:
    own = {"sqlite": set[str](), "postgres": {"schema_version", "lock_everything"}}
    names = {dialect: set(queries.load(dialect)) - own[dialect] for dialect in own}
    assert names["sqlite"] == names["postgres"]


def test_every_query_is_used() -> None:
    code = "\n".join(file.read_text("utf-8") for file in (SOURCE / "storage").glob("*.py"))
    templates = set(re.findall(r"-- name: (\S+)", (SOURCE / "storage/sql" / queries.TEMPLATES).read_text("utf-8")))
    made = {template.replace("{table}", table.name) for template in templates for table in TABLES}
    for name in (queries.load("sqlite").keys() | queries.load("postgres").keys()) - made:
        assert f'"{name}"' in code, name
    for name in templates:
        assert f'f"{name.replace("{table}", "{table")}' in code, name


def test_every_store_method_that_reads_or_writes_content_takes_the_principal_first(tmp_path: Path) -> None:
    from recollect.storage.sqlite import SqliteDriver

    store = SqlStore(SqliteDriver(str(tmp_path / "x.db")))
    parts = [store, *(part for name, part in vars(store).items() if not name.startswith("_"))]
    for part in parts:
        for name, method in inspect.getmembers(type(part), inspect.isfunction):
            if not name.startswith("_") and name not in WHOLE_STORE:
                assert list(inspect.signature(method).parameters)[1:2] == ["principal"], (type(part).__name__, name)


def test_the_sync_face_has_the_same_methods_with_the_same_signatures() -> None:
    internal = {"open", "submit", "notice", "closed_error", "work_until", "warm_up", "flush", "put",
                "anchor", "merge_aligned", "when_forgotten", "private_folder"}  # fmt: skip

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
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
