"""Attacks on the server's edge, before any key is checked: too large, too slow, too many, or two requests in one.

No test here says how long something may take. A server that waits for such a client waits for ever, so the test would
not end; the clients give up after minutes.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

import recollect
from recollect.server import app, connections
from recollect.server.connections import (
    MAX_HEADERS,
    MAX_PIPELINED_REQUESTS,
    BoundedProtocol,
    ConnectionLimits,
    ConnectionTable,
    fit_to_file_limit,
)
from support.raw_http import HOST, RawConnection, message, request
from support.serving import RunningServer, make_server, wait_for
from support.upstream import ANSWER, ModelServer, Trouble

MESSAGES = "/api/v1/conversations/trip/messages"
HEALTH = request("GET", "/healthz")
HALF_HEAD = b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Slow: "
HALF_BODY = f"POST {MESSAGES} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n".encode() + HOST
PAUSE_SECONDS = 0.5  # between two drops of a slow connection
HALF_BODY += b'\r\n{"role": "user", '


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch, db: str) -> Callable[..., Any]:
    """Return a server with the given limits of connections."""

    def make(model: ModelServer | None = None, **limits: Any) -> RunningServer:
        monkeypatch.setattr(app, "connection_limits", lambda _: ConnectionLimits(**limits))
        monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.02)
        return make_server(db, model)

    return make


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with make_server(str(tmp_path_factory.mktemp("edge") / "memory.db")) as running:
        yield running


# Too large


@pytest.mark.parametrize(
    ("head", "piece", "status", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\nX-Long: ", b"a" * 65_536, 431, "headers_too_large"),
        (b"GET /healthz HTTP/1.1\r\n", b"X-Many: 1\r\n" * 5000, 431, "headers_too_large"),
        (b"GET /healthz HTTP/1.1\r\n", b"X-Long: " + b"a" * 9000 + b"\r\n", 431, "headers_too_large"),
        (b"GET /", b"a" * 65_536, 414, "target_too_long"),
        (b"GET /healthz?q=", b"a" * 65_536, 414, "target_too_long"),
        (b"", b"A" * 65_536, 400, "invalid_http"),
    ],
)
def test_eighty_megabytes_before_the_end_of_a_head_are_not_read(
    head: bytes, piece: bytes, status: int, code: str, server: RunningServer
) -> None:
    limit = 80 * 1024 * 1024
    with RawConnection(server.port) as connection:
        connection.send(head)
        assert connection.send_until_refused(piece, limit) < limit // 4
        with suppress(ConnectionError):  # a client that never stops may lose the answer
            reply = connection.reply()
            assert (reply.status, reply.code) == (status, code)
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("GET", "/healthz", *["X-Many: 1"] * (MAX_HEADERS - 1)), 200),
        (request("GET", "/healthz", *["X-Many: 1"] * MAX_HEADERS), 431),
        (request("GET", "/healthz", "X-Long: " + "a" * 60_000), 200),
        (request("GET", "/healthz", "X-Long: " + "a" * 66_000), 431),
        (request("GET", "/healthz", *[f"X-{n}: {'a' * 9_000}" for n in range(8)]), 431),
        (request("GET", "/healthz?q=" + "a" * 60_000), 200),
        (request("GET", "/healthz?q=" + "a" * 66_000), 414),
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 1000])
def test_the_limits_of_a_head_hold_however_it_is_cut(
    data: bytes, status: int, size: int, server: RunningServer
) -> None:
    with RawConnection(server.port) as connection:
        for start in range(0, len(data), size):
            connection.send(data[start : start + size])
        reply = connection.reply()
        assert reply.status == status
        if status != 200:
            assert reply.headers["content-type"] == "application/problem+json"
            assert connection.is_closed()


def test_a_body_in_tiny_chunks_is_read_up_to_a_limit(limited: Any) -> None:
    head = (
        f"POST {MESSAGES} HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n".encode() + HOST
    )
    with limited(body_bytes=100_000) as server, RawConnection(server.port) as connection:
        body = b"".join(b"1\r\n%c\r\n" % byte for byte in message("tea"))
        connection.send(head + b"\r\n" + body + b"0\r\n\r\n")
        assert connection.reply().status == 201
        with RawConnection(server.port) as hostile:
            hostile.send(head + b"\r\n")
            assert hostile.send_until_refused(b"1\r\n \r\n" * 1000, 100_000_000) < 20_000_000
        with RawConnection(server.port) as hostile:
            hostile.send(head + b"\r\n" + b"1;" + b"e" * 1000)
            assert hostile.send_until_refused(b"e" * 10_000, 100_000_000) < 20_000_000
        assert [text for _, text in server.dialogue("trip")] == ["tea"]


def test_a_refused_request_may_send_only_so_much_of_its_body(limited: Any) -> None:
    with limited(body_bytes=100_000) as server:
        server.new_key("sara")
        with RawConnection(server.port) as connection:
            connection.send(f"POST {MESSAGES} HTTP/1.1\r\nContent-Length: 999999999\r\n".encode() + HOST + b"\r\n")
            assert connection.reply().status == 401
            assert connection.send_until_refused(b"a" * 10_000, 100_000_000) < 20_000_000


# Too slow


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (HALF_HEAD, b"a"),
        (b"GET", b""),
        (HALF_BODY, b" "),
        (b"GET /", b"a"),
        (b"GET /healthz HTTP/1.1\r\n", b"A: b\r\n"),
    ],
)
def test_half_a_request_is_given_up_even_if_it_drips(start: bytes, drop: bytes, limited: Any) -> None:
    with limited(head_seconds=0.2, body_seconds=0.2) as server, RawConnection(server.port) as connection:
        connection.send(start)
        if drop:
            connection.drip(drop)
        reply = connection.reply()
        assert (reply.status, reply.code) in ((408, "request_timeout"), (431, "headers_too_large"))
        assert connection.is_closed()
        assert server.history("trip") == []


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"", b""),  # says nothing at all
        (b"", b"\r\n"),  # empty lines before a request
        (HEALTH, b""),  # nothing after an answer
        (HEALTH, b"\r\n"),
    ],
)
def test_a_connection_without_a_request_is_closed(start: bytes, drop: bytes, limited: Any) -> None:
    with limited(head_seconds=0.2, idle_seconds=0.2) as server, RawConnection(server.port) as connection:
        if start:
            assert connection.send(start).reply().status == 200
        if drop:
            connection.drip(drop)
        assert connection.is_closed()


def test_the_body_of_a_refused_request_is_not_awaited_for_ever(limited: Any) -> None:
    with limited(body_seconds=0.2, idle_seconds=0.2) as server:
        server.new_key("sara")
        with RawConnection(server.port) as connection:
            assert connection.send(HALF_BODY).reply().status == 401
            connection.drip(b" ")
            assert connection.is_closed()


@pytest.mark.slow
def test_a_client_that_reads_nothing_of_a_long_answer_is_left(limited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.2)
    with limited() as server:
        for number in range(8):
            server.client.post(MESSAGES, json={"role": "user", "content": f"{number} " + "long " * 200_000})
        with RawConnection(server.port) as connection:
            port = connection.socket.getsockname()[1]
            wait_for(lambda: port in server.run(open_addresses(server)))
            connection.send(request("GET", MESSAGES))
            wait_for(lambda: port not in server.run(open_addresses(server)))


async def open_addresses(server: RunningServer) -> set[int]:
    """Return the ports of the clients whose connections the server has open."""
    return {each.client[1] for each in server._server.server_state.connections if each.client}  # type: ignore[union-attr]


class SlowReader:
    """Stands for a connection with an answer that is not sent yet."""

    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.aborted = False
        self.transport = self

    def abort(self) -> None:
        self.aborted = True


def test_a_client_that_reads_slowly_gets_its_answer_and_one_that_drips_does_not() -> None:
    table = ConnectionTable(ConnectionLimits())
    reader, dripping, last = SlowReader(10_000_000), SlowReader(10_000_000), SlowReader(2)
    for connection in (reader, dripping, last):
        table.note_stall(cast("BoundedProtocol", connection), 0.0)
    for minute in range(1, 11):
        reader.unsent_bytes -= 20_000
        dripping.unsent_bytes -= 1
        last.unsent_bytes = 0
        table.sweep(minute * 60.0)
    assert (reader.aborted, dripping.aborted, last.aborted) == (False, True, False)


# Too many


def test_slow_connections_above_the_limit_make_room_for_others(limited: Any) -> None:
    with limited(connections=20) as server, ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(RawConnection(server.port))
            connection.send((HALF_HEAD, HALF_BODY, b"")[number % 3])
            if number % 20 == 0:
                with RawConnection(server.port) as honest:
                    assert honest.send(HEALTH).reply().status == 200


def test_who_opens_most_connections_loses_them_first(limited: Any) -> None:
    with limited(connections=20) as server, ExitStack() as stack:
        honest = stack.enter_context(RawConnection(server.port, source="127.0.0.2"))
        honest.send(HALF_HEAD)
        for _ in range(200):
            stack.enter_context(RawConnection(server.port)).send(HALF_HEAD)
        assert honest.send(b"\r\n\r\n").reply().status == 200


def test_answers_that_are_being_written_are_never_given_up_for_new_connections(limited: Any) -> None:
    with ModelServer() as model, limited(model, connections=4) as server, ExitStack() as stack:
        model.always = Trouble.HANG_INSIDE  # type: ignore[assignment]
        answering = []
        for number in range(4):
            connection = stack.enter_context(RawConnection(server.port))
            path = f"/api/v1/conversations/{number}/chat"
            connection.send(request("POST", path, body=b'{"content": "Tell me."}'))
            answering.append((connection, receive_until(connection, b"event: delta")))
        with RawConnection(server.port) as connection:
            reply = connection.reply()
            assert (reply.status, reply.code) == (503, "too_many_connections")
        for number in range(4):
            server.run(server.app.state.parts.chats.stop(server.memory, str(number)))
        for connection, begun in answering:
            assert ANSWER[:7].encode() in begun + receive_until(connection, b"event: done")


def receive_until(connection: RawConnection, end: bytes) -> bytes:
    """Receive data until it holds `end`."""
    received = b""
    while end not in received:
        data = connection.socket.recv(1 << 16)
        assert data, "the server hung up"
        received += data
    return received


def test_connections_never_exceed_the_files_that_a_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert fit_to_file_limit(500) == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(1200, soft)
        assert fit_to_file_limit(10**9) <= max(soft, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Two requests in one


SMUGGLED = [
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding:\r\n chunked",
    "X: a\nTransfer-Encoding: chunked",
    "X: a\x00b",
]


@pytest.mark.parametrize("headers", SMUGGLED)
def test_a_request_whose_length_is_ambiguous_is_refused_and_nothing_after_it_is_read(
    headers: str, server: RunningServer
) -> None:
    hidden = request("POST", "/api/v1/conversations/hidden/messages", body=message("smuggled"))
    data = f"POST {MESSAGES} HTTP/1.1\r\n{headers}\r\n".encode("latin-1") + HOST + b"\r\n0\r\n\r\n" + hidden
    with RawConnection(server.port) as connection:
        replies = connection.send(data).all_replies()
    assert [reply.status for reply in replies] == [400]
    assert server.history("hidden") == []


def test_headers_after_a_body_are_not_headers(server: RunningServer) -> None:
    body = message("with a trailer")
    head = "POST /api/v1/conversations/trailer/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
    data = head.encode() + b"Content-Type: application/json\r\n" + HOST + b"\r\n"
    data += b"%x\r\n%s\r\n0\r\nIdempotency-Key: k\r\nAuthorization: Bearer rk_x\r\nHost: evil\r\n\r\n" % (
        len(body),
        body,
    )
    with RawConnection(server.port) as connection:
        ids = {connection.send(data).reply().body for _ in range(2)}
    assert len(ids) == 2  # the key of the trailer would have made the second one a repetition


@pytest.mark.parametrize(
    "headers",
    [
        ["Host: evil.example"], ["Authorization: Bearer a", "Authorization: Bearer b"],
        ["Origin: http://evil.example", "Origin: http://127.0.0.1"], ["Idempotency-Key: a", "Idempotency-Key: b"],
        ["X-Recollect-Conversation: a", "X-Recollect-Conversation: b"], ["Cookie: a=b", "Cookie: c=d"],
    ],
)  # fmt: skip
def test_a_header_that_decides_something_may_be_sent_once(headers: list[str], server: RunningServer) -> None:
    with RawConnection(server.port) as connection:
        reply = connection.send(request("GET", "/api/v1/conversations", *headers)).reply()
    assert (reply.status, reply.code) == (400, "repeated_header")


def test_pipelined_requests_are_answered_in_order_up_to_a_limit(server: RunningServer) -> None:
    with RawConnection(server.port) as connection:
        connection.send(HEALTH * MAX_PIPELINED_REQUESTS)
        assert [connection.reply().status for _ in range(MAX_PIPELINED_REQUESTS)] == [200] * MAX_PIPELINED_REQUESTS
    with RawConnection(server.port) as connection:
        replies = connection.send(HEALTH * 10_000).all_replies()
        assert len(replies) <= MAX_PIPELINED_REQUESTS + 2
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_nothing_is_upgraded_and_nothing_after_such_a_request_is_read(protocol: str, server: RunningServer) -> None:
    upgrade = request("GET", "/healthz", f"Upgrade: {protocol}", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    with RawConnection(server.port) as connection:
        replies = connection.send(upgrade + HEALTH).all_replies()
    assert [reply.status for reply in replies] == [200]


# Two thousand slow connections


class SlowCrowd:
    """Connections that send half of something, and a drop more now and then. Those that are closed come back."""

    STARTS = (HALF_HEAD, HALF_BODY, b"", HEALTH, b"GET /")

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._sockets: list[socket.socket | None] = [None] * count
        self._ending = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._attack, daemon=True)

    def __enter__(self) -> SlowCrowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for number in range(len(self._sockets)):
            self._close(number)

    def _close(self, number: int) -> None:
        connection, self._sockets[number] = self._sockets[number], None
        if connection is not None:
            connection.close()

    def _attack(self) -> None:
        while not self._ending.is_set():
            for number, connection in enumerate(self._sockets):
                if self._ending.is_set():
                    return
                try:
                    if connection is None:
                        self._open(number)
                    else:
                        connection.send(b"a")
                except BlockingIOError:
                    pass
                except OSError:
                    self._close(number)
            self.rounds += 1
            self._ending.wait(PAUSE_SECONDS)  # slow, not many: a flood of requests is another attack

    def _open(self, number: int) -> None:
        connection = socket.create_connection(("127.0.0.1", self._port), 5)
        connection.setblocking(False)
        self._sockets[number] = connection
        connection.send(self.STARTS[number % len(self.STARTS)])


@contextmanager
def serve(folder: Path, *, workers: int, files: int) -> Iterator[int]:
    """Run `recollect serve` in processes that may open so many files, and yield its port."""
    command = [sys.executable, "-m", "recollect", "serve", "--port", "0", "--workers", str(workers)]
    log_file = folder / "log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command, "--db", str(folder / "memory.db")],
            env=os.environ | {"PYTHONPATH": str(Path(recollect.__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        address = wait_for(lambda: process.poll() or re.search(r"listens on http://\S+:(\d+)", log_file.read_text()))
        assert isinstance(address, re.Match), log_file.read_text()
        with RawConnection(int(address[1])) as connection:
            assert connection.send(HEALTH).reply().status == 200
        yield int(address[1])
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_two_thousand_slow_connections_keep_nobody_from_being_answered(
    workers: int, full_count: bool, tmp_path: Path
) -> None:
    """The server may open 1,024 files, as on many machines."""
    if workers == 2 and not full_count:
        pytest.skip("one process is enough for the short run")
    count, soft_and_hard = 2000, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft_and_hard[1], 8192), soft_and_hard[1]))
    try:
        with serve(tmp_path, workers=workers, files=1024) as port, SlowCrowd(port, count) as crowd:
            answered, (rounds, requests) = 0, (6, 30) if full_count else (1, 10)
            while crowd.rounds < rounds or answered < requests:
                with RawConnection(port) as connection:
                    connection.send(request("POST", MESSAGES, body=message(f"number {answered}")))
                    assert connection.reply().status == 201
                answered += 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, soft_and_hard)
