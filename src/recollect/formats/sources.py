"""Opens what is imported: a path, a stream, or the conversations inside an export's zip.

Yields bytes in chunks and reports progress in bytes of the file itself (compressed bytes for a zip).
Archives are read in place; nothing is ever extracted, so names inside them are only compared.
"""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, TypeVar

from recollect.core.errors import InvalidInput

CHUNK: Final = 256 * 1024
MAX_RATIO: Final = 200
MAX_UNPACKED: Final = 1024**3

Progress = Callable[[int], None]
_Result = TypeVar("_Result")

_CONVERSATIONS: Final = re.compile(r"conversations(-\d+)?\.json", re.IGNORECASE)
# What zipfile raises for damaged archives, by experiment as well as by its documentation.
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


def open_source(source: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """The stream itself, or the opened path, which is closed again."""
    if not isinstance(source, Path):
        return nullcontext(source)
    try:
        return source.open("rb")
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {source.name}: {error.strerror}") from error


def name_of(source: Path | BinaryIO) -> str:
    name = source.name if isinstance(source, Path) else getattr(source, "name", "the stream")
    return PurePosixPath(str(name)).name


def inputs(stream: BinaryIO, name: str, progress: Progress | None) -> Generator[tuple[str, Iterator[bytes]]]:
    """Name and chunks of each file to read: one, or the conversation files of a zip."""
    first = _read(stream, CHUNK, name)
    if first.startswith(b"PK\x03\x04"):
        yield from _members(stream, name, progress, back=len(first))
    else:
        yield name, _chunks(stream, name, progress, first)


def _read(stream: IO[bytes], size: int, name: str) -> bytes:
    try:
        return stream.read(size) or b""
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {name}: {error.strerror or error}") from error


def _chunks(stream: BinaryIO, name: str, progress: Progress | None, first: bytes) -> Iterator[bytes]:
    chunk, consumed = first, 0
    while chunk:
        yield chunk
        consumed += len(chunk)
        if progress:
            progress(consumed)
        chunk = _read(stream, CHUNK, name)


def _members(
    stream: BinaryIO, name: str, progress: Progress | None, *, back: int
) -> Iterator[tuple[str, Iterator[bytes]]]:
    if not stream.seekable():
        raise InvalidInput("unreadable_archive", f"{name} is a zip in a pipe; give the file itself")
    stream.seek(-back, 1)
    try:
        archive = zipfile.ZipFile(stream)
        found = sorted((m for m in archive.infolist() if _wanted(m.filename)), key=lambda m: m.filename)
    except (*_DAMAGED, OSError) as error:
        raise InvalidInput("unreadable_archive", f"{name} is not a sound zip; download it again") from error
    with archive:
        if not found:
            raise InvalidInput("no_conversations", f"{name} holds no conversations.json")
        for member in found:
            _check(member, name)
        for member in found:
            yield PurePosixPath(member.filename).name, _unpacked(archive, member, stream, progress)


def _wanted(filename: str) -> bool:
    path = PurePosixPath(filename.replace("\\", "/"))
    inside = not path.is_absolute() and ".." not in path.parts and not re.match(r"[A-Za-z]:", filename)
    return inside and _CONVERSATIONS.fullmatch(path.name) is not None


def _check(member: zipfile.ZipInfo, name: str) -> None:
    if member.flag_bits & 0x1:
        raise InvalidInput("encrypted_archive", f"{name} is encrypted; unpack it and import conversations.json")
    # zipfile bounds its memory for these two only.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput("unreadable_archive", f"{name} is packed in an unusual way; import conversations.json")
    ratio = member.file_size / max(member.compress_size, 1)
    if ratio > MAX_RATIO and member.file_size > MAX_UNPACKED:
        raise InvalidInput("archive_bomb", f"{name} would unpack to {member.file_size:,} bytes; refused")


def _unpacked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: BinaryIO, progress: Progress | None
) -> Iterator[bytes]:
    with _guarded(member, lambda: archive.open(member)) as unpacked:
        while chunk := _guarded(member, lambda: unpacked.read(CHUNK)):
            position = stream.tell()
            yield chunk
            if progress:
                progress(position)


def _guarded(member: zipfile.ZipInfo, step: Callable[[], _Result]) -> _Result:
    try:
        return step()
    except (*_DAMAGED, OSError) as error:
        raise InvalidInput("unreadable_archive", f"{member.filename} in the zip is damaged") from error
