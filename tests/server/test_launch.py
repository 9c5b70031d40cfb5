"""`recollect serve` that is refused: one clear sentence, the right exit code, and nothing is created."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from recollect.admin.access import Access
from recollect.cli import app
from recollect.core.errors import InvalidInput, RecollectError
from recollect.memory import AsyncMemory
from recollect.server import launch
from recollect.server.app import ServerOptions, guard_rules
from recollect.server.launch import bind_socket, check_and_bind
from recollect.settings import Settings
from recollect.testing import FakeEmbedder
from support.serving import RunningServer

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the test is about that
ELSEWHERE = "192.0.2.1"  # no machine has this address


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def serve(folder: Path, *args: str) -> Any:
    return CliRunner().invoke(app, ["serve", "--db", str(folder / "memory.db"), *args])


def test_a_port_in_use_is_one_clear_sentence_with_exit_code_1_and_leaves_no_database(
    tmp_path: Path, taken_port: int
) -> None:
    refused = serve(tmp_path, "--port", str(taken_port))
    assert refused.exit_code == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"error: Another program listens on port {taken_port} of 127.0.0.1 already.")
    assert line.endswith("[port_in_use]")
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_of_this_machine_is_said_so(db: str) -> None:
    for host in (ELSEWHERE, "no-such-host.invalid"):
        with pytest.raises(RecollectError) as refused:
            bind_socket(ServerOptions(db=db, host=host, port=0))
        assert refused.value.code == "cannot_listen"
        assert host in str(refused.value)


@pytest.mark.parametrize(
    ("args", "environment", "code"),
    [
        (("--host", EVERYWHERE), {}, "keys_needed"),
        ((), {"RECOLLECT_SERVER_STREAMS": "none"}, "invalid_setting"),
        ((), {"RECOLLECT_MODEL_URL": "http://127.0.0.1:9/v1"}, "invalid_setting"),
        ((), {"RECOLLECT_SETTINGS": "mistyped.toml"}, "invalid_settings_file"),
        (("--preset", "no such preset"), {}, "unknown_preset"),
        (("--log-level", "loud"), {}, "invalid_log_level"),
        (("--person", " "), {}, "invalid_person"),
    ],
)
def test_a_refused_server_leaves_no_database_behind(
    args: tuple[str, ...], environment: dict[str, str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused = serve(tmp_path, "--port", "0", *args)
    assert refused.exit_code == 2
    assert f"[{code}]" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "code"), [("127.0.0.1", None), (EVERYWHERE, "keys_needed"), (ELSEWHERE, "cannot_listen")]
)
def test_a_start_makes_one_memory_to_check_the_options_and_closes_it(
    host: str, code: str | None, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories: list[AsyncMemory] = []
    closed: list[AsyncMemory] = []
    sockets: list[socket.socket] = []

    class CountedMemory(AsyncMemory):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            memories.append(self)

        async def close(self) -> None:
            closed.append(self)
            await super().close()

    def bind_and_keep(options: ServerOptions) -> socket.socket:
        sockets.append(bind_socket(options))
        return sockets[-1]

    def start(*_: Any, **__: Any) -> None:
        raise EOFError("all is checked")

    for name in ("OPENBLAS_NUM_THREADS", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "1")  # as the start does, but taken back
    monkeypatch.setattr(launch, "AsyncMemory", CountedMemory)
    monkeypatch.setattr(launch, "bind_socket", bind_and_keep)
    monkeypatch.setattr(launch.uvicorn, "Config", start)
    if host == ELSEWHERE:  # refused only because it is not of this machine, not because there is no key
        monkeypatch.setattr(launch, "is_loopback", lambda _: True)
    with pytest.raises(EOFError if code is None else RecollectError) as ended:
        launch.serve(ServerOptions(db=db, host=host, port=0), workers=1, ready=start)
    for bound in sockets:
        bound.close()
    assert getattr(ended.value, "code", None) == code
    assert len(memories) == 1
    assert closed == memories


def test_a_refused_server_makes_no_tables_in_postgresql(empty_pg: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(check_and_bind(ServerOptions(db=empty_pg, host=EVERYWHERE, port=0)))
    assert refused.value.code == "keys_needed"
    with closing(psycopg.connect(empty_pg)) as connection:
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema"
        assert connection.execute(tables).fetchone() == (0,)


def test_a_server_that_other_machines_reach_asks_for_a_key_also_after_the_operator_allowed_none(db: str) -> None:
    """The operator's word holds for loopback. A server that runs already is not opened to the network by it."""
    options = ServerOptions(db=db, host=EVERYWHERE, port=0)
    assert not guard_rules(options, Settings()).may_be_keyless
    memory = AsyncMemory(db, worker=False, embedder=FakeEmbedder())
    with RunningServer(memory, options=options) as server:
        key = server.run(server.access.create_key("sara"))
        server.run(server.access.revoke_key(key.id))
        server.run(server.access.allow_keyless())
        assert server.client.get("/api/v1/conversations").status_code == 401
    with pytest.raises(InvalidInput):
        asyncio.run(check_and_bind(options))


def test_a_running_server_asks_for_a_key_from_the_first_one_on_and_for_none_when_the_operator_says_so(
    location: str,
) -> None:
    async def elsewhere(act: Any) -> Any:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder()) as other:
            return await act(Access(other))

    with RunningServer(AsyncMemory(location, worker=False, embedder=FakeEmbedder())) as server:
        asked = [server.client.get("/api/v1/conversations").status_code]
        key = asyncio.run(elsewhere(lambda access: access.create_key("sara")))
        asked.append(server.client.get("/api/v1/conversations").status_code)
        asyncio.run(elsewhere(lambda access: access.revoke_key(key.id)))
        asked.append(server.client.get("/api/v1/conversations").status_code)
        asyncio.run(elsewhere(lambda access: access.allow_keyless()))
        asked.append(server.client.get("/api/v1/conversations").status_code)
    assert asked == [200, 401, 401, 200]


def test_readyz_asks_the_database_also_when_there_are_keys(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningServer(AsyncMemory(db, worker=False, embedder=FakeEmbedder())) as server:
        server.new_key("sara")
        reads: list[str] = []
        rows = server.memory.store.server_state
        ask = rows.requires_keys

        async def count() -> bool:
            reads.append("asked")
            return await ask()

        monkeypatch.setattr(rows, "requires_keys", count)
        assert server.client.get("/readyz").status_code == 200
        assert reads
