"""The contract of the log, on both databases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recollect import AsyncMemory, InvalidInput, Memory, NotFound, StoreUnavailable
from recollect.testing import FakeClock, FakeEmbedder

Open = Callable[..., Memory]


def test_an_added_message_comes_back_as_it_was_given(memory: Memory) -> None:
    given = memory.add(
        "trip", "assistant", "Sure.", id="m1", at="2026-03-01T10:00:00+03:00", name="Guide", model_variant="deep-dive",
        tool_calls=[{"id": "call-1", "function": {"name": "f", "arguments": "{}"}}], tool_call_id="call-0",
        metadata={"a": [1, 2.5, None, True, "ب"]}, importance=0.75,
    )  # fmt: skip
    assert given.seq == 1
    assert given.at == datetime(2026, 3, 1, 7, tzinfo=UTC)
    assert given.source == "assistant"
    assert memory.history("trip") == [given]


def test_seq_counts_from_one_without_a_gap_in_each_conversation(memory: Memory) -> None:
    for number in range(5):
        memory.add("one", "user", str(number))
        memory.add("two", "user", str(number))
    assert [m.seq for m in memory.history("one")] == [1, 2, 3, 4, 5]
    assert [m.seq for m in memory.history("two")] == [1, 2, 3, 4, 5]


def test_the_first_write_of_an_id_wins(memory: Memory) -> None:
    first = memory.add("trip", "user", "first", id="x")
    again = memory.add("trip", "assistant", "second", id="x")
    assert again == first
    assert memory.history("trip") == [first]


def test_an_id_is_unique_only_within_its_conversation(memory: Memory) -> None:
    memory.add("one", "user", "a", id="x")
    assert memory.add("two", "user", "b", id="x").content == "b"


def test_add_many_skips_known_ids_and_returns_all_as_stored(memory: Memory) -> None:
    memory.add("trip", "user", "kept", id="b")
    stored = memory.add_many(
        "trip",
        [
            {"role": "user", "content": "new", "id": "a"},
            {"role": "user", "content": "changed", "id": "b"},
            {"role": "assistant", "content": "twice", "id": "c"},
            {"role": "assistant", "content": "in one call", "id": "c"},
        ],
    )
    assert [(m.id, m.content, m.seq) for m in stored] == [
        ("a", "new", 2),
        ("b", "kept", 1),
        ("c", "twice", 3),
        ("c", "twice", 3),
    ]
    assert len(memory.history("trip")) == 3


def test_add_many_with_one_bad_message_stores_none(memory: Memory) -> None:
    with pytest.raises(InvalidInput) as caught:
        memory.add_many("trip", [{"role": "user", "content": "fine"}, {"role": "robot", "content": "bad"}])
    assert caught.value.code == "unknown_role"
    assert memory.history("trip") == []
    assert memory.conversations() == []


def test_add_many_with_nothing_changes_nothing(memory: Memory) -> None:
    assert memory.add_many("trip", []) == []
    assert memory.conversations() == []


def test_history_pages_backwards_in_order(memory: Memory) -> None:
    memory.add_many("trip", [{"role": "user", "content": str(n)} for n in range(1, 11)])
    newest = memory.history("trip", limit=3)
    assert [m.seq for m in newest] == [8, 9, 10]
    assert [m.seq for m in memory.history("trip", before=newest[0].seq, limit=3)] == [5, 6, 7]
    assert memory.history("trip", limit=0) == []
    assert len(memory.history("trip", before=2**70, limit=2**70)) == 10
    assert memory.history("nowhere") == []


def test_conversations_show_counts_times_and_a_title(memory: Memory) -> None:
    memory.add("trip", "system", "You are kind.", at="2026-01-01T00:00:00Z")
    memory.add("trip", "user", "Where   shall\nwe go? " + "x" * 100, at="2026-01-02T00:00:00Z")
    memory.add("later", "user", "hi", at="2026-02-01T00:00:00Z")
    later, trip = memory.conversations()
    assert later.name == "later"
    assert trip.title.startswith("Where shall we go?") and len(trip.title) == 80
    assert (trip.messages, trip.last_seq) == (2, 2)
    assert trip.first_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert trip.last_at == datetime(2026, 1, 2, tzinfo=UTC)


def test_a_conversation_can_be_given_title_tags_and_zone(memory: Memory) -> None:
    memory.add("trip", "user", "hi")
    changed = memory.update_conversation("trip", title="Lisbon", tags=["travel", "سفر"], zone="Asia/Riyadh")
    assert (changed.title, changed.tags, changed.zone) == ("Lisbon", ("travel", "سفر"), "Asia/Riyadh")
    assert memory.update_conversation("trip", tags=[]).title == "Lisbon"
    with pytest.raises(NotFound):
        memory.update_conversation("nowhere", title="x")
    with pytest.raises(InvalidInput) as caught:
        memory.update_conversation("trip", zone="Mars/Olympus")
    assert caught.value.code == "invalid_zone"


def test_a_time_without_an_offset_is_read_in_the_conversations_zone(memory: Memory) -> None:
    memory.add("trip", "user", "hi")
    memory.update_conversation("trip", zone="Asia/Riyadh")
    assert memory.add("trip", "user", "now", at="2026-03-01T10:00:00").at == datetime(2026, 3, 1, 7, tzinfo=UTC)
    assert memory.add("other", "user", "now", at=datetime(2026, 3, 1, 10)).at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_without_a_time_the_clock_decides(memory: Memory, clock: FakeClock) -> None:
    assert memory.add("trip", "user", "hi").at == clock.now()


def test_two_people_never_see_each_others_messages(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    sara.add("trip", "user", "secret of sara", id="m")
    assert omar.history("trip") == []
    assert omar.conversations() == []
    omar.add("trip", "user", "of omar", id="m")
    assert [m.content for m in sara.history("trip")] == ["secret of sara"]
    with pytest.raises(NotFound):
        omar.erase(message="m", conversation="nowhere")
    omar.erase(conversation="trip")
    assert [m.content for m in sara.history("trip")] == ["secret of sara"]


def test_a_message_outlives_the_process_that_added_it(open_memory: Open) -> None:
    first = open_memory()
    message = first.add("trip", "user", "hi")
    first.close()
    assert open_memory().history("trip") == [message]


def test_order_never_depends_on_the_clock(memory: Memory, clock: FakeClock) -> None:
    memory.add("trip", "user", "first")
    clock.advance(timedelta(hours=-48))
    memory.add("trip", "user", "second")
    assert [m.content for m in memory.history("trip")] == ["first", "second"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"role": ""}, "empty_role"),
        ({"role": None}, "empty_role"),
        ({"role": "robot"}, "unknown_role"),
        ({"role": 7}, "unknown_role"),
        ({"content": "x" * (1024 * 1024 + 1)}, "content_too_large"),
        ({"content": "ب" * (512 * 1024 + 1)}, "content_too_large"),
        ({"content": None}, "invalid_content"),
        ({"content": b"bytes"}, "invalid_content"),
        ({"id": ""}, "invalid_id"),
        ({"id": "x" * 201}, "invalid_id"),
        ({"id": "nul\x00"}, "invalid_id"),
        ({"id": "half\ud800"}, "invalid_id"),
        ({"id": 5}, "invalid_id"),
        ({"at": "0001-01-01T00:00:00Z"}, "time_out_of_range"),
        ({"at": datetime(9999, 12, 31)}, "time_out_of_range"),
        ({"at": "yesterday"}, "invalid_time"),
        ({"at": 12345}, "invalid_time"),
        ({"source": "rumour"}, "unknown_source"),
        ({"metadata": ["list"]}, "invalid_metadata"),
        ({"metadata": {"a": float("nan")}}, "invalid_metadata"),
        ({"metadata": {"a": object()}}, "invalid_metadata"),
        ({"metadata": {1: "a"}}, "invalid_metadata"),
        ({"metadata": {"n": 10**5000}}, "invalid_metadata"),
        ({"metadata": {"a\x00": 1, "a\ud800": 2}}, "invalid_metadata"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata_too_large"),
        ({"tool_calls": "call"}, "invalid_tool_calls"),
        ({"importance": 2}, "invalid_importance"),
        ({"importance": True}, "invalid_importance"),
        ({"name": "x" * 201}, "invalid_name"),
    ],
)
def test_bad_input_gets_a_typed_error_and_changes_nothing(memory: Memory, fields: dict, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        memory.add("trip", **({"role": "user", "content": "hi"} | fields))
    assert caught.value.code == code
    assert not caught.value.retryable
    assert memory.conversations() == []


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "nul\x00", "half\udfff", None, 3])
def test_a_conversation_needs_a_usable_name(memory: Memory, name: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        memory.add(name, "user", "hi")  # type: ignore[arg-type]
    assert caught.value.code == "invalid_conversation"


def test_deeply_nested_metadata_is_refused_without_a_crash(memory: Memory) -> None:
    value: object = "x"
    for _ in range(5000):
        value = [value]
    with pytest.raises(InvalidInput) as caught:
        memory.add("trip", "user", "hi", metadata={"deep": value})
    assert caught.value.code == "invalid_metadata"


def test_nul_and_lone_surrogates_are_replaced_and_flagged(memory: Memory) -> None:
    message = memory.add("trip", "user", "a\x00b\ud800c", metadata={"k\x00": "v\udfff"}, name="n\x00")
    assert (message.content, message.replaced) == ("a\ufffdb\ufffdc", 5)
    assert message.metadata == {"k\ufffd": "v\ufffd"}
    assert memory.history("trip") == [message]


def test_a_message_of_one_mebibyte_is_stored_whole(memory: Memory) -> None:
    for text in ("a b" * 349_525 + "c", "東" * 349_525, "x" * (1024 * 1024), "\t" * 1000):
        message = memory.add("trip", "user", text)
        assert memory.history("trip", before=message.seq + 1, limit=1)[0].content == text


def test_a_closed_memory_says_so(open_memory: Open) -> None:
    memory = open_memory()
    memory.close()
    memory.close()
    for call in (lambda: memory.add("trip", "user", "hi"), lambda: memory.history("trip")):
        with pytest.raises(Exception) as caught:
            call()
        assert getattr(caught.value, "code", None) == "store_closed"


def test_closing_from_many_threads_at_once_is_quiet(open_memory: Open) -> None:
    memory = open_memory(worker=True)
    memory.add("trip", "user", "hi")
    errors: list[BaseException] = []

    def close() -> None:
        try:
            memory.close()
        except BaseException as error:  # noqa: BLE001 - the test is that there is none
            errors.append(error)

    threads = [threading.Thread(target=close) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_cancelled_call_leaves_the_memory_usable(location: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncMemory(location, embedder=FakeEmbedder()) as memory:
            await memory.add("trip", "user", "first")
            for call in (memory.backup(tmp_path / "x.backup"), memory.add("trip", "user", "perhaps"), memory.check()):
                task = asyncio.create_task(call)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await memory.add("trip", "user", "last")
            assert [m.content for m in await memory.history("trip")][-1] == "last"

    asyncio.run(scenario())


def test_a_memory_keeps_its_file_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with Memory(tmp_path / "two" / "f.db", worker=False) as other:
        other.add("a", "user", "other")
    monkeypatch.chdir(tmp_path / "one")
    with Memory("f.db", worker=False) as memory:
        memory.add("a", "user", "mine", id="m")
        monkeypatch.chdir(tmp_path / "two")
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(lambda _: memory.history("a")[0].content, range(30)))
        assert found == {"mine"}
        memory.backup(tmp_path / "copy.backup")
        assert not memory.erase(message="m").pending
    with Memory(tmp_path / "copy.backup", worker=False) as copy:
        assert copy.history("a")[0].content == "mine"


def test_an_erase_through_a_link_names_the_real_files(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "f.db")
    with Memory(tmp_path / "link.db", worker=False) as memory:
        memory.add("a", "user", "hello there, general", id="m")
        memory.backup(tmp_path / "real" / "f.db.mine.backup")
        receipt = memory.erase(message="m")
    assert str(tmp_path / "real" / "f.db-wal") in receipt.files
    assert receipt.kept_elsewhere == (str(tmp_path / "real" / "f.db.mine.backup"),)


def test_the_sync_face_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Memory(tmp_path / "f.db", embedder=FakeEmbedder()) as memory:
            assert memory.add("a", "user", "hi").seq == 1
            assert memory.drain().complete

    asyncio.run(scenario())


def test_an_async_memory_can_be_closed_from_a_later_loop(tmp_path: Path) -> None:
    memory = AsyncMemory(tmp_path / "f.db", embedder=FakeEmbedder())
    asyncio.run(memory.add("a", "user", "hi"))
    assert len(asyncio.run(memory.history("a"))) == 1
    asyncio.run(memory.close())
    with pytest.raises(StoreUnavailable):
        asyncio.run(memory.history("a"))


@pytest.mark.parametrize("location", [None, 5, b"bytes", "", "a\x00b"])
def test_an_invalid_location_is_refused(location: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        Memory(location)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_location"
