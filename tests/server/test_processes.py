"""`recollect serve` as real processes: several on one file, stopped by SIGTERM, killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import pytest

import recollect
from recollect import AsyncMemory, Memory
from recollect.admin.access import Access
from recollect.server.worker_process import LogOptions, WorkerProcess
from recollect.testing import FakeEmbedder
from support.serving import TIMEOUT_SECONDS, parse_events, wait_for
from support.upstream import ANSWER, ModelServer, Trouble

pytestmark = pytest.mark.kill

HALF = "Peanuts are what you cannot eat, and "
PLANTED = "import pathlib; pathlib.Path('planted.txt').write_text('ran')\nraise SystemExit(7)\n"
MODULE = (sys.executable, "-m", "recollect")  # `-m` lets Python itself import from the current folder
SCRIPT = (str(Path(sys.executable).parent / "recollect"),)


class Process:
    """`recollect serve` in a process of its own, until the context ends."""

    def __init__(
        self,
        folder: Path,
        model: ModelServer,
        *,
        workers: int = 1,
        await_answer: bool = True,
        program: Sequence[str] = MODULE,
    ) -> None:
        self._await_answer = await_answer
        source = str(Path(recollect.__file__).parents[1])
        settings = {
            "MODEL_URL": model.url, "MODEL_NAME": "gpt-test", "EMBEDDER_URL": model.url, "EMBEDDER_NAME": "fake",
            "EMBEDDER_DIMENSIONS": "8", "SERVER_RATE_PER_MINUTE": "0", "PROVIDER_RETRIES": "0",
            "PROVIDER_TIMEOUT_SECONDS": "3600", "CHAT_TIMEOUT_SECONDS": "3600",  # a model that waits is not given up
        }  # fmt: skip
        environment = {f"RECOLLECT_{name}": value for name, value in settings.items()}
        self._popen = subprocess.Popen(
            [*program, "serve", "--port", "0", "--workers", str(workers), "--json-logs"],
            cwd=folder,
            env=os.environ | environment | {"PYTHONPATH": source},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stderr_lines: list[str] = []
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.url = ""

    def _read(self) -> None:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            self.stderr_lines.append(line)
            found = re.search(r"listens on (http://\S+)", line)
            if found:
                self.url = found[1]
                self._listens.set()
        self._listens.set()

    def __enter__(self) -> Process:
        assert self._listens.wait(300)
        assert self.url, "".join(self.stderr_lines)
        if self._await_answer:
            wait_for(self.answers)
        return self

    def answers(self, seconds: float = 300) -> bool:
        """Say whether it answers within some seconds."""
        with self.client() as client, suppress(httpx.ConnectError, httpx.TimeoutException):
            return client.get("/healthz", timeout=seconds).status_code == 200
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait(TIMEOUT_SECONDS)
        self._thread.join(TIMEOUT_SECONDS)
        assert self._popen.stderr is not None
        self._popen.stderr.close()

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=300, trust_env=False)

    def workers(self) -> list[int]:
        """Return the process ids of its serving processes."""
        pid = self._popen.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if _is_worker(child)]

    def kill(self) -> None:
        """Kill the process that started the others."""
        self._popen.kill()
        self._popen.wait(TIMEOUT_SECONDS)

    def end(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self._popen.send_signal(signal.SIGTERM)
        return self._popen.wait(TIMEOUT_SECONDS)


@pytest.fixture
def start(tmp_path: Path, model: ModelServer) -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(Process(tmp_path, model, **more))


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, shared_model: ModelServer
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Yield clients of two servers on one file, with the key of an operator."""
    folder = tmp_path_factory.mktemp("pair")
    token = asyncio.run(_first_key(folder))
    with ExitStack() as stack:
        servers = [stack.enter_context(Process(folder, shared_model)) for _ in range(2)]
        here, elsewhere = (stack.enter_context(server.client()) for server in servers)
        for client in (here, elsewhere):
            client.headers["Authorization"] = f"Bearer {token}"
        yield here, elsewhere


async def _first_key(folder: Path) -> str:
    async with AsyncMemory(folder / "recollect.db", worker=False, embedder=FakeEmbedder(8)) as memory:
        key = await Access(memory).create_key("root", scopes=("read", "write", "admin"))
        return key.token or ""


def _history(folder: Path, conversation: str) -> list[Any]:
    with Memory(folder / "recollect.db", worker=False, embedder=FakeEmbedder(8)) as memory:
        return memory.history(conversation)


def test_a_server_answers_as_soon_as_it_says_that_it_listens(start: Any) -> None:
    assert start(await_answer=False).answers()


def test_two_processes_store_200_messages_at_once_without_a_gap_and_a_killed_one_is_replaced_and_none_imports_from_here(
    start: Any, tmp_path: Path
) -> None:
    """A folder that somebody sent may hold a module by the name of one that Python or Recollect imports."""
    for name in ("pickle", "apsw", "typer", "selectors", "recollect"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    planted = tmp_path / "planted.txt"
    server = start(workers=2, program=SCRIPT, await_answer=False)
    wait_for(lambda: planted.exists() or server.answers(seconds=1))
    assert not planted.exists()
    first = wait_for(lambda: server.workers() if len(server.workers()) == 2 else [])

    async def add_all() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(base_url=server.url, timeout=300, trust_env=False, limits=limits) as client:
            path = "/api/v1/conversations/trip/messages"
            adding = (client.post(path, json={"role": "user", "content": f"message {n}"}) for n in range(200))
            return await asyncio.gather(*adding)

    replies = asyncio.run(add_all())
    assert {reply.status_code for reply in replies} == {201}
    stored = _history(tmp_path, "trip")
    assert [message.seq for message in stored] == list(range(1, 201))
    assert {message.content for message in stored} == {f"message {n}" for n in range(200)}

    os.kill(first[0], signal.SIGKILL)
    now = wait_for(lambda: found if len(found := server.workers()) == 2 and first[0] not in found else [])
    assert first[1] in now
    with server.client() as client:
        for _ in range(10):
            assert client.get("/healthz", headers={"Connection": "close"}).status_code == 200
        listed = client.get("/api/v1/conversations/trip/messages", params={"limit": 1000}).json()
        assert len(listed["messages"]) == 200
        assert "recollect_requests_total" in client.get("/metrics").text
    # Until the worker has done its work: by then all kinds of processes have imported all that they import.
    with Memory(tmp_path / "recollect.db", worker=False, embedder=FakeEmbedder(8)) as memory:
        wait_for(lambda: memory.stats()["counted"])
    assert not planted.exists()
    assert server.end() == 0


def test_a_stop_that_lands_in_another_process_stops_the_answer(
    pair: tuple[httpx.Client, httpx.Client], shared_model: ModelServer
) -> None:
    here, elsewhere = pair
    shared_model.then(Trouble.WAIT)
    path = "/api/v1/conversations/trip/chat"
    with here.stream("POST", path, json={"content": "Go on and on."}) as reply:
        assert shared_model.is_waiting.wait(TIMEOUT_SECONDS)
        assert elsewhere.post(f"{path}/stop").json() == {"stopped": 0}
        text = reply.read().decode()  # ends although the model still waits
    shared_model.resume()
    done = dict(parse_events(text))["done"]
    assert (done["stopped"], done["message"]["content"]) == (True, HALF)
    listed = elsewhere.get("/api/v1/conversations/trip/messages").json()["messages"]
    assert listed[1]["metadata"]["incomplete"] == "stopped"
    again = here.post(path, json={"content": "And now?"}).text
    assert dict(parse_events(again))["done"]["message"]["content"] == ANSWER


def test_a_stop_that_lands_in_another_process_also_stops_an_answer_that_is_not_stored(
    pair: tuple[httpx.Client, httpx.Client], shared_model: ModelServer
) -> None:
    here, elsewhere = pair
    shared_model.then(Trouble.HANG_INSIDE)
    path = "/api/v1/conversations/secret/chat"
    with here.stream("POST", path, json={"content": "Go on and on.", "memory": "off"}) as reply:
        assert shared_model.is_waiting.wait(TIMEOUT_SECONDS)
        elsewhere.post(f"{path}/stop")
        try:
            text = reply.read().decode()
        except httpx.ReadTimeout:
            text = ""
    here.post(f"{path}/stop")
    assert dict(parse_events(text))["done"]["stopped"]


def test_a_repeat_that_lands_in_another_process_is_stored_once(
    pair: tuple[httpx.Client, httpx.Client], shared_model: ModelServer
) -> None:
    here, elsewhere = pair
    path, key, asked = "/api/v1/conversations/once/chat", {"Idempotency-Key": "once"}, len(shared_model.bodies)
    first = dict(parse_events(here.post(path, json={"content": "Once."}, headers=key).text))["done"]
    again = dict(parse_events(elsewhere.post(path, json={"content": "Once."}, headers=key).text))["done"]
    assert first["message"] == again["message"]
    assert elsewhere.post(path, json={"content": "Twice."}, headers=key).status_code == 409
    assert len(shared_model.bodies) == asked + 1
    assert len(here.get("/api/v1/conversations/once/messages").json()["messages"]) == 2


def test_a_key_that_is_revoked_in_one_process_is_refused_in_the_other(
    pair: tuple[httpx.Client, httpx.Client],
) -> None:
    here, elsewhere = pair
    key = elsewhere.post("/api/v1/keys", json={"person": "sara"}).json()
    as_sara = {"Authorization": f"Bearer {key['token']}"}
    assert here.get("/api/v1/conversations", headers=as_sara).status_code == 200
    assert here.delete(f"/api/v1/keys/{key['id']}").status_code == 204
    assert elsewhere.get("/api/v1/conversations", headers=as_sara).status_code == 401
    assert here.get("/api/v1/conversations").status_code == 200


class StoppedAnswer:
    """A server that gets SIGTERM while it writes an answer: what the client heard, and the exit code."""

    def __init__(self, server: Process, model: ModelServer, way: str) -> None:
        model.then(Trouble.WAIT)
        path = "/api/v1/conversations/trip/chat" if way == "chat" else "/v1/chat/completions"
        body: Any = {"content": "Go on."}
        if way == "stream":
            body = {
                "messages": [{"role": "user", "content": "Go on."}],
                "stream": True,
                "metadata": {"conversation": "trip"},
            }
        self.heard = ""
        with server.client() as client, client.stream("POST", path, json=body) as reply:
            lines = reply.iter_lines()
            while "and " not in next(lines):
                pass
            self.code = server.end()  # although the model still waits
            with suppress(httpx.HTTPError):  # the client may be cut off; only the stored answer counts
                for line in lines:
                    self.heard += f"{line}\n"
        model.resume()


@pytest.mark.parametrize(("way", "workers"), [("chat", 2), ("stream", 1)])
def test_a_server_ends_after_sigterm_and_stores_what_was_written_of_an_answer(
    way: str, workers: int, start: Any, model: ModelServer, tmp_path: Path
) -> None:
    server = start(workers=workers)
    stopped = StoppedAnswer(server, model, way)
    assert stopped.code == 0, "".join(server.stderr_lines)
    question, answer = _history(tmp_path, "trip")
    assert (question.role, question.content) == ("user", "Go on.")
    assert (answer.role, answer.content) == ("assistant", HALF)
    assert answer.metadata["incomplete"]
    assert "Go on." not in "".join(server.stderr_lines)


def test_a_client_gets_its_last_event_when_the_server_stops_and_no_traceback_is_logged(
    start: Any, model: ModelServer
) -> None:
    server = start()
    stopped = StoppedAnswer(server, model, "chat")
    assert "event: done" in stopped.heard
    assert "Traceback" not in "".join(server.stderr_lines)


def test_the_processes_of_a_killed_server_end_and_leave_its_port(start: Any) -> None:
    server = start(workers=2)
    serving = wait_for(lambda: server.workers() if len(server.workers()) == 2 else [])
    port = httpx.URL(server.url).port
    server.kill()
    wait_for(lambda: not any(_is_running(process) for process in serving))
    with socket.create_server(("127.0.0.1", port)):
        pass  # nobody holds it any more


def _is_worker(process: str) -> bool:
    """Say whether a process is one that serves. It may have ended meanwhile."""
    try:
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def _is_running(process: int) -> bool:
    """Say whether a process runs. One that has ended may wait for somebody to take note of it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_worker_beside_the_server_logs_as_json_too_with_times_that_have_an_offset(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDER_URL", "http://127.0.0.1:9/v1")  # nobody answers, which is logged
    monkeypatch.setenv("RECOLLECT_EMBEDDER_NAME", "gone")
    monkeypatch.setenv("RECOLLECT_PROVIDER_RETRIES", "0")
    with Memory(tmp_path / "memory.db", worker=False, embedder=FakeEmbedder()) as memory:
        memory.add("trip", "user", "I like tea.")
    lines: list[str] = []

    def find_line() -> str | None:
        lines.extend(capfd.readouterr().err.splitlines())
        return next((line for line in lines if "failed" in line), None)

    with WorkerProcess(str(tmp_path / "memory.db"), "local", None, LogOptions(as_json=True)):
        line = wait_for(find_line)
    assert datetime.fromisoformat(json.loads(line or "")["time"]).tzinfo is not None


def test_the_commands_that_the_server_prints_work(start: Any, tmp_path: Path) -> None:
    server = start()
    curl, client, quoting, chat = wait_for(lambda: _commands_to_try(server.stderr_lines))
    events = _shell(curl, tmp_path) if shutil.which("curl") else _as_curl(curl)
    assert "event: sources" in events and "event: done" in events
    assert ANSWER in events or "allergic" in events
    assert ANSWER in _shell(client, tmp_path)  # the model that is configured
    assert "allergic to peanuts" in _shell(quoting, tmp_path)  # model="recollect": it quotes what it remembers
    assert ANSWER in _shell(chat, tmp_path, "What can I not eat?\n")


def _commands_to_try(stderr_lines: list[str]) -> list[str]:
    """Return the commands that `serve` prints, or nothing while not all of them are printed."""
    text = "".join(stderr_lines)
    _, _, rest = text.partition("in another terminal:\n")
    lines = [line.strip() for line in rest.split("\n") if line.startswith("  ")]
    return lines if "/api/docs" in rest else []


def _shell(line: str, folder: Path, typed: str = "") -> str:
    """Run a line in a shell, and return what it prints."""
    quiet = {"RECOLLECT_DB": str(folder / "other.db"), "PYTHONWARNINGS": "ignore"}
    environment = os.environ | quiet
    ran = subprocess.run(["sh", "-c", line], cwd=folder, input=typed, capture_output=True, text=True, env=environment)
    assert ran.returncode in (0, 5), ran.stderr  # 5: vectors are a moment behind
    return ran.stdout


def _as_curl(line: str) -> str:
    """Send the request of a curl command without curl."""
    words = shlex.split(line)
    body = words[words.index("-d") + 1]
    return httpx.post(words[2], content=body, headers={"Content-Type": "application/json"}, timeout=300).text
