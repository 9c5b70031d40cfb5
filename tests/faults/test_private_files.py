"""Text that lies outside of the database for a moment is private, and a kill leaves none of it behind for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recollect import Memory, StoreUnavailable
from recollect.storage.private_folder import clear_abandoned, private_files, private_folder, private_root
from recollect.testing import FakeEmbedder

CANARY = "zanzibarcanary"

# Both block where the private file is complete.
_EXPORTING = """
import sys, asyncio
from recollect import AsyncMemory
async def main():
    async with AsyncMemory(sys.argv[1], worker=False) as memory:
        with memory.private_folder() as folder:
            await memory.export(folder / "export.ndjson")
            print("there", flush=True)
            sys.stdin.readline()
asyncio.run(main())
"""
_RESTORING = """
import sys
from recollect import Memory
from recollect.storage import backup_file
def block(*_):
    print("there", flush=True)
    sys.stdin.readline()
backup_file._check_contents = block
with Memory(sys.argv[1], worker=False) as memory:
    memory.restore(sys.argv[2])
"""


@contextmanager
def _held(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script until it says that it is there. Kill it at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        try:
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.kill
@pytest.mark.parametrize("script", [_EXPORTING, _RESTORING], ids=["export", "restore"])
def test_a_kill_leaves_text_only_in_a_private_folder_which_the_next_start_clears(
    script: str, location: str, tmp_path: Path
) -> None:
    database = None if location.startswith("postgresql") else location
    with Memory(location, worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", f"The {CANARY} opens at nine.")
        memory.backup(tmp_path / "copy.backup")
        with _held(script, location, str(tmp_path / "copy.backup")):
            files = private_files(database)
            file = files[0]
            assert any(CANARY.encode() in one.read_bytes() for one in files)
            for folder in (private_root(database), file.parent):
                assert folder.stat().st_mode & 0o777 == 0o700
            clear_abandoned(database)  # it is in use, so it stays
            assert str(file) in memory.erase(conversation="trip").kept_elsewhere
        assert private_files(database) == files
    Memory(location, worker=False, embedder=FakeEmbedder()).close()
    assert not private_root(database).exists()
    assert list((tmp_path / "system").iterdir()) == []


def test_a_private_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    private_root(None).symlink_to(elsewhere)
    with pytest.raises(StoreUnavailable) as caught, private_folder(None):
        pass
    assert caught.value.code == "private_folder"
    private_root(None).unlink()
    private_root(None).mkdir(mode=0o755)
    with pytest.raises(StoreUnavailable), private_folder(None):
        pass


def test_nothing_is_left_of_a_private_folder_that_was_used(db: str) -> None:
    with private_folder(db) as folder, private_folder(db) as other:
        (folder / "text").write_text(CANARY)
        (other / "text").write_text(CANARY)
        assert len(private_files(db)) == 2
    assert not private_root(db).exists()
