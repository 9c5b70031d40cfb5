"""Measures the server over loopback with 50,000 stored messages: contexts, added messages, open streams.

    python -m bench.server [--small] [--messages 50000] [--workers 2] [--seconds 10] [--data PATH] [--store FILE]

Contexts a second are compared with the embedder alone on the same cores. That is the limit, because every question is
new and must be embedded. The load comes from this process, over plain sockets; its own processor time is printed.
Then comes a burst of messages, and the time until the index has caught up by itself. At last, reads are measured beside
1,000 open streams that wait for an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench import data
from bench.context import ALONE, PEOPLE, TALKS, Spent, embed, fill
from bench.measures import Report, percentile
from recollect import AsyncMemory
from recollect.admin.access import Access
from recollect.providers.minilm import MiniLM

READERS: Final = 8  # connections that ask for contexts or messages at once
WRITERS: Final = 64  # connections that add messages at once
ROUNDS: Final = 10  # in which the embedder alone and contexts are measured in turn
OPEN_STREAMS: Final = 1000
MIN_CONTEXT_SHARE, CONTEXT_SHARE_GOAL = 0.5, 0.8  # of the embedder's rate
MIN_ADDS_PER_SECOND, ADDS_PER_SECOND_GOAL = 500, 2000
MAX_SLOWDOWN: Final = 1.5  # of reads beside open streams
MAX_SHUTDOWN_SECONDS: Final = 10


class Connection:
    """A connection that is kept open. It costs a tenth of the processor time of a client library."""

    def __init__(self, port: int, headers: str = "") -> None:
        self._port, self._headers = port, headers
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of its answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._encode(method, path, body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        answer = await self._reader.readexactly(int(length[1])) if length else b""
        return int(head[9:12]), answer

    async def open_stream(self, path: str, body: Any) -> None:
        """Send a chat request, and read no further than its first event."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._encode("POST", path, body))
        await self._reader.readuntil(b"event: sources")

    def _encode(self, method: str, path: str, body: Any) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{self._headers}"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class SilentModel:
    """A model that accepts every question and answers none."""

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=2048)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError, ConnectionError):
            await reader.read()
        writer.close()

    async def stop(self) -> None:
        self._server.close()


class Server:
    """`recollect serve` in a process of its own."""

    def __init__(self, db: Path, workers: int, model_url: str) -> None:
        settings = {
            "RECOLLECT_MODEL_URL": model_url, "RECOLLECT_MODEL_NAME": "silent",
            "RECOLLECT_PROVIDER_TIMEOUT_SECONDS": "600",
            "RECOLLECT_SERVER_STREAMS": str(2 * OPEN_STREAMS), "RECOLLECT_SERVER_RATE_PER_MINUTE": "0",
        }  # fmt: skip
        command = [sys.executable, "-m", "recollect", "serve", "--db", str(db), "--port", "0", "--log-level", "error"]
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--workers", str(workers)],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | settings,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.port = int(re.search(r":(\d+) ", line)[1])  # type: ignore[index]

    async def wait_until_ready(self) -> None:
        while True:
            try:
                if (await Connection(self.port).request("GET", "/readyz"))[0] == 200:
                    return
            except OSError:
                await asyncio.sleep(0.1)

    def stop(self) -> float:
        """Send SIGTERM, and return the seconds until the process has ended."""
        start = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.perf_counter() - start


async def call_at_once(
    count: int, until: float, call: Callable[[Connection], Awaitable[None]], connect: Callable[[], Connection]
) -> Spent:
    """Call `call` over `count` connections at once, again and again until the moment `until`."""
    spent = Spent()

    async def caller() -> None:
        connection = connect()
        while time.perf_counter() < until:
            start = time.perf_counter()
            await call(connection)
            spent.each.append(time.perf_counter() - start)
        connection.close()

    start, start_cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(count)))
    spent.seconds, spent.cpu = time.perf_counter() - start, time.process_time() - start_cpu
    return spent


def _check_answer(status: int, answer: bytes) -> None:
    if status >= 300:
        raise RuntimeError(f"the server answered {status}: {answer[:200]!r}")


class Load:
    """The requests that are measured, each for the next person, conversation and question in turn."""

    def __init__(self, server: Server, tokens: Sequence[str], questions: Sequence[str]) -> None:
        self._server, self._questions = server, cycle(questions)
        self._targets = cycle([(token, talk) for talk in range(TALKS) for token in tokens])
        self._tokens, self._number = tokens, 0

    def connection(self) -> Connection:
        return Connection(self._server.port)

    def _headers(self, token: str) -> str:
        return f"Authorization: Bearer {token}\r\n"

    async def context(self, connection: Connection) -> None:
        token, talk = next(self._targets)
        connection._headers = self._headers(token)
        body = {"query": next(self._questions)}
        _check_answer(*await connection.request("POST", f"/api/v1/conversations/chat-{talk}/context", body))

    async def add(self, connection: Connection) -> None:
        self._number += 1
        connection._headers = self._headers(self._tokens[self._number % len(self._tokens)])
        message = {"role": "user", "content": f"Note {self._number}: {next(self._questions)}"}
        _check_answer(
            *await connection.request("POST", f"/api/v1/conversations/burst-{self._number % 8}/messages", message)
        )

    async def read(self, connection: Connection) -> None:
        token, talk = next(self._targets)
        connection._headers = self._headers(token)
        _check_answer(*await connection.request("GET", f"/api/v1/conversations/chat-{talk}/messages?limit=20"))

    async def count_missing(self) -> int:
        """Return the number of messages that have no vectors yet."""
        left = 0
        for token in self._tokens:
            connection = Connection(self._server.port, self._headers(token))
            counts = json.loads((await connection.request("GET", "/api/v1/memory/debug/stats"))[1])["counts"]
            left += counts["messages"] - counts["embedded"]
            connection.close()
        return left

    async def wait_until_indexed(self, timeout_seconds: float) -> tuple[int, int, float]:
        """Wait until every message has vectors. Return how many had none, how many still have none, and the seconds."""
        total, start = await self.count_missing(), time.perf_counter()
        left = total
        while left and time.perf_counter() - start < timeout_seconds:
            await asyncio.sleep(1)
            left = await self.count_missing()
        return total, left, time.perf_counter() - start


async def create_keys(db: Path) -> list[str]:
    """Create a key for each person, and return the tokens."""
    async with AsyncMemory(db, worker=False) as memory:
        access = Access(memory)
        return [(await access.create_key(f"person-{number}")).token or "" for number in range(PEOPLE)]


async def run(options: argparse.Namespace, console: Console, db: Path, texts: data.Texts) -> list[str]:
    """Measure everything and print the report. Return the names of the missed bars."""
    tokens = await create_keys(db)
    questions = [f"{text} ({index})" for index, text in enumerate(texts.questions(4000))]
    silent_model = SilentModel()
    server = Server(db, options.workers, await silent_model.start())
    title = f"the server, {options.messages:,} messages, {options.workers} processes"
    report = Report(title, "calls/s", "p50 / p95 / p99 ms", "of the limit", "CPU of the load")
    try:
        await server.wait_until_ready()
        load = Load(server, tokens, questions)
        await measure_contexts(load, questions, options, report)
        await measure_burst(load, options, report)
        await measure_with_streams(load, tokens, options, report)
    finally:
        seconds = await asyncio.to_thread(server.stop)
        await silent_model.stop()
    report.add("SIGTERM", "", f"{seconds:.1f} s", bar="≤ 10 s", met=seconds <= MAX_SHUTDOWN_SECONDS)
    report.show(console)
    return report.missed


async def measure_contexts(load: Load, questions: Sequence[str], options: argparse.Namespace, report: Report) -> None:
    """Measure contexts and the embedder alone, in short turns, so that both meet the same noise.

    Before that, every process reads every conversation once.
    """
    cold, contexts = Spent(), Spent()
    while len(cold.each) < 4 * options.workers * PEOPLE * TALKS:
        cold.add(await call_at_once(READERS, time.perf_counter() + 1, load.context, load.connection))
    alone, model = {count: Spent() for count in ALONE}, MiniLM()
    for _ in range(ROUNDS):
        for count in ALONE:
            await asyncio.to_thread(embed, count, list(questions[:100]), model, alone[count])
        contexts.add(
            await call_at_once(READERS, time.perf_counter() + options.seconds / ROUNDS, load.context, load.connection)
        )
    share = contexts.rate / max(spent.rate for spent in alone.values())
    bar = f"≥ {MIN_CONTEXT_SHARE:.0%}, goal {CONTEXT_SHARE_GOAL:.0%}"
    for count, spent in alone.items():
        report.add(f"the embedder alone, {count} at once", *spent.cells()[:2])
    report.add("context, right after the start", *cold.cells()[:2])
    report.add(
        "context",
        *contexts.cells()[:2],
        f"{share:.0%}",
        _render_cpu_share(contexts),
        bar=bar,
        met=share >= MIN_CONTEXT_SHARE,
    )


async def measure_burst(load: Load, options: argparse.Namespace, report: Report) -> None:
    """Add messages as fast as possible, then wait until the index has caught up by itself."""
    adds = await call_at_once(WRITERS, time.perf_counter() + options.seconds, load.add, load.connection)
    bar = f"≥ {MIN_ADDS_PER_SECOND}, goal {ADDS_PER_SECOND_GOAL:,}"
    report.add(
        "add, in a burst", *adds.cells()[:2], "", _render_cpu_share(adds), bar=bar, met=adds.rate >= MIN_ADDS_PER_SECOND
    )
    total, left, took = await load.wait_until_indexed(options.patience)
    rate, progress = f"{(total - left) / max(took, 0.1):.0f}", f"{total:,} behind, {left:,} after {took:.0f} s"
    report.add("  its index, afterwards", rate, progress, bar="catches up by itself", met=left == 0)


async def measure_with_streams(load: Load, tokens: Sequence[str], options: argparse.Namespace, report: Report) -> None:
    """Measure reads, then open streams that wait for an answer, and measure reads again."""
    before = await call_at_once(READERS, time.perf_counter() + options.seconds / 2, load.read, load.connection)
    streams = [Connection(load._server.port, load._headers(tokens[n % PEOPLE])) for n in range(options.streams)]
    for start in range(0, len(streams), 50):
        await asyncio.gather(
            *(
                stream.open_stream(f"/api/v1/conversations/waiting-{start + index}/chat", {"content": "Are you there?"})
                for index, stream in enumerate(streams[start : start + 50])
            )
        )
    await load.wait_until_indexed(options.patience)  # the streams are idle once their questions are indexed
    during = await call_at_once(READERS, time.perf_counter() + options.seconds / 2, load.read, load.connection)
    for stream in streams:
        stream.close()
    slowdown = percentile(during.each, 0.5) / percentile(before.each, 0.5)
    report.add("reading 20 messages", *before.cells()[:2], "", _render_cpu_share(before))
    report.add(
        f"  beside {options.streams:,} open streams",
        *during.cells()[:2],
        "",
        _render_cpu_share(during),
        bar=f"p50 ≤ {MAX_SLOWDOWN}×: {slowdown:.2f}×",
        met=slowdown <= MAX_SLOWDOWN,
    )


def _render_cpu_share(spent: Spent) -> str:
    return f"{spent.cpu / spent.seconds:.0%} of a core"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--streams", type=int, default=OPEN_STREAMS)
    parser.add_argument("--patience", type=float, default=300, help="seconds for the index to catch up")
    parser.add_argument("--data", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--store", type=Path, help="keep the database here for further runs")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if options.small:
        options.messages, options.seconds, options.streams = 5000, 3.0, 200
    console, texts = Console(width=150), data.Texts(options.data)
    with tempfile.TemporaryDirectory() as folder:
        db = options.store or Path(folder) / "server.db"
        if not db.exists():
            console.print(f"[dim]making a store of {options.messages:,} messages …[/]")
            asyncio.run(fill(db, texts, options.messages))
        missed = asyncio.run(run(options, console, db, texts))
    if missed:
        console.print(f"[red]missed:[/] {', '.join(missed)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
