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
from recollect.storage.tables import COUNTED, TABLES, Table
from recollect.testing import FakeClock, FakeEmbedder
from support.tables import ask

GOLDEN = max((Path(__file__).parents[1] / "golden").glob("schema_*.sqlite"))
INTERNAL = {"schema_migrations", "sqlite_sequence", "sqlite_stat1"}
GOLDEN_TEXT = str(GOLDEN)
# The foreign keys of a table: the other table, "CASCADE" or not, and the names of the columns.
SQLITE_KEYS = """SELECT "table", on_delete, group_concat("from") FROM pragma_foreign_key_list('{name}') GROUP BY id"""
POSTGRES_KEYS = """
SELECT confrelid::regclass::text, CASE confdeltype WHEN 'c' THEN 'CASCADE' END, string_agg(attname, ',')
FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)
WHERE contype = 'f' AND conrelid = '{name}'::regclass GROUP BY pg_constraint.oid, confrelid, confdeltype
"""
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


def test_rows_go_with_what_the_declaration_names_on_postgresql(pg: str) -> None:
    assert [wrong_owner(pg, table) for table in TABLES] == [None] * len(TABLES)


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
    if location.startswith("postgresql:"):
        columns = ask(location, f"SELECT column_name FROM information_schema.columns WHERE table_name = '{name}'")  # noqa: S608
        keys = ask(location, POSTGRES_KEYS.format(name=name))
    else:
        columns = ask(location, f"SELECT name FROM pragma_table_info('{name}')")  # noqa: S608
        keys = ask(location, SQLITE_KEYS.format(name=name))
    cascades = {(parent, frozenset(own.split(","))) for parent, on_delete, own in keys if on_delete == "CASCADE"}
    expected = {
        "conversation": ("conversations", frozenset({"conversation_key"})),
        "message": ("messages", frozenset({"message_key"})),
        "position": ("messages", frozenset({"conversation_key", "seq"})),
        "api_key": ("api_keys", frozenset({"key_id"})),
    }
    if table.owner in expected and expected[table.owner] not in cascades:
        return f"{name} does not go with its {table.owner}"
    if table.owner == "person" and ("person",) not in columns:
        return f"{name} has no column `person`"
    if table.owner == "store" and ("person",) in columns and name != "api_keys":
        return f"{name} holds rows of people, but none would be erased"
    if (table.owner == "store") != (table.kept is not None):
        return f"{name}: a reason is given if and only if an erase leaves the rows"
    return None


def test_erasing_everybody_empties_every_table_that_is_not_kept_and_counts_every_row(golden: str) -> None:
    before, counted = count_rows(golden), Counter[str]()
    ((operators,),) = ask(golden, "SELECT count(*) FROM settings WHERE person = ''")
    before["settings"] -= operators
    for (person,) in ask(golden, "SELECT DISTINCT person FROM conversations"):
        with opened(golden, person) as memory:
            receipt = memory.erase(person=person)
        for name in COUNTED:
            counted[name] += receipt.counts[name]
    ask(golden, "DELETE FROM settings WHERE person = ''")
    left = {name for name, count in count_rows(golden).items() if count}
    assert left == {table.name for table in TABLES if table.owner == "store"}
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


def read_rows(location: str, table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table, with the names of conversations in place of their keys, in some fixed order."""
    columns = {name for (name,) in ask(GOLDEN_TEXT, f"SELECT name FROM pragma_table_info('{table.name}')")}  # noqa: S608
    name = "(SELECT name FROM conversations c WHERE c.key = t.conversation_key)"
    selected = [name if column == "conversation_key" else f't."{column}"' for column in sorted(columns - {"key"})]
    return sorted(ask(location, f"SELECT {', '.join(selected)} FROM {table.name} t"), key=repr)  # noqa: S608


def test_a_copy_between_databases_carries_what_is_declared(golden: str, pg: str, tmp_path: Path) -> None:
    with opened(pg) as memory:
        memory.restore(golden)
        memory.backup(tmp_path / "back.db")
    copied = {name for name, count in count_rows(pg).items() if count}
    assert copied == {table.name for table in TABLES if table.copied in ("rows", "code")}
    for table in TABLES:
        if table.copied == "rows":
            before = read_rows(golden, table)
            restored = [row for row in read_rows(pg, table) if "epoch" not in row]
            assert restored == [row for row in before if "epoch" not in row], table.name
            assert read_rows(str(tmp_path / "back.db"), table) == read_rows(pg, table)


def test_only_tables_that_a_copy_reaches_are_declared_as_copied_rows() -> None:
    owners = {table.owner for table in TABLES if table.copied == "rows"}
    assert owners <= {"person", "conversation", "position", "store"}
    assert {table.owner for table in TABLES if table.copied == "emptied"} <= {"person", "store"}


def declare(name: str, **changes: Any) -> tuple[Table, ...]:
    """Return the declaration with one table declared otherwise."""
    return tuple(replace(table, **changes) if table.name == name else table for table in TABLES)


def test_a_wrong_declaration_of_what_is_rebuilt_is_noticed(golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TABLES", declare("recalls", rebuilt="index"))
    with pytest.raises(AssertionError):
        test_a_rebuild_deletes_what_a_job_makes_again_and_nothing_else(golden)


@pytest.mark.parametrize("table", [table for table in TABLES if table.outdated], ids=lambda table: table.name)
def test_queries_for_outdated_rows_take_what_an_erase_gives_them(table: Table) -> None:
    given = {"person", "key", "first_seq", "last_seq", "first_at", "last_at"}
    for query in (table.outdated, *table.repairs):
        for dialect in queries.DIALECTS:
            parameters = queries.load(dialect)[query].parameters
            assert parameters <= given
            assert parameters & {"person", "key"}


def test_rows_made_of_many_messages_say_how_they_become_outdated() -> None:
    made_of_many = {table.name for table in TABLES if table.rebuilt and table.owner in ("person", "conversation")}
    by_code = {"topics"}  # `Eraser._repair_derived` recounts them
    assert {table.name for table in TABLES if table.outdated} == made_of_many - by_code
