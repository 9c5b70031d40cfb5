"""An export ends when its key does or when its client is too slow, and never looks whole when it is not."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from recollect.core.models import Principal
from recollect.memory import AsyncMemory
from recollect.server import exports
from recollect.server.exports import MIN_BYTES_PER_SECOND, MIN_EXPORT_SECONDS, seconds_to_read
from support.serving import TIMEOUT_SECONDS, RunningServer, make_server, wait_for

PATH = "/api/v1/memory/export"
TEXT = "peanuts " * 24_000
MESSAGES = 8  # of this text: more than the buffers of a connection hold
BUFFER_BYTES = 65_536


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server on which Sara has much to export."""
    starting = make_server(str(tmp_path_factory.mktemp("exports") / "memory.db"))
    starting._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)  # of all its connections
    with starting as running:
        memory = running.memory.of(Principal("sara"))
        for number in range(MESSAGES):
            running.run(memory.add("trip", "user", f"{number} {TEXT}"))
        yield running


@contextmanager
def _reading_slowly(server: RunningServer, token: str) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
    """Begin an export whose first bytes are read, and whose others wait on their way."""
    transport = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)])
    headers = {"Authorization": f"Bearer {token}"}
    with (
        httpx.Client(base_url=server.url, headers=headers, transport=transport, timeout=TIMEOUT_SECONDS) as client,
        client.stream("GET", PATH) as reply,
    ):
        blocks = reply.iter_raw()
        assert next(blocks).startswith(b"{")
        yield reply, blocks


def _check_cut_off(reply: httpx.Response, blocks: Iterator[bytes], log: pytest.LogCaptureFixture, code: str) -> None:
    wait_for(lambda: "an export was cut off" in log.text)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        for _ in blocks:
            pass
    assert reply.num_bytes_downloaded < int(reply.headers["content-length"])
    (line,) = [record for record in log.records if record.levelno >= logging.WARNING]
    assert (line.getMessage(), line.__dict__["code"], line.exc_info) == ("an export was cut off", code, None)


def _export_again(server: RunningServer, token: str) -> httpx.Response:
    """Return the next export of a person, which is refused until the one before has given its slot back."""
    client = server.new_client(token)
    return wait_for(lambda: reply if (reply := client.get(PATH)).status_code == 200 else None)  # type: ignore[return-value]


def test_an_export_whose_key_is_revoked_is_cut_off(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    token, other = server.new_key("sara"), server.new_key("sara")
    with _reading_slowly(server, token) as (reply, blocks):
        server.run(server.access.revoke_key(token.split("_")[1]))
        _check_cut_off(reply, blocks, caplog, "access_ended")
    whole = _export_again(server, other)
    assert len(whole.content) == int(whole.headers["content-length"]) > MESSAGES * len(TEXT)


def test_an_export_that_is_read_too_slowly_is_cut_off_and_gives_its_slot_back(
    server: RunningServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.new_key("sara")
    with monkeypatch.context() as patch:
        patch.setattr(exports, "seconds_to_read", lambda _: 0.5)
        with _reading_slowly(server, token) as (reply, blocks):
            _check_cut_off(reply, blocks, caplog, "export_too_slow")
    assert _export_again(server, token).status_code == 200


def test_the_time_to_read_an_export_grows_with_its_size() -> None:
    assert seconds_to_read(0) == MIN_EXPORT_SECONDS
    assert seconds_to_read(1000 * MIN_BYTES_PER_SECOND) == MIN_EXPORT_SECONDS + 1000


def test_an_export_whose_key_is_revoked_before_it_is_sent_is_refused(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, other = server.new_key("sara"), server.new_key("sara")
    export, is_admitted, has_noticed = AsyncMemory.export, server.access.is_admitted, asyncio.Event()

    async def note(key: str, session: bytes | None) -> bool:
        if not (is_good := await is_admitted(key, session)):
            has_noticed.set()
        return is_good

    async def revoke_and_export(self: AsyncMemory, target: Any) -> int:
        await server.access.revoke_key(token.split("_")[1])
        await has_noticed.wait()
        return await export(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(server.access, "is_admitted", note)
        patch.setattr(AsyncMemory, "export", revoke_and_export)
        refused = server.new_client(token).get(PATH)
    assert (refused.status_code, refused.json()["code"]) == (403, "access_ended")
    assert _export_again(server, other).status_code == 200
