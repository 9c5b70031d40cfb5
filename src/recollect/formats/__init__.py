"""Reads exports of other programs as batches of messages, and reads and writes Recollect's own export.

Everything is a generator over a binary stream: memory use is constant, and no database is known here. Whatever the
bytes are, reading yields batches and reports of what was skipped, or raises InvalidInput for the file as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from recollect.core.errors import InvalidInput
from recollect.formats import chatgpt, claude, openai, openwebui, sharegpt
from recollect.formats.batches import Batch, ExportedProfile, Item, LeftOut, Skipped
from recollect.formats.detection import FORMATS, detect_format, detect_layout, trim
from recollect.formats.native import convert_lines, ndjson_lines, write_ndjson
from recollect.formats.sources import (
    CHUNK_BYTES,
    Opened,
    Progress,
    open_folder,
    open_inputs,
    open_source,
    source_name,
    source_size,
)
from recollect.formats.stream import Decoded, decode, split_array, split_lines

__all__ = [
    "FORMATS",
    "Batch",
    "ExportedProfile",
    "Item",
    "LeftOut",
    "Skipped",
    "detect_file_format",
    "detect_format",
    "ndjson_lines",
    "read_file",
    "source_size",
    "write_ndjson",
]

MAX_RECORD_BYTES: Final = 16 * 1024 * 1024

_CONVERTERS: Final[dict[str, Callable[[Any, str], Iterator[Batch | Skipped | LeftOut]]]] = {
    "chatgpt": chatgpt.convert,
    "claude": claude.convert,
    "openai": openai.convert,
    "openwebui": openwebui.convert,
    "sharegpt": sharegpt.convert,
}


def detect_file_format(source: Path | BinaryIO) -> str:
    """Return the format of a file, or of the first conversation file inside its zip or folder.

    A stream must be seekable; it is set back to where it was.
    """
    if isinstance(source, Path) and source.is_dir():
        return _detect_first(open_folder(source, None))
    with open_source(source) as stream:
        start = stream.tell()
        detected = _detect_first(open_inputs(stream, source_name(source), None))
        stream.seek(start)
        return detected


def _detect_first(inputs: Generator[Opened | LeftOut]) -> str:
    with closing(inputs) as opened:
        name, chunks = next(item for item in opened if not isinstance(item, LeftOut))
        return detect_format(_read_head(chunks), name)


def read_file(
    source: Path | BinaryIO,
    *,
    format: str | None = None,
    record_limit: int = MAX_RECORD_BYTES,
    progress: Progress | None = None,
) -> Iterator[Item]:
    """Read a file, or a folder with an unpacked export, one record at a time.

    Records longer than `record_limit` bytes are skipped and reported. Without `format` it is detected. `progress` is
    called with the bytes that were read so far.
    """
    if format is not None and format not in FORMATS:
        raise InvalidInput("unknown_format", f"Unknown format {format!r}; known are {', '.join(FORMATS)}")
    if isinstance(source, Path) and source.is_dir():
        yield from _read_inputs(open_folder(source, progress), format, record_limit)
        return
    with open_source(source) as stream:
        yield from _read_inputs(open_inputs(stream, source_name(source), progress), format, record_limit)


def _read_inputs(inputs: Iterator[Opened | LeftOut], format: str | None, record_limit: int) -> Iterator[Item]:
    """Read one file after the other. Of several, one that cannot be read is reported, and the others are read."""
    read_count = 0
    for opened in inputs:
        if isinstance(opened, LeftOut):
            yield opened
            continue
        name, chunks = opened
        head = _read_head(chunks)
        try:
            input_format = format or detect_format(head, name)
        except InvalidInput as error:
            if not read_count:
                raise
            yield Skipped(name, error.message)
            continue
        read_count += 1
        yield from _convert(input_format, decode(_split(input_format, trim(head), chunks, record_limit)))


def _read_head(chunks: Iterator[bytes]) -> bytes:
    """Read enough bytes to detect the format, even if the stream gives few at a time."""
    head = bytearray()
    for chunk in chunks:
        head += chunk
        if len(head) >= CHUNK_BYTES:
            break
    return bytes(head)


def _split(format: str, head: bytes, rest: Iterable[bytes], limit: int) -> Iterator[tuple[str, bytes] | Skipped]:
    layout = "lines" if format == "recollect" else detect_layout(head)
    if layout == "lines":
        return split_lines(chain([head], rest), limit)
    bracketed = layout == "array"
    return split_array(chain([head[bracketed:]], rest), limit, bracketed=bracketed)


def _convert(format: str, records: Iterator[Decoded | Skipped]) -> Iterator[Item]:
    if format == "recollect":
        yield from convert_lines(records)
        return
    convert = _CONVERTERS[format]
    for item in records:
        if isinstance(item, Skipped):
            yield item
        else:
            where, record = item
            yield from convert(record, where)
