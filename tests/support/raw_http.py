"""Speaks HTTP byte by byte over plain sockets, for requests that no client library would send."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

GIVE_UP_SECONDS = 300.0
HOST = b"Host: 127.0.0.1\r\n"


@dataclass(frozen=True)
class RawReply:
    """A response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Return the code of a problem, or of an error in OpenAI's form."""
        reply = json.loads(self.body)
        return str(reply.get("error", reply)["code"])


class RawConnection:
    """One connection to a server on this machine, closed with its context."""

    def __init__(self, port: int, *, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), GIVE_UP_SECONDS, (source, 0))
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def send_until_refused(self, piece: bytes, limit: int) -> int:
        """Send a piece again and again, until the server refuses it or `limit` bytes are sent. Return their number."""
        sent = 0
        self.socket.settimeout(0.01)
        try:
            while sent < limit:
                with suppress(TimeoutError):
                    sent += self.socket.send(piece)
                if self._has_answer():
                    break
        except OSError:
            pass  # the connection was reset
        finally:
            self.socket.settimeout(GIVE_UP_SECONDS)
        return sent

    def drip(self, drop: bytes) -> int:
        """Send a drop again and again, until the server answers or hangs up. Return how many it took."""
        drops = 0
        self.socket.settimeout(0.02)
        try:
            while not self._has_answer():
                self.socket.sendall(drop)
                drops += 1
        except ConnectionError:
            pass
        finally:
            self.socket.settimeout(GIVE_UP_SECONDS)
        return drops

    def _has_answer(self) -> bool:
        """Return whether something came, or the server hung up, within the socket's timeout."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is not None
        except TimeoutError:
            return False

    def is_closed(self) -> bool:
        """Wait until something comes. Return whether it is the end."""
        try:
            return not self._received and not self.socket.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def reply(self) -> RawReply:
        """Read the next response, with its body."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, rest = self._received.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", "0"))
        self._received = rest
        while len(self._received) < length:
            self._receive()
        body, self._received = self._received[:length], self._received[length:]
        return RawReply(int(status_line.split()[1]), headers, body)

    def all_replies(self) -> list[RawReply]:
        """Read responses until the server hangs up."""
        replies = []
        try:
            while True:
                replies.append(self.reply())
        except ConnectionError:
            return replies

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server hung up")
        self._received += data


def request(method: str, path: str, *headers: str, body: bytes | None = None, close: bool = False) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", *headers, *(["Connection: close"] if close else [])]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n" + HOST + b"\r\n" + (body or b"")


def message(content: str = "x", **more: Any) -> bytes:
    """Return the JSON of a message."""
    return json.dumps({"role": "user", "content": content} | more).encode()
