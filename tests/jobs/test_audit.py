"""The audit log has actors and acts, never content."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recollect import AsyncMemory, InvalidInput, Memory, Principal, StoreUnavailable
from recollect.storage.sqlite_file import read_blocks
from recollect.testing import FakeClock, FakeEmbedder
from support.tables import ask

Open = Callable[..., Memory]
QUESTION = "Which languages do I know?"


def acts(memory: Memory) -> list[tuple[str, dict[str, object]]]:
    """Return actions and details, oldest first."""
    return [(entry.action, entry.details) for entry in reversed(memory.audit())]


def test_acts_and_uses_are_logged_in_order_without_content(memory: Memory, tmp_path: Path) -> None:
    memory.add("trip", "user", "hello")
    memory.set_profile({"preferences": {"languages": ["Python"]}, "notes": "secret"})
    memory.set_profile({"notes": "secret"})  # changes nothing
    memory.context("trip", QUESTION)
    memory.set_consent(True)
    memory.set_consent(True)
    context = memory.context("trip", QUESTION)
    memory.recall(QUESTION)
    memory.recall("hello")
    memory.change_settings(rag_hybrid=False, rag_token_budget=700)
    memory.export(tmp_path / "mine.ndjson")
    receipt = memory.revoke_consent()
    (used,) = (part["tokens"] for part in context.explain["parts"] if part["name"] == "profile")
    assert acts(memory) == [
        ("profile_changed", {"fields": ["languages", "notes"]}),
        ("consent_granted", {}),
        ("profile_used", {"conversation": "trip", "by": "context", "tokens": used}),
        ("profile_used", {"by": "recall", "tokens": 3}),
        ("settings_changed", {"names": ["rag_hybrid", "rag_token_budget"]}),
        ("exported", {"messages": 1}),
        ("consent_revoked", {}),
        ("erased", {"scope": "profile", "receipt": receipt.id}),
    ]
    assert {(entry.person, entry.actor) for entry in memory.audit()} == {("local", "library")}


def test_entries_come_in_pages_the_newest_first(memory: Memory) -> None:
    for number in range(5):
        memory.set_profile({"notes": f"note {number}"})
    first = memory.audit(limit=2)
    rest = memory.audit(limit=10, before=first[-1].id)
    ids = [each.id for each in first + rest]
    assert (len(ids), ids) == (5, sorted(ids, reverse=True))
    assert memory.audit(limit=0) == []
    with pytest.raises(InvalidInput):
        memory.audit(limit=-1)


def test_an_erased_conversation_leaves_no_name_in_the_log(location: str, open_memory: Open) -> None:
    memory, other = open_memory(), open_memory()
    memory.add("zqname4711", "user", "hello")
    memory.set_profile({"preferences": {"languages": ["Python"]}})
    memory.set_consent(True)
    memory.context("zqname4711", QUESTION)
    other.context("zqname4711", QUESTION)  # noted there, and written after the erase
    memory.erase(conversation="zqname4711")
    other.audit()
    found = acts(memory)
    assert [name for name, _ in found].count("profile_used") == 2
    assert "zqname4711" not in repr(found)
    assert ("erased", "conversation") in [(name, details.get("scope")) for name, details in found]
    if not location.startswith("postgresql:"):
        assert b"zqname4711" not in b"".join((*read_blocks(location), *read_blocks(f"{location}-wal")))


def test_what_another_process_noted_of_a_person_is_not_written_after_their_erase(
    location: str, open_memory: Open, clock: FakeClock
) -> None:
    there, here = open_memory(person="zanzibarcanary"), open_memory(person="zanzibarcanary")
    there.set_profile({"notes": "I work night shifts."})
    there.set_consent(True)
    there.add("trip", "user", "When can I sleep?")
    there.context("trip", "When do I work?")  # noted there, and written later
    clock.advance(timedelta(seconds=1))
    here.erase(person="zanzibarcanary")
    there.drain()
    assert there.audit() == []
    assert there.metrics()["queries"] == 0
    there.recall("Is anything left?")
    there.drain()
    assert there.metrics()["queries"] == 1


def test_uses_are_written_by_the_worker_and_at_the_end(location: str, open_memory: Open) -> None:
    memory = open_memory()
    memory.set_profile({"preferences": {"languages": ["Python"]}})
    memory.set_consent(True)
    memory.recall(QUESTION)
    count = "SELECT count(*) FROM audit WHERE action = 'profile_used'"
    assert ask(location, count) == [(0,)]
    memory.drain()
    assert ask(location, count) == [(1,)]
    memory.recall(QUESTION)
    memory.close()
    assert ask(location, count) == [(2,)]


def test_entries_are_deleted_after_400_days(memory: Memory, clock: FakeClock) -> None:
    memory.set_profile({"notes": "one"})
    clock.advance(timedelta(days=399))
    memory.set_profile({"notes": "two"})
    memory.drain()
    assert len(memory.audit()) == 2
    clock.advance(timedelta(days=2))
    memory.drain()
    assert len(memory.audit()) == 1


def test_entries_that_cannot_be_written_are_kept_for_the_next_time(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise StoreUnavailable("disk_full", "No room.")

    with monkeypatch.context() as patch:
        patch.setattr(memory._engine._audit, "_save", fail)
        memory.change_settings(rag_hybrid=False)
        assert memory.audit() == []
    assert acts(memory) == [("settings_changed", {"names": ["rag_hybrid"]})]


def test_a_memory_of_another_person_logs_its_actor(location: str) -> None:
    async def act() -> list[tuple[str, str]]:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder()) as memory:
            sara = memory.of(Principal("sara"), actor="key-7")
            await sara.set_profile({"preferences": {"languages": ["Python"]}})
            await sara.set_consent(True)
            await sara.of(Principal("sara")).recall(QUESTION)
            await memory.of(Principal("sara")).revoke_consent()
            assert await memory.audit() == []
            return [(entry.action, entry.actor) for entry in reversed(await sara.audit())]

    assert asyncio.run(act()) == [
        ("profile_changed", "key-7"),
        ("consent_granted", "key-7"),
        ("profile_used", "key-7"),
        ("consent_revoked", "library"),
        ("erased", "library"),
    ]
