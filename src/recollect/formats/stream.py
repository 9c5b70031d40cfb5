"""Splits a stream of bytes into JSON records and decodes them one at a time.

Never holds more than one chunk and one record. Knows JSON, not what the records mean. A record that is too long,
malformed or cut off becomes a `Skipped`, and reading goes on after it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from recollect.formats.batches import Skipped, Unreadable

MAX_NESTING: Final = 64

Raw = tuple[str, bytes]  # the position in the file, for reports, and the bytes of one record
Decoded = tuple[str, Any]  # the position and the decoded record

# All quantifiers are possessive: time is linear, and no state for backtracking is kept, whatever the bytes are.
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING_REST: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_IN_ELEMENT: Final = re.compile(rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[{]++|[\]}]++|")?', re.DOTALL)
_IN_ARRAY: Final = re.compile(rb'[^"\[\]{},]*+(?:' + _STRING + rb'[^"\[\]{},]*+)*+([\[{]|[\]}]|,|")?', re.DOTALL)
_QUOTE, _COMMA, _OPENING = ord('"'), ord(","), b"[{"


class _RecordBuffer:
    """The bytes of one record as they arrive. Beyond the limit they are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._is_too_long = False

    def add(self, data: bytes) -> None:
        if self._is_too_long or len(self._bytes) + len(data) > self._limit:
            self._is_too_long = True
            self._bytes.clear()
        else:
            self._bytes += data

    def take(self, where: str) -> Raw | Skipped | None:
        """Return the record and start the next one. None if it is blank, a report if it is too long."""
        data, is_too_long = bytes(self._bytes).strip(), self._is_too_long
        self._bytes.clear()
        self._is_too_long = False
        if is_too_long:
            return Skipped(where, f"longer than the limit of {self._limit:,} bytes")
        return (where, data) if data else None


def split_lines(chunks: Iterable[bytes], limit: int) -> Iterator[Raw | Skipped]:
    """Yield one record for each line. Blank lines are counted but are no records."""
    record = _RecordBuffer(limit)
    number = 1
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            record.add(line)
            if item := record.take(f"line {number}"):
                yield item
            number += 1
        record.add(rest)
    if item := record.take(f"line {number}"):
        yield item


class _ElementScanner:
    """Finds where the elements of a JSON array end. Its state is kept from one chunk to the next."""

    def __init__(self) -> None:
        self.depth = 1
        self.in_string = False
        self._escaped = False

    @property
    def is_between_elements(self) -> bool:
        return self.depth == 1 and not self.in_string

    def find_end(self, chunk: bytes, position: int) -> int:
        """Return the index of the array's next comma or closing bracket; the chunk's length if it has none."""
        end = len(chunk)
        if self._escaped and position < end:
            self._escaped = False
            position += 1
        while position < end:
            if self.in_string:
                position = self._leave_string(chunk, position)
            elif self.depth > 1:
                position = self._leave_element(chunk, position)
            else:
                match = _IN_ARRAY.match(chunk, position)
                if match is None or not match.lastindex:
                    return end
                position = match.end()
                byte = chunk[position - 1]
                if byte == _QUOTE:
                    self.in_string = True
                elif byte in _OPENING:
                    self.depth += 1
                else:
                    return position - 1
        return end

    def _leave_element(self, chunk: bytes, position: int) -> int:
        """Move on to the end of the element, to a string that the chunk cuts off, or to the end of the chunk."""
        depth = self.depth
        for match in _IN_ELEMENT.finditer(chunk, position):
            position = match.end()
            if match.lastindex is None:
                break
            byte = chunk[position - 1]
            if byte in _OPENING:
                depth += position - match.start(1)
            elif byte == _QUOTE:
                self.in_string = True
                break
            else:
                depth -= position - match.start(1)
                if depth <= 1:  # the same run of brackets may close the array as well
                    position += depth - 1
                    depth = 1
                    break
        self.depth = depth
        return position

    def _leave_string(self, chunk: bytes, position: int) -> int:
        match = _STRING_REST.match(chunk, position)
        position = match.end() if match else position
        if position == len(chunk):
            return position
        if chunk[position] == _QUOTE:
            self.in_string = False
        else:  # a backslash ends the chunk: the byte it escapes is in the next one
            self._escaped = True
        return position + 1


def split_array(chunks: Iterable[bytes], limit: int, *, bracketed: bool = True) -> Iterator[Raw | Skipped]:
    """Yield the elements of a JSON array. The caller has removed its opening bracket.

    With `bracketed=False` there is no array: the stream is a single value.
    """
    scanner, record = _ElementScanner(), _RecordBuffer(limit)
    number, ended = 1, False
    for chunk in chunks:
        start = 0
        while not ended and (end := scanner.find_end(chunk, start)) < len(chunk):
            record.add(chunk[start:end])
            if item := record.take(f"conversation {number}"):
                yield item
            number += 1
            start = end + 1
            ended = chunk[end] != _COMMA
        if not ended:
            record.add(chunk[start:])
        elif chunk[start:].strip():
            yield Skipped("the end", "there is more text after the end of the array")
            return
    if ended:
        return
    if not scanner.is_between_elements:
        yield Skipped(f"conversation {number}", "the file ends in the middle of it")
        return
    if item := record.take(f"conversation {number}"):
        yield item
    if bracketed:
        yield Skipped("the end", "the closing bracket is missing; the file may be cut short")


def decode(pieces: Iterable[Raw | Skipped]) -> Iterator[Decoded | Skipped]:
    """Parse each record; yield a report instead if it is not sound JSON."""
    reported = False
    for piece in pieces:
        if isinstance(piece, Skipped):
            yield piece
            continue
        where, data = piece
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode(errors="replace")
            if not reported:
                yield Skipped(where, "bytes that are not UTF-8 were replaced, here and perhaps further on")
                reported = True
        try:
            yield where, parse(text)
        except Unreadable as error:
            yield Skipped(where, str(error))


def parse(text: str) -> Any:
    """Parse one JSON value. Raise Unreadable with a reason that quotes nothing of it."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except Unreadable:
        raise
    except ValueError as error:  # an integer with more digits than Python reads
        raise Unreadable("it holds a number that is too long") from error
    if _deeper_than(value, MAX_NESTING):
        raise Unreadable("nested too deeply")
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
    return bool(level)


def _reject_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Unreadable("it holds a number that is too large")
    return number


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_finite)
