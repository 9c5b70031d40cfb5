"""Power loss: what was not synced may be lost; what was acknowledged is not.

A killed process cannot show this, because the system still writes what it had accepted. So a file system of our own
forgets what was not synced.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from faults import inspection
from faults.lossy_vfs import Disk, LossyVFS
from faults.victim import fields_of, text_of
from recollect import Memory, RecollectError
from recollect.core.message import Appended, make_draft
from recollect.core.models import Principal
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.store import SqlStore
from recollect.testing import FakeEmbedder

pytestmark = pytest.mark.kill

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = 300  # groups of messages in one run at most


@dataclass
class Run:
    """One life of a database up to a cut: before a random operation on a file, or right after an acknowledgement."""

    folder: Path
    seed: int
    synchronous: str = "FULL"
    acknowledged: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    left: dict[str, bytes] | None = None
    enough: int = 0
    cut: Callable[[], None] = lambda: None

    def until_cut(self) -> None:
        dice = random.Random(self.seed)
        disk = Disk()
        vfs = LossyVFS(disk, "lossy")
        early, late, acknowledgements = dice.randint(1, 120), dice.randint(80, 1000), dice.randint(1, 100)
        operations, self.enough = dice.choice(((early, 1000), (late, 1000), (10_000, acknowledgements)))
        mode = dice.choice(("lost", "some", "torn"))
        chance = random.Random(self.seed + 1)

        def cut() -> None:
            if self.left is None:
                self.promised = dict(self.acknowledged)
                self.left = disk.cut_power(mode, chance)

        self.cut = cut
        disk.before_operation = lambda count: cut() if count >= operations else None
        try:
            driver = SqliteDriver(str(self.folder / "live.db"), readers=0, vfs="lossy")
            driver.open(1)
            try:
                self._live(driver, dice)
            finally:
                driver.close()
        finally:
            vfs.unregister()
        assert self.left is not None

    def _live(self, driver: SqliteDriver, dice: random.Random) -> None:
        def prepare(connection: apsw.Connection) -> None:
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            # Seldom, or so often that many cuts fall into the checkpoint.
            connection.execute(f"PRAGMA wal_autocheckpoint = {dice.choice((25, 100, 1000))}")

        assert driver._write_connection is not None
        prepare(driver._write_connection)
        store = SqlStore(driver)
        for turn in range(ROUNDS):
            futures = [self._add(store, f"{turn}-{number}") for number in range(dice.randint(1, 6))]
            wait(futures, timeout=30)
            assert all(future.exception() is None for future in futures)
            if self.left is not None:
                return

    def _add(self, store: SqlStore, id: str) -> Future[list[Appended]]:
        draft = make_draft(fields_of(id), now=NOW, new_id=id)
        future = store.log.submit(Principal(), "c", [draft], now=NOW)
        future.add_done_callback(lambda done: self._acknowledge(id, done.result()[0].message.seq))
        return future

    def _acknowledge(self, id: str, seq: int) -> None:
        """Note a message as acknowledged. The writer calls it before its next operation on a file."""
        self.acknowledged[id] = seq
        if len(self.acknowledged) >= self.enough:
            self.cut()

    def lost(self) -> list[str]:
        """Open the database that the disk held. Return the acknowledged messages that are missing."""
        assert self.left is not None
        path = self.folder / "after.db"
        for name, content in self.left.items():
            (self.folder / name.replace("live.db", "after.db")).write_bytes(content)
        if path.exists():
            inspection.check_file(path)
        with Memory(path, worker=False, embedder=FakeEmbedder(16)) as memory:
            log = {message.id: message for message in memory.history("c")}
            assert all(message.content == text_of(message.id) for message in log.values())
            assert [one for one in memory.check() if one.state == "error"] == []
            assert memory.drain().complete
            assert memory.add("c", "user", "after").seq == len(log) + 1
        return [name for name, seq in self.promised.items() if name not in log or log[name].seq != seq]


def _seeds(count: int) -> list[int]:
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULT_SEED={seed}")
    return [seed + number for number in range(count)]


def _run(folder: Path, seed: int, synchronous: str = "FULL") -> Run:
    folder.mkdir()
    run = Run(folder, seed, synchronous)
    run.until_cut()
    return run


def test_no_acknowledged_message_is_lost_with_the_power(tmp_path: Path, full_count: bool) -> None:
    promised = 0
    for seed in _seeds(200 if full_count else 40):
        run = _run(tmp_path / f"{seed}", seed)
        assert run.lost() == [], f"seed {seed}: acknowledged messages are lost"
        promised += len(run.promised)
    assert promised > 100, "the cuts came too early to prove anything"


def test_messages_are_lost_with_the_power_if_nothing_is_synced(tmp_path: Path) -> None:
    """This proves that the test above can fail: the file system loses what SQLite did not sync."""
    for seed in _seeds(30):
        run = _run(tmp_path / f"{seed}", seed, "OFF")
        with suppress(AssertionError, apsw.Error, RecollectError):  # without syncs the file may be damaged as well
            if run.lost():
                return
    raise AssertionError("nothing was lost in 30 runs without a single sync")


def test_less_than_full_syncing_loses_the_last_moments_but_never_damages(tmp_path: Path) -> None:
    """This is why we use FULL: NORMAL keeps the file sound, but loses the last acknowledged messages."""
    lost = 0
    for number, seed in enumerate(_seeds(150)):
        lost += len(_run(tmp_path / f"{seed}", seed, "NORMAL").lost())
        if lost and number >= 20:
            return
    raise AssertionError("nothing was lost in 150 runs")
