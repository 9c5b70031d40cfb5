"""Text that lies outside of the database for a moment is private, and a kill leaves none of it behind for long."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, StoreUnavailable
from recollect.storage.private_folder import (
    LOCK_NAME,
    NEW_LOCK_SUFFIX,
    clear_abandoned,
    private_files,
    private_folder,
    private_root,
)
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
_LOCKING = """
import sys
from pathlib import Path
from recollect.storage.private_folder import private_folder
def block(*_, **__):
    print("there", flush=True)
    sys.stdin.readline()
make_folder = Path.mkdir
Path.mkdir = lambda path, **more: make_folder(path, **more) if path.name.endswith(".private") else block()
with private_folder(sys.argv[1]):
    pass
"""
# Both do their work many times, when they are told to begin. They print what went wrong.
_USES = 500
_USING = """
import sys
from recollect.storage.private_folder import private_folder
print("there", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with private_folder(sys.argv[1]) as folder:
        (folder / "text").write_text("hello")
        assert (folder / "text").read_text() == "hello"
"""
_CLEARING = """
import sys
from recollect.storage.private_folder import clear_abandoned, private_files
print("there", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    clear_abandoned(sys.argv[1])
    private_files(sys.argv[1])
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


@pytest.mark.slow
def test_processes_use_and_clear_the_same_root_without_meeting(db: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, db, str(_USES)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for script in (_USING, _USING, _CLEARING)
    ]  # fmt: skip
    assert [process.stdout.readline() for process in processes if process.stdout] == ["there\n"] * 3
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [""] * 3
    assert not private_root(db).exists()


def test_a_lock_that_is_taken_for_abandoned_before_it_is_locked_is_made_again(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, cleared = fcntl.flock, list[int]()

    def clear_and_lock(handle: int, how: int) -> None:
        if not cleared and how == fcntl.LOCK_EX:
            cleared.append(handle)
            clear_abandoned(db)  # as another process does that opens the database now
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", clear_and_lock)
    with private_folder(db) as folder:
        (folder / "text").write_text(CANARY)
        clear_abandoned(db)
        assert private_files(db) == [folder / "text"]
    assert len(cleared) == 1


@pytest.mark.kill
def test_the_lock_file_of_a_process_that_was_killed_before_it_had_a_folder_is_cleared(db: str) -> None:
    with _held(_LOCKING, db):
        clear_abandoned(db)
        assert [path.suffix for path in private_root(db).iterdir()] == [NEW_LOCK_SUFFIX]
    assert private_root(db).exists()
    clear_abandoned(db)
    assert not private_root(db).exists()


def test_a_root_that_vanishes_whenever_it_was_made_is_made_again(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_file, removals = tempfile.mkstemp, list[Path]()

    def remove_root_and_make(**names: Any) -> tuple[int, str]:
        if len(removals) < 20:
            private_root(db).rmdir()
            removals.append(private_root(db))
        return make_file(**names)

    monkeypatch.setattr(tempfile, "mkstemp", remove_root_and_make)
    with private_folder(db) as folder:
        assert folder.is_dir()
    assert len(removals) == 20


def test_a_root_that_never_stays_is_named_as_the_reason(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_no_root(**names: Any) -> tuple[int, str]:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "mkstemp", find_no_root)
    with pytest.raises(StoreUnavailable) as caught, private_folder(db):
        pass
    assert (caught.value.code, caught.value.retryable) == ("private_folder", True)


def test_without_file_locks_a_folder_is_cleared_when_it_has_not_changed_for_long(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on a system that has none
    with private_folder(db) as folder:
        (folder / "text").write_text(CANARY)
        clear_abandoned(db)
        assert private_files(db) == [folder / "text"]
        for path in (folder, folder / LOCK_NAME):
            os.utime(path, (1, 1))
        clear_abandoned(db)
        assert not private_root(db).exists()
