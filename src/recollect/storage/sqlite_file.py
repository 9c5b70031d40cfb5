"""Treats an SQLite database as a file: checkpoints, snapshots, reading its bytes, its health.

Plain functions of an open connection; the driver decides when they run.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from recollect.core.errors import StoreUnavailable
from recollect.core.models import Finding
from recollect.storage.driver import generation_step
from recollect.storage.file_drafts import new_file

SAFE_VERSION: Final = 3_051_003  # the first without the race of two connections that write and checkpoint
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
BLOCK_BYTES: Final = 1024 * 1024
SEARCH_PAUSE_SECONDS: Final = 0.001  # after each block; an add beside a search needs the interpreter too
WAL_WARNING_BYTES: Final = 64 * 1024 * 1024
DISK_WARNING_BYTES: Final = 200 * 1024 * 1024  # free on the disk
MAX_FREE_PAGES: Final = 64  # a file may keep so many; it always has some
PAGES_PER_RELEASE: Final = 2000  # writers wait while pages are released
CHECKPOINT_TRY_MILLISECONDS: Final = 50
CHECKPOINT_POLL_SECONDS: Final = 0.05
MAX_KEY: Final = 2**53  # of a row; far above it SQLite gives out no new ones
BUSY_SECONDS: Final = 120.0  # an erase holds the lock while it rewrites the file


class CheckpointGuard:
    """Protects a file from a bug of SQLite before 3.51.3: two processes that checkpoint at once may damage it.

    If `active`, the driver switches automatic checkpoints off, and ours run one at a time under a file lock.
    """

    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self.version = version
        self.active = version < SAFE_VERSION and path != ":memory:"

    @contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Hold the file lock during a checkpoint, if the guard is active."""
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
        """Return which SQLite runs, and a warning if it has the bug."""
        name = f"SQLite {self.version // 1_000_000}.{self.version // 1000 % 1000}.{self.version % 1000}"
        if self.version >= SAFE_VERSION:
            return [Finding("sqlite", "ok", f"{name}, bundled with apsw {apsw.apsw_version()}")]
        detail = f"{name} has the WAL-reset race; checkpoints run one at a time under a lock"
        return [Finding("sqlite", "warning", detail, "install apsw 3.51.3 or newer from its wheel")]


def create_private(path: Path) -> None:
    """Create the file of a new database, readable by its owner alone."""
    if not path.parent.is_dir():
        raise StoreUnavailable("store_cannot_open", f"The folder {path.parent} does not exist.", retryable=False)
    with suppress(OSError):
        path.touch(mode=0o600, exist_ok=True)


def enter_wal(connection: apsw.Connection) -> None:
    """Switch to a write-ahead log. Two processes that create one file at the same moment wait for each other."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if not connection.pragma("page_count"):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def checkpoint(connection: apsw.Connection, mode: str, *, seconds: float = 0.0) -> bool:
    """Move the write-ahead log into the database. Return False if another reader needs it for all of `seconds`.

    While it waits for readers it holds the lock of writers, so it waits in many short tries.
    """
    deadline = time.monotonic() + seconds
    before = connection.pragma("busy_timeout")
    while True:
        connection.set_busy_timeout(CHECKPOINT_TRY_MILLISECONDS if seconds else 0)
        try:
            busy = _read_number(connection, f"PRAGMA wal_checkpoint({mode})")
        except apsw.BusyError:
            busy = 1
        finally:
            connection.set_busy_timeout(before)
        if not busy:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(CHECKPOINT_POLL_SECONDS)


def snapshot(connection: apsw.Connection, target: str, *, replace: bool = False) -> None:
    """Write a consistent, compact copy to a new file."""
    with new_file(target, replace=replace) as draft:
        connection.execute("VACUUM INTO ?", (draft,))


def find_in_files(files: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return which of these texts the files contain, as UTF-8. Between blocks other threads get their turn."""
    needles = {text: text.encode() for text in texts}
    overlap = max((len(needle) for needle in needles.values()), default=1) - 1
    found: set[str] = set()
    for file in files:
        tail = b""
        for block in read_blocks(file) if needles and Path(file).exists() else ():
            window = tail + block
            found.update(text for text, needle in needles.items() if needle in window)
            tail = window[-overlap:] if overlap else b""
            time.sleep(SEARCH_PAUSE_SECONDS)
    return [text for text in texts if text in found]


def read_blocks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a database or its log, a block at a time, read through SQLite's own file layer.

    A database that is open must never be opened and closed in any other way: on POSIX that would drop the locks which
    SQLite holds on it for the whole process.
    """
    kind = apsw.SQLITE_OPEN_WAL if path.endswith("-wal") else apsw.SQLITE_OPEN_MAIN_DB
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_READONLY | kind, 0])
    try:
        size = file.xFileSize()
        for start in range(0, size, BLOCK_BYTES):
            yield file.xRead(min(BLOCK_BYTES, size - start), start)
    finally:
        file.xClose()


def release_free_pages(connection: apsw.Connection) -> None:
    """Make the file smaller by some of its unused pages. Do nothing while another process writes."""
    free, pages = (int(connection.pragma(name)) for name in ("freelist_count", "page_count"))
    if free > max(MAX_FREE_PAGES, pages // 20):
        with suppress(apsw.BusyError):
            connection.execute(f"PRAGMA incremental_vacuum({PAGES_PER_RELEASE})").fetchall()


def rewrite(connection: apsw.Connection) -> None:
    """Write the whole file again from its live rows.

    `secure_delete` overwrites what a DELETE frees, but where a deletion makes SQLite move neighbouring rows to another
    page, their old copies stay in the unused part of the page they left, and a later DELETE does not find those.
    """
    connection.execute("PRAGMA temp_store = FILE")  # the copy is as large as the database, and holds nothing erased
    connection.execute("VACUUM")


def begin_epoch(connection: apsw.Connection, epoch: str, now: int) -> None:
    """Give a database that is about to replace another one a new epoch, and its conversations new generations."""
    connection.execute(
        "INSERT INTO settings (person, name, value, changed_at) VALUES ('', 'epoch', ?1, ?2)"
        " ON CONFLICT (person, name) DO UPDATE SET value = ?1, changed_at = ?2",
        (epoch, now),
    )
    connection.execute("UPDATE conversations SET generation = generation + ?", (generation_step(epoch),))


def copy_database(source: str, target: str) -> None:
    """Copy a database file as it is, with what its write-ahead log still holds."""
    origin = apsw.Connection(f"file:{quote(str(Path(source).absolute()))}?mode=ro", flags=_READ_ONLY)
    copy = apsw.Connection(target)
    try:
        overwrite(copy, origin)
    finally:
        copy.close()
        origin.close()


def overwrite(target: apsw.Connection, source: apsw.Connection, *, before: Callable[[], None] = lambda: None) -> None:
    """Replace all pages of one database by those of another, in one transaction of the target.

    `before` runs when the target is locked and not yet changed, so what it saves is complete.
    """
    with target.backup("main", source, "main") as pages:
        pages.step(1)
        before()
        while not pages.done:
            pages.step(-1)


def _read_number(connection: apsw.Connection, sql: str) -> int:
    """Return the first column of the first row."""
    row = connection.execute(sql).fetchone()
    return int(row[0]) if row else 0


def examine(connection: apsw.Connection, path: str) -> list[Finding]:
    """Check the database and its file for damage. Return what was found, good or bad."""
    return [_check_integrity(connection), _check_references(connection), *_check_file(path)]


def _check_integrity(connection: apsw.Connection) -> Finding:
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    if problems == ["ok"]:
        return Finding("integrity", "ok", "integrity_check finds no damage")
    return Finding("integrity", "error", "; ".join(map(str, problems)), "restore a backup")


def _check_references(connection: apsw.Connection) -> Finding:
    orphans = _read_number(connection, "SELECT count(*) FROM pragma_foreign_key_check")
    if not orphans:
        return Finding("references", "ok", "every row belongs to something")
    return Finding("references", "error", f"{orphans} rows belong to nothing", "recollect rebuild")


def _check_file(path: str) -> list[Finding]:
    if path == ":memory:":
        return [Finding("file", "ok", "in memory; gone when the process ends")]
    file, wal = Path(path), Path(path + "-wal")
    findings = [Finding("file", "ok", f"{file} ({file.stat().st_size:,} bytes)")]
    if wal.exists() and wal.stat().st_size > WAL_WARNING_BYTES:
        size = wal.stat().st_size
        findings.append(Finding("wal", "warning", f"the log holds {size:,} bytes", "close long-running readers"))
    if file.stat().st_mode & 0o077:
        detail = "other users of this machine may read the file"
        findings.append(Finding("permissions", "warning", detail, f"chmod 600 {file}"))
    free = shutil.disk_usage(file.parent).free
    if free < DISK_WARNING_BYTES:
        findings.append(Finding("disk", "warning", f"only {free:,} bytes are free", "free some space"))
    return findings


def stream_rows(connection: apsw.Connection, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield these columns of all rows of a table, one row at a time. The names must come from our own schema."""
    yield from connection.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608


def find_wrong_number(connection: apsw.Connection) -> str | None:
    """Return the column whose numbers would keep new rows from being stored. None: there is none."""
    beyond = (
        "SELECT count(*) FROM messages m JOIN conversations c ON c.key = m.conversation_key WHERE m.seq > c.last_seq"
    )
    if _read_number(connection, beyond):
        return "conversations.last_seq"
    if _read_number(connection, f"SELECT count(*) FROM sqlite_sequence WHERE seq > {MAX_KEY}"):  # noqa: S608
        return "sqlite_sequence.seq"
    return None
