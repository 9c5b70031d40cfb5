"""Tells from the first bytes of a file which format it has and how its records are laid out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from recollect.core.errors import InvalidInput
from recollect.formats.batches import Unreadable
from recollect.formats.stream import parse

FORMATS: Final = ("recollect", "openai", "sharegpt", "chatgpt", "claude")
BLANK: Final = b" \t\r\n"
BOM: Final = b"\xef\xbb\xbf"

Layout = Literal["array", "lines", "value"]

_HEADER: Final = re.compile(rb'\{[^{}\n]*"format"\s*:\s*"recollect"')
# The key of a record that only this format has.
_MARKS: Final = {
    b"mapping": "chatgpt",
    b"chat_messages": "claude",
    b"conversations": "sharegpt",
    b"messages": "openai",
}
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?|[\[{]|[\]}]|"', re.DOTALL)


def trim(head: bytes) -> bytes:
    """Without byte-order mark and leading blanks."""
    return head.removeprefix(BOM).lstrip(BLANK)


def detect(head: bytes, name: str) -> str:
    """The format of a file that begins with `head`. `name` is only used to speak about it."""
    head = trim(head)
    if not head:
        raise InvalidInput("unknown_format", f"{name} is empty")
    if _HEADER.match(head):
        return "recollect"
    shape = layout(head)
    sections = head.split(b"\n") if shape == "lines" else [head]
    for section in sections:
        for key in _keys(section, level=2 if shape == "array" else 1):
            if key in _MARKS:
                return _MARKS[key]
    raise InvalidInput(
        "unknown_format", f"{name} has no format known here; if it should, name it: {', '.join(FORMATS)}"
    )


def layout(head: bytes) -> Layout:
    """A JSON array, one record per line, or a single value that spans lines."""
    if head.startswith(b"["):
        return "array"
    first, newline, rest = head.partition(b"\n")
    if not newline or rest.lstrip(BLANK).startswith(b"{") or not rest.strip():
        return "lines"
    try:
        parse(first.decode(errors="replace"))
    except Unreadable:
        return "value"
    return "lines"


def _keys(data: bytes, *, level: int) -> Iterator[bytes]:
    """The keys of the objects at this depth, as far as the bytes go."""
    depth = 0
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b'"':  # a string that goes on behind the head
            return
        elif depth == level and match.group(2):
            yield match.group(1)
