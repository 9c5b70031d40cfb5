"""A file system for SQLite that knows what a power cut would leave behind.

Writes go through to the real files, so SQLite works as usual. Beside them a `Disk` keeps what is certain (as of the
last sync of each file) apart from what the drive may still have in its cache. At the cut it decides what of the cache
arrives: nothing, everything, or some of it, torn at the borders of sectors and in any order of files.

APSW gives no shared memory to such files, so a connection must lock the file for itself (locking_mode = EXCLUSIVE).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

SECTOR_BYTES = 512


@dataclass
class _Write:
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        end = self.offset + len(self.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[self.offset : end] = self.data

    def torn(self, dice: random.Random) -> list[_Write]:
        """Return a write of only some of its sectors."""
        first = self.offset - self.offset % SECTOR_BYTES
        borders = range(first, self.offset + len(self.data), SECTOR_BYTES)
        pieces = [
            (max(self.offset, border), min(self.offset + len(self.data), border + SECTOR_BYTES)) for border in borders
        ]
        return [
            _Write(start, self.data[start - self.offset : stop - self.offset])
            for start, stop in pieces
            if dice.random() < 0.5
        ]


@dataclass
class _Truncate:
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))

    def torn(self, dice: random.Random) -> list[_Truncate]:
        return [self] if dice.random() < 0.5 else []


@dataclass
class _File:
    certain: bytearray | None = None  # None: its name is not on the disk yet, or not any more
    cached: list[_Write | _Truncate] = field(default_factory=list)

    def sync(self) -> None:
        self.certain = self._with(self.cached)
        self.cached = []

    def _with(self, arrived: list[_Write | _Truncate]) -> bytearray:
        content = bytearray(self.certain or b"")
        for operation in arrived:
            operation.apply(content)
        return content

    def after_cut(self, mode: str, dice: random.Random) -> bytes | None:
        if mode == "lost" or not self.cached:
            return None if self.certain is None else bytes(self.certain)
        arrived: list[_Write | _Truncate] = []
        for operation in self.cached:
            if mode == "torn":
                arrived.extend(operation.torn(dice))
            elif dice.random() < 0.5:
                arrived.append(operation)
        return bytes(self._with(arrived))


class Disk:
    """All files, and a hook that is called before every operation that changes one."""

    def __init__(self) -> None:
        self.operations = 0
        self.full = False  # writes are refused
        self.before_operation: Callable[[int], None] = lambda count: None
        self._files: dict[str, _File] = {}
        self._lock = threading.RLock()

    def write(self, name: str, offset: int, data: bytes) -> None:
        if self.full:
            raise apsw.FullError("no space left")
        self._change(name, _Write(offset, data))

    def truncate(self, name: str, size: int) -> None:
        self._change(name, _Truncate(size))

    def _change(self, name: str, operation: _Write | _Truncate) -> None:
        self._next()
        with self._lock:
            self._files.setdefault(name, _File()).cached.append(operation)

    def sync(self, name: str) -> None:
        self._next()
        with self._lock:
            self._files.setdefault(name, _File()).sync()

    def delete(self, name: str) -> None:
        self._next()
        with self._lock:
            self._files.pop(name, None)

    def _next(self) -> None:
        self.operations += 1
        self.before_operation(self.operations)

    def cut_power(self, mode: str, dice: random.Random) -> dict[str, bytes]:
        """Return what is on the disk when the power comes back, by file name. Modes: lost, some, torn."""
        with self._lock:
            left = {Path(name).name: file.after_cut(mode, dice) for name, file in self._files.items()}
        return {name: content for name, content in left.items() if content is not None}


class LossyVFS(apsw.VFS):
    def __init__(self, disk: Disk, name: str = "lossy") -> None:
        self.disk = disk
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return LossyFile(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.disk.delete(filename)


class LossyFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name or "temporary"
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.truncate(self._name, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.sync(self._name)
