"""What concerns an SQLite file as a file: checkpoints, snapshots, merged full text, health.

Plain functions of an open connection; the driver decides when they run.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from recollect.core.errors import InvalidInput, StoreUnavailable
from recollect.core.models import Finding
from recollect.storage.driver import generations_in

SAFE_VERSION: Final = 3_051_003  # the first without the race of two connections that write and checkpoint
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
BLOCK: Final = 1024 * 1024
ABANDONED: Final = 600  # seconds
WAL_WARNING: Final = 64 * 1024 * 1024
FREE_PAGES: Final = 64  # that a file may have; there are always some
GIVEN_BACK: Final = 2000  # pages at a time: others wait for it meanwhile


class Safeguard:
    """Before 3.51.3, two processes that checkpoint at once may damage a WAL database.

    On such a library the automatic checkpoint is switched off and ours run one at a time under a file lock.
    """

    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self.version = version
        self.active = version < SAFE_VERSION and path != ":memory:"

    @contextmanager
    def checkpointing(self) -> Iterator[None]:
        if not self.active:
            yield
            return
        import fcntl  # not on every system; the wheels of apsw are all newer than this race

        lock = os.open(self.path + ".checkpoint", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def findings(self) -> list[Finding]:
        name = f"SQLite {self.version // 1_000_000}.{self.version // 1000 % 1000}.{self.version % 1000}"
        if self.version >= SAFE_VERSION:
            return [Finding("sqlite", "ok", f"{name}, bundled with apsw {apsw.apsw_version()}")]
        detail = f"{name} has the WAL-reset race; checkpoints run one at a time under a lock"
        return [Finding("sqlite", "warning", detail, "install apsw 3.51.3 or newer from its wheel")]


def checkpoint(connection: apsw.Connection, mode: str, *, seconds: float = 0.0) -> bool:
    """Move the write-ahead log into the database. False if a reader elsewhere still needs it."""
    deadline = time.monotonic() + seconds
    before = connection.pragma("busy_timeout")
    while True:
        connection.set_busy_timeout(int(seconds * 1000))
        try:
            busy = _number(connection, f"PRAGMA wal_checkpoint({mode})")
        except apsw.BusyError:
            busy = 1
        finally:
            connection.set_busy_timeout(before)
        if not busy:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def snapshot(connection: apsw.Connection, target: str, *, replace: bool = False) -> None:
    """A consistent, compact copy in a new file."""
    with new_file(target, replace=replace) as draft:
        connection.execute("VACUUM INTO ?", (draft,))


@contextmanager
def new_file(target: str, *, replace: bool = False) -> Iterator[str]:
    """A file that appears under its name only when it is whole and synced; one that is there stays, unless told."""
    goal = Path(target)
    if not goal.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {goal.parent}.")
    if goal.exists() and not replace:
        raise _exists(target)
    draft = goal.with_name(f"{goal.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    draft.touch(mode=0o600)
    try:
        yield str(draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        _publish(draft, goal, replace=replace)
    except FileExistsError:
        raise _exists(target) from None
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(goal.parent)


def _publish(draft: Path, goal: Path, *, replace: bool) -> None:
    if not replace:
        try:
            goal.hardlink_to(draft)  # unlike a rename, this fails if somebody else was quicker
        except FileExistsError:
            raise
        except OSError:  # a file system without links: claim the name first
            os.close(os.open(goal, os.O_CREAT | os.O_EXCL, 0o600))
        else:
            return
    draft.replace(goal)


def _exists(target: str) -> StoreUnavailable:
    return StoreUnavailable("backup_exists", f"{target} exists already.", retryable=False)


def copies_beside(path: Path) -> list[Path]:
    """Backups and unfinished drafts that we ourselves put beside a database."""
    name = glob.escape(path.name)
    return [*path.parent.glob(f"{name}.*.backup"), *path.parent.glob(f"{name}.*.part")]


def clear_drafts(path: str) -> None:
    """Remove unfinished files that a killed process left beside the database: they may hold text.

    Nothing tells for sure that their writer is gone, but a writer does not rest for minutes.
    """
    for draft in copies_beside(Path(path)):
        with suppress(FileNotFoundError):
            if draft.suffix == ".part" and time.time() - draft.stat().st_mtime > ABANDONED:
                draft.unlink()


def blocks(path: str) -> Iterator[bytes]:
    """The bytes of a database or its log, a piece at a time, read through SQLite's own file layer.

    A database that is open must never be opened and closed in any other way: on POSIX that would drop the locks which
    SQLite holds on it for the whole process.
    """
    kind = apsw.SQLITE_OPEN_WAL if path.endswith("-wal") else apsw.SQLITE_OPEN_MAIN_DB
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_READONLY | kind, 0])
    try:
        size = file.xFileSize()
        for start in range(0, size, BLOCK):
            yield file.xRead(min(BLOCK, size - start), start)
    finally:
        file.xClose()


def give_back_pages(connection: apsw.Connection) -> None:
    """Make the file smaller by pages that nothing uses any more, some at a time; if somebody writes, another time."""
    free, pages = (int(connection.pragma(name)) for name in ("freelist_count", "page_count"))
    if free > max(FREE_PAGES, pages // 20):
        with suppress(apsw.BusyError):
            connection.execute(f"PRAGMA incremental_vacuum({GIVEN_BACK})").fetchall()


def rewrite(connection: apsw.Connection) -> None:
    """Write the whole file anew from its live rows.

    `secure_delete` overwrites what a DELETE frees, but where a deletion makes SQLite move neighbouring rows to another
    page, their old copies stay in the unused part of the page they left, and a later DELETE does not find those.
    """
    connection.execute("PRAGMA temp_store = FILE")  # the copy is as large as the database, and holds nothing erased
    connection.execute("VACUUM")


def begin_epoch(connection: apsw.Connection, epoch: str, now: int) -> None:
    """What is about to take the place of another store tells itself apart from it."""
    connection.execute(
        "INSERT INTO settings (person, name, value, changed_at) VALUES ('', 'epoch', ?1, ?2)"
        " ON CONFLICT (person, name) DO UPDATE SET value = ?1, changed_at = ?2",
        (epoch, now),
    )
    connection.execute("UPDATE conversations SET generation = generation + ?", (generations_in(epoch),))


def copy_database(source: str, target: str) -> None:
    """A copy of a database file as it is, with what its own log may still hold."""
    origin = apsw.Connection(f"file:{quote(str(Path(source).absolute()))}?mode=ro", flags=_READ_ONLY)
    copy = apsw.Connection(target)
    try:
        overwrite(copy, origin)
    finally:
        copy.close()
        origin.close()


def overwrite(target: apsw.Connection, source: apsw.Connection, *, before: Callable[[], None] = lambda: None) -> None:
    """Replace all pages of one database by those of another, in one transaction of the target.

    `before` runs when the target is locked and still as it was: what it saves is all there is.
    """
    with target.backup("main", source, "main") as pages:
        pages.step(1)
        before()
        while not pages.done:
            pages.step(-1)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _number(connection: apsw.Connection, question: str) -> int:
    """The first column of the first row."""
    row = connection.execute(question).fetchone()
    return int(row[0]) if row else 0


def examine(connection: apsw.Connection, path: str) -> list[Finding]:
    return [_integrity(connection), _foreign_keys(connection), *_file(path)]


def _integrity(connection: apsw.Connection) -> Finding:
    answer = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    if answer == ["ok"]:
        return Finding("integrity", "ok", "integrity_check finds no damage")
    return Finding("integrity", "error", "; ".join(map(str, answer)), "restore a backup")


def _foreign_keys(connection: apsw.Connection) -> Finding:
    orphans = _number(connection, "SELECT count(*) FROM pragma_foreign_key_check")
    if not orphans:
        return Finding("references", "ok", "every row belongs to something")
    return Finding("references", "error", f"{orphans} rows belong to nothing", "recollect rebuild")


def _file(path: str) -> list[Finding]:
    if path == ":memory:":
        return [Finding("file", "ok", "in memory; gone when the process ends")]
    file, wal = Path(path), Path(path + "-wal")
    findings = [Finding("file", "ok", f"{file} ({file.stat().st_size:,} bytes)")]
    if wal.exists() and wal.stat().st_size > WAL_WARNING:
        size = wal.stat().st_size
        findings.append(Finding("wal", "warning", f"the log holds {size:,} bytes", "close long-running readers"))
    if file.stat().st_mode & 0o077:
        detail = "other users of this machine may read the file"
        findings.append(Finding("permissions", "warning", detail, f"chmod 600 {file}"))
    free = shutil.disk_usage(file.parent).free
    if free < 200 * 1024 * 1024:
        findings.append(Finding("disk", "warning", f"only {free:,} bytes are free", "free some space"))
    return findings
