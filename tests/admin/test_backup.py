"""Backup and restore: the same rows come back, on either database, while others go on writing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from recollect import InvalidInput, Memory, Principal, StoreUnavailable
from recollect.core.message import make_draft
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.store import SqlStore

Open = Callable[..., Memory]


def fill(memory: Memory, count: int = 30) -> None:
    for n in range(count):
        memory.add(f"c{n % 3}", "user", f"hello {n} مرحبا", metadata={"n": n}, name="Sara", importance=0.5)
    memory.update_conversation("c0", title="Given", tags=["a"], zone="Asia/Riyadh")
    memory.change_settings(rag_hybrid=False)


def everything(memory: Memory) -> list[Any]:
    return sorted(((c, memory.history(c.name)) for c in memory.conversations()), key=lambda pair: pair[0].name)


def test_a_backup_holds_the_same_rows_and_can_be_opened(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory()
    fill(memory)
    memory.erase(message=memory.history("c1")[2].id)
    memory.backup(tmp_path / "copy.backup")
    copy = open_memory(location=tmp_path / "copy.backup")
    assert everything(copy) == everything(memory)
    assert copy.settings().rag_hybrid is False
    assert all(finding.state == "ok" for finding in copy.check())
    assert sum("bm25" in hit.why for hit in copy.recall("مرحبا", limit=100)) == 29


def test_a_backup_never_replaces_a_file(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "copy.backup").write_text("precious")
    with pytest.raises(StoreUnavailable) as caught:
        open_memory().backup(tmp_path / "copy.backup")
    assert caught.value.code == "backup_exists"
    assert (tmp_path / "copy.backup").read_text() == "precious"
    assert sorted(f.name for f in tmp_path.iterdir() if "part" in f.name) == []


def test_a_restore_brings_back_exactly_what_the_backup_held(open_memory: Open, tmp_path: Path) -> None:
    memory, omar = open_memory(), open_memory(person="omar")
    fill(memory)
    omar.add("his", "user", "own")
    memory.backup(tmp_path / "copy.backup")
    before = everything(memory)
    memory.add("c0", "user", "later")
    memory.add("new", "user", "later")
    memory.change_settings(rag_hybrid=None, rag_token_budget=5)
    omar.add("his", "user", "later")
    memory.restore(tmp_path / "copy.backup")
    assert everything(memory) == before
    assert [m.content for m in omar.history("his")] == ["own"]
    assert (memory.settings().rag_hybrid, memory.settings().rag_token_budget) == (False, 1000)
    assert memory.add("c0", "user", "goes on").seq == 11
    assert memory.drain().complete
    assert all(finding.state == "ok" for finding in memory.check())


def test_other_open_memories_see_the_restored_contents(open_memory: Open, tmp_path: Path) -> None:
    memory, other = open_memory(), open_memory()
    memory.add("trip", "user", "first")
    memory.backup(tmp_path / "copy.backup")
    other.add("trip", "user", "second")
    memory.restore(tmp_path / "copy.backup")
    assert [m.content for m in other.history("trip")] == ["first"]
    assert other.add("trip", "user", "third").seq == 2
    assert [m.content for m in memory.history("trip")] == ["first", "third"]


def test_a_backup_moves_between_the_databases(tmp_path: Path, pg: str) -> None:
    with Memory(tmp_path / "here.db", worker=False) as here, Memory(pg, worker=False) as there:
        fill(here)
        here.backup(tmp_path / "one.backup")
        there.restore(tmp_path / "one.backup")
        assert everything(there) == everything(here)
        there.backup(tmp_path / "two.backup")
        here.add("c0", "user", "goes")
        here.restore(tmp_path / "two.backup")
        assert everything(here) == everything(there)


def test_a_backup_under_writes_is_whole_and_disturbs_nobody(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory()
    fill(memory, 60)
    stop = threading.Event()
    acknowledged: list[list[str]] = [[], []]

    def write(place: int) -> None:
        while not stop.is_set():
            acknowledged[place].append(memory.add(f"w{place}", "user", "written meanwhile").id)

    writers = [threading.Thread(target=write, args=(place,)) for place in range(2)]
    for writer in writers:
        writer.start()
    for n in range(3):
        memory.backup(tmp_path / f"{n}.backup")
    stop.set()
    for writer in writers:
        writer.join()
    for place in range(2):
        assert [m.id for m in memory.history(f"w{place}")] == acknowledged[place]
    for n in range(3):
        copy = open_memory(location=tmp_path / f"{n}.backup")
        for place in range(2):
            held = [m.id for m in copy.history(f"w{place}")]
            assert held == acknowledged[place][: len(held)]
        assert all(finding.state == "ok" for finding in copy.check())


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "foreign", "zeroed"])
def test_a_bad_backup_is_refused_and_changes_nothing(open_memory: Open, tmp_path: Path, damage: str) -> None:
    memory = open_memory()
    fill(memory)
    before = everything(memory)
    source = tmp_path / "bad.backup"
    if damage == "empty":
        source.touch()
    elif damage == "foreign":
        connection = apsw.Connection(str(source))
        connection.execute("CREATE TABLE foo (a)")
        connection.close()
    elif damage == "text":
        source.write_text("not a database " * 1000)
    elif damage == "zeroed":
        memory.backup(source)
        data = bytearray(source.read_bytes())
        data[4096 * 3 : 4096 * 6] = bytes(4096 * 3)
        source.write_bytes(data)
    with pytest.raises((StoreUnavailable, InvalidInput)):
        memory.restore(source)
    assert everything(memory) == before
    assert not list(tmp_path.glob("*.private"))


def test_a_restore_saves_exactly_what_it_replaces_while_others_write(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory()
    memory.add("trip", "user", "first")
    memory.backup(tmp_path / "old.backup")
    stop = threading.Event()
    acknowledged: list[str] = []

    def write() -> None:
        while not stop.is_set():
            acknowledged.append(memory.add("trip", "user", "written meanwhile").id)

    writer = threading.Thread(target=write)
    writer.start()
    while len(acknowledged) < 20:
        stop.wait(0.005)
    memory.restore(tmp_path / "old.backup", save_to=tmp_path / "saved.backup")
    stop.set()
    writer.join()
    saved = open_memory(location=tmp_path / "saved.backup")
    held = {m.id for m in memory.history("trip")} | {m.id for m in saved.history("trip")}
    assert set(acknowledged) <= held


def test_a_file_of_another_program_is_not_taken_over(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("CREATE TABLE messages (a); PRAGMA user_version = 7")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(StoreUnavailable) as caught:
        Memory(tmp_path / "other.db")
    assert caught.value.code == "not_a_database"
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_backup_to_a_folder_that_is_not_there_is_refused(open_memory: Open, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_memory().backup(tmp_path / "nowhere" / "x.backup")
    assert caught.value.code == "folder_not_found"


def test_an_abandoned_draft_is_removed_and_a_fresh_one_stays(tmp_path: Path) -> None:
    old, new = tmp_path / "m.db.b.backup.1-x.part", tmp_path / "m.db.b.backup.2-x.part"
    for draft in (old, new):
        draft.write_text("people's text")
    os.utime(old, (1, 1))
    with Memory(tmp_path / "m.db", worker=False) as memory:
        assert not old.exists()
        memory.add("trip", "user", "hello there, general")
        assert str(new) in memory.erase(conversation="trip").kept_elsewhere


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary, " * 500)
    with pytest.raises(StoreUnavailable) as caught:
        Memory(tmp_path / "notes.txt")
    assert (caught.value.code, caught.value.retryable) == ("not_a_database", False)


def test_a_new_database_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    with Memory(tmp_path / "new.db", worker=False) as memory:
        memory.add("trip", "user", "hi")
        memory.backup(tmp_path / "copy.backup")
        memory.export(tmp_path / "out.ndjson")
    for name in ("new.db", "copy.backup", "out.ndjson"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


def test_sqlite_runs_with_the_promised_pragmas(tmp_path: Path) -> None:
    with Memory(tmp_path / "new.db", worker=False) as memory:
        memory.history("x")
        driver = memory._engine._components.driver
        for connection in driver._open_connections:
            values = {
                name: connection.pragma(name)
                for name in ("synchronous", "foreign_keys", "secure_delete", "journal_mode")
            }
            assert values == {"synchronous": 2, "foreign_keys": 1, "secure_delete": 1, "journal_mode": "wal"}
            assert connection.pragma("trusted_schema") == 0
            assert connection.pragma("mmap_size") == 0


def test_an_old_sqlite_library_runs_in_safe_mode_and_the_doctor_says_so(tmp_path: Path) -> None:
    driver = SqliteDriver(str(tmp_path / "old.db"), sqlite_version=3_040_001)
    driver.open(0)
    try:
        driver.maintain().result()
        store, now = SqlStore(driver), datetime(2026, 1, 1, tzinfo=UTC)
        draft = make_draft({"role": "user", "content": "stored all the same"}, now=now, new_id="m")
        store.log.submit(Principal(), "trip", [draft], now=now).result()
        assert driver.purge().result().pending is False
        assert (tmp_path / "old.db.checkpoint").exists()
        for connection in driver._open_connections:
            assert connection.pragma("wal_autocheckpoint") == 0
        (finding,) = [f for f in driver.examine().result() if f.name == "sqlite"]
        assert (finding.state, "3.40.1" in finding.detail, bool(finding.fix)) == ("warning", True, True)
    finally:
        driver.close()


def test_the_bundled_sqlite_is_new_enough() -> None:
    assert apsw.SQLITE_VERSION_NUMBER >= 3_051_003


DAMAGE = {
    "a table is missing": "PRAGMA foreign_keys = OFF; DROP TABLE feedback",
    "a column is missing": "ALTER TABLE conversations RENAME COLUMN title TO heading",
    "another type": "DROP TABLE consents; CREATE TABLE consents (person, granted, at);"
    " INSERT INTO consents VALUES ('local', 'yes', 1)",
    "a character that PostgreSQL cannot store": "INSERT INTO settings VALUES ('local', 'x' || char(0), '1', 1)",
    "bytes that are no text": "INSERT INTO settings VALUES ('local', CAST(x'ff' AS TEXT), '1', 1)",
    "versions that are no numbers": "DROP TABLE schema_migrations;"
    " CREATE TABLE schema_migrations (version, name, sha256, applied_at);"
    " INSERT INTO schema_migrations VALUES ('one', '', '', 1)",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_backup_that_somebody_changed_is_refused_and_changes_nothing(damage: str, tmp_path: Path, pg: str) -> None:
    with Memory(tmp_path / "other.db", worker=False) as memory:
        memory.add("trip", "user", "from the backup")
        memory.backup(tmp_path / "changed.db")
    connection = apsw.Connection(str(tmp_path / "changed.db"))
    connection.execute(DAMAGE[damage])
    connection.close()
    with Memory(pg, worker=False) as memory:
        memory.add("trip", "user", "stays")
        with pytest.raises(StoreUnavailable) as caught:
            memory.restore(tmp_path / "changed.db")
        assert (caught.value.code, caught.value.retryable) == ("backup_damaged", False)
        assert [message.content for message in memory.history("trip")] == ["stays"]
