"""Erasing: what goes, what stays, and that no byte is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import InvalidInput, Memory, NotFound
from recollect.core import word_index
from recollect.storage.sqlite_file import read_blocks
from recollect.testing import FakeEmbedder
from support.postgres import guest_role
from support.summaries import wait_until
from support.tables import ask, stored_entries, stored_vectors

Open = Callable[..., Memory]


def copies_on_disk(path: str, *needles: str) -> int:
    """Return how often the needles are in the database, its log, or any other file beside it."""
    found = 0
    for file in Path(path).parent.iterdir():
        if file.name.endswith("-shm"):  # the index of the log, which holds no text
            continue
        data = b"".join(read_blocks(str(file)))  # not by `open`: that would drop SQLite's locks in this process
        found += sum(data.count(needle.encode()) for needle in needles)
    return found


on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def test_an_erased_conversation_takes_everything_with_it(memory: Memory) -> None:
    memory.add_many("trip", [{"role": "user", "content": f"canary number {n}"} for n in range(5)])
    memory.add("kept", "user", "stays")
    memory.drain()
    receipt = memory.erase(conversation="trip")
    assert receipt.counts == {
        "conversations": 1, "messages": 5, "entries": 5, "vectors": 5, "token_counts": 5, "briefs": 0,
        "brief_entries": 0, "settings": 0, "recalls": 0,
        "archived": 0, "dictionaries": 0, "topics": 5, "topic_messages": 5, "feedback": 0,
        "profiles": 0, "consents": 0, "audit": 0, "api_keys": 0,
    }  # fmt: skip
    assert receipt.scope == {"conversation": "trip"}
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert memory.history("trip") == []
    assert [c.name for c in memory.conversations()] == ["kept"]
    assert all(finding.state == "ok" for finding in memory.check())


def test_one_message_can_be_erased_and_its_seq_stays_free(memory: Memory) -> None:
    memory.add_many("trip", [{"role": "user", "content": str(n), "id": f"m{n}"} for n in range(1, 4)])
    memory.drain()
    receipt = memory.erase(message="m2")
    assert receipt.counts == {
        "conversations": 0, "messages": 1, "entries": 1, "vectors": 1, "token_counts": 1, "briefs": 0,
        "brief_entries": 0, "settings": 0, "recalls": 0,
        "archived": 0, "dictionaries": 0, "topics": 0, "topic_messages": 1, "feedback": 0,
        "profiles": 0, "consents": 0, "audit": 0, "api_keys": 0,
    }  # fmt: skip
    assert [m.seq for m in memory.history("trip")] == [1, 3]
    assert memory.add("trip", "user", "next").seq == 4
    (trip,) = memory.conversations()
    assert (trip.messages, trip.last_seq) == (3, 4)


def test_a_message_id_of_two_conversations_needs_the_conversation(memory: Memory) -> None:
    memory.add("one", "user", "a", id="m")
    memory.add("two", "user", "b", id="m")
    with pytest.raises(InvalidInput) as caught:
        memory.erase(message="m")
    assert caught.value.code == "ambiguous_message"
    memory.erase(message="m", conversation="two")
    assert len(memory.history("one")) == 1
    assert memory.history("two") == []


def test_a_day_is_a_local_date_of_each_conversation(memory: Memory) -> None:
    memory.add("riyadh", "user", "start")
    memory.update_conversation("riyadh", zone="Asia/Riyadh")
    memory.add("riyadh", "user", "half past one at night", at="2026-11-14T22:30:00Z")
    memory.drain()
    memory.add("utc", "user", "the evening before", at="2026-11-14T22:30:00Z")
    memory.add("riyadh", "user", "not drained yet", at="2026-11-14T22:40:00Z")
    receipt = memory.erase(day="2026-11-15")
    assert receipt.counts == {
        "conversations": 0, "messages": 2, "entries": 2, "vectors": 1, "token_counts": 1, "briefs": 0,
        "brief_entries": 0, "settings": 0, "recalls": 0,
        "archived": 0, "dictionaries": 0, "topics": 0, "topic_messages": 1, "feedback": 0,
        "profiles": 0, "consents": 0, "audit": 0, "api_keys": 0,
    }  # fmt: skip
    assert [m.content for m in memory.history("riyadh")] == ["start"]
    assert len(memory.history("utc")) == 1


def test_a_day_of_one_conversation_leaves_the_others(memory: Memory) -> None:
    for name in ("one", "two"):
        memory.add(name, "user", "hello there", at="2026-11-15T12:00:00Z")
    assert memory.erase(day="2026-11-15", conversation="one").counts["messages"] == 1
    assert len(memory.history("two")) == 1


def test_a_person_is_erased_whole_and_alone(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    for memory in (sara, omar):
        memory.add("one", "user", "hello")
        memory.add("two", "user", "there")
        memory.change_settings(rag_token_budget=500)
        for query in ("hello", "there", "hello"):
            memory.recall(query)
        memory.drain()
    receipt = sara.erase(person="sara")
    assert receipt.counts == {
        "conversations": 2, "messages": 2, "entries": 2, "vectors": 2, "token_counts": 2, "briefs": 0,
        "brief_entries": 0, "settings": 1, "recalls": 3,
        "archived": 0, "dictionaries": 0, "topics": 2, "topic_messages": 2, "feedback": 0,
        "profiles": 0, "consents": 0, "audit": 1, "api_keys": 0,
    }  # fmt: skip
    assert sara.metrics()["queries"] == 0
    assert sara.conversations() == []
    assert sara.settings().rag_token_budget == 1000
    assert len(omar.conversations()) == 2
    assert omar.settings().rag_token_budget == 500
    assert omar.metrics()["queries"] == 3


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"conversation": ""},
        {"person": "somebody else"},
        {"person": "local", "conversation": "trip"},
        {"day": "2026-11-15", "message": "m"},
        {"day": "15.11.2026"},
        {"message": ""},
    ],
)
def test_an_erase_needs_exactly_one_real_scope(memory: Memory, scope: dict[str, Any]) -> None:
    memory.add("trip", "user", "hi", id="m")
    with pytest.raises(InvalidInput):
        memory.erase(**scope)
    assert len(memory.history("trip")) == 1


@pytest.mark.parametrize(
    "scope", [{"conversation": "nowhere"}, {"message": "m"}, {"day": "2026-01-01", "conversation": "x"}]
)
def test_what_is_not_there_is_not_found(memory: Memory, scope: dict[str, Any]) -> None:
    with pytest.raises(NotFound):
        memory.erase(**scope)


@on_sqlite
def test_no_byte_of_an_erased_conversation_is_left_in_any_file(location: str, open_memory: Open) -> None:
    memory = open_memory()
    canaries = [f"zq{n}canary{n * 7919}" for n in range(300)]
    for n in range(40):
        filler = [{"role": "user", "content": f"filler {n} {k} about the weather"} for k in range(25)]
        memory.add_many(f"other-{n % 5}", filler)
        memory.add("canary-name", "user", f"my {canaries[n]} is here and {canaries[n + 100]}", name=f"N{canaries[n]}",
                   metadata={"note": canaries[n + 200]}, id=f"id-{canaries[n]}")  # fmt: skip
    memory.update_conversation("canary-name", title="title zq0canary0", tags=["tagcanary"])
    memory.drain()
    assert copies_on_disk(location, "canary") > 40
    receipt = memory.erase(conversation="canary-name")
    assert copies_on_disk(location, "canary") == 0
    assert (receipt.remaining, receipt.pending) == (0, False)
    assert location in receipt.files
    assert len(memory.conversations()) == 5


@pytest.mark.parametrize("count", [1, 2, 30])
@on_sqlite
def test_no_byte_is_left_of_the_only_messages_either(location: str, open_memory: Open, count: int) -> None:
    memory = open_memory()
    for n in range(count):
        memory.add("trip", "user", f"uniquecanary{n} " + "long text " * 2000)
    memory.erase(conversation="trip")
    assert copies_on_disk(location, "uniquecanary", "long text") == 0


@on_sqlite
def test_no_byte_is_left_of_one_message_among_many(location: str, open_memory: Open) -> None:
    memory = open_memory()
    for n in range(200):
        memory.add("trip", "user", f"plain message {n}", id=f"m{n}")
        if n == 77:
            memory.add("trip", "user", "the canarysecret is 4711", id="secret")
    memory.erase(message="secret")
    assert copies_on_disk(location, "canarysecret") == 0
    assert len(memory.history("trip")) == 200


@on_sqlite
def test_an_erase_while_another_process_reads_is_pending_and_finished_later(location: str, open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "a canarysecret for now")
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, location], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with reader:
        assert reader.stdin and reader.stdout
        assert reader.stdout.readline() == "reading\n"
        receipt = memory.erase(conversation="trip")
        assert receipt.pending
        assert receipt.remaining == 1
        assert memory.history("trip") == []
        reader.stdin.write("stop\n")
        reader.stdin.close()
        reader.wait(timeout=300)
    assert memory.drain().counts["erasures"] == 1
    assert copies_on_disk(location, "canarysecret") == 0
    assert memory.drain().counts["erasures"] == 0


_READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM messages").fetchall()
print("reading", flush=True)
sys.stdin.readline()
"""


@on_sqlite
def test_backups_beside_the_database_are_named_in_the_receipt(location: str, open_memory: Open) -> None:
    memory = open_memory()
    memory.add("trip", "user", "hello there, general")
    memory.backup(location + ".before-schema-0002.backup")
    assert memory.erase(conversation="trip").kept_elsewhere == (location + ".before-schema-0002.backup",)


def test_on_postgresql_the_receipt_says_what_logs_and_backups_keep(pg: str, clock: object) -> None:
    with Memory(pg, worker=False) as memory:
        memory.add("trip", "user", "hello there")
        receipt = memory.erase(conversation="trip")
        assert not receipt.pending
        assert any("write-ahead log" in line for line in receipt.kept_elsewhere)
        assert any("unused space of the tables' pages" in line for line in receipt.kept_elsewhere)


def test_where_the_role_may_not_vacuum_the_erase_is_pending_and_the_doctor_warns(pg: str) -> None:
    with guest_role(pg) as location, Memory(location, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "hello there")
        receipt = memory.erase(conversation="trip")
        assert receipt.pending
        assert any("until their owner runs VACUUM" in line for line in receipt.kept_elsewhere)
        (finding,) = [finding for finding in memory.check() if finding.name == "ownership"]
        assert finding.state == "warning"
        memory.drain()
    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory:
        assert all(finding.name != "ownership" for finding in memory.check())
        assert memory.drain().counts["erasures"] == 1  # the owner finishes it


def test_text_that_another_person_wrote_too_is_not_counted_as_remaining(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    sara.add("trip", "user", "the same long sentence was said by both")
    omar.add("trip", "user", "the same long sentence was said by both")
    receipt = sara.erase(conversation="trip")
    assert (receipt.remaining, receipt.pending) == (0, False)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 2)), max_size=12), st.data())
def test_everyone_elses_rows_are_equal_before_and_after_any_erase(
    tmp_path_factory: pytest.TempPathFactory, adds: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    path = str(tmp_path_factory.mktemp("reach") / "memory.db")
    people = {name: Memory(path, person=name, worker=False) for name in "abc"}
    try:
        for person, conversation, day in adds:
            people[person].add(conversation, "user", f"{person} {conversation}", at=f"2026-01-0{day + 1}T12:00:00Z")
        victim = data.draw(st.sampled_from("abc"))
        scope = data.draw(st.sampled_from([{"conversation": "x"}, {"person": victim}, {"day": "2026-01-01"}]))
        others = {name: _everything(memory) for name, memory in people.items() if name != victim}
        own = {c.name: people[victim].history(c.name) for c in people[victim].conversations()}
        try:
            people[victim].erase(**scope)
        except NotFound:
            assert "x" not in own
        assert others == {name: _everything(memory) for name, memory in people.items() if name != victim}
        if "conversation" in scope:
            left = {c.name: people[victim].history(c.name) for c in people[victim].conversations()}
            assert left == {name: messages for name, messages in own.items() if name != "x"}
    finally:
        for memory in people.values():
            memory.close()


def _everything(memory: Memory) -> list[Any]:
    return [(c, memory.history(c.name)) for c in memory.conversations()]


def test_an_erase_takes_exactly_the_derived_rows_of_what_it_erased(location: str, open_memory: Open) -> None:
    memory = open_memory()
    for n in range(60):
        memory.add(f"c{n % 3}", "user", f"word{n} shared text", name="Sara")
    memory.drain()
    memory.erase(conversation="c1")
    memory.erase(message=memory.history("c2")[4].id)
    kept = {(m.conversation, m.seq): m for name in ("c0", "c2") for m in memory.history(name)}
    assert len(kept) == 39
    assert stored_entries(location) == {key: word_index.encode_row(m.content, m.name) for key, m in kept.items()}
    assert stored_vectors(location).keys() == kept.keys()
    assert ask(location, "SELECT count(*) FROM message_tokens") == [(39,)]


def test_words_that_are_in_a_title_too_are_not_counted_as_remaining(memory: Memory) -> None:
    memory.add("trip", "user", "the long title of this very trip", id="m")
    memory.update_conversation("trip", title="the long title of this very trip")
    assert not memory.erase(message="m").pending


def test_on_postgresql_an_erase_is_pending_while_an_older_transaction_sees_the_rows(pg: str) -> None:
    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory, psycopg.connect(pg) as other:
        memory.add("trip", "user", "hello there, general")
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert other.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        assert memory.erase(conversation="trip").pending
        other.commit()
        assert memory.drain().counts["erasures"] == 1


def test_on_postgresql_an_erase_waits_for_a_short_transaction(pg: str) -> None:
    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory, psycopg.connect(pg, autocommit=True) as other:
        memory.add("trip", "user", "hello there, general")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert other.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        ending = threading.Timer(0.3, other.rollback)
        ending.start()
        assert not memory.erase(conversation="trip").pending
        ending.join()
        dead = other.execute("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'messages'::regclass")
        assert dead.fetchone() == (0,)


def test_on_postgresql_an_erase_does_not_wait_for_a_vacuum_of_another_table(pg: str) -> None:
    with Memory(pg, worker=False, embedder=FakeEmbedder()) as memory, psycopg.connect(pg, autocommit=True) as other:
        memory.add("trip", "user", "hello there, general")
        other.execute("CREATE TABLE others AS SELECT n FROM generate_series(1, 10000) n")
        other.execute("SET vacuum_cost_limit = 1; SET vacuum_cost_delay = 100")
        vacuum = threading.Thread(target=_vacuum_until_cancelled, args=(other,))
        vacuum.start()
        try:
            with psycopg.connect(pg, autocommit=True) as watching:  # a transaction would see the same for ever
                running = "SELECT 1 FROM pg_stat_progress_vacuum WHERE relid = 'others'::regclass"
                assert wait_until(lambda: watching.execute(running).fetchone())
                assert not memory.erase(conversation="trip").pending
                assert watching.execute(running).fetchone(), "the vacuum was over: nothing was tested"
        finally:
            other.cancel_safe()
            vacuum.join()


def _vacuum_until_cancelled(connection: psycopg.Connection) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        connection.execute("VACUUM others")


def test_what_was_erased_is_in_no_prompt_and_not_kept_for_one(location: str, open_memory: Open) -> None:
    here, there = open_memory(embedder=FakeEmbedder()), open_memory(embedder=FakeEmbedder())
    here.add("trip", "user", "The door code is 4711.", id="code")
    here.add("trip", "user", "The train leaves at nine.")
    here.add("trip", "user", "The ticket is in the drawer.")
    for memory in (here, there):
        assert "4711" in memory.context("trip", "What is the door code?").text
        memory.add("trip", "assistant", "Noted.")
    here.erase(message="code", conversation="trip")
    assert not here._engine._recaller.scopes._scopes
    for memory in (here, there):
        assert "4711" not in memory.context("trip", "What is the door code?").text
        assert "nine" in memory.context("trip", "When does the train leave?").text
        (scope,) = [one for name, one in memory._engine._recaller.scopes._scopes.items() if name[1] == "trip"]
        held = [scope.texts.get(index) for index in range(len(scope))]
        assert any(held) and not any("4711" in one.content for one in held if one is not None)
