"""Every table is declared, and what the declaration says of its rows is what erase, copy and rebuild do.

The golden database of the newest schema has rows in every table.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, Principal
from recollect.core.scope import StoreScope
from recollect.storage import queries
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


def stored_tables(location: str) -> set[str]:
    if location.startswith("postgresql:"):
        rows = ask(location, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    else:
        rows = ask(location, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in rows} - INTERNAL


def test_the_schema_has_the_declared_tables(memory: Memory, location: str) -> None:
    memory.add("trip", "user", "hello")
    assert stored_tables(location) == NAMES


def test_a_table_that_is_not_declared_is_noticed(golden: str) -> None:
    ask(golden, "CREATE TABLE planted (person TEXT)")
    assert stored_tables(golden) - NAMES == {"planted"}


def test_the_golden_database_has_rows_in_every_table(golden: str) -> None:
    assert [name for name, count in count_rows(golden).items() if not count] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_go_with_what_the_declaration_names(golden: str, table: Table) -> None:
    assert wrong_owner(golden, table) is None


PLANTED = {
    "no cascade": ("conversation_key INTEGER, person TEXT", Table("planted", "conversation")),
    "another cascade": (
        "conversation_key INTEGER REFERENCES conversations (key) ON DELETE CASCADE, seq INTEGER",
        Table("planted", "position"),
    ),
    "a key that keeps the row": ("message_key INTEGER REFERENCES messages (key)", Table("planted", "message")),
    "no person": ("name TEXT", Table("planted", "person")),
    "people's rows that are kept": ("person TEXT", Table("planted", "store", kept="by mistake")),
    "rows that are kept for no reason": ("name TEXT", Table("planted", "store")),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_a_table_whose_rows_go_otherwise_than_declared_is_noticed(golden: str, plant: str) -> None:
    columns, table = PLANTED[plant]
    ask(golden, f"CREATE TABLE planted ({columns})")
    assert wrong_owner(golden, table) is not None


def wrong_owner(location: str, table: Table) -> str | None:
    """Say what is wrong with the declared owner of a table, or None."""
    name = table.name
    columns = {column for (column,) in ask(location, f"SELECT name FROM pragma_table_info('{name}')")}  # noqa: S608
    keys = ask(
        location,
        f'SELECT "table", on_delete, group_concat("from") FROM pragma_foreign_key_list(\'{name}\') GROUP BY id',  # noqa: S608
    )
    cascades = {(parent, frozenset(own.split(","))) for parent, on_delete, own in keys if on_delete == "CASCADE"}
    expected = {
        "conversation": ("conversations", frozenset({"conversation_key"})),
        "message": ("messages", frozenset({"message_key"})),
        "position": ("messages", frozenset({"conversation_key", "seq"})),
        "key": ("api_keys", frozenset({"key_id"})),
    }
    if table.owner in expected and expected[table.owner] not in cascades:
        return f"{name} does not go with its {table.owner}"
    if table.owner == "person" and "person" not in columns:
        return f"{name} has no column `person`"
    if table.owner == "store" and "person" in columns and name != "api_keys":
        return f"{name} holds rows of people, but none would be erased"
    if (table.owner == "store") != (table.kept is not None):
        return f"{name}: a reason is given if and only if an erase leaves the rows"
    return None


def test_erasing_everybody_empties_every_table_that_is_not_kept_and_counts_every_row(golden: str) -> None:
    before, counted = count_rows(golden), Counter[str]()
    for (person,) in ask(golden, "SELECT DISTINCT person FROM conversations"):
        with opened(golden, person) as memory:
            receipt = memory.erase(person=person)
        for name in COUNTED:
            counted[name] += receipt.counts[name]
    ((operators,),) = ask(golden, "SELECT count(*) FROM settings WHERE person = ''")
    ask(golden, "DELETE FROM settings WHERE person = ''")
    left = {name for name, count in count_rows(golden).items() if count}
    assert left == {table.name for table in TABLES if table.owner in ("store", "key")}
    before["settings"] -= operators
    assert counted == {table.counted_as: before[table.name] for table in TABLES if table.counted_as is not None}


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
    assert copied == {table.name for table in TABLES if table.copied != "no"}


def test_every_table_that_an_erase_reaches_is_vacuumed() -> None:
    assert set(VACUUMED) == {table.name for table in TABLES if table.owner not in ("store", "key")}


def declare(name: str, **changes: Any) -> tuple[Table, ...]:
    """Return the declaration with one table declared otherwise."""
    return tuple(replace(table, **changes) if table.name == name else table for table in TABLES)


def test_a_wrong_declaration_of_what_is_rebuilt_is_noticed(golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TABLES", declare("recalls", rebuilt="index"))
    with pytest.raises(AssertionError):
        test_a_rebuild_deletes_what_a_job_makes_again_and_nothing_else(golden)


def test_a_wrong_declaration_of_what_is_counted_is_noticed(golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TABLES", declare("texts", counted_as="texts"))
    with pytest.raises(AssertionError):
        test_erasing_everybody_empties_every_table_that_is_not_kept_and_counts_every_row(golden)


def test_a_wrong_declaration_of_what_is_copied_is_noticed(
    golden: str, pg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "TABLES", declare("embedders", copied="rows"))
    with pytest.raises(AssertionError):
        test_a_copy_between_databases_carries_what_is_declared(golden, pg)


@pytest.mark.parametrize("query", sorted({query for table in TABLES for query in table.outdated}))
def test_every_query_for_outdated_rows_exists_and_stays_in_its_conversation(query: str) -> None:
    for dialect in queries.DIALECTS:
        assert {"key", "person"} & queries.load(dialect)[query].parameters


def test_a_column_of_a_backup_that_is_no_plain_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no names of columns"):
        queries.insert_statement("settings", ["person", "x) VALUES ('') --"])
