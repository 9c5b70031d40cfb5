"""Opens the input of an import: a path, a stream, or the conversation files inside an export's zip or folder.

Yields bytes in chunks and reports progress in bytes of the file itself (compressed bytes for a zip). A zip is read in
place. Nothing is ever extracted, so file names inside it are only compared. Files of an export that hold no
conversations are named or counted.
"""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, TypeVar

from recollect.core.errors import InvalidInput
from recollect.formats.batches import LeftOut

CHUNK_BYTES: Final = 256 * 1024
MAX_COMPRESSION_RATIO: Final = 200
MAX_UNPACKED_BYTES: Final = 1024**3

Progress = Callable[[int], None]
_Result = TypeVar("_Result")

Opened = tuple[str, Iterator[bytes]]  # the name of a file, for reports, and its chunks

_CONVERSATION_FILES: Final = re.compile(
    r"conversations([-_]\d{1,6})?\.json|(all-|archived-)?chats?-export-[\w-]{1,60}\.json", re.IGNORECASE
)
# Files of exports that hold no conversations, and what they hold.
_OTHER_FILES: Final = {
    "memories.json": "what Claude noted about you",
    "projects.json": "instructions and documents of Claude's projects",
    "users.json": "data of your account",
    "user.json": "data of your account",
    "user_settings.json": "settings of your account",
    "message_feedback.json": "your ratings of answers",
    "model_comparisons.json": "comparisons of models",
    "shared_conversations.json": "a list of chats that you shared",
}
_OTHER_FOLDERS: Final = {
    "memories": "what Claude noted about you",
    "projects": "instructions and documents of Claude's projects",
}
MAX_NAMED_FILES: Final = 20  # other JSON files of an export that are named; further ones are only counted
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


def open_inputs(stream: BinaryIO, name: str, progress: Progress | None) -> Generator[Opened | LeftOut]:
    """Yield each file to read: the source itself, or the conversation files of a zip. Then its other files."""
    first = _read(stream, CHUNK_BYTES, name)
    if first.startswith(b"PK\x03\x04"):
        yield from _open_members(stream, name, progress, rewind=len(first))
    else:
        yield name, _read_chunks(stream, name, progress, first)


def open_folder(folder: Path, progress: Progress | None) -> Generator[Opened | LeftOut]:
    """Yield the conversation files of an unpacked export, in it and in its direct subfolders. Then its other files."""
    try:
        files = sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file())
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {folder.name}: {error.strerror}") from error
    found = [path for path in files if _CONVERSATION_FILES.fullmatch(path.name)]
    if not found:
        raise InvalidInput(
            "no_conversations", f"{folder.name} is a folder without a conversations.json. Name the file to import."
        )
    done = 0
    for path in found:
        with open_source(path) as stream:
            yield path.name, _read_chunks(stream, path.name, progress, _read(stream, CHUNK_BYTES, path.name), done)
        done += path.stat().st_size
    yield from _name_other_files(path.relative_to(folder).as_posix() for path in files if path not in found)


def source_size(source: Path) -> int:
    """Return the bytes that reading a file, or the conversation files of a folder, reports as progress."""
    if not source.is_dir():
        return source.stat().st_size
    paths = (*source.glob("*"), *source.glob("*/*"))
    return sum(path.stat().st_size for path in paths if path.is_file() and _CONVERSATION_FILES.fullmatch(path.name))


def _name_other_files(names: Iterable[str]) -> Iterator[LeftOut]:
    """Yield what an export holds besides conversations: known files and other JSON by name, the rest as a count."""
    counts: Counter[str] = Counter()
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))
        folder = path.parent.name.lower()
        if (held := _OTHER_FILES.get(path.name.lower())) is not None:
            counts[f"{path.name} ({held})"] += 1
        elif folder in _OTHER_FOLDERS and path.suffix.lower() == ".json":
            counts[f"files in {folder}/ ({_OTHER_FOLDERS[folder]})"] += 1
        elif path.suffix.lower() == ".json" and len(counts) < MAX_NAMED_FILES:
            counts[path.name[:200]] += 1
        else:
            counts["other files"] += 1
    yield from (LeftOut(what, count) for what, count in counts.items())


def _read(stream: IO[bytes], size: int, name: str) -> bytes:
    try:
        return stream.read(size) or b""
    except OSError as error:
        raise InvalidInput("unreadable_file", f"Cannot read {name}: {error.strerror or error}") from error


def _read_chunks(
    stream: BinaryIO, name: str, progress: Progress | None, first: bytes, consumed: int = 0
) -> Iterator[bytes]:
    """Yield the stream's chunks. `consumed` counts the bytes of files that were read before it."""
    chunk = first
    while chunk:
        yield chunk
        consumed += len(chunk)
        if progress:
            progress(consumed)
        chunk = _read(stream, CHUNK_BYTES, name)


def _open_members(stream: BinaryIO, name: str, progress: Progress | None, *, rewind: int) -> Iterator[Opened | LeftOut]:
    if not stream.seekable():
        raise InvalidInput("unreadable_archive", f"{name} is a zip in a pipe; give the file itself")
    stream.seek(-rewind, 1)
    try:
        archive = zipfile.ZipFile(stream)
        everything = archive.infolist()
        members = sorted(
            (member for member in everything if _is_conversation_file(member.filename)),
            key=lambda member: member.filename,
        )
    except (*_DAMAGE_ERRORS, OSError) as error:
        raise InvalidInput("unreadable_archive", f"{name} is not a sound zip; download it again") from error
    with archive:
        if not members:
            others = sorted({item.what for item in _name_other_files(m.filename for m in everything if not m.is_dir())})
            held = f"; it holds {', '.join(others)[:300]}" if others else ""
            raise InvalidInput("no_conversations", f"{name} holds no conversations.json{held}")
        for member in members:
            _check_member(member, name)
        for member in members:
            yield PurePosixPath(member.filename).name, _unpack(archive, member, stream, progress)
        read = {member.filename for member in members}
        names = (member.filename for member in everything if not member.is_dir() and member.filename not in read)
        yield from _name_other_files(names)


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
