"""Every table is declared, and what the declaration says of its rows is what erase, copy and rebuild do.

The golden database of the newest schema has rows in every table.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from recollect import Memory, Principal
from recollect.core.scope import StoreScope
from recollect.storage.tables import COUNTED, TABLES, VACUUMED, Table
from recollect.testing import FakeClock, FakeEmbedder
from support.tables import ask

GOLDEN = max((Path(__file__).parents[1] / "golden").glob("schema_*.sqlite"))
INTERNAL = {"schema_migrations", "sqlite_sequence", "sqlite_stat1"}
NAMES = {table.name for table in TABLES}


@pytest.fixture
def golden(tmp_path: Path) -> str:
    return str(shutil.copy(GOLDEN, tmp_path / "golden.db"))


def count_rows(location: str) -> dict[str, int]:
    return {name: ask(location, f"SELECT count(*) FROM {name}")[0][0] for name in sorted(NAMES)}  # noqa: S608


def opened(location: str, person: str = "local") -> Memory:
    return Memory(location, person=person, worker=False, embedder=FakeEmbedder(16), clock=FakeClock())


def test_the_schema_has_the_declared_tables(memory: Memory, location: str) -> None:
    memory.add("trip", "user", "hello")
    if location.startswith("postgresql:"):
        rows = ask(location, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    else:
        rows = ask(location, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    assert {name for (name,) in rows} - INTERNAL == NAMES


def test_the_golden_database_has_rows_in_every_table(golden: str) -> None:
    assert [name for name, count in count_rows(golden).items() if not count] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_go_with_what_the_declaration_names(golden: str, table: Table) -> None:
    name, erased = table.name, table.erased
    columns = {column for (column,) in ask(golden, f"SELECT name FROM pragma_table_info('{name}')")}  # noqa: S608
    keys = ask(golden, f"SELECT \"table\", on_delete FROM pragma_foreign_key_list('{name}')")  # noqa: S608
    cascades = {parent for parent, on_delete in keys if on_delete == "CASCADE"}
    parents = {"conversation": "conversations", "message": "messages", "topic": "topics", "key": "api_keys"}
    if erased in parents:
        assert parents[erased] in cascades
    elif erased == "person":
        assert "person" in columns
    else:
        assert erased.startswith("kept: ")
        assert "person" not in columns or name == "api_keys"


def test_erasing_everybody_empties_every_table_that_is_not_kept(golden: str) -> None:
    for (person,) in ask(golden, "SELECT DISTINCT person FROM conversations"):
        with opened(golden, person) as memory:
            assert set(memory.erase(person=person).counts) == set(COUNTED)
    ask(golden, "DELETE FROM settings WHERE person = ''")  # the operator's
    left = {name for name, count in count_rows(golden).items() if count}
    assert left == {table.name for table in TABLES if table.erased.startswith(("kept", "key"))}


def test_a_rebuild_deletes_what_a_job_makes_again_and_nothing_else(golden: str) -> None:
    with opened(golden) as memory:
        jobs = {job.name for job in memory._engine._work._jobs}
        memory.stats()
        before = count_rows(golden)
        memory._wait(memory._engine._store.jobs.rewind(Principal("local"), StoreScope(), memory._engine._work.rewinds))
        after = count_rows(golden)
    assert {table.rebuilt for table in TABLES} - {None} <= jobs
    shrunk = {name for name in NAMES if after[name] < before[name]}
    rebuilt = {table.name for table in TABLES if table.rebuilt}
    assert shrunk <= rebuilt
    assert shrunk >= rebuilt - {"topics"}  # those that people named, tagged or pinned stay


def test_a_copy_between_databases_carries_what_is_declared(golden: str, pg: str) -> None:
    with opened(pg) as memory:
        memory.restore(golden)
    copied = {name for name, count in count_rows(pg).items() if count}
    assert copied == {table.name for table in TABLES if table.copied}


def test_every_table_that_an_erase_reaches_is_vacuumed() -> None:
    assert set(VACUUMED) == {table.name for table in TABLES if not table.erased.startswith(("kept", "key"))}
