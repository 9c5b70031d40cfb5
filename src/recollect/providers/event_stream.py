"""Decodes server-sent events from the chunks in which they arrive. Pure: bytes in, texts out.

Every byte is looked at once, however the stream is cut into chunks. A line ends with CR, LF or CRLF, and an event with
an empty line. Only `data` is kept; names, ids and comments are left out.
"""

from __future__ import annotations

from typing import Final

_DATA: Final = b"data"
_BYTE_ORDER_MARK: Final = "\ufeff".encode()


class EventDecoder:
    """Collects chunks and returns the data of complete events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the parts of the line that has not ended yet
        self._line_bytes = 0
        self._data: list[str] = []  # the data lines of the event that has not ended yet
        self._data_bytes = 0
        self._ended_with_cr = False  # an LF at the beginning of the next chunk belongs to that CR
        self._is_first_line = True

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of the event that has not ended yet."""
        return self._data_bytes + self._line_bytes

    def feed(self, chunk: bytes) -> list[str]:
        """Take the next chunk, and return the data of the events that it completes."""
        if self._ended_with_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._ended_with_cr = False
        if not chunk:
            return []
        self._ended_with_cr = chunk.endswith(b"\r")
        events: list[str] = []
        for line in chunk.splitlines(keepends=True):
            self._line.append(line)
            self._line_bytes += len(line)
            if line.endswith((b"\n", b"\r")):
                self._end_line(events)
        return events

    def end(self) -> list[str]:
        """Return the data of an event that the end of the stream completes."""
        events: list[str] = []
        if self._line:
            self._end_line(events)
        self._end_line(events)
        return events

    def _end_line(self, events: list[str]) -> None:
        line = b"".join(self._line).rstrip(b"\r\n")
        self._line.clear()
        self._line_bytes = 0
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(_BYTE_ORDER_MARK), False
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._data_bytes = [], 0
            return
        field, _, value = line.partition(b":")
        if field == _DATA:
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._data_bytes += len(line)
