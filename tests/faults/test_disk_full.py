"""A full disk gives a clear error and loses no acknowledged message; reads work, and so do writes with new space."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faults import inspection
from faults.lossy_vfs import Disk, LossyVFS
from faults.victim import fields_of
from recollect import StoreUnavailable
from recollect.core.message import make_draft
from recollect.core.models import Principal
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.store import SqlStore

pytestmark = pytest.mark.kill

FILLER = str(Path(__file__).with_name("filler.py"))
PROCESSES = 2
POSITIONS_PER_PROCESS = 25


def _positions(number: int) -> list[int]:
    """Return limits: close to the file's end, some hundred pages further, and where the log is checkpointed."""
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULT_SEED={seed}")
    dice = random.Random(seed + number)
    reaches = [40_000] * 10 + [900_000] * 10 + [6_000_000] * 5
    assert len(reaches) == POSITIONS_PER_PROCESS
    return [dice.randint(0, reach) for reach in reaches]


@pytest.mark.parametrize("number", range(PROCESSES))
def test_a_full_disk_refuses_clearly_and_loses_nothing(tmp_path: Path, number: int) -> None:
    positions = [str(position) for position in _positions(number)]
    done = subprocess.run([sys.executable, FILLER, str(tmp_path), *positions], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr.decode()
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == POSITIONS_PER_PROCESS
    for outcome in outcomes:
        name = Path(outcome["path"]).name
        assert len(outcome["refused"]) >= 3, f"{name}: every thread is refused at some point"
        for code, retryable, kind in outcome["refused"]:
            assert (code in ("disk_full", "disk_error"), retryable, kind) == (True, True, "StoreUnavailable"), code
        assert outcome["during"] == outcome["promised"], f"{name}: reads show what was acknowledged, no more, no less"
        assert outcome["again"], f"{name}: there is room again"
        assert outcome["after"] == outcome["acknowledged"]
        assert sorted(outcome["after"].values()) == list(range(1, len(outcome["after"]) + 1))
        assert outcome["drained"]
        inspection.check_file(outcome["path"])


def test_a_disk_without_space_at_any_write_is_called_full_and_works_again_when_there_is_space(tmp_path: Path) -> None:
    """The file limit of the test above is reported as a disk error; a disk without space has a code of its own."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for position in range(1, 51):
        disk = Disk()
        vfs = LossyVFS(disk)
        path = tmp_path / f"{position}.db"
        driver = SqliteDriver(str(path), readers=0, vfs="lossy")
        try:
            driver.open(1)
            store = SqlStore(driver)

            def add(number: int, store: SqlStore = store) -> None:
                draft = make_draft(fields_of(f"n-{number}"), now=now, new_id="")
                store.log.submit(Principal(), "c", [draft], now=now).result(300)

            start, added = disk.operations, 0

            def fill(count: int, disk: Disk = disk, last: int = start + 3 * position) -> None:
                disk.full = count >= last

            disk.before_operation = fill
            with pytest.raises(StoreUnavailable) as caught:
                while added < 500:
                    add(added)
                    added += 1
            assert (caught.value.code, caught.value.retryable) == ("disk_full", True)
            seen = driver.read(lambda tx: tx.all("history", person="local", conversation="c", before=999, limit=999))
            assert len(seen.result(300)) == added
            disk.before_operation = lambda count: None
            disk.full = False
            add(added)
        finally:
            driver.close()
            vfs.unregister()
        inspection.check_file(path)
        with inspection.connected(path) as connection:
            assert list(inspection.stored(connection)["c"]) == [f"n-{number}" for number in range(added + 1)]
