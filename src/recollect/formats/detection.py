"""Detects from the first bytes of a file which format it has, and how its records are laid out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from recollect.core.errors import InvalidInput
from recollect.formats.batches import Unreadable
from recollect.formats.stream import parse

FORMATS: Final = ("recollect", "openai", "sharegpt", "chatgpt", "claude", "openwebui")
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
    b"chat": "openwebui",
}
# Files of exports that hold no conversations, by a key of their records, and what they hold.
_OTHER_FILES_BY_KEY: Final = {
    b"conversations_memory": "what Claude noted about you",
    b"project_memories": "what Claude noted about you",
    b"prompt_template": "a project of Claude: its instructions and documents",
    b"email_address": "data of your account",
    b"verified_phone_number": "data of your account",
    b"chatgpt_plus_user": "data of your account",
}
_KINDS_BY_START: Final = (
    (b"SQLite format 3\0", "a database. `--db` opens one of Recollect, `recollect restore` reads a backup"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"7z\xbc\xaf", "packed with 7-Zip; unpack it first"),
    (b"Rar!", "packed with RAR; unpack it first"),
    (b"\xff\xfe", "text in UTF-16; save it in UTF-8"),
    (b"\xfe\xff", "text in UTF-16; save it in UTF-8"),
    (b"<", "a page of HTML or XML; the messages of an export are in its conversations.json"),
)
_KNOWN: Final = "Exports of ChatGPT, Claude, Open WebUI and Recollect can be read, and ShareGPT or OpenAI records."
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?|[\[{]|[\]}]|"', re.DOTALL)


def trim(head: bytes) -> bytes:
    """Return the bytes without byte-order mark and leading blanks."""
    return head.removeprefix(BOM).lstrip(BLANK)


def detect_format(head: bytes, name: str) -> str:
    """Return the format of a file that begins with `head`. `name` is for error messages."""
    head = trim(head)
    if not head:
        raise InvalidInput("unknown_format", f"{name} is empty: there is nothing to import.")
    if _HEADER.match(head):
        return "recollect"
    keys = _record_keys(head)
    for key in keys:
        if key in _FORMAT_BY_KEY:
            return _FORMAT_BY_KEY[key]
    raise InvalidInput("unknown_format", f"{name} {_explain_unknown(head, keys)}")


def _record_keys(head: bytes) -> list[bytes]:
    """Return the keys of the first records, as far as the bytes go. Text that is not JSON has none."""
    layout = detect_layout(head)
    if layout == "lines":
        lines = [line.strip() for line in head.split(b"\n") if line.strip()]
        records = [line for line in lines if line.startswith(b"{")]
        if 2 * len(records) < len(lines):  # some line of another text may look like a record
            return []
        return [key for line in records for key in _keys(line, level=1)]
    return list(_keys(head, level=2 if layout == "array" else 1)) if head[:1] in (b"[", b"{") else []


def _explain_unknown(head: bytes, keys: list[bytes]) -> str:
    """Return what the file is as far as its bytes tell, and what could be imported."""
    for start, kind in _KINDS_BY_START:
        if head.startswith(start):
            return f"cannot be imported: it is {kind}. {_KNOWN}"
    for key in keys:
        if key in _OTHER_FILES_BY_KEY:
            return (
                f"is not imported: it holds {_OTHER_FILES_BY_KEY[key]}. Import conversations.json of the same export."
            )
    if head.rstrip(BLANK) == b"[]":
        return "is an empty list: there is nothing to import."
    if b"\0" in head:
        return f"cannot be imported: it is a binary file. {_KNOWN}"
    if head[:1] not in (b"[", b"{"):
        return f"cannot be imported: it is not JSON. {_KNOWN}"
    return f"has no format known here. {_KNOWN} If it should be one of these, name it: {', '.join(FORMATS)}."


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
