"""Keeps a forked child off the SQLite files that its parent had open.

SQLite keeps the locks on a file for the whole process. A child inherits that book-keeping, but not the locks: whatever
it opens on the same file is unprotected, and what it writes can be lost. So it is refused, and said.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import apsw

from recollect.core.errors import StoreUnavailable
from recollect.runtime.forks import call_in_children, keep_in_children

FileId = tuple[int, int]  # device and inode

_open_files: Final[WeakKeyDictionary[apsw.Connection, FileId]] = WeakKeyDictionary()
_carried: Final[set[FileId]] = set()  # files that were open when this process, or one before it, was forked


def carry_never(connection: apsw.Connection, path: str) -> None:
    """Note that a connection is open on a file. It is neither used nor closed in children of this process."""
    keep_in_children(connection)
    file_id = _file_id(path)
    if file_id is not None:
        _open_files[connection] = file_id


def forget_connection(connection: apsw.Connection) -> None:
    """Note that a connection is closed. Its object may live on."""
    _open_files.pop(connection, None)


def refuse_carried(path: str) -> None:
    """Raise StoreUnavailable for a file that was open when this process was forked."""
    if _carried and _file_id(path) in _carried:
        raise StoreUnavailable(
            "forked",
            "The parent of this process had the database open when it forked, and SQLite cannot be opened twice that "
            "way. Open it in the children alone, or start them anew: multiprocessing with 'spawn' or 'forkserver', "
            "gunicorn without --preload.",
            retryable=False,
        )


def _file_id(path: str) -> FileId | None:
    with suppress(OSError):
        status = Path(path).stat()
        return status.st_dev, status.st_ino
    return None


def _note_carried() -> None:
    _carried.update(_open_files.values())


call_in_children(_note_carried)
