"""Erases that wait share one rewrite of the file, and rewrites that take long are kept apart."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from recollect import Memory
from recollect.storage import sqlite, sqlite_file
from recollect.storage.shared_purges import MAX_WAIT_SECONDS, PAUSE_FACTOR, SHORT_SECONDS, RewritePace
from recollect.testing import FakeEmbedder
from support.serving import read_all_bytes, wait_for

ERASES = 12


def test_erases_that_wait_share_one_rewrite(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites, may_go_on, rewrite = [], threading.Event(), sqlite.rewrite

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


def test_adds_go_on_between_the_deletion_of_rows_and_a_rewrite_that_waits(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RewritePace, "pause_left", property(lambda self: 40.0))
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "zanzibarcanary")
        with ThreadPoolExecutor(1) as pool:
            erase = pool.submit(memory.erase, conversation="trip")
            wait_for(lambda: not memory.conversations())
            memory.add("other", "user", "stored while the erase waits")
            assert not erase.done()
            memory._engine._components.driver._purges.pace.close()  # type: ignore[attr-defined]
            assert erase.result(60).pending
        monkeypatch.undo()
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory:
        assert memory.drain().counts["erasures"] == 1
    assert b"zanzibarcanary" not in read_all_bytes(db)


def test_a_long_rewrite_is_followed_by_a_pause_and_a_short_one_is_not() -> None:
    now = [100.0]
    pace = RewritePace(lambda: now[0])
    assert pace.wait()
    pace.note(SHORT_SECONDS)
    assert pace.pause_left == 0
    pace.note(1.0)
    assert pace.pause_left == PAUSE_FACTOR
    now[0] += PAUSE_FACTOR
    assert pace.pause_left == 0
    pace.close()
    assert not pace.wait()


def test_nobody_waits_for_a_pause_that_is_too_long(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "zanzibarcanary")
        pace = memory._engine._components.driver._purges.pace  # type: ignore[attr-defined]
        pace.note(MAX_WAIT_SECONDS)
        assert memory.erase(conversation="trip").pending  # at once: a file that large is rewritten by the worker
        assert memory.drain().counts["erasures"] == 0
        pace.note(0)
        assert memory.drain().counts["erasures"] == 1
    assert b"zanzibarcanary" not in read_all_bytes(db)


def test_messages_are_indexed_while_an_erase_waits_for_its_rewrite(db: str) -> None:
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory, ThreadPoolExecutor(1) as pool:
        memory.add("trip", "user", "zanzibarcanary")
        pace = memory._engine._components.driver._purges.pace  # type: ignore[attr-defined]
        pace.note((MAX_WAIT_SECONDS - 1) / PAUSE_FACTOR)
        erase = pool.submit(memory.erase, conversation="trip")
        wait_for(lambda: not memory.conversations())
        memory.add("other", "user", "indexed while the erase waits")
        assert memory.drain().counts["vectors"] > 0
        assert not erase.done()
        pace.close()
        assert erase.result(60).pending


def test_closing_does_not_wait_for_the_pause(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "hello there")
        pace = memory._engine._components.driver._purges.pace  # type: ignore[attr-defined]
        pace.note(1.0)
        with ThreadPoolExecutor(1) as pool:
            erase = pool.submit(memory.erase, conversation="trip")
            wait_for(lambda: not memory.conversations())
            pace.close()
            assert erase.result(60).pending


def test_writers_go_on_while_a_checkpoint_waits_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointing, writing, reading = (apsw.Connection(str(tmp_path / "some.db")) for _ in range(3))
    writing.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1)").fetchall()
    reading.execute("BEGIN; SELECT * FROM t").fetchall()
    writing.execute("INSERT INTO t VALUES (2)")
    has_tried = threading.Event()
    monkeypatch.setattr(sqlite_file.time, "sleep", lambda seconds: has_tried.set())
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(sqlite_file.checkpoint, checkpointing, "TRUNCATE", seconds=60)
        assert has_tried.wait(30)
        writing.set_busy_timeout(60_000)
        writing.execute("INSERT INTO t VALUES (3)")
        assert not done.done()
        reading.execute("COMMIT")
        assert done.result()
