"""Erases that wait share one rewrite of the file, and rewrites that take long are kept apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from recollect import Memory
from recollect.storage import shared_purges, sqlite, sqlite_file
from recollect.storage.queries import load_for_sqlite
from recollect.storage.shared_purges import MAX_WAIT_SECONDS, PAUSE_FACTOR, SHORT_SECONDS, RewritePace
from recollect.testing import FakeEmbedder
from support.serving import read_all_bytes, wait_for

ERASES = 12


def begin_pause(db: str, seconds: float) -> Callable[[], None]:
    """Begin a pause as another process does, after a rewrite of its own. Return what ends it."""
    connection, pace = apsw.Connection(db), RewritePace(load_for_sqlite(apsw.SQLITE_VERSION_NUMBER))
    assert pace.claim(connection) == 0
    pace.end(connection, seconds / PAUSE_FACTOR)

    def end_pause() -> None:
        connection.execute("DELETE FROM leases WHERE name = 'rewrite'")

    return end_pause


def stop_waiting(memory: Memory) -> None:
    """Do what closing the memory does to those who wait for a rewrite."""
    memory._engine._components.driver._purges.close()  # type: ignore[attr-defined]


def test_erases_that_wait_share_one_rewrite(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites, may_go_on, rewrite = [], threading.Event(), sqlite.rewrite
    monkeypatch.setattr(shared_purges, "PAUSE_FACTOR", 0)

    def slow_rewrite(connection: apsw.Connection) -> None:
        rewrites.append(1)
        assert may_go_on.wait(60)
        rewrite(connection)

    monkeypatch.setattr(sqlite, "rewrite", slow_rewrite)
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory, ThreadPoolExecutor(ERASES) as pool:
        for number in range(ERASES):
            memory.add(f"c{number}", "user", f"zanzibarcanary number {number} is here")
        first = pool.submit(memory.erase, conversation="c0")
        wait_for(lambda: rewrites)
        others = [pool.submit(memory.erase, conversation=f"c{number}") for number in range(1, ERASES)]
        wait_for(lambda: not memory.conversations())  # all rows are deleted; the erases wait for their bytes
        may_go_on.set()
        receipts = [erase.result(60) for erase in (first, *others)]
    assert len(rewrites) <= 3
    assert [(receipt.pending, receipt.remaining) for receipt in receipts] == [(False, 0)] * ERASES
    assert b"zanzibarcanary" not in read_all_bytes(db)


def test_adds_and_derived_work_go_on_between_the_deletion_of_rows_and_a_rewrite_that_waits(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory, ThreadPoolExecutor(1) as pool:
        memory.add("trip", "user", "zanzibarcanary")
        begin_pause(db, MAX_WAIT_SECONDS - 1)
        erase = pool.submit(memory.erase, conversation="trip")
        wait_for(lambda: not memory.conversations())
        memory.add("other", "user", "stored and indexed while the erase waits")
        done = memory.drain()
        assert (done.counts["vectors"], done.counts["erasures"]) == (1, 0)
        assert not erase.done()
        stop_waiting(memory)
        assert erase.result(60).pending


def test_an_erase_that_waits_is_done_when_the_pause_is_over(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory, ThreadPoolExecutor(1) as pool:
        memory.add("trip", "user", "zanzibarcanary")
        end_pause = begin_pause(db, MAX_WAIT_SECONDS - 1)
        erase = pool.submit(memory.erase, conversation="trip")
        wait_for(lambda: not memory.conversations())
        end_pause()
        assert not erase.result(60).pending
    assert b"zanzibarcanary" not in read_all_bytes(db)


def test_nobody_waits_for_a_pause_that_is_too_long(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "zanzibarcanary")
        end_pause = begin_pause(db, 10 * MAX_WAIT_SECONDS)
        assert memory.erase(conversation="trip").pending  # at once: the worker rewrites a file that large
        assert memory.drain().counts["erasures"] == 0
        end_pause()
        assert memory.drain().counts["erasures"] == 1
    assert b"zanzibarcanary" not in read_all_bytes(db)


def test_a_long_rewrite_is_followed_by_a_pause_of_all_processes_and_a_short_one_is_not(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()):
        connections = [apsw.Connection(db) for _ in range(2)]
        queries = load_for_sqlite(apsw.SQLITE_VERSION_NUMBER)
        one, other = (RewritePace(queries) for _ in range(2))
        assert one.claim(connections[0]) == 0
        assert other.claim(connections[1]) > 0  # while it runs
        one.end(connections[0], SHORT_SECONDS)
        assert other.claim(connections[1]) == 0
        other.end(connections[1], 2.0)
        for pace, connection in zip((one, other), connections, strict=True):
            assert PAUSE_FACTOR < pace.claim(connection) <= 2 * PAUSE_FACTOR


def test_an_erase_costs_one_rewrite_also_if_a_worker_runs_beside_it(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites, rewrite = [], sqlite.rewrite
    with (
        Memory(db, worker=False, embedder=FakeEmbedder()) as memory,
        Memory(db, worker=False, embedder=FakeEmbedder()) as beside,
    ):

        def rewrite_beside_a_worker(connection: apsw.Connection) -> None:
            rewrites.append(1)
            assert len(rewrites) > 1 or beside.drain().counts["erasures"] == 0
            rewrite(connection)

        monkeypatch.setattr(sqlite, "rewrite", rewrite_beside_a_worker)
        memory.add("trip", "user", "zanzibarcanary")
        assert not memory.erase(conversation="trip").pending
        assert len(rewrites) == 1


def test_closing_does_not_wait_for_the_pause(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory, ThreadPoolExecutor(1) as pool:
        memory.add("trip", "user", "hello there")
        begin_pause(db, MAX_WAIT_SECONDS - 1)
        erase = pool.submit(memory.erase, conversation="trip")
        wait_for(lambda: not memory.conversations())
        stop_waiting(memory)
        assert erase.result(60).pending


def test_writers_go_on_while_a_checkpoint_waits_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointing, writing, reading = (apsw.Connection(str(tmp_path / "some.db")) for _ in range(3))
    writing.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1)").fetchall()
    reading.execute("BEGIN; SELECT * FROM t").fetchall()
    writing.execute("INSERT INTO t VALUES (2)")
    has_tried, sleep = threading.Event(), time.sleep

    def sleep_and_tell(seconds: float) -> None:
        has_tried.set()
        sleep(seconds)  # the pause between two tries, in which writers get the lock

    monkeypatch.setattr(sqlite_file.time, "sleep", sleep_and_tell)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(sqlite_file.checkpoint, checkpointing, "TRUNCATE", seconds=60)
        assert has_tried.wait(30)
        writing.set_busy_timeout(60_000)
        writing.execute("INSERT INTO t VALUES (3)")
        assert not done.done()
        reading.execute("COMMIT")
        assert done.result()
