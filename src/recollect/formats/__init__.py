"""Files of other programs, read as batches of messages, and Recollect's own export.

Generators over binary streams: constant memory, no database. Whatever the bytes are, reading yields
batches and reports of what was skipped, or raises InvalidInput for the file as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from recollect.core.errors import InvalidInput
from recollect.formats import chatgpt, claude, openai, sharegpt
from recollect.formats.batches import Batch, Item, Skipped, ToldOfOneself
from recollect.formats.detection import FORMATS, detect, layout, trim
from recollect.formats.native import convert_lines, ndjson_lines, write_ndjson
from recollect.formats.sources import CHUNK, Progress, inputs, name_of, open_source
from recollect.formats.stream import Decoded, decode, split_array, split_lines

__all__ = [
    "FORMATS",
    "Batch",
    "Item",
    "Skipped",
    "ToldOfOneself",
    "detect",
    "format_of",
    "ndjson_lines",
    "read",
    "write_ndjson",
]

RECORD_LIMIT: Final = 16 * 1024 * 1024

_CONVERTERS: Final[dict[str, Callable[[Any, str], Iterator[Batch | Skipped]]]] = {
    "chatgpt": chatgpt.convert,
    "claude": claude.convert,
    "openai": openai.convert,
    "sharegpt": sharegpt.convert,
}


def format_of(source: Path | BinaryIO) -> str:
    """The format of a file or of what its zip holds. A stream must be seekable and is put back."""
    with open_source(source) as stream:
        start = stream.tell()
        with closing(inputs(stream, name_of(source), None)) as opened:
            name, chunks = next(opened)
            found = detect(_head(chunks), name)
        stream.seek(start)
        return found


def read(
    source: Path | BinaryIO,
    *,
    format: str | None = None,
    record_limit: int = RECORD_LIMIT,
    progress: Progress | None = None,
) -> Iterator[Item]:
    """Read a file, one record at a time; records longer than `record_limit` bytes are skipped.

    Without `format` it is detected. `progress` gets the bytes of the file that are done.
    """
    if format is not None and format not in FORMATS:
        raise InvalidInput("unknown_format", f"Unknown format {format!r}; known are {', '.join(FORMATS)}")
    with open_source(source) as stream:
        for name, chunks in inputs(stream, name_of(source), progress):
            head = _head(chunks)
            found = format or detect(head, name)
            yield from _convert(found, decode(_split(found, trim(head), chunks, record_limit)))


def _head(chunks: Iterator[bytes]) -> bytes:
    """The first bytes, enough to tell the format also when a stream gives little at a time."""
    head = bytearray()
    for chunk in chunks:
        head += chunk
        if len(head) >= CHUNK:
            break
    return bytes(head)


def _split(format: str, head: bytes, rest: Iterable[bytes], limit: int) -> Iterator[tuple[str, bytes] | Skipped]:
    shape = "lines" if format == "recollect" else layout(head)
    if shape == "lines":
        return split_lines(chain([head], rest), limit)
    bracketed = shape == "array"
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
