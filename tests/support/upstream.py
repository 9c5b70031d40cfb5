"""A chat model on a free local port: whole answers, streams, tools and /models; and it fails on command.

    with ModelServer() as model:
        model.then(Trouble.CUT, Reply(429, headers={"Retry-After": "7"}))
        ...  # the next two requests fail in these ways, the third is answered

`Trouble.WAIT` sends half of an answer and waits for `resume()`, so that a test can act in the middle of an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from support.fault_server import Fault, FaultServer, Reply, Request

ANSWER = "Peanuts are what you cannot eat, and the ferry leaves at nine."
HUGE_PIECE_CHARACTERS = 300_000
HUGE_PIECES = 12


class Trouble(Enum):
    """Ways in which a chat model fails."""

    HANG = auto()  # takes the request, never answers
    DRIP = auto()  # sends bytes that never complete an event or a reply
    HANG_INSIDE = auto()  # half of the answer, then nothing more
    CUT = auto()  # the connection breaks in the middle
    UNFINISHED = auto()  # ends properly, but before the answer does
    HTML = auto()  # 200, and a page
    NOT_JSON = auto()  # the right framing, but no JSON in it
    WRONG_SHAPE = auto()  # JSON of the wrong shape
    EMPTY = auto()  # an answer without words
    ERROR_INSIDE = auto()  # an error object in the middle of the stream, or instead of an answer
    HUGE = auto()  # an answer too long to be stored
    WAIT = auto()  # no failure: half of the answer, and the rest after `resume()`


class ModelServer(FaultServer):
    """A model that answers with `answer`, streamed word by word if body, unless a failure is planned."""

    def __init__(self, answer: Any = ANSWER, *, names: tuple[str, ...] = ("gpt-test", "gpt-other")) -> None:
        super().__init__(answer=answer)
        self.names = names
        self.is_waiting = threading.Event()  # an answer has reached its middle
        self._resume = threading.Event()

    @property
    def bodies(self) -> list[Any]:
        """Return the bodies of all requests for answers so far."""
        return [request.json() for request in self.requests if request.path.endswith("/chat/completions")]

    def then(self, *faults: Any) -> None:
        """Plan the outcomes of the next requests, and clear `is_waiting`.

        It is cleared here and not when an answer resumes: that may be late, when the next answer waits already.
        """
        self.is_waiting.clear()
        super().then(*faults)

    def _takes_plan(self, request: Request) -> bool:
        """Say whether a planned outcome may be that of this request. A worker embeds messages whenever it likes."""
        return not request.path.endswith("/embeddings")

    def resume(self) -> None:
        self._resume.set()

    async def _respond(
        self, request: Request, outcome: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if isinstance(outcome, Reply | Fault) or not request.path.endswith("/chat/completions"):
            await super()._respond(request, outcome, reader, writer)
        elif outcome is Trouble.HANG:
            await reader.read()
            raise ConnectionResetError
        elif request.json().get("stream"):
            await self._stream(request.json(), outcome, reader, writer)
        else:
            await self._whole(request.json(), outcome, reader, writer)

    async def _reply(self, request: Request, fault: Fault | None) -> Reply:
        if request.path.endswith("/models"):
            data = [{"id": name, "object": "model", "created": 1, "owned_by": "tests"} for name in self.names]
            return Reply(200, json.dumps({"object": "list", "data": data}).encode())
        return await super()._reply(request, fault)

    # Whole

    async def _whole(
        self, body: Any, trouble: Trouble | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = json.dumps(self._completion(body, trouble)).encode()
        kind = "application/json"
        if trouble is Trouble.HTML:
            body, kind = b"<html>Please sign in.</html>", "text/html"
        elif trouble is Trouble.NOT_JSON:
            body = b'{"choices": [{'
        elif trouble is Trouble.WRONG_SHAPE:
            body = b'{"choices": "none"}'
        elif trouble is Trouble.ERROR_INSIDE:
            body = b'{"error": {"message": "overloaded", "code": "overloaded"}}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        half = len(body) // 2
        if trouble in (Trouble.CUT, Trouble.UNFINISHED):
            writer.write(head + body[:half])
            await writer.drain()
            raise ConnectionResetError
        if trouble in (Trouble.DRIP, Trouble.HANG_INSIDE):
            await self._drip_on(head, b" ", reader, writer, forever=trouble is Trouble.DRIP)
        if trouble is Trouble.WAIT:
            writer.write(head + body[:half])
            await self._wait(writer)
            head, body = b"", body[half:]
        writer.write(head + body)
        await writer.drain()

    def _completion(self, body: Any, trouble: Trouble | None) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": self._words(body, trouble)}
        reason = "stop"
        if trouble is Trouble.EMPTY:
            message["content"] = ""
        elif _wants_a_tool(body):
            message, reason = {"role": "assistant", "content": None, "tool_calls": [_call(body)]}, "tool_calls"
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }  # fmt: skip

    def _words(self, body: Any, trouble: Trouble | None) -> str:
        return "word " * (HUGE_PIECE_CHARACTERS * HUGE_PIECES // 5) if trouble is Trouble.HUGE else self._text(body)

    # Streams

    async def _stream(
        self, body: Any, trouble: Trouble | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        kind = "text/html" if trouble is Trouble.HTML else "text/event-stream"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        if trouble is Trouble.DRIP:
            await self._drip_on(b"", b"2\r\n: \r\n", reader, writer, forever=True)
        pieces = self._pieces(body, trouble)
        half = (len(pieces) + 1) // 2
        for index, piece in enumerate(pieces):
            if index == half and trouble is Trouble.HANG_INSIDE:
                await self._drip_on(b"", b"", reader, writer, forever=False)
            if index == half and trouble is Trouble.WAIT:
                await self._wait(writer)
            if index == half and trouble is Trouble.CUT:
                await writer.drain()
                raise ConnectionResetError
            if index == half and trouble is Trouble.ERROR_INSIDE:
                piece = b'data: {"error": {"message": "overloaded", "code": "overloaded"}}\n\n'
            if index == half and trouble is Trouble.UNFINISHED:
                break
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _pieces(self, body: Any, trouble: Trouble | None) -> list[bytes]:
        if trouble is Trouble.HTML:
            return [b"<html>Please sign in.</html>"]
        if trouble is Trouble.NOT_JSON:
            return [b"data: {nothing of the kind\n\n", b"data: [DONE]\n\n"]
        if trouble is Trouble.WRONG_SHAPE:
            return [b'data: ["a", 1]\n\n', b"data: [DONE]\n\n"]
        deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
        reason = "stop"
        if trouble is Trouble.HUGE:
            deltas += [({"content": "word " * (HUGE_PIECE_CHARACTERS // 5)}, None)] * HUGE_PIECES
        elif trouble is not Trouble.EMPTY and _wants_a_tool(body):
            call, reason = _call(body), "tool_calls"
            arguments = call["function"]["arguments"]
            first_call = {"index": 0, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
            deltas += [({"tool_calls": [first_call]}, None)]
            deltas += [
                ({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}, None)
                for part in (arguments[:5], arguments[5:])
            ]
        elif trouble is not Trouble.EMPTY:
            deltas += [({"content": word}, None) for word in self._text(body).replace(" ", " \0").split("\0")]
        deltas.append(({}, reason))
        chunks = [_chunk(body, [{"index": 0, "delta": delta, "finish_reason": end}]) for delta, end in deltas]
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(
                _chunk(body, []) | {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}
            )
        return [*(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]

    async def _wait(self, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        self.is_waiting.set()
        await asyncio.to_thread(self._resume.wait, 20)
        self._resume.clear()

    async def _drip_on(
        self, head: bytes, drop: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, forever: bool
    ) -> None:
        """Send `head`, then drops of data if `forever`, until the client gives up."""
        writer.write(head)
        gone = asyncio.ensure_future(reader.read())
        self.is_waiting.set()
        try:
            while not gone.done():
                if forever:
                    writer.write(drop)
                    await writer.drain()
                await asyncio.wait([gone], timeout=self.drip_seconds)
        finally:
            gone.cancel()
        raise ConnectionResetError


def _wants_a_tool(body: Any) -> bool:
    """Return whether to call a tool: the request offers one and has no result yet."""
    return bool(body.get("tools")) and body["messages"][-1]["role"] != "tool"


def _call(body: Any) -> dict[str, Any]:
    function = {
        "name": body["tools"][0].get("function", {}).get("name", "unknown"),
        "arguments": '{"city":"Jeddah","days":2}',
    }
    return {"id": f"call_{len(body['messages'])}", "type": "function", "function": function}


def _chunk(body: Any, choices: list[Any]) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    return head | {"choices": choices}


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port that is reserved, so that connections to it are refused."""
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
