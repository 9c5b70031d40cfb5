"""Reading a model's stream of events: however it is cut, in linear time, and up to a size."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.answer_pieces import StreamedAnswer
from recollect.core.errors import ProviderUnavailable
from recollect.providers import endpoint
from recollect.providers.chat import Upstream
from recollect.providers.event_stream import EventDecoder
from support.fault_server import Reply
from support.growth import assert_linear
from support.provider_calls import ASK, FakeTime, run
from support.upstream import ModelServer

STREAM = '\ufeffdata: {"a": "tea"}\n\n: a comment\nevent: x\nid: 7\ndata:first\ndata: قهوة 🍵\n\n\ndata: [DONE]\n\n'
EVENTS = ['{"a": "tea"}', "first\nقهوة 🍵", "[DONE]"]


def decode(chunks: Iterable[bytes]) -> list[str]:
    decoder = EventDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.end()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_lines_end_and_the_stream_is_cut(line_end: str, size: int) -> None:
    data = STREAM.replace("\n", line_end).encode()
    assert decode(data[start : start + size] for start in range(0, len(data), size)) == EVENTS


@given(
    st.lists(st.sampled_from(["data: x", "data", ": c", "", "\r", "\n", "\r\n", "é", "data:"]), max_size=30), st.data()
)
def test_cuts_never_change_what_is_read(parts: list[str], data: st.DataObject) -> None:
    stream = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    assert decode(stream[start:end] for start, end in pairwise(bounds)) == decode([stream])


def test_the_last_event_needs_no_line_end() -> None:
    assert decode([b"data: a\n\ndata: b"]) == ["a", "b"]
    assert decode([b"data: a\n\ndata: b\n"]) == ["a", "b"]
    assert decode([b""]) == []


def test_characters_may_be_cut_and_bytes_that_are_not_utf8_are_replaced() -> None:
    assert decode([b"data: \xd9", b"\x82\xff\n\n"]) == ["\u0642\ufffd"]


@pytest.mark.parametrize("size", [1, 64])
def test_a_long_line_is_read_in_linear_time(size: int) -> None:
    def chunks(n: int) -> list[bytes]:
        line = b'data: {"content": "' + b"x" * (n * size) + b'"}\n\n'
        return [line[start : start + size] for start in range(0, len(line), size)]

    assert_linear(decode, chunks, 10_000)


def test_many_short_lines_are_read_in_linear_time() -> None:
    assert_linear(decode, lambda n: [b"data: x\n\n" * n], 20_000)
    assert_linear(decode, lambda n: [b"data: x\n" * n], 20_000)


@pytest.mark.parametrize("kind", ["content", "refusal", "arguments"])
def test_an_answer_of_many_pieces_is_put_together_in_linear_time(kind: str) -> None:
    def delta(piece: str) -> dict[str, Any]:
        if kind != "arguments":
            return {kind: piece}
        return {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "", "arguments": piece}}]}

    chunk = {"choices": [{"index": 0, "delta": delta("wxyz" * 8)}]}

    def collect(chunks: list[Any]) -> StreamedAnswer:
        answer = StreamedAnswer()
        for chunk in chunks:
            answer.add_chunk(chunk)
            assert answer.length >= 0
            assert not answer.is_empty
        return answer

    assert_linear(collect, lambda n: [chunk] * n, 20_000)
    answer = collect([chunk] * 3)
    calls = answer.tool_calls or [{"function": {"arguments": ""}}]
    assert answer.content + answer.refusal + calls[0]["function"]["arguments"] == "wxyz" * 24


# Through HTTP


def read(server: ModelServer, body: bytes) -> list[Any]:
    """Return the pieces that a stream with this body gives, and the code of its failure, if it fails."""

    async def story(upstream: Upstream) -> list[Any]:
        pieces: list[Any] = []
        try:
            async with aclosing(upstream.stream({"model": "m", "messages": ASK})) as stream:
                async for piece in stream:
                    pieces.append(piece)
        except ProviderUnavailable as error:
            pieces.append(error.code)
        return pieces

    server.then(Reply(200, body, {"Content-Type": "text/event-stream"}))
    return list(run(Upstream(server.url, "m", timing=FakeTime().timing), story))


def test_a_line_of_several_megabytes_is_read_whole() -> None:
    text = "x" * (endpoint.MAX_EVENT_BYTES - 1000)
    with ModelServer() as server:
        pieces = read(server, b"data: " + json.dumps({"content": text}).encode() + b"\n\ndata: [DONE]\n\n")
    assert pieces == [{"content": text}]


def test_a_piece_or_an_answer_that_is_too_large_is_a_bad_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_EVENT_BYTES", 100_000)
    monkeypatch.setattr(endpoint, "MAX_REPLY_BYTES", 300_000)
    small = b'data: {"content": "' + b"x" * 1000 + b'"}\n\n'
    with ModelServer() as server:
        assert read(server, b"data: " + b"x" * 200_000) == ["provider_bad_reply"]
        assert read(server, b"data: x\n" * 20_000) == ["provider_bad_reply"]
        assert read(server, small * 400)[-1] == "provider_bad_reply"
        assert len(read(server, small * 200 + b"data: [DONE]\n\n")) == 200
