"""Detects from the first bytes of a file which format it has, and how its records are laid out."""

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
# A key that only the records of one format have.
_FORMAT_BY_KEY: Final = {
    b"mapping": "chatgpt",
    b"chat_messages": "claude",
    b"conversations": "sharegpt",
    b"messages": "openai",
}
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?|[\[{]|[\]}]|"', re.DOTALL)


def trim(head: bytes) -> bytes:
    """Return the bytes without byte-order mark and leading blanks."""
    return head.removeprefix(BOM).lstrip(BLANK)


def detect_format(head: bytes, name: str) -> str:
    """Return the format of a file that begins with `head`. `name` is for error messages."""
    head = trim(head)
    if not head:
        raise InvalidInput("unknown_format", f"{name} is empty")
    if _HEADER.match(head):
        return "recollect"
    layout = detect_layout(head)
    sections = head.split(b"\n") if layout == "lines" else [head]
    for section in sections:
        for key in _keys(section, level=2 if layout == "array" else 1):
            if key in _FORMAT_BY_KEY:
                return _FORMAT_BY_KEY[key]
    raise InvalidInput(
        "unknown_format", f"{name} has no format known here; if it should, name it: {', '.join(FORMATS)}"
    )


def detect_layout(head: bytes) -> Layout:
    """Return whether records are elements of a JSON array, one per line, or one value that spans lines."""
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
    """Yield the keys of objects at this depth, as far as the bytes go."""
    depth = 0
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif token == b'"':  # a string that is cut off at the end of the bytes
            return
        elif depth == level and match.group(2):
            yield match.group(1)
