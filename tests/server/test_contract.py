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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx
import pytest
import uvicorn

from recollect import AsyncMemory, Settings
from recollect.admin.access import Access
from recollect.core.models import Principal
from recollect.server.app import ServerOptions, make_app
from recollect.testing import FakeEmbedder

ERASE_EVERYTHING = "DELETE /api/v1/memory"  # it revokes the key that all requests come with
ROUNDS = 6
SEED = 20261117
# Switches off Hypothesis' targeted search, which takes half of the time. The long lane uses it.
NO_TARGETED_SEARCH = "import hypothesis\n\nhypothesis.target = lambda *observed, **named: None\n"


@pytest.fixture
def keys_and_url(tmp_path: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the keys of three operators and the URL of a server, on a database in memory if possible."""
    folder = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path  # noqa: S108 - a disk of memory
    db = folder / f"contract-{os.getpid()}.db"
    tokens = asyncio.run(_prepare(str(db)))
    memory = AsyncMemory(db, embedder=FakeEmbedder(64), settings=Settings(server_rate_per_minute=0), worker=False)
    config = uvicorn.Config(make_app(ServerOptions(), memory=memory), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        assert client.get(f"{url}/healthz").status_code == 200
    yield tokens, url
    server.should_exit = True
    thread.join(300)
    for file in folder.glob(f"{db.name}*"):
        file.unlink()


async def _prepare(db: str) -> list[str]:
    """Create a key for each of three people, so that parallel trials do not meet, and return the tokens.

    Each person gets a conversation with topics, because no worker makes any during the trials.
    """
    async with AsyncMemory(db, embedder=FakeEmbedder(64), worker=False) as memory:
        access = Access(memory)
        tokens = []
        for person in ("sara", "omar", "lena"):
            own = memory.of(Principal(person))
            for n in range(6):
                text = f"Tell me of tea number {n}." if n % 2 else f"The train to Bern leaves at {n}."
                await own.add("trip", "user", text)
            tokens.append((await access.create_key(person, scopes=("read", "write", "admin"))).token or "")
        await memory.drain()
        return tokens


@pytest.mark.longest
@pytest.mark.kill
def test_the_server_keeps_its_contract_whatever_it_is_sent(
    keys_and_url: tuple[list[str], str], tmp_path: Path, full_count: bool
) -> None:
    (tokens, url), min_cases = keys_and_url, 200 if full_count else 100
    described = httpx.get(f"{url}/api/v1/openapi.json", headers={"Authorization": f"Bearer {tokens[0]}"}).json()[
        "paths"
    ]
    varied = [
        f"{method.upper()} {path}"
        for path, item in described.items()
        for method, operation in item.items()
        if _varies(operation) and f"{method.upper()} {path}" != ERASE_EVERYTHING
    ]
    trials = Trials(url, tokens, min_cases, tmp_path, full_count=full_count)
    cases = trials.run([("examples,coverage,stateful", ()), ("fuzzing", varied[::2]), ("fuzzing", varied[1::2])])
    for _ in range(ROUNDS):  # for operations whose cases are rarely generated
        few = [name for name in varied if cases[name] < min_cases]
        if not few:
            return
        cases += trials.run([("fuzzing", few[::2]), ("fuzzing", few[1::2])])
    few = [name for name in varied if cases[name] < min_cases]
    assert not few, f"fewer than {min_cases} cases: { {name: cases[name] for name in few} }"


class Trials:
    """Runs Schemathesis in processes. Its own threads would meet a bug of Python 3.11.

    The parser there counts the recursion depth of other threads as its own.
    """

    def __init__(self, url: str, tokens: Sequence[str], cases: int, folder: Path, *, full_count: bool) -> None:
        self._url, self._tokens, self._cases, self._folder = url, tokens, cases, folder
        self._full_count = full_count
        self._seeds = count(SEED)

    def run(self, parts: Sequence[tuple[str, Sequence[str]]]) -> Counter[str]:
        """Run the parts at once, and return how many cases each operation had. A part has phases and operations."""
        tried = [part for part in parts if part[1] or "stateful" in part[0]]
        with ThreadPoolExecutor() as pool:
            found = pool.map(self._run_part, tried, self._tokens, [next(self._seeds) for _ in tried])
            return sum(found, Counter[str]())

    def _run_part(self, part: tuple[str, Sequence[str]], token: str, seed: int) -> Counter[str]:
        (phases, names), folder = part, self._folder / str(seed)
        folder.mkdir()
        (folder / "hooks.py").write_text("" if self._full_count else NO_TARGETED_SEARCH)
        (folder / "schemathesis.toml").write_text(
            'hooks = "hooks.py"\n[generation]\nwith-security-parameters = false\n'
        )
        only = [word for name in names for word in ("--include-name", name)]
        seeded = () if self._full_count else ("--seed", str(seed))  # the long lane tries other cases each time
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{self._url}/api/v1/openapi.json", "--checks", "all",
            "--phases", phases, "--max-examples", str(self._cases), "--header", f"Authorization: Bearer {token}",
            "--exclude-name", ERASE_EVERYTHING, *only, *seeded, "--continue-on-failure", "--report", "ndjson",
            "--report-dir", str(folder / "report"), "--no-color", "--workers", "1",
        ]  # fmt: skip
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
        assert ran.returncode == 0, ran.stdout[-8000:]
        return _cases(next((folder / "report").glob("*.ndjson")))


def _varies(operation: dict[str, object]) -> bool:
    """Return whether an operation has parameters or a body; without them it has one case only."""
    return bool(operation.get("parameters") or operation.get("requestBody"))


def _cases(report: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in report.read_text("utf-8").splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        found[recorder.get("label", "")] += len(recorder.get("interactions", {}))
    return found
