"""Bounds what connections may cost, before and after a key is checked: bytes, time, number.

A request's head and body must arrive in time and within a size. A process keeps a bounded number of connections open;
when they are too many, it closes those that wait for their client, first of the address that holds most. So callers who
send half a request, or one byte a minute, take nothing from the others. Nothing here knows routes or keys.
"""

from __future__ import annotations

import asyncio
import ipaddress
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import takewhile
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from recollect.server import problems

PROTOCOL: Final = "recollect.server.connections:BoundedProtocol"  # a name, because uvicorn pickles its configuration
TABLE_KEY: Final = "connections"  # of the application's lifespan state, where the protocol finds its table
CUT_OFF_KEY: Final = "cut_off"  # of a request's state: a function that ends the connection in the middle of an answer

MAX_HEADERS: Final = 100
MAX_PIPELINED_REQUESTS: Final = 16  # sent before the first is answered
MAX_LINGER_BYTES: Final = 1024 * 1024  # read after a refusal, so that the client gets to read it
LINGER_SECONDS: Final = 2.0
STALL_SECONDS: Final = 60.0  # in so long a client must read some of its answer
MIN_READ_BYTES: Final = 16 * 1024  # or all that is left
SWEEP_SECONDS: Final = 0.5
EVICTED_SHARE: Final = 20  # one in so many connections is closed when there are too many
FILES_PER_CONNECTION: Final = 2  # an answer may need a connection to a model, too
RESERVED_FILES: Final = 200  # for the database, logs and libraries


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one process. Seconds for a body count from the end of the head."""

    connections: int = 2000
    head_bytes: int = 64 * 1024  # the request line and all headers
    head_seconds: float = 10.0
    body_bytes: int = 2 * 1024 * 1024
    body_seconds: float = 60.0
    idle_seconds: float = 5.0

    @property
    def raw_body_bytes(self) -> int:
        """Return the limit for a body as it is sent: in small chunks it is longer than what it carries."""
        return 2 * self.body_bytes + 64 * 1024


class Phase(Enum):
    """Names what a connection waits for. While the server writes an answer, it waits for nothing."""

    IDLE = auto()  # the next request
    HEAD = auto()  # the rest of a head
    BODY = auto()  # the rest of a body
    CLOSING = auto()  # the client, to read what is left and to hang up


class _HeadRefused(Exception):
    """Raised inside the parser to stop it."""


class ConnectionTable:
    """Knows which connections of this process wait, since when, and for what. `observe` gets codes of refusals."""

    def __init__(self, limits: ConnectionLimits, observe: Callable[[str], None] = lambda _: None) -> None:
        self.limits, self.observe = limits, observe
        # Each phase has one length, so the connection whose time is up first is always the first of its phase.
        self._deadlines: dict[Phase, dict[BoundedProtocol, float]] = {phase: {} for phase in Phase}
        self._stalled: dict[BoundedProtocol, tuple[float, int]] = {}  # until when, and bytes that were unsent
        self.open: set[BoundedProtocol] = set()
        self._seconds = {
            Phase.IDLE: limits.idle_seconds,
            Phase.HEAD: limits.head_seconds,
            Phase.BODY: limits.body_seconds,
            Phase.CLOSING: LINGER_SECONDS,
        }

    def move(self, connection: BoundedProtocol, before: Phase | None, after: Phase | None, now: float) -> None:
        """Note that a connection left the phase `before` and began `after`."""
        if before is not None:
            self._deadlines[before].pop(connection, None)
        if after is not None:
            self._deadlines[after][connection] = now + self._seconds[after]

    def note_stall(self, connection: BoundedProtocol, now: float) -> None:
        """Note that the client of a connection does not read as fast as the server writes."""
        self._stalled.setdefault(connection, (now + STALL_SECONDS, connection.unsent_bytes))

    def note_progress(self, connection: BoundedProtocol) -> None:
        """Note that the client of a connection has read enough."""
        self._stalled.pop(connection, None)

    def add(self, connection: BoundedProtocol) -> bool:
        """Count a new connection, and make room for it. Return False if there is none."""
        self.open.add(connection)
        return len(self.open) <= self.limits.connections or self._make_room(connection)

    def remove(self, connection: BoundedProtocol) -> None:
        """Forget a connection."""
        self.open.discard(connection)
        self._stalled.pop(connection, None)

    def _make_room(self, newest: BoundedProtocol) -> bool:
        """Close some connections that wait for their client. Return False if there are none.

        Of the network with most connections, those that are idle go first, then those that have waited longest.
        """
        waiting = [each for phase in (Phase.IDLE, Phase.HEAD, Phase.BODY) for each in self._deadlines[phase]]
        waiting = [each for each in waiting if each is not newest and not each.unsent_bytes]
        crowd = Counter(each.network for each in self.open)
        waiting.sort(key=lambda each: -crowd[each.network])
        for connection in waiting[: max(1, self.limits.connections // EVICTED_SHARE)]:
            self.observe("too_many_connections")
            self.open.discard(connection)
            connection.enter(None)
            connection.transport.abort()
        return bool(waiting)

    async def sweep_periodically(self) -> None:
        """End connections whose time is up, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        """End the connections whose time is up."""
        for phase, deadlines in self._deadlines.items():
            for connection in list(takewhile(lambda each: deadlines[each] <= now, deadlines)):  # noqa: B023
                del deadlines[connection]
                connection.end_phase(phase)
        for connection in list(takewhile(lambda each: self._stalled[each][0] <= now, self._stalled)):
            _, unsent = self._stalled.pop(connection)
            if connection.unsent_bytes <= max(0, unsent - MIN_READ_BYTES):
                self.note_stall(connection, now)  # it reads slowly, but it reads
            else:
                self.observe("client_stalled")
                connection.transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. It refuses with problems, as the application does."""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._table: ConnectionTable = app_state[TABLE_KEY]
        self._limits = self._table.limits
        self._phase: Phase | None = None
        self._in_head = self._in_body = False
        self._began_now = False  # a head or a body began in the data that is being parsed
        self._header_count = 0
        self._parsed_bytes = 0  # of the head: the target and whole headers
        self._raw_bytes = 0  # of the head or the body, without the data in which it began
        self._linger_bytes = 0
        self._refusal: tuple[int, str, str] | None = None
        self._is_deaf = False  # whatever comes now is not parsed

    @property
    def network(self) -> object:
        """Return the client's address; for IPv6 the network of 64 bits, because one client has all of its addresses."""
        host = self.client[0] if self.client else ""
        if ":" not in host:
            return host
        try:
            address = ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return host
        return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8]

    @property
    def unsent_bytes(self) -> int:
        """Return the bytes of answers that the client has left no room for yet."""
        return self.transport.get_write_buffer_size()

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection if there is room for it, or can be made."""
        super().connection_made(transport)
        self.enter(Phase.HEAD)
        if not self._table.add(self):
            self._refuse(503, "too_many_connections", "The server has no connection left; try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.enter(None)
        self._table.remove(self)

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        super().pause_writing()
        self._table.note_stall(self, self.loop.time())

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._table.note_progress(self)

    def enter(self, phase: Phase | None) -> None:
        """Begin a phase, with a deadline of its own."""
        self._table.move(self, self._phase, phase, self.loop.time())
        self._phase = phase

    def end_phase(self, phase: Phase) -> None:
        """End the connection, because its time is up."""
        self._phase = None
        if phase is Phase.CLOSING:
            self.transport.abort()
        elif (phase is Phase.HEAD and self._in_head) or phase is Phase.BODY:
            self._refuse(408, "request_timeout", "The request did not arrive in time.")
        else:  # nothing was asked
            self.transport.close()  # when all is sent
            if self.unsent_bytes:
                self._table.note_stall(self, self.loop.time())
            else:
                self.enter(Phase.CLOSING)

    # Data

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse it if it goes beyond a limit."""
        if self._is_deaf:
            self._linger_bytes += len(data)
            if self._linger_bytes > MAX_LINGER_BYTES:
                self.transport.abort()
            return
        self._began_now = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_deaf = True  # nothing is upgraded: the request is answered, then the connection ends
        except httptools.HttpParserError:
            self._refuse(*(self._refusal or (400, "invalid_http", "This is not a valid HTTP request.")))
            return
        if not self._began_now and (self._in_head or self._in_body):
            self._raw_bytes += len(data)
            if self._raw_bytes > (self._limits.head_bytes if self._in_head else self._limits.raw_body_bytes):
                self._refuse(*(self._large_head() if self._in_head else self._large_body()))
                return
        self._update_phase()

    def _update_phase(self) -> None:
        """Enter the phase that follows from what has arrived and what has been answered."""
        is_answering = bool(self.pipeline) or (self.cycle is not None and not self.cycle.response_complete)
        if self._in_body:
            phase: Phase | None = Phase.BODY
        elif is_answering:
            phase = None
        else:
            phase = Phase.HEAD if self._in_head or self.cycle is None else Phase.IDLE
        if phase is not self._phase or (self._began_now and phase is not None):
            self.enter(phase)

    # What the parser found

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._in_head = self._began_now = True
        self._parsed_bytes = self._raw_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target."""
        self._parsed_bytes += len(url)
        if self._parsed_bytes > self._limits.head_bytes:
            self._stop_parsing(414, "target_too_long", f"The target has more than {self._limits.head_bytes} bytes.")
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those after a body (trailers) are left out: nothing may be said after the guard has looked."""
        self._header_count += 1
        self._parsed_bytes += len(name) + len(value) + 4
        if self._header_count > MAX_HEADERS or self._parsed_bytes > self._limits.head_bytes:
            self._stop_parsing(*self._large_head())
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the answer, unless too many requests wait for theirs."""
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            self._stop_parsing(400, "too_many_pipelined", "Wait for an answer before you send more requests.")
        super().on_headers_complete()
        self.scope["state"][CUT_OFF_KEY] = partial(_cut_off, weakref.ref(self.cycle))  # weak, to leave no garbage
        self._in_head, self._in_body, self._began_now, self._raw_bytes = False, True, True, 0
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """End the body."""
        super().on_message_complete()
        self._in_body = False

    def on_response_complete(self) -> None:
        """Begin the next answer, or wait for the next request."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        if self._phase is not Phase.CLOSING:
            self._began_now = False
            self._update_phase()

    # Refusals

    def _large_head(self) -> tuple[int, str, str]:
        limits = f"{self._limits.head_bytes} bytes and {MAX_HEADERS} headers"
        return 431, "headers_too_large", f"The request line and headers may have at most {limits}."

    def _large_body(self) -> tuple[int, str, str]:
        return 413, "body_too_large", f"A request may have at most {self._limits.body_bytes} bytes."

    def _stop_parsing(self, status: int, code: str, detail: str) -> None:
        self._refusal = (status, code, detail)
        raise _HeadRefused

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer with a problem if no other answer is under way, and end the connection.

        The client may still be sending. What it sends is read for a moment, because it could not read the answer if the
        connection were reset.
        """
        self._table.observe(code)
        self._is_deaf = True
        cycle = self.cycle
        is_answering = bool(self.pipeline) or (cycle is not None and not cycle.response_complete)
        is_current = self._in_body and not self.pipeline and cycle is not None and not cycle.response_started
        self.pipeline.clear()
        if is_answering:
            cycle.disconnected = True
            cycle.message_event.set()
        if (is_answering and not is_current) or (self._in_body and not is_current):
            self.transport.abort()
            return
        self.transport.write(_raw_response(status, code, detail, self.server_state.default_headers))
        self.transport.write_eof()
        self.flow.resume_reading()
        self.enter(Phase.CLOSING)


def _cut_off(reference: weakref.ref[RequestResponseCycle]) -> None:
    """End the connection of a running answer. What its client has not got yet is dropped."""
    cycle = reference()
    if cycle is not None:
        cycle.disconnected = True  # so that uvicorn does not wonder why the answer is incomplete
        cycle.message_event.set()
        cycle.transport.abort()


def _raw_response(status: int, code: str, detail: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return a whole HTTP response with a problem, after which the connection ends."""
    response = problems.problem_response(status, code, detail, retryable=status in (408, 503))
    lines = [*headers, *response.raw_headers, (b"connection", b"close"), (b"x-content-type-options", b"nosniff")]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
    return STATUS_LINE[status] + head + b"\r\n" + bytes(response.body)


def fit_to_file_limit(connections: int) -> int:
    """Return how many of so many connections the process can have open. Raise its limit of open files if need be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_PER_CONNECTION * connections + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, (soft - RESERVED_FILES) // FILES_PER_CONNECTION))
