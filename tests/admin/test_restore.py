"""A restore brings back what was said. What was erased or revoked since the backup was made stays so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from recollect import Memory, Principal, StoreUnavailable
from recollect.admin.access import Access
from recollect.memory import AsyncMemory
from recollect.storage import row_restore
from recollect.storage.page_restore import PageRestore
from recollect.testing import FakeClock, FakeEmbedder
from support.serving import read_all_bytes
from support.tables import ask, stored_vectors

Open = Callable[..., Memory]
CANARY = "zanzibarcanary"


def fill(memory: Memory) -> str:
    """Store a conversation that is to be erased, in whole or in part. Return the id of its topic."""
    memory.add(f"trip-{CANARY}", "user", f"The {CANARY} opens at nine.", id=f"m-{CANARY}", at="2026-01-01T10:00:00Z")
    memory.add("kept", "user", "The train leaves at ten.", at="2026-01-02T10:00:00Z")
    memory.set_profile({"notes": f"I like the {CANARY}."})
    memory.set_consent(True)
    memory.drain()
    return memory.topics(f"trip-{CANARY}")[0].id


WAYS: dict[str, Callable[[Memory, str], Any]] = {
    "conversation": lambda memory, topic: memory.erase(conversation=f"trip-{CANARY}"),
    "person": lambda memory, topic: memory.erase(person="local"),
    "day": lambda memory, topic: memory.erase(day="2026-01-01"),
    "topic": lambda memory, topic: memory.erase(topic=topic),
    "message": lambda memory, topic: memory.erase(message=f"m-{CANARY}"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_erased_stays_erased_after_the_restore_of_an_older_backup(
    way: str, open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory = open_memory()
    topic = fill(memory)
    memory.backup(tmp_path / "elsewhere.backup")
    WAYS[way](memory, topic)
    memory.revoke_consent()
    restored = memory.restore(tmp_path / "elsewhere.backup")
    assert restored.left_out["messages"] == (2 if way == "person" else 1)
    assert memory.history(f"trip-{CANARY}") == []
    assert len(memory.history("kept")) == (0 if way == "person" else 1)
    assert (memory.consent(), memory.profile().stored) == (False, False)
    assert memory.drain().complete
    assert all(finding.state == "ok" for finding in memory.check())
    if way in ("person", "conversation"):  # else the conversation stays, with its name
        assert CANARY.encode() not in read_all_bytes(location)
    again = memory.restore(tmp_path / "elsewhere.backup")
    assert (again.left_out, memory.history(f"trip-{CANARY}")) == (restored.left_out, [])


def test_a_tombstone_names_nothing(open_memory: Open, location: str) -> None:
    memory = open_memory(person=f"person-{CANARY}")
    memory.add(f"trip-{CANARY}", "user", "hello", id=f"m-{CANARY}")
    memory.erase(message=f"m-{CANARY}")
    memory.erase(person=f"person-{CANARY}")
    assert ask(location, "SELECT count(*) FROM tombstones WHERE length(hash) > 0") == [(2,)]
    assert CANARY.encode() not in read_all_bytes(location)


def test_what_was_said_after_an_erase_comes_back_from_a_later_backup(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory()
    memory.add("trip", "user", "erased", id="m")
    memory.add("other", "user", "erased too", id="n")
    memory.backup(tmp_path / "older.backup")
    memory.erase(conversation="trip")
    memory.erase(message="n")
    memory.add("trip", "user", "said again", id="m")
    memory.add("other", "user", "said again", id="n")
    memory.backup(tmp_path / "newer.backup")
    for name, said in (("older", []), ("newer", ["said again"]), ("older", [])):
        memory.restore(tmp_path / f"{name}.backup")
        assert [message.content for message in memory.history("trip")] == said
        assert [message.content for message in memory.history("other")] == said


def test_tombstones_move_with_a_backup_to_the_other_database(tmp_path: Path, pg: str) -> None:
    with Memory(tmp_path / "here.db", worker=False) as here, Memory(pg, worker=False) as there:
        here.add("trip", "user", "erased")
        here.backup(tmp_path / "older.backup")
        here.erase(conversation="trip")
        here.backup(tmp_path / "newer.backup")
        there.restore(tmp_path / "newer.backup")
        there.restore(tmp_path / "older.backup")
        assert there.history("trip") == []
        there.add("second", "user", "erased there")
        there.backup(tmp_path / "there.backup")
        there.erase(conversation="second")
        there.backup(tmp_path / "latest.backup")
        here.restore(tmp_path / "latest.backup")
        here.restore(tmp_path / "there.backup")
        here.restore(tmp_path / "older.backup")
        assert here.conversations() == []


def test_an_erase_while_a_restore_is_prepared_is_not_undone(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, calls = PageRestore._prepare, []

    def prepare_and_erase(restore: PageRestore, kept: Any, now: int) -> str:
        path = prepare(restore, kept, now)
        calls.append(path)
        if len(calls) == 1:
            other.erase(conversation="trip")
        return path

    monkeypatch.setattr(PageRestore, "_prepare", prepare_and_erase)
    with Memory(db, worker=False) as memory, Memory(db, worker=False) as other:
        memory.add("trip", "user", f"the {CANARY} opens at nine")
        memory.backup(tmp_path / "copy.backup")
        memory.restore(tmp_path / "copy.backup")
        assert memory.history("trip") == []
    assert len(calls) == 2
    assert CANARY.encode() not in read_all_bytes(db)


def test_a_restore_that_the_server_runs_again_counts_what_was_left_out_and_saves_what_was_there(
    pg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_rows, calls = row_restore.copy_everything, list[str]()

    def copy_and_fail_once(source: Any, target: Any) -> None:
        copy_rows(source, target)
        calls.append(type(target).__name__)
        if calls == ["SqliteTransaction", "PostgresTransaction"]:  # saved, and restored but for the commit
            raise psycopg.errors.SerializationFailure

    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "erased")
        memory.add("kept", "user", "stays")
        memory.backup(tmp_path / "older.backup")
        memory.erase(conversation="trip")
        memory.add("kept", "user", "said later")
        monkeypatch.setattr(row_restore, "copy_everything", copy_and_fail_once)
        restored = memory.restore(tmp_path / "older.backup", save_to=tmp_path / "saved.backup")
        assert len(calls) == 4
        assert (restored.left_out["conversations"], restored.left_out["messages"]) == (1, 1)
        assert [message.content for message in memory.history("kept")] == ["stays"]
        memory.restore(tmp_path / "saved.backup")
        assert [message.content for message in memory.history("kept")] == ["stays", "said later"]


def test_writers_do_not_wait_while_erased_rows_are_left_out_of_a_copy(
    pg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, work = row_restore.apply_kept, list[tuple[bool, int]]()

    def apply_and_note(*arguments: Any, **more: Any) -> dict[str, int]:
        left_out = apply(*arguments, **more)
        locks = "SELECT 1 FROM pg_locks WHERE relation = 'messages'::regclass AND mode = 'ExclusiveLock'"
        work.append((bool(ask(pg, locks)), left_out.get("messages", 0)))
        return left_out

    monkeypatch.setattr(row_restore, "apply_kept", apply_and_note)
    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "erased")
        memory.backup(tmp_path / "older.backup")
        memory.erase(conversation="trip")
        assert memory.restore(tmp_path / "older.backup").left_out["messages"] == 1
    assert work == [(False, 1), (True, 0)]


# Keys


async def _with_access(location: str, work: Callable[[AsyncMemory, Access], Coroutine[Any, Any, None]]) -> None:
    """Run `work` with a memory, and with an access that lives as long as one of a server does."""
    async with AsyncMemory(location, worker=False, embedder=FakeEmbedder(), clock=FakeClock()) as memory:
        await work(memory, Access(memory))


async def _token(access: Access, person: str, **more: Any) -> str:
    token = (await access.create_key(person, **more)).token
    assert token is not None
    return token


def test_keys_of_the_database_survive_a_restore_and_revoked_ones_stay_revoked(location: str, tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, access: Access) -> None:
        await memory.backup(tmp_path / "keyless.backup")
        old, revoked = await _token(access, "sara"), await _token(access, "sara")
        session = await access.login(old, hours=1)
        assert session is not None
        await memory.backup(tmp_path / "old.backup")
        new = await _token(access, "omar")
        await access.revoke_key(revoked.split("_")[1])
        for backup in ("old", "keyless"):
            await memory.restore(tmp_path / f"{backup}.backup")
            for one in (access, Access(memory)):  # that of a running server, and that of one that starts now
                assert await one.requires_keys()
                assert [await one.verify(token) is not None for token in (old, new, revoked)] == [True, True, False]
                assert await one.session(session[0]) is not None

    asyncio.run(_with_access(location, work))


def test_a_database_without_keys_takes_those_of_the_backup_but_no_session(location: str, tmp_path: Path) -> None:
    async def make_backup(memory: AsyncMemory, access: Access) -> None:
        token = await _token(access, "sara")
        session = await access.login(token, hours=1)
        assert session is not None
        made.extend((token, session[0]))
        await memory.backup(tmp_path / "keyed.backup")

    async def restore(memory: AsyncMemory, access: Access) -> None:
        await memory.restore(tmp_path / "keyed.backup")
        assert await access.verify(made[0]) is not None
        assert await access.session(made[1]) is None

    made: list[str] = []
    asyncio.run(_with_access(str(tmp_path / "other.db"), make_backup))
    asyncio.run(_with_access(location, restore))


def test_a_restore_brings_no_key_of_another_database_into_one_that_has_keys(location: str, tmp_path: Path) -> None:
    async def make_backup(memory: AsyncMemory, access: Access) -> None:
        made.append(await _token(access, "intruder", scopes=("admin",)))
        await memory.backup(tmp_path / "foreign.backup")

    async def restore(memory: AsyncMemory, access: Access) -> None:
        own = await _token(access, "sara")
        await memory.restore(tmp_path / "foreign.backup")
        assert await access.verify(own) is not None
        assert await access.verify(made[0]) is None
        assert [key.person for key in await access.keys()] == ["sara"]

    made: list[str] = []
    asyncio.run(_with_access(str(tmp_path / "other.db"), make_backup))
    asyncio.run(_with_access(location, restore))


@pytest.mark.parametrize("is_same", [False, True], ids=["another secret", "the same secret"])
def test_keys_of_a_backup_count_only_with_the_same_secret_also_if_the_environment_sets_it(
    is_same: bool, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make_backup(memory: AsyncMemory, access: Access) -> None:
        made.append(await _token(access, "omar", scopes=("admin",)))
        await memory.backup(tmp_path / "staging.backup")

    async def restore(memory: AsyncMemory, access: Access) -> None:
        own = await _token(access, "sara")
        await memory.restore(tmp_path / "staging.backup")
        assert await access.verify(own) is not None
        assert (await access.verify(made[0]) is not None) == is_same
        assert sorted(key.person for key in await access.keys()) == (["omar", "sara"] if is_same else ["sara"])

    made: list[str] = []
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "the secret of staging")
    asyncio.run(_with_access(str(tmp_path / "staging.db"), make_backup))
    if not is_same:
        monkeypatch.setenv("RECOLLECT_KEY_SECRET", "the secret of production")
    asyncio.run(_with_access(location, restore))


def test_a_stored_secret_of_the_backup_does_not_come_beside_that_of_the_environment(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make_backup(memory: AsyncMemory, access: Access) -> None:
        await access.create_key("omar")
        await memory.backup(tmp_path / "stored.backup")

    async def restore(memory: AsyncMemory, access: Access) -> None:
        await access.create_key("sara")
        await memory.restore(tmp_path / "stored.backup")
        assert not await access.uses_other_secret()
        assert [key.person for key in await access.keys()] == ["sara"]

    asyncio.run(_with_access(str(tmp_path / "other.db"), make_backup))
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "the secret of production")
    asyncio.run(_with_access(location, restore))
    assert ask(location, "SELECT count(*) FROM settings WHERE name = 'key_secret'") == [(0,)]


def test_a_key_of_an_older_version_which_noted_no_digest_counts_with_the_same_stored_secret(
    location: str, tmp_path: Path
) -> None:
    async def work(memory: AsyncMemory, access: Access) -> None:
        await access.create_key("omar")
        ask(location, "DELETE FROM settings WHERE name = 'key_secret_digest'")
        await memory.backup(tmp_path / "older.backup")
        ask(location, "DELETE FROM api_keys")
        await access.create_key("sara")
        await memory.restore(tmp_path / "older.backup")
        assert sorted(key.person for key in await access.keys()) == ["omar", "sara"]

    asyncio.run(_with_access(location, work))


@pytest.mark.parametrize("validity", ["valid", "revoked", "expired"])
def test_valid_keys_of_a_backup_are_asked_for_where_requests_needed_none(
    validity: str, location: str, tmp_path: Path
) -> None:
    async def make_backup(memory: AsyncMemory, access: Access) -> None:
        key = await access.create_key("sara", days=1 if validity == "expired" else None)
        if validity == "revoked":
            await access.revoke_key(key.id)
        await memory.backup(tmp_path / "keyed.backup")

    async def restore(memory: AsyncMemory, access: Access) -> None:
        assert isinstance(memory.clock, FakeClock)
        memory.clock.advance(timedelta(days=2))
        await access.allow_keyless()
        await memory.restore(tmp_path / "keyed.backup")
        assert len(await access.keys()) == 1
        for one in (access, Access(memory)):
            assert await one.requires_keys(fresh=True) == (validity == "valid")

    asyncio.run(_with_access(str(tmp_path / "other.db"), make_backup))
    asyncio.run(_with_access(location, restore))


def test_a_database_that_demands_keys_does_so_after_any_restore(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    memory.backup(tmp_path / "keyless.backup")
    ask(location, "INSERT INTO settings (person, name, value, changed_at) VALUES ('', 'keys_required', 'true', 1)")
    memory.restore(tmp_path / "keyless.backup")
    assert ask(location, "SELECT value FROM settings WHERE name = 'keys_required'") == [("true",)]


def test_erasing_a_person_revokes_their_keys_and_leaves_no_name_in_them(location: str) -> None:
    async def work(memory: AsyncMemory, access: Access) -> None:
        token = await _token(access, CANARY, label=f"laptop of {CANARY}", department=f"{CANARY} office")
        other = await _token(access, "omar")
        assert await access.login(token, hours=1) is not None
        receipt = await memory.of(Principal(CANARY)).erase(person=CANARY)
        assert receipt.counts["api_keys"] == 1
        assert await access.verify(token) is None
        assert await access.verify(other) is not None
        assert ask(location, "SELECT count(*) FROM sessions") == [(0,)]

    asyncio.run(_with_access(location, work))
    assert CANARY.encode() not in read_all_bytes(location)


# What else a backup may not bring


def test_idempotency_keys_and_stop_marks_of_replaced_people_go(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello")
    for table, columns, values in (
        ("requests", "person, id, fingerprint, at", "'replaced', 'r', CAST('' AS BYTEA), 1"),
        ("stops", "person, conversation, at", "'replaced', 'c', 1"),
    ):
        text = values if location.startswith("postgresql") else values.replace("CAST('' AS BYTEA)", "x''")
        ask(location, f"INSERT INTO {table} ({columns}) VALUES ({text})")  # noqa: S608
    memory.backup(tmp_path / "copy.backup")
    memory.restore(tmp_path / "copy.backup")
    for table in ("requests", "stops"):
        assert ask(location, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608


HOSTILE = {
    "a trigger that keeps rows": "CREATE TRIGGER t BEFORE DELETE ON messages BEGIN SELECT RAISE(IGNORE); END",
    "a view that never ends": "DROP TABLE consents; CREATE VIEW consents AS WITH RECURSIVE r (person, granted, at) AS"
    " (SELECT 'x', 1, 1 UNION ALL SELECT person, granted, at + 1 FROM r) SELECT * FROM r",
    "an endless list of migrations": "DROP TABLE schema_migrations; CREATE VIEW schema_migrations AS"
    " WITH RECURSIVE r (version, sha256) AS (SELECT 1, '' UNION ALL SELECT version + 1, '' FROM r) SELECT * FROM r",
    "a copy of texts": "CREATE TABLE hidden AS SELECT * FROM texts",
    "a reference that keeps rows": "CREATE TABLE keeper (k INTEGER REFERENCES conversations (key) ON DELETE RESTRICT)",
    "another index": "CREATE INDEX planted ON texts (content)",
    "a column more": "ALTER TABLE profiles ADD COLUMN \"note) VALUES ('') --\" TEXT",
}


@pytest.mark.parametrize("plant", HOSTILE)
def test_a_backup_with_anything_but_our_own_schema_is_refused_unread(
    plant: str, open_memory: Open, tmp_path: Path
) -> None:
    with Memory(tmp_path / "other.db", worker=False) as other:
        other.add("trip", "user", "from the backup")
        other.backup(tmp_path / "hostile.backup")
    connection = apsw.Connection(str(tmp_path / "hostile.backup"))
    connection.execute(HOSTILE[plant])
    connection.close()
    memory = open_memory()
    memory.add("trip", "user", "stays")
    with pytest.raises(StoreUnavailable) as caught:
        memory.restore(tmp_path / "hostile.backup")
    assert (caught.value.code, caught.value.retryable) == ("backup_damaged", False)
    assert [message.content for message in memory.history("trip")] == ["stays"]


def test_a_backup_of_every_earlier_schema_can_be_restored(open_memory: Open) -> None:
    memory = open_memory(person="سارة")
    for golden in sorted((Path(__file__).parents[1] / "golden").glob("schema_*.sqlite")):
        memory.restore(golden)
        assert len(memory.history("تقرير")) == 10


# Vectors


def test_vectors_survive_backup_and_restore_on_either_database(
    open_memory: Open, location: str, tmp_path: Path
) -> None:
    memory = open_memory()
    memory.add_many("trip", [{"role": "user", "content": f"Ferry number {n} has {n * 7} seats."} for n in range(30)])
    memory.drain()
    before = stored_vectors(location)
    memory.backup(tmp_path / "copy.backup")
    assert stored_vectors(str(tmp_path / "copy.backup")) == before
    assert "vectors" not in memory.restore(tmp_path / "copy.backup").made_again
    assert stored_vectors(location) == before
    assert memory.recall("Which ferry has 49 seats?").degraded == ()
    done = memory.drain()
    assert (done.complete, done.counts["vectors"]) == (True, 0)
    memory.add("trip", "user", "Another ferry has no seats.")
    assert memory.drain().counts["vectors"] == 1


def test_vectors_of_another_embedder_serve_until_those_of_the_own_one_are_there(tmp_path: Path, pg: str) -> None:
    with Memory(tmp_path / "here.db", worker=False, embedder=FakeEmbedder(16)) as here:
        here.add_many("trip", [{"role": "user", "content": f"Ferry number {n}"} for n in range(5)])
        here.drain()
        here.backup(tmp_path / "copy.backup")
    with Memory(pg, worker=False, embedder=FakeEmbedder(32)) as there:
        there.add("other", "user", "hello")
        there.drain()
        restored = there.restore(tmp_path / "copy.backup")
        assert restored.made_again["vectors"] == 5
        assert {name for rows in stored_vectors(pg).values() for name, _ in rows} == {"fake-embedder-16"}
        assert there.drain().counts["vectors"] == 5
        assert {name for rows in stored_vectors(pg).values() for name, _ in rows} == {"fake-embedder-32"}
