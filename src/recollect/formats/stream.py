"""Cuts a stream of bytes into JSON records and decodes them one at a time.

Never holds more than one chunk and one record. Knows JSON, not what the records mean. A record that is
too long, malformed or cut off becomes a `Skipped`, and reading goes on behind it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from recollect.formats.batches import Skipped, Unreadable

MAX_DEPTH: Final = 64

Raw = tuple[str, bytes]
Decoded = tuple[str, Any]

# Possessive throughout: linear time and no backtracking state, whatever the bytes are.
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING_REST: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_INSIDE: Final = re.compile(rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[{]++|[\]}]++|")?', re.DOTALL)
_AT_TOP: Final = re.compile(rb'[^"\[\]{},]*+(?:' + _STRING + rb'[^"\[\]{},]*+)*+([\[{]|[\]}]|,|")?', re.DOTALL)
_QUOTE, _COMMA, _OPENING = ord('"'), ord(","), b"[{"


class _Held:
    """The bytes of one record as they arrive; beyond the limit they are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._over = False

    def add(self, data: bytes) -> None:
        if self._over or len(self._bytes) + len(data) > self._limit:
            self._over = True
            self._bytes.clear()
        else:
            self._bytes += data

    def take(self, where: str) -> Raw | Skipped | None:
        """What was held, and start anew; None if it is blank."""
        data, over = bytes(self._bytes).strip(), self._over
        self._bytes.clear()
        self._over = False
        if over:
            return Skipped(where, f"longer than the limit of {self._limit:,} bytes")
        return (where, data) if data else None


def split_lines(chunks: Iterable[bytes], limit: int) -> Iterator[Raw | Skipped]:
    """One record per line; blank lines count but are not records."""
    held = _Held(limit)
    number = 1
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            held.add(line)
            if taken := held.take(f"line {number}"):
                yield taken
            number += 1
        held.add(rest)
    if taken := held.take(f"line {number}"):
        yield taken


class _Borders:
    """Finds where the elements of a JSON array end. Its state survives the border between two chunks."""

    def __init__(self) -> None:
        self.depth = 1
        self.in_string = False
        self._escaped = False

    @property
    def between(self) -> bool:
        return self.depth == 1 and not self.in_string

    def find(self, chunk: bytes, position: int) -> int:
        """Where the next comma or closing bracket of the array itself is; the chunk's length if not in it."""
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
                match = _AT_TOP.match(chunk, position)
                if match is None or not match.lastindex:
                    return end
                position = match.end()
                found = chunk[position - 1]
                if found == _QUOTE:
                    self.in_string = True
                elif found in _OPENING:
                    self.depth += 1
                else:
                    return position - 1
        return end

    def _leave_element(self, chunk: bytes, position: int) -> int:
        """Go on until the depth is back at the array's own, a string leaves the chunk, or the chunk ends."""
        depth = self.depth
        for match in _INSIDE.finditer(chunk, position):
            position = match.end()
            if match.lastindex is None:
                break
            found = chunk[position - 1]
            if found in _OPENING:
                depth += position - match.start(1)
            elif found == _QUOTE:
                self.in_string = True
                break
            else:
                depth -= position - match.start(1)
                if depth <= 1:  # the run of brackets may go on and close the array as well
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
        else:  # a backslash at the very end: the byte it escapes is in the next chunk
            self._escaped = True
        return position + 1


def split_array(chunks: Iterable[bytes], limit: int, *, bracketed: bool = True) -> Iterator[Raw | Skipped]:
    """The elements of a JSON array whose opening bracket was already taken off.

    With `bracketed=False` there never was one: the stream is a single value.
    """
    borders, held = _Borders(), _Held(limit)
    number, ended = 1, False
    for chunk in chunks:
        start = 0
        while not ended and (border := borders.find(chunk, start)) < len(chunk):
            held.add(chunk[start:border])
            if taken := held.take(f"conversation {number}"):
                yield taken
            number += 1
            start = border + 1
            ended = chunk[border] != _COMMA
        if not ended:
            held.add(chunk[start:])
        elif chunk[start:].strip():
            yield Skipped("the end", "there is more text behind the end of the array")
            return
    if ended:
        return
    if not borders.between:
        yield Skipped(f"conversation {number}", "the file ends in the middle of it")
        return
    if taken := held.take(f"conversation {number}"):
        yield taken
    if bracketed:
        yield Skipped("the end", "the closing bracket is missing; the file may be cut short")


def decode(pieces: Iterable[Raw | Skipped]) -> Iterator[Decoded | Skipped]:
    """Parse each record; what is not sound JSON is reported instead."""
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
    """One JSON value; raises Unreadable with a reason that quotes nothing of it."""
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
    if _deeper_than(value, MAX_DEPTH):
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
