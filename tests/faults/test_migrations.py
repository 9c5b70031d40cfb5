"""Old databases become new ones with every row unchanged; a schema that is not ours to touch is left alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from faults import inspection
from faults.older import build_older, write_migrations
from faults.processes import Victim, run_to_end
from recollect import Memory, StoreUnavailable
from recollect.core import word_index
from recollect.storage import migrations
from recollect.storage.postgres import PostgresDriver
from recollect.storage.sqlite import SqliteDriver
from recollect.testing import FakeEmbedder

pytestmark = pytest.mark.kill

GOLDEN = Path(__file__).parent.parent / "golden"
VERSIONS = sorted(int(file.name[7:11]) for file in GOLDEN.glob("schema_*.sqlite"))
HEAD = len(migrations.load("sqlite"))

CURSORS = ("worked_seq", "words_version", "generation")  # of derived work, which a migration may rewind

Table = list[tuple[Any, ...]]
Database = dict[str, tuple[list[str], Table]]


class Sqlite:
    """An SQLite database, read without our own code."""

    dialect = "sqlite"

    def __init__(self, location: str) -> None:
        self.location = location

    def put_golden(self, version: int) -> None:
        shutil.copy(GOLDEN / f"schema_{version:04}.sqlite", self.location)

    def driver(self, known: tuple[migrations.Migration, ...]) -> SqliteDriver:
        return SqliteDriver(self.location, migrations=known)

    def ask(self, question: str) -> Table:
        with inspection.connected(self.location) as connection:
            return inspection.rows(connection, question)

    def schema(self) -> Table:
        return self.ask("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")

    def fresh_schema(self) -> Table:
        """Return the schema of a new database. This one stays empty."""
        other = Sqlite(self.location + ".fresh.db")
        Memory(other.location, worker=False).close()
        return other.schema()

    def tables(self) -> list[str]:
        named = self.ask(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            " AND name NOT LIKE 'message_words%' AND name NOT LIKE 'sqlite%' ORDER BY name"
        )
        return [name for (name,) in named]

    def columns(self, table: str) -> list[str]:
        return [name for (name,) in self.ask(f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid")]  # noqa: S608

    def check_sound(self) -> None:
        with inspection.connected(self.location) as connection:
            inspection.check_sound(connection)


class Postgres:
    """A PostgreSQL database, read without our own code."""

    dialect = "postgres"

    def __init__(self, location: str) -> None:
        self.location = location

    def put_golden(self, version: int) -> None:
        driver = self.driver(migrations.load("postgres")[:version])
        driver.open(1)
        driver.close()
        with psycopg.connect(self.location) as connection:
            connection.execute((GOLDEN / f"schema_{version:04}.postgres.sql").read_bytes())

    def driver(self, known: tuple[migrations.Migration, ...]) -> PostgresDriver:
        return PostgresDriver(self.location, migrations=known)

    def ask(self, question: str) -> Table:
        with psycopg.connect(self.location) as connection:
            return connection.execute(question.encode()).fetchall()

    def schema(self) -> Table:
        columns = self.ask(
            "SELECT table_name, column_name, ordinal_position, data_type, column_default, is_nullable, collation_name"
            " FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
        )
        indexes = self.ask("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1")
        rules = self.ask(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2"
        )
        targets = self.ask(
            "SELECT attrelid::regclass::text, attname, attstattarget FROM pg_attribute"
            " WHERE attnum > 0 AND attrelid::regclass::text IN (SELECT tablename FROM pg_tables"
            " WHERE schemaname = current_schema()) ORDER BY 1, 2"
        )
        return [*columns, *indexes, *rules, *targets]

    def fresh_schema(self) -> Table:
        """Return the schema of a new database. This one is empty again afterwards."""
        Memory(self.location, worker=False).close()
        schema = self.schema()
        with psycopg.connect(self.location) as connection:
            connection.execute(f"DROP TABLE {', '.join(self.tables())}".encode())
        return schema

    def tables(self) -> list[str]:
        return [
            name
            for (name,) in self.ask("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
        ]

    def columns(self, table: str) -> list[str]:
        return [
            name
            for (name,) in self.ask(
                f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"  # noqa: S608
                " AND table_schema = current_schema() ORDER BY ordinal_position"
            )
        ]

    def check_sound(self) -> None:
        """Do nothing: the server checks itself."""


@pytest.fixture(params=[Sqlite, Postgres], ids=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Sqlite | Postgres:
    if request.param is Sqlite:
        return Sqlite(str(tmp_path / "memory.db"))
    return Postgres(request.getfixturevalue("empty_pg"))


def _contents(database: Sqlite | Postgres, like: Database | None = None) -> Database:
    """Return the rows of every table; with `like`, only of the tables and columns that it has."""
    found: Database = {}
    for table in like or [name for name in database.tables() if name != "message_words"]:
        columns = like[table][0] if like else [name for name in database.columns(table) if name not in CURSORS]
        apart = " LEFT JOIN texts ON message_key = key" if table == "messages" and "content" in columns else ""
        apart = apart if "texts" in database.tables() else ""
        rows = database.ask(f"SELECT {', '.join(columns)} FROM {table}{apart}")  # noqa: S608
        found[table] = (columns, sorted(rows, key=repr))
    return found


def test_there_is_a_golden_database_of_the_first_schema_for_both_dialects() -> None:
    assert VERSIONS[0] == 1
    assert sorted(int(file.name[7:11]) for file in GOLDEN.glob("schema_*.postgres.sql")) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_database_reaches_the_head_with_every_row_unchanged(database: Sqlite | Postgres, version: int) -> None:
    database.put_golden(version)
    before = _contents(database)
    assert len(before["messages"][1]) == 20
    with Memory(database.location, person="سارة", worker=False, embedder=FakeEmbedder()) as memory:
        after = _contents(database, before)
        migrated = after.pop("schema_migrations")[1]
        assert [row[0] for row in migrated] == list(range(1, HEAD + 1))
        assert migrated[:version] == before.pop("schema_migrations")[1]
        if "api_keys" in before:  # whoever has keys gets a note that requests need one
            columns, rows = after["settings"]
            after["settings"] = (columns, [row for row in rows if row[:3] != ("", "keys_required", "true")])
            assert len(after["settings"][1]) == len(rows) - 1
        assert after == before
        database.check_sound()
        history = memory.history("تقرير")
        assert [message.seq for message in history] == list(range(1, 11))
        assert history[2].content == "متى موعد تسليم التَّقرير الشهريّ إلى الإدارة؟"
        assert history[2].metadata == {"device": "هاتف", "n": [1, 2.5, None, True]}
        assert memory.drain().complete
        assert inspection.wrong_entries(database.ask) == []
        assert database.ask("SELECT DISTINCT words_version FROM conversations WHERE last_seq > 0") == [
            (word_index.VERSION,)
        ]
        assert memory.add("تقرير", "user", "And now?").seq == 11
        assert [one for one in memory.check() if one.state == "error"] == []


def _words_version(database: Sqlite | Postgres) -> int:
    return int(database.ask("SELECT max(words_version) FROM conversations")[0][0])


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_a_golden_database_are_found_before_and_after_the_derived_work(
    database: Sqlite | Postgres, version: int
) -> None:
    database.put_golden(version)
    question = "When must the monthly report be ready? متى موعد تسليم التقرير"
    outdated = 20 if version < 8 or _words_version(database) != word_index.VERSION else 0
    with Memory(database.location, person="سارة", worker=False, embedder=FakeEmbedder()) as memory:
        first = memory.recall(question, limit=3)
        assert "golden-10" in [hit.message_id for hit in first if hit.why.get("bm25")]
        # Without vectors, the question makes those of the newest messages itself; not beside those of another embedder.
        has_other_vectors = version >= 3
        assert any(hit.why.get("dense") for hit in first) != has_other_vectors
        assert first.degraded == (("embedder_changed",) if has_other_vectors else ())
        done = memory.drain()
        assert (done.complete, done.counts["vectors"]) == (True, 20)
        assert done.counts.get("words", 0) == outdated
        found = memory.recall(question, limit=3)
        assert [(hit.message_id, hit.why["bm25"]) for hit in found if hit.message_id == "golden-10"] == [
            (hit.message_id, hit.why["bm25"]) for hit in first if hit.message_id == "golden-10"
        ]
        assert any(hit.why.get("dense") for hit in found)
    assert inspection.wrong_entries(database.ask) == []
    counts = "SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM vectors), (SELECT count(*) FROM messages)"
    assert database.ask(counts) == [(20, 20, 20)]
    assert database.ask("SELECT DISTINCT name FROM embedders JOIN vectors ON embedder_key = key") == [
        ("fake-embedder-384",)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migrated_schema_equals_a_fresh_one(database: Sqlite | Postgres, version: int) -> None:
    fresh = database.fresh_schema()
    database.put_golden(version)
    Memory(database.location, worker=False).close()
    assert database.schema() == fresh != []


def test_the_backup_before_a_migration_is_the_old_database(tmp_path: Path) -> None:
    database = Sqlite(str(tmp_path / "memory.db"))
    database.put_golden(1)
    before = _contents(database)
    Memory(database.location, worker=False).close()
    backup = Sqlite(f"{database.location}.before-schema-{HEAD:04}.backup")
    assert _contents(backup) == before
    backup.check_sound()


def test_a_schema_newer_than_ours_is_refused_and_left_alone(database: Sqlite | Postgres, tmp_path: Path) -> None:
    newer = database.driver(migrations.load(database.dialect, write_migrations(tmp_path / "newer")))
    newer.open(1)
    newer.close()
    before = _contents(database)
    with pytest.raises(StoreUnavailable) as caught:
        Memory(database.location, worker=False)
    assert (caught.value.code, caught.value.retryable) == ("schema_too_new", False)
    assert _contents(database) == before


def test_a_database_whose_migration_was_another_is_refused(database: Sqlite | Postgres) -> None:
    known = migrations.load(database.dialect)
    other = database.driver((replace(known[0], sql=known[0].sql + "\n-- changed"), *known[1:]))
    other.open(1)
    other.close()
    with pytest.raises(StoreUnavailable) as caught:
        Memory(database.location, worker=False)
    assert (caught.value.code, caught.value.retryable) == ("schema_differs", False)


def test_a_process_of_the_older_schema_stops_writing_and_can_still_read(
    database: Sqlite | Postgres, tmp_path: Path
) -> None:
    with Memory(database.location, worker=False) as memory:
        memory.add("c", "user", "before", id="a")
        newer = database.driver(migrations.load(database.dialect, write_migrations(tmp_path / "newer")))
        newer.open(1)
        newer.close()
        for write in (
            lambda: memory.add("c", "user", "after"),
            lambda: memory.add_many("c", [{"role": "user", "content": "after"}]),
            lambda: memory.erase(conversation="c"),
            lambda: memory.change_settings(worker_poll_seconds=2.0),
        ):
            with pytest.raises(StoreUnavailable) as caught:
                write()
            assert (caught.value.code, caught.value.retryable) == ("schema_changed", False)
        assert [message.id for message in memory.history("c")] == ["a"]
    assert database.ask("SELECT id, content FROM messages JOIN texts ON message_key = key") == [("a", "before")]


def test_four_processes_that_migrate_one_database_at_once_all_open_it(database: Sqlite | Postgres) -> None:
    fresh = database.fresh_schema()
    database.put_golden(1)
    before = _contents(database)
    said = run_to_end([Victim("open_only", location=database.location) for _ in range(4)])
    assert said == [["opened", "2"]] * 4
    before.pop("schema_migrations")
    assert _contents(database, before) == before
    assert database.schema() == fresh


def test_the_backup_is_the_old_database_even_if_four_processes_migrate_at_once(tmp_path: Path) -> None:
    for number in range(5):
        database = Sqlite(str(tmp_path / f"{number}.db"))
        database.put_golden(1)
        before = _contents(database)
        run_to_end([Victim("open_only", location=database.location) for _ in range(4)])
        backup = Sqlite(f"{database.location}.before-schema-{HEAD:04}.backup")
        assert backup.ask("PRAGMA user_version") == [(1,)]
        assert _contents(backup) == before


def test_a_failed_migration_leaves_the_old_schema_and_every_row(database: Sqlite | Postgres) -> None:
    known = migrations.load(database.dialect)
    Memory(database.location, worker=False).close()
    before, schema = _contents(database), database.schema()
    broken = migrations.Migration(len(known) + 1, "broken", "CREATE TABLE half (key BIGINT); SELECT * FROM nowhere;")
    driver = database.driver((*known, broken))
    with pytest.raises(Exception) as failure:
        driver.open(1)
    assert "nowhere" in f"{failure.value} {failure.value.__cause__}"
    driver.close()
    assert (_contents(database), database.schema()) == (before, schema)
    Memory(database.location, worker=False).close()


def test_a_migrated_file_is_not_larger_than_what_is_in_it(tmp_path: Path) -> None:
    """Schema 5 moves texts out of the rows of messages. The file is rewritten then, as its pages are half empty."""
    path = tmp_path / "memory.db"
    build_older(path, messages=3000)
    Memory(str(path), worker=False, embedder=FakeEmbedder()).close()
    size = path.stat().st_size
    with inspection.connected(path) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert size < 1.1 * path.stat().st_size
