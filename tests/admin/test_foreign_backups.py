"""A backup of our schema with values that nothing of ours writes is refused before it replaces anything."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from recollect import Memory, StoreUnavailable
from recollect.storage.backup_values import CHECKS, find_foreign_column
from recollect.storage.sqlite_file import stream_rows
from recollect.testing import FakeEmbedder
from support.growth import assert_linear

GOLDEN = max((Path(__file__).parents[1] / "golden").glob("schema_*.sqlite"))
CANARY = "zanzibarcanary"
VALUES = {"canary": CANARY, "long": CANARY * 100, "deep": "[" * 10_000 + "]" * 10_000}
# Names of processes and migrations, and what the schema itself checks.
UNCHECKED = {
    "leases.name", "leases.holder", "schema_migrations.name", "schema_migrations.sha256",
    "schema_migrations.applied_at", "messages.role", "messages.source", "sessions.key_id",
}  # fmt: skip

FOREIGN = {
    "a time that no calendar has": ("messages.at", "UPDATE messages SET at = 9223372036854775807"),
    "a time before the first": ("messages.at", "UPDATE messages SET at = -9000000000000000"),
    "tags that are no JSON": ("conversations.tags", "UPDATE conversations SET tags = '{' || :canary"),
    "tags that are no list": ("conversations.tags", "UPDATE conversations SET tags = json_quote(:canary)"),
    "tags that are no texts": ("conversations.tags", "UPDATE conversations SET tags = '[1]'"),
    "a zone that does not exist": ("conversations.zone", "UPDATE conversations SET zone = 'No/' || :canary"),
    "a zone that is a path": ("conversations.zone", "UPDATE conversations SET zone = '../../etc/passwd'"),
    "a name that is empty": ("conversations.name", "UPDATE conversations SET name = '' WHERE key = 1"),
    "a name that is long": ("conversations.name", "UPDATE conversations SET name = :long WHERE key = 1"),
    "a name with a NUL": ("conversations.name", "UPDATE conversations SET name = 'a' || char(0) || 'b' WHERE key = 1"),
    "a last number that is too small": ("conversations.last_seq", "UPDATE conversations SET last_seq = 1"),
    "a last number that is huge": ("conversations.last_seq", "UPDATE conversations SET last_seq = 9223372036854775807"),
    "metadata that is no JSON": ("messages.metadata", "UPDATE messages SET metadata = '{' || :canary"),
    "metadata that is deep": ("messages.metadata", "UPDATE messages SET metadata = '{\"a\":' || :deep || '}'"),
    "metadata with a NaN": ("messages.metadata", "UPDATE messages SET metadata = '{\"a\":NaN}'"),
    "metadata with half a pair": ("messages.metadata", "UPDATE messages SET metadata = '{\"a\":\"\\ud800\"}'"),
    "tool calls that are no objects": ("messages.tool_calls", "UPDATE messages SET tool_calls = '[1]'"),
    "an id that is empty": ("messages.id", "UPDATE messages SET id = ' ' WHERE key = 1"),
    "a speaker that is long": ("messages.name", "UPDATE messages SET name = :long WHERE key = 1"),
    "an importance above one": ("messages.importance", "UPDATE messages SET importance = 9e999"),
    "a text above the limit": ("texts.content", "UPDATE texts SET content = replace(hex(zeroblob(600000)), '00', 'é')"),
    "a text that is no UTF-8": ("", "UPDATE texts SET content = CAST(x'ff41' AS TEXT)"),
    "words of half a number": ("entries.words", "UPDATE entries SET words = x'010203'"),
    "a setting that is deep": ("settings.value", "INSERT INTO settings VALUES ('p', 'zone', :deep, 0)"),
    "a profile of other types": ("profiles.body", "INSERT INTO profiles VALUES ('p', '{\"notes\":1}', 0)"),
    "an act without details": ("audit.details", "INSERT INTO audit (at, person, actor, action, details) "
                               "VALUES (0, 'p', 'a', 'b', '[]')"),
    "keys that never end": ("sqlite_sequence.seq", "UPDATE sqlite_sequence SET seq = 9223372036854775807"),
}  # fmt: skip


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with Memory(str(tmp_path / "source.db"), worker=False, embedder=FakeEmbedder()) as memory:
        for number in range(3):
            memory.add("trip", "user", f"I am allergic to peanuts, {number}.", metadata={"a": 1}, importance=0.5)
        memory.drain()
        memory.backup(tmp_path / "b.backup")
    return tmp_path / "b.backup"


@pytest.mark.parametrize("what", FOREIGN)
def test_a_value_that_nothing_of_ours_writes_is_refused_and_named_without_its_content(what: str, backup: Path) -> None:
    column, statement = FOREIGN[what]
    connection = apsw.Connection(str(backup))
    connection.execute(statement, VALUES)
    connection.close()
    with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("here", "user", "hello")
        with pytest.raises(StoreUnavailable) as refused:
            memory.restore(backup)
        assert refused.value.code == "backup_damaged" and column in str(refused.value)
        assert CANARY not in str(refused.value)
        assert [message.content for message in memory.history("here")] == ["hello"]


def test_a_refused_backup_replaces_nothing_in_either_database(open_memory: Callable[[], Memory], backup: Path) -> None:
    connection = apsw.Connection(str(backup))
    connection.execute("UPDATE messages SET at = 9223372036854775807")
    connection.close()
    memory = open_memory()
    memory.add("here", "user", "hello")
    with pytest.raises(StoreUnavailable, match=r"messages\.at"):
        memory.restore(backup)
    assert [message.content for message in memory.history("here")] == ["hello"]


def test_every_text_and_every_time_of_the_schema_has_a_rule(tmp_path: Path) -> None:
    connection = apsw.Connection(str(shutil.copy(GOLDEN, tmp_path / "golden.db")))
    columns = connection.execute(
        "SELECT t.name || '.' || c.name, c.type FROM pragma_table_list t JOIN pragma_table_info(t.name) c "
        "WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%'"
    ).fetchall()
    connection.close()
    needed = {name for name, kind in columns if kind == "TEXT" or name.endswith(("_at", ".at", ".since"))}
    ruled = {f"{table}.{column}" for table, rules in CHECKS.items() for column in rules}
    assert needed - ruled == UNCHECKED and ruled <= {name for name, _ in columns}


def test_rows_are_checked_one_by_one_in_linear_time() -> None:
    def check(count: int) -> None:
        read = {"texts": (["word " * 20] for _ in range(count)), "messages": iter(())}
        assert find_foreign_column(lambda table, columns: read.get(table, ())) is None

    assert_linear(check, lambda size: size, 2000)


def test_the_golden_database_has_no_foreign_value(tmp_path: Path) -> None:
    connection = apsw.Connection(str(shutil.copy(GOLDEN, tmp_path / "golden.db")))
    assert find_foreign_column(lambda table, columns: stream_rows(connection, table, columns)) is None
    connection.close()
