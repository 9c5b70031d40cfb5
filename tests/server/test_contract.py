"""The REST contract: Schemathesis with all checks, against a real server, by the OpenAPI that it serves."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from recollect import AsyncMemory, Settings
from recollect.access import Access
from recollect.server.app import Options, make_app
from recollect.testing import FakeEmbedder

PHASES = "examples,coverage,fuzzing,stateful"
ROUNDS = 6
SEED = 20261117


@pytest.fixture
def key_and_url(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A server with a key of the operator, on a file that no disk slows down."""
    folder = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path  # noqa: S108 - a disk of memory
    db = folder / f"contract-{os.getpid()}.db"
    token = asyncio.run(_prepare(str(db)))
    memory = AsyncMemory(db, embedder=FakeEmbedder(64), settings=Settings(server_rate_per_minute=0), worker=False)
    config = uvicorn.Config(make_app(Options(), memory=memory), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        assert client.get(f"{url}/healthz").status_code == 200
    yield token, url
    server.should_exit = True
    thread.join(20)
    for file in folder.glob(f"{db.name}*"):
        file.unlink()


async def _prepare(db: str) -> str:
    """A key of the operator, and a conversation with topics: no worker makes any while the server is tried."""
    async with AsyncMemory(db, person="sara", embedder=FakeEmbedder(64), worker=False) as memory:
        for n in range(6):
            said = f"Tell me of tea number {n}." if n % 2 else f"The train to Bern leaves at {n}."
            await memory.add("trip", "user", said)
        await memory.drain()
        made = await Access(memory.store, memory.clock).create_key("sara", scopes=("read", "write", "admin"))
        return made.token or ""


@pytest.mark.longest
@pytest.mark.kill
def test_the_server_keeps_its_contract_whatever_it_is_sent(
    key_and_url: tuple[str, str], tmp_path: Path, full_count: bool
) -> None:
    (token, url), wanted = key_and_url, 200 if full_count else 100
    described = httpx.get(f"{url}/api/v1/openapi.json", headers={"Authorization": f"Bearer {token}"}).json()["paths"]
    varied = [
        f"{method.upper()} {path}"
        for path, item in described.items()
        for method, operation in item.items()
        if _varies(operation)
    ]
    cases: Counter[str] = Counter()
    phases, few = PHASES, list[str]()
    for number in range(ROUNDS):  # where all are tried together some get fewer cases, and have their own rounds then
        seed = () if full_count else ("--seed", str(SEED + number))  # the long lane looks for what nobody thought of
        only = [word for name in few for word in ("--include-name", name)]
        cases += _tried(url, token, wanted, phases, (*only, *seed), tmp_path / str(number))
        phases, few = "fuzzing", [name for name in varied if cases[name] < wanted]
        if not few:
            return
    assert not few, f"fewer than {wanted} cases: { {name: cases[name] for name in few} }"


def _tried(url: str, token: str, wanted: int, phases: str, only: tuple[str, ...], folder: Path) -> Counter[str]:
    """How many cases of each operation were tried; all of them went well."""
    folder.mkdir()
    (folder / "schemathesis.toml").write_text("[generation]\nwith-security-parameters = false\n")
    report = folder / "report"
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json", "--checks", "all",
        "--phases", phases, "--max-examples", str(wanted), "--header", f"Authorization: Bearer {token}", *only,
        "--continue-on-failure", "--report", "ndjson", "--report-dir", str(report), "--no-color", "--workers", "2",
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stdout[-8000:]
    return _cases(next(report.glob("*.ndjson")))


def _varies(operation: dict[str, object]) -> bool:
    """Whether there is anything to vary: an operation without parameters is one case."""
    return bool(operation.get("parameters") or operation.get("requestBody"))


def _cases(report: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in report.read_text("utf-8").splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        found[recorder.get("label", "")] += len(recorder.get("interactions", {}))
    return found
