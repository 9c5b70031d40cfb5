"""A chat model on a free local port: whole answers, streams, tools and /models; and it fails on command.

    with ModelServer() as model:
        model.then(Trouble.CUT, Reply(429, headers={"Retry-After": "7"}))
        ...  # the next two requests fail in these ways, the third is answered

`Trouble.WAIT` sends half of an answer and waits for `go_on()`, so that tests meet an answer in its middle.
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
HUGE = 300_000  # characters of a piece, of which there are twelve


class Trouble(Enum):
    """Ways in which a chat model fails."""

    HANG = auto()  # takes the request, never answers
    DRIP = auto()  # bytes that never make a whole event, or a whole reply
    HANG_INSIDE = auto()  # half of the answer, then nothing more
    CUT = auto()  # the connection breaks in the middle
    UNFINISHED = auto()  # ends properly, but before the answer does
    HTML = auto()  # 200, and a page
    NOT_JSON = auto()  # the right form, with something else in it
    WRONG_SHAPE = auto()  # JSON of the wrong shape
    EMPTY = auto()  # an answer without words
    ERROR_INSIDE = auto()  # an error object in the middle of the stream, or instead of an answer
    HUGE = auto()  # more than anybody can keep
    WAIT = auto()  # no trouble: half of the answer, and the rest at `go_on()`


class ModelServer(FaultServer):
    """Answers with `answer`, a word at a time where a stream is asked for, unless told otherwise."""

    def __init__(self, answer: Any = ANSWER, *, names: tuple[str, ...] = ("gpt-test", "gpt-other")) -> None:
        super().__init__(answer=answer)
        self.names = names
        self.is_waiting = threading.Event()  # an answer has reached its middle
        self._go_on = threading.Event()

    @property
    def asked(self) -> list[Any]:
        """The bodies of requests for answers."""
        return [request.json() for request in self.requests if request.path.endswith("/chat/completions")]

    def then(self, *faults: Any) -> None:
        """Also: nobody waits yet. An answer does not say itself that it has gone on, since it may say so late, when the
        next one waits already."""
        self.is_waiting.clear()
        super().then(*faults)

    def go_on(self) -> None:
        self._go_on.set()

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
        self, asked: Any, trouble: Trouble | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = json.dumps(self._completion(asked, trouble)).encode()
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

    def _completion(self, asked: Any, trouble: Trouble | None) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": self._words(asked, trouble)}
        reason = "stop"
        if trouble is Trouble.EMPTY:
            message["content"] = ""
        elif _wants_a_tool(asked):
            message, reason = {"role": "assistant", "content": None, "tool_calls": [_call(asked)]}, "tool_calls"
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }  # fmt: skip

    def _words(self, asked: Any, trouble: Trouble | None) -> str:
        return "word " * (HUGE * 12 // 5) if trouble is Trouble.HUGE else self._text(asked)

    # Streams

    async def _stream(
        self, asked: Any, trouble: Trouble | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        kind = "text/html" if trouble is Trouble.HTML else "text/event-stream"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        if trouble is Trouble.DRIP:
            await self._drip_on(b"", b"2\r\n: \r\n", reader, writer, forever=True)
        pieces = self._pieces(asked, trouble)
        half = (len(pieces) + 1) // 2
        for place, piece in enumerate(pieces):
            if place == half and trouble is Trouble.HANG_INSIDE:
                await self._drip_on(b"", b"", reader, writer, forever=False)
            if place == half and trouble is Trouble.WAIT:
                await self._wait(writer)
            if place == half and trouble is Trouble.CUT:
                await writer.drain()
                raise ConnectionResetError
            if place == half and trouble is Trouble.ERROR_INSIDE:
                piece = b'data: {"error": {"message": "overloaded", "code": "overloaded"}}\n\n'
            if place == half and trouble is Trouble.UNFINISHED:
                break
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _pieces(self, asked: Any, trouble: Trouble | None) -> list[bytes]:
        if trouble is Trouble.HTML:
            return [b"<html>Please sign in.</html>"]
        if trouble is Trouble.NOT_JSON:
            return [b"data: {nothing of the kind\n\n", b"data: [DONE]\n\n"]
        if trouble is Trouble.WRONG_SHAPE:
            return [b'data: ["a", 1]\n\n', b"data: [DONE]\n\n"]
        deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
        reason = "stop"
        if trouble is Trouble.HUGE:
            deltas += [({"content": "word " * (HUGE // 5)}, None)] * 12
        elif trouble is not Trouble.EMPTY and _wants_a_tool(asked):
            call, reason = _call(asked), "tool_calls"
            arguments = call["function"]["arguments"]
            begun = {"index": 0, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
            deltas += [({"tool_calls": [begun]}, None)]
            deltas += [
                ({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}, None)
                for part in (arguments[:5], arguments[5:])
            ]
        elif trouble is not Trouble.EMPTY:
            deltas += [({"content": word}, None) for word in self._text(asked).replace(" ", " \0").split("\0")]
        deltas.append(({}, reason))
        chunks = [_chunk(asked, [{"index": 0, "delta": delta, "finish_reason": end}]) for delta, end in deltas]
        if (asked.get("stream_options") or {}).get("include_usage"):
            chunks.append(
                _chunk(asked, []) | {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}
            )
        return [*(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]

    async def _wait(self, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        self.is_waiting.set()
        await asyncio.to_thread(self._go_on.wait, 20)
        self._go_on.clear()

    async def _drip_on(
        self, head: bytes, drop: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, forever: bool
    ) -> None:
        """Until the peer gives up."""
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


def _wants_a_tool(asked: Any) -> bool:
    """A tool is called where there is one and its result is not there yet."""
    return bool(asked.get("tools")) and asked["messages"][-1]["role"] != "tool"


def _call(asked: Any) -> dict[str, Any]:
    function = {"name": asked["tools"][0]["function"]["name"], "arguments": '{"city":"Jeddah","days":2}'}
    return {"id": f"call_{len(asked['messages'])}", "type": "function", "function": function}


def _chunk(asked: Any, choices: list[Any]) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    return head | {"choices": choices}


@contextmanager
def closed_port() -> Iterator[int]:
    """A port where nobody answers, and nobody else begins to meanwhile."""
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
