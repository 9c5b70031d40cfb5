"""What the server bears, over loopback, with 50,000 messages stored: prompts, messages, open streams.

    python -m bench.server [--small] [--messages 50000] [--workers 2] [--seconds 10] [--data PATH] [--store FILE]

Prompts a second stand beside what the embedder alone does with single questions on the same cores, which is the limit:
every question is another one. The load comes from this process, over plain sockets; what it takes of the processors is
printed. A burst of messages follows, and how long the index takes to catch up by itself; then the same reads beside
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
from bench.log import percentile
from bench.measuring import Report
from recollect import AsyncMemory
from recollect.admin.access import Access
from recollect.providers.minilm import MiniLM

CALLERS: Final = 8
TURNS: Final = 10  # of the embedder alone and of prompts
WRITERS: Final = 64
STREAMS: Final = 1000
BAR, GOAL = 0.5, 0.8
ADDS_BAR, ADDS_GOAL = 500, 2000
SLOWER: Final = 1.5  # what 1,000 open streams may cost others


class Connection:
    """One connection that is kept: it costs a tenth of what a client library does."""

    def __init__(self, port: int, headers: str = "") -> None:
        self._port, self._headers = port, headers
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._request(method, path, body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        answer = await self._reader.readexactly(int(length[1])) if length else b""
        return int(head[9:12]), answer

    async def open_stream(self, path: str, body: Any) -> None:
        """Ask, and read no further than the first event."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._request("POST", path, body))
        await self._reader.readuntil(b"event: sources")

    def _request(self, method: str, path: str, body: Any) -> bytes:
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{self._headers}"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Silent:
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
    """`recollect serve` as people start it."""

    def __init__(self, db: Path, workers: int, model: str) -> None:
        settings = {
            "RECOLLECT_MODEL_URL": model, "RECOLLECT_MODEL_NAME": "silent", "RECOLLECT_PROVIDER_TIMEOUT_SECONDS": "600",
            "RECOLLECT_SERVER_STREAMS": str(2 * STREAMS), "RECOLLECT_SERVER_RATE_PER_MINUTE": "0",
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

    async def ready(self) -> None:
        while True:
            try:
                if (await Connection(self.port).ask("GET", "/readyz"))[0] == 200:
                    return
            except OSError:
                await asyncio.sleep(0.1)

    def stop(self) -> float:
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.perf_counter() - began


async def at_once(
    count: int, until: float, call: Callable[[Connection], Awaitable[None]], make: Callable[[], Connection]
) -> Spent:
    """So many callers, each one after another, for a while."""
    spent = Spent()

    async def caller() -> None:
        connection = make()
        while time.perf_counter() < until:
            start = time.perf_counter()
            await call(connection)
            spent.each.append(time.perf_counter() - start)
        connection.close()

    start, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(count)))
    spent.seconds, spent.cpu = time.perf_counter() - start, time.process_time() - busy
    return spent


def _checked(status: int, answer: bytes) -> None:
    if status >= 300:
        raise RuntimeError(f"the server answered {status}: {answer[:200]!r}")


class Load:
    def __init__(self, server: Server, tokens: Sequence[str], questions: Sequence[str]) -> None:
        self._server, self._questions = server, cycle(questions)
        self._places = cycle([(token, talk) for talk in range(TALKS) for token in tokens])
        self._tokens, self._number = tokens, 0

    def connection(self) -> Connection:
        return Connection(self._server.port)

    def _headers(self, token: str) -> str:
        return f"Authorization: Bearer {token}\r\n"

    async def context(self, connection: Connection) -> None:
        token, talk = next(self._places)
        connection._headers = self._headers(token)
        asked = {"query": next(self._questions)}
        _checked(*await connection.ask("POST", f"/api/v1/conversations/chat-{talk}/context", asked))

    async def add(self, connection: Connection) -> None:
        self._number += 1
        connection._headers = self._headers(self._tokens[self._number % len(self._tokens)])
        said = {"role": "user", "content": f"Note {self._number}: {next(self._questions)}"}
        _checked(*await connection.ask("POST", f"/api/v1/conversations/burst-{self._number % 8}/messages", said))

    async def read(self, connection: Connection) -> None:
        token, talk = next(self._places)
        connection._headers = self._headers(token)
        _checked(*await connection.ask("GET", f"/api/v1/conversations/chat-{talk}/messages?limit=20"))

    async def missing(self) -> int:
        """Messages that have no vectors yet."""
        left = 0
        for token in self._tokens:
            connection = Connection(self._server.port, self._headers(token))
            found = json.loads((await connection.ask("GET", "/api/v1/memory/debug/stats"))[1])["counts"]
            left += found["messages"] - found["embedded"]
            connection.close()
        return left

    async def caught_up(self, patience: float) -> tuple[int, int, float]:
        """Wait until everything is indexed: what was missing, what still is, and the seconds it took."""
        total, began = await self.missing(), time.perf_counter()
        left = total
        while left and time.perf_counter() - began < patience:
            await asyncio.sleep(1)
            left = await self.missing()
        return total, left, time.perf_counter() - began


async def keys(db: Path) -> list[str]:
    async with AsyncMemory(db, worker=False) as memory:
        access = Access(memory.store, memory.clock)
        return [(await access.create_key(f"person-{number}")).token or "" for number in range(PEOPLE)]


async def run(given: argparse.Namespace, console: Console, db: Path, texts: data.Texts) -> list[str]:
    tokens = await keys(db)
    questions = [f"{text} ({place})" for place, text in enumerate(texts.questions(4000))]
    silent = Silent()
    server = Server(db, given.workers, await silent.start())
    title = f"the server, {given.messages:,} messages, {given.workers} processes"
    report = Report(title, "calls/s", "p50 / p95 / p99 ms", "of the limit", "CPU of the load")
    try:
        await server.ready()
        load = Load(server, tokens, questions)
        await prompts(load, questions, given, report)
        await burst(load, given, report)
        await with_streams(load, tokens, given, report)
    finally:
        took = await asyncio.to_thread(server.stop)
        await silent.stop()
    report.add("SIGTERM", "", f"{took:.1f} s", bar="≤ 10 s", met=took <= 10)
    report.show(console)
    return report.missed


async def prompts(load: Load, questions: Sequence[str], given: argparse.Namespace, report: Report) -> None:
    """Contexts and the embedder alone, in short turns, so that both see the same noise; before that every process reads
    every conversation."""
    cold, contexts = Spent(), Spent()
    while len(cold.each) < 4 * given.workers * PEOPLE * TALKS:
        cold.add(await at_once(CALLERS, time.perf_counter() + 1, load.context, load.connection))
    alone, model = {count: Spent() for count in ALONE}, MiniLM()
    for _ in range(TURNS):
        for count in ALONE:
            await asyncio.to_thread(embed, count, list(questions[:100]), model, alone[count])
        contexts.add(await at_once(CALLERS, time.perf_counter() + given.seconds / TURNS, load.context, load.connection))
    share = contexts.rate / max(spent.rate for spent in alone.values())
    bar = f"≥ {BAR:.0%}, goal {GOAL:.0%}"
    for count, spent in alone.items():
        report.add(f"the embedder alone, {count} at once", *spent.cells()[:2])
    report.add("context, right after the start", *cold.cells()[:2])
    report.add("context", *contexts.cells()[:2], f"{share:.0%}", _share(contexts), bar=bar, met=share >= BAR)


async def burst(load: Load, given: argparse.Namespace, report: Report) -> None:
    """Messages as fast as they go, then how the index catches up by itself."""
    adds = await at_once(WRITERS, time.perf_counter() + given.seconds, load.add, load.connection)
    bar = f"≥ {ADDS_BAR}, goal {ADDS_GOAL:,}"
    report.add("add, in a burst", *adds.cells()[:2], "", _share(adds), bar=bar, met=adds.rate >= ADDS_BAR)
    total, left, took = await load.caught_up(given.patience)
    rate, told = f"{(total - left) / max(took, 0.1):.0f}", f"{total:,} behind, {left:,} after {took:.0f} s"
    report.add("  its index, afterwards", rate, told, bar="catches up by itself", met=left == 0)


async def with_streams(load: Load, tokens: Sequence[str], given: argparse.Namespace, report: Report) -> None:
    """Reads alone and beside open streams, in turn."""
    before = await at_once(CALLERS, time.perf_counter() + given.seconds / 2, load.read, load.connection)
    streams = [Connection(load._server.port, load._headers(tokens[n % PEOPLE])) for n in range(given.streams)]
    for start in range(0, len(streams), 50):
        await asyncio.gather(
            *(
                one.open_stream(f"/api/v1/conversations/waiting-{start + place}/chat", {"content": "Are you there?"})
                for place, one in enumerate(streams[start : start + 50])
            )
        )
    await load.caught_up(given.patience)  # they are idle when what was asked is indexed
    during = await at_once(CALLERS, time.perf_counter() + given.seconds / 2, load.read, load.connection)
    for one in streams:
        one.close()
    slower = percentile(during.each, 0.5) / percentile(before.each, 0.5)
    report.add("reading 20 messages", *before.cells()[:2], "", _share(before))
    report.add(
        f"  beside {given.streams:,} open streams",
        *during.cells()[:2],
        "",
        _share(during),
        bar=f"p50 ≤ {SLOWER}×: {slower:.2f}×",
        met=slower <= SLOWER,
    )


def _share(spent: Spent) -> str:
    return f"{spent.cpu / spent.seconds:.0%} of a core"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--patience", type=float, default=300, help="seconds for the index to catch up")
    parser.add_argument("--data", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--store", type=Path, help="keep the database here for further runs")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    if given.small:
        given.messages, given.seconds, given.streams = 5000, 3.0, 200
    console, texts = Console(width=150), data.Texts(given.data)
    with tempfile.TemporaryDirectory() as folder:
        db = given.store or Path(folder) / "server.db"
        if not db.exists():
            console.print(f"[dim]making a store of {given.messages:,} messages …[/]")
            asyncio.run(fill(db, texts, given.messages))
        missed = asyncio.run(run(given, console, db, texts))
    if missed:
        console.print(f"[red]missed:[/] {', '.join(missed)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
