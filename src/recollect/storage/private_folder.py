"""Private folders: where text lies for a moment outside of the database, for the copy of a backup or an export.

Beside an SQLite database, `<database>.private`; for PostgreSQL, a folder of the user below that of the system for
temporary files. Each use has a folder of its own inside, which a lock file marks as used. The file is made and locked
beside the folder before that is made, and then moved into it. So a folder whose lock is missing or free was left by a
killed process. It is removed when a database is opened the next time.
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
NEW_LOCK_SUFFIX: Final = ".lock"  # of a lock file that is not in its folder yet
ABANDONED_SECONDS: Final = 600  # where the system has no file locks: since the last change
MAX_ATTEMPTS: Final = 100  # to make a lock file in a root that others remove whenever it is empty


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
    lock, handle = _make_lock(root)
    folder = lock.with_suffix("")
    try:
        folder.mkdir(mode=0o700)
        lock.rename(folder / LOCK_NAME)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)
        with suppress(OSError):  # another process uses the root
            lock.unlink(missing_ok=True)
            root.rmdir()


def clear_abandoned(database: str | None) -> None:
    """Remove the private folders that no living process uses. Several processes may do so at once."""
    root = private_root(database)
    if not _is_safe(root):
        return
    paths: list[Path] = []
    with suppress(OSError):  # another process removed the root
        paths.extend(root.iterdir())
    for name in dict.fromkeys(path.name.removesuffix(NEW_LOCK_SUFFIX) for path in paths):
        _clear_if_abandoned(root / name)
    with suppress(OSError):  # something is in use
        root.rmdir()


def private_files(database: str | None) -> list[Path]:
    """Return the files that lie in the private folders of a database now, but for those that vanish meanwhile."""
    root = private_root(database)
    paths = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return sorted(path for path in paths if path.parent != root and path.name != LOCK_NAME)


def _make_lock(root: Path) -> tuple[Path, int | None]:
    """Make a lock file in the root, and the root if need be. Return the file's path, and its handle if it is locked.

    It is locked for as long as this process lives and keeps the handle open. While it is there, nobody can remove the
    root.
    """
    for _ in range(MAX_ATTEMPTS):
        if not _make_root(root):
            continue
        try:
            new_handle, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=NEW_LOCK_SUFFIX, dir=root)
        except FileNotFoundError:  # another process removed the root
            continue
        lock, handle = Path(name), _lock(new_handle)
        if handle is None or _is_same_file(handle, lock):
            return lock, handle
        os.close(handle)  # another process locked it first, took it for abandoned, and removed it
    raise StoreUnavailable("private_folder", f"{root} cannot be used: other processes keep removing it. Try again.")


def _make_root(root: Path) -> bool:
    """Make the root if there is none. Return False if another process removed it again. Raise if it is unsafe."""
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    is_safe = _is_safe(root)
    if is_safe is False:
        raise StoreUnavailable(
            "private_folder", f"{root} cannot be used: it must be a folder of yours that nobody else can read.",
            retryable=False,
        )  # fmt: skip
    return is_safe is not None


def _is_safe(root: Path) -> bool | None:
    """Say whether a root is no link and belongs to this user alone. Return None if there is none."""
    try:
        state = root.lstat()
    except FileNotFoundError:
        return None
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & 0o077)
    return stat.S_ISDIR(state.st_mode) and is_own


def _is_same_file(handle: int, path: Path) -> bool:
    """Say whether an open file still has this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int) -> int | None:
    """Lock an open file and return its handle. Where the system has no file locks, close it and return None."""
    try:
        import fcntl  # not on every system
    except ImportError:
        os.close(handle)
        return None
    fcntl.flock(handle, fcntl.LOCK_EX)  # waits for a process that is just looking whether it is locked
    return handle


def _clear_if_abandoned(folder: Path) -> None:
    """Remove a private folder and its lock file, unless a living process uses it."""
    new_lock = folder.with_name(folder.name + NEW_LOCK_SUFFIX)
    with suppress(OSError):  # what cannot be looked at is left alone
        handle = _open_first(new_lock, folder / LOCK_NAME)  # in the order in which a lock file moves
        try:
            if handle is None or _take_lock(handle, folder):
                shutil.rmtree(folder, ignore_errors=True)
                new_lock.unlink(missing_ok=True)
        finally:
            if handle is not None:
                os.close(handle)


def _open_first(*paths: Path) -> int | None:
    """Open the first of these files that is there. Return its handle, or None if there is none."""
    for path in paths:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR)
    return None


def _take_lock(handle: int, folder: Path) -> bool:
    """Lock the open lock file of a folder if nobody holds it. Return whether that was so."""
    try:
        import fcntl
    except ImportError:
        changed_at = os.fstat(handle).st_mtime
        with suppress(FileNotFoundError):
            changed_at = max(changed_at, folder.stat().st_mtime)
        return time.time() - changed_at >= ABANDONED_SECONDS
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
