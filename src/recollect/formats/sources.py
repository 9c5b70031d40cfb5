"""Opens the input of an import: a path, a stream, or the conversation files inside an export's zip.

Yields bytes in chunks and reports progress in bytes of the file itself (compressed bytes for a zip). A zip is read in
place. Nothing is ever extracted, so file names inside it are only compared.
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

CHUNK_BYTES: Final = 256 * 1024
MAX_COMPRESSION_RATIO: Final = 200
MAX_UNPACKED_BYTES: Final = 1024**3

Progress = Callable[[int], None]
_Result = TypeVar("_Result")

_CONVERSATION_FILES: Final = re.compile(r"conversations(-\d+)?\.json", re.IGNORECASE)
# The errors that zipfile raises for damaged archives, by its documentation and by experiment.
_DAMAGE_ERRORS: Final = (
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
    """Open a path, to be closed at the end; return a stream as it is, and leave it open."""
    if not isinstance(source, Path):
        return nullcontext(source)
    try:
        return source.open("rb")
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {source.name}: {error.strerror}") from error


def source_name(source: Path | BinaryIO) -> str:
    """Return the file name of a source, without folders, for error messages."""
    name = source.name if isinstance(source, Path) else getattr(source, "name", "the stream")
    return PurePosixPath(str(name)).name


def open_inputs(stream: BinaryIO, name: str, progress: Progress | None) -> Generator[tuple[str, Iterator[bytes]]]:
    """Yield the name and the chunks of each file to read: the source itself, or the conversation files of a zip."""
    first = _read(stream, CHUNK_BYTES, name)
    if first.startswith(b"PK\x03\x04"):
        yield from _open_members(stream, name, progress, rewind=len(first))
    else:
        yield name, _read_chunks(stream, name, progress, first)


def _read(stream: IO[bytes], size: int, name: str) -> bytes:
    try:
        return stream.read(size) or b""
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {name}: {error.strerror or error}") from error


def _read_chunks(stream: BinaryIO, name: str, progress: Progress | None, first: bytes) -> Iterator[bytes]:
    chunk, consumed = first, 0
    while chunk:
        yield chunk
        consumed += len(chunk)
        if progress:
            progress(consumed)
        chunk = _read(stream, CHUNK_BYTES, name)


def _open_members(
    stream: BinaryIO, name: str, progress: Progress | None, *, rewind: int
) -> Iterator[tuple[str, Iterator[bytes]]]:
    if not stream.seekable():
        raise InvalidInput("unreadable_archive", f"{name} is a zip in a pipe; give the file itself")
    stream.seek(-rewind, 1)
    try:
        archive = zipfile.ZipFile(stream)
        members = sorted(
            (member for member in archive.infolist() if _is_conversation_file(member.filename)),
            key=lambda member: member.filename,
        )
    except (*_DAMAGE_ERRORS, OSError) as error:
        raise InvalidInput("unreadable_archive", f"{name} is not a sound zip; download it again") from error
    with archive:
        if not members:
            raise InvalidInput("no_conversations", f"{name} holds no conversations.json")
        for member in members:
            _check_member(member, name)
        for member in members:
            yield PurePosixPath(member.filename).name, _unpack(archive, member, stream, progress)


def _is_conversation_file(filename: str) -> bool:
    path = PurePosixPath(filename.replace("\\", "/"))
    stays_inside = not path.is_absolute() and ".." not in path.parts and not re.match(r"[A-Za-z]:", filename)
    return stays_inside and _CONVERSATION_FILES.fullmatch(path.name) is not None


def _check_member(member: zipfile.ZipInfo, name: str) -> None:
    if member.flag_bits & 0x1:
        raise InvalidInput("encrypted_archive", f"{name} is encrypted; unpack it and import conversations.json")
    # zipfile bounds its memory for these two methods only.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput("unreadable_archive", f"{name} is packed in an unusual way; import conversations.json")
    ratio = member.file_size / max(member.compress_size, 1)
    if ratio > MAX_COMPRESSION_RATIO and member.file_size > MAX_UNPACKED_BYTES:
        raise InvalidInput("archive_bomb", f"{name} would unpack to {member.file_size:,} bytes; refused")


def _unpack(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: BinaryIO, progress: Progress | None
) -> Iterator[bytes]:
    with _translate_damage(member, lambda: archive.open(member)) as unpacked:
        while chunk := _translate_damage(member, lambda: unpacked.read(CHUNK_BYTES)):
            position = stream.tell()
            yield chunk
            if progress:
                progress(position)


def _translate_damage(member: zipfile.ZipInfo, step: Callable[[], _Result]) -> _Result:
    try:
        return step()
    except (*_DAMAGE_ERRORS, OSError) as error:
        raise InvalidInput("unreadable_archive", f"{member.filename} in the zip is damaged") from error
