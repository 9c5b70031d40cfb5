"""A real HTTP server on a free local port that speaks the OpenAI API and fails on command.

    with FaultServer() as server:
        server.then(Fault.RESET, Reply(429, headers={"Retry-After": "2"}))
        ...  # the next two requests fail in these ways, the third is answered

It runs in its own thread and event loop, so tests may block or run loops of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any

from recollect.testing import FakeEmbedder


class Fault(Enum):
    """The ways to fail that a status code cannot express."""

    HANG = auto()  # accept the request, never answer
    DRIP = auto()  # a good answer, one byte at a time, without end in sight
    RESET = auto()  # drop the connection with a TCP reset
    CUT = auto()  # close the connection in the middle of the body
    TRUNCATED = auto()  # half of the JSON, properly framed
    PROSE = auto()  # chat text that ignores the schema; elsewhere a page of HTML
    EMPTY = auto()  # valid JSON without choices, output or data
    WRONG_DIMENSIONS = auto()  # vectors one number short
    NOT_FINITE = auto()  # a vector with NaN
    ONE_SHORT = auto()  # one vector fewer than texts
    SHUFFLED = auto()  # correct vectors in reverse order, with their index; providers may do that


@dataclass(frozen=True)
class Reply:
    """A reply that is sent instead of the usual one."""

    status: int
    body: bytes = b'{"error": {"message": "told to fail", "code": "told_to_fail"}}'
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A request that the server got. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class FaultServer:
    """A server that answers well unless `then` (the next requests) or `always` (all others) plans a fault."""

    def __init__(self, *, dimensions: int = 8, answer: str | Callable[[Any], str] = "ok") -> None:
        self.requests: list[Request] = []
        self.always: Fault | Reply | None = None
        self.answer = answer
        self.drip_seconds = 0.02
        self.open_connections = 0
        self._embedder = FakeEmbedder(dimensions)
        self._planned: deque[Fault | Reply] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-server", daemon=True)

    def then(self, *faults: Fault | Reply) -> None:
        """Plan the outcome of the next requests, in order."""
        self._planned.extend(faults)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    # Start and stop

    def __enter__(self) -> FaultServer:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=300)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    # Connections

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until the peer leaves or a fault ends it."""
        self.open_connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                is_planned = bool(self._planned) and self._takes_plan(request)
                outcome = self._planned.popleft() if is_planned else self.always
                await self._respond(request, outcome, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the peer left in the middle, as some tests make it do
        finally:
            self.open_connections -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _takes_plan(self, request: Request) -> bool:
        """Say whether a planned outcome may be that of this request."""
        return True

    async def _respond(
        self,
        request: Request,
        outcome: Fault | Reply | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if outcome is Fault.HANG:
            await reader.read()  # returns when the peer gives up
            raise ConnectionResetError
        if outcome is Fault.RESET:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            raise ConnectionResetError
        reply = outcome if isinstance(outcome, Reply) else await self._reply(request, outcome)
        head = _head(reply)
        if outcome is Fault.CUT:
            writer.write(head + reply.body[: len(reply.body) // 2])
            await writer.drain()
            raise ConnectionResetError
        if outcome is Fault.DRIP:
            await self._drip(head, reply.body, writer)
            return
        writer.write(head + reply.body)
        await writer.drain()

    async def _drip(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(self.drip_seconds)

    # Replies

    async def _reply(self, request: Request, fault: Fault | None) -> Reply:
        path = request.path.removeprefix("/v1")
        if path not in ("/chat/completions", "/responses", "/embeddings"):
            return Reply(404, b'{"error": {"code": "unknown_url"}}')
        if fault is Fault.EMPTY:
            return Reply(200, b"{}")
        if fault is Fault.PROSE and path == "/embeddings":
            return Reply(200, b"<html><body>Please sign in.</body></html>")
        body_json = request.json()
        if path == "/embeddings":
            answer = await self._embeddings(body_json, fault)
        else:
            text = "Sure! Here is what I think." if fault is Fault.PROSE else self._text(body_json)
            answer = _chat(text) if path == "/chat/completions" else _response(text)
        reply = json.dumps(answer).encode()
        return Reply(200, reply[: len(reply) // 2] if fault is Fault.TRUNCATED else reply)

    def _text(self, body_json: Any) -> str:
        return self.answer if isinstance(self.answer, str) else self.answer(body_json)

    async def _embeddings(self, body_json: Any, fault: Fault | None) -> dict[str, Any]:
        vectors = await self._embedder.embed(body_json["input"])
        if fault is Fault.WRONG_DIMENSIONS:
            vectors = [vector[:-1] for vector in vectors]
        if fault is Fault.NOT_FINITE:
            vectors[0][0] = float("nan")
        data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        if fault is Fault.ONE_SHORT:
            data.pop()
        if fault is Fault.SHUFFLED:
            data.reverse()
        return {"object": "list", "data": data, "model": body_json["model"]}


def _chat(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def _response(text: str) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"object": "response", "output": [{"type": "reasoning", "summary": []}, message]}


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request, or None when the peer has closed the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def _head(reply: Reply) -> bytes:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(reply.body)), **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} Told", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
