"""Private folders: where text lies for a moment outside of the database, for the copy of a backup or an export.

Beside an SQLite database, `<database>.private`; for PostgreSQL, a folder of the user below that of the system for
temporary files. Each use has a folder of its own inside, which a lock marks as used. What a killed process left there
is removed when a database is opened the next time.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from recollect.core.errors import StoreUnavailable

LOCK_NAME: Final = "in-use"
ABANDONED_SECONDS: Final = 600  # where the system has no file locks: since the last change


def private_root(database: str | None) -> Path:
    """Return the folder that holds the private folders of a database. None stands for a server's database."""
    if database is not None:
        return Path(f"{database}.private")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"recollect-{user}"


@contextmanager
def private_folder(database: str | None) -> Iterator[Path]:
    """Yield a new folder that only this user can read. It is deleted with everything in it when the block ends."""
    root = private_root(database)
    _make_root(root)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        with suppress(OSError):  # another process uses it
            root.rmdir()


def clear_abandoned(database: str | None) -> None:
    """Remove the private folders that no living process uses."""
    root = private_root(database)
    if not _is_safe(root):
        return
    for folder in root.iterdir():
        if folder.is_dir() and not _is_used(folder):
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # something is in use
        root.rmdir()


def private_files(database: str | None) -> list[Path]:
    """Return the files that lie in the private folders of a database now."""
    root = private_root(database)
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != LOCK_NAME)


def _make_root(root: Path) -> None:
    for _ in range(10):  # another process may remove it in the same moment
        with suppress(FileExistsError):
            root.mkdir(mode=0o700)
        if _is_safe(root):
            return
        if root.exists():
            break
    raise StoreUnavailable(
        "private_folder", f"{root} cannot be used: it must be a folder of yours that nobody else can read.",
        retryable=False,
    )  # fmt: skip


def _is_safe(root: Path) -> bool:
    """Say whether the folder exists, is no link, and belongs to this user alone."""
    try:
        state = root.lstat()
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & 0o077)
    return stat.S_ISDIR(state.st_mode) and is_own


def _lock(folder: Path) -> int | None:
    """Mark a folder as used, for as long as this process lives and keeps the returned handle open."""
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl  # not on every system
    except ImportError:
        os.close(handle)
        return None
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _is_used(folder: Path) -> bool:
    try:
        import fcntl
    except ImportError:
        return time.time() - folder.stat().st_mtime < ABANDONED_SECONDS
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR)
    except OSError:  # its process is between making the folder and its lock, or was killed there; it holds no text yet
        with suppress(OSError):
            return any(folder.iterdir()) is False and time.time() - folder.stat().st_mtime < ABANDONED_SECONDS
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
