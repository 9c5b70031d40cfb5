"""A real server on a free local port, in a thread of its own, and what its answers say."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
import psycopg
import uvicorn
from psycopg import sql

from recollect.admin.access import Access
from recollect.core.models import Principal
from recollect.memory import AsyncMemory
from recollect.providers.chat import Upstream
from recollect.providers.resilience import Timing
from recollect.server.app import Options, make_app
from recollect.settings import Settings
from recollect.testing import FakeEmbedder
from support.upstream import ModelServer

T = TypeVar("T")
CONTEXT = (
    ssl.create_default_context()
)  # one for all clients: each would load its own, which takes longer than a request
PATIENCE = 20.0  # seconds after which something that should have happened has not


class _Uvicorn(uvicorn.Server):
    """Says when it listens, and ends when it is told to, not at its next look."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # as it would, for the date that answers carry
        await self._told.wait()

    def end(self) -> None:
        self.should_exit = True
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._told.set)


class Served:
    """The app with its memory, reachable at `url` while the context lasts."""

    def __init__(self, memory: AsyncMemory, *, options: Options | None = None) -> None:
        self.memory = memory
        self.app = make_app(options or Options(), memory=memory)
        self.access: Access = self.app.state.parts.access
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self.app, log_config=None, access_log=False, server_header=False, lifespan="on", timeout_graceful_shutdown=1
        )
        self._server = _Uvicorn(config)
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._clients: list[httpx.Client] = []
        self.client = self.new_client()

    def new_client(self, key: str | None = None, **headers: str) -> httpx.Client:
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        client = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False, verify=CONTEXT)
        self._clients.append(client)
        return client

    def new_async_client(self, **more: Any) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(
            base_url=self.url, timeout=PATIENCE, trust_env=False, verify=CONTEXT, limits=limits, **more
        )

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._server.ready.wait(PATIENCE)
        assert self._server.started, "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self._server.end()
        self._thread.join(PATIENCE)
        self._socket.close()
        assert not self._thread.is_alive(), "the server did not end"

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the server's own loop."""
        assert self._server.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(PATIENCE)

    def key(self, person: str, **more: Any) -> str:
        """A new key's token."""
        token = self.wait(self.access.create_key(person, **more)).token
        assert token is not None
        return token

    def history(self, conversation: str, person: str = "local") -> list[Any]:
        return self.wait(self.memory.of(Principal(person)).history(conversation))

    def said(self, conversation: str) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.history(conversation)]

    # Chat

    def chat(self, conversation: str, content: str = "", **more: Any) -> Told:
        """Ask and hear all of the answer."""
        headers = more.pop("headers", None)
        client = more.pop("client", self.client)
        body = more if more.get("retry") else {"content": content} | more
        reply = client.post(f"/api/v1/conversations/{conversation}/chat", json=body, headers=headers)
        return told(reply)

    def complete(self, *messages: Any, **more: Any) -> httpx.Response:
        """Ask as clients of the OpenAI API do. Texts are what the user says."""
        headers = more.pop("headers", None)
        client = more.pop("client", self.client)
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        body = {"model": "gpt-test", "messages": said} | more
        return client.post("/v1/chat/completions", json=body, headers=headers)


class Browser:
    """A page's own requests: with a cookie, and with what it is told to send."""

    def __init__(self, served: Served, key: str) -> None:
        self.client = served.new_client()
        self.url = served.url
        self.login = self.client.post("/api/v1/session", json={"key": key}, headers={"Origin": served.url})
        self.csrf = self.login.json().get("csrf")

    def add(self, **headers: str) -> int:
        path, body = "/api/v1/conversations/page/messages", {"role": "user", "content": "from a page"}
        return self.client.post(path, json=body, headers=headers).status_code


@dataclass(frozen=True)
class Told:
    """What a chat answered."""

    status: int
    events: list[tuple[str, Any]]
    reply: httpx.Response

    def named(self, name: str) -> list[Any]:
        return [data for one, data in self.events if one == name]

    @property
    def text(self) -> str:
        return "".join(delta["content"] for delta in self.named("delta"))

    @property
    def sources(self) -> Any:
        (one,) = self.named("sources")
        return one

    @property
    def done(self) -> Any:
        assert self.status == 200, self.reply.text
        assert [name for name, _ in self.events].count("done") == 1
        assert self.events[-1][0] == "done"
        return self.events[-1][1]


def made(location: str, model: ModelServer | str | None = None, **more: Any) -> Served:
    """A server that has not begun. `model` is one that runs, or a URL; settings may be given by their names.

    There is no worker unless asked for, so that nothing happens that a test did not ask for. `monotonic` is the time
    by which the model's breaker rests.
    """
    options, monotonic = more.pop("options", None), more.pop("monotonic", time.monotonic)
    engine = {name: more.pop(name) for name in ("clock", "worker", "person") if name in more}
    url = model.url if isinstance(model, ModelServer) else model
    named = {"model_url": url, "model_name": "gpt-test"} if url is not None else {}
    given = Settings(**({"provider_retries": 0, "server_rate_per_minute": 0} | named | more))
    memory = AsyncMemory(location, embedder=FakeEmbedder(), settings=given, **({"worker": False} | engine))
    if url is not None:
        upstream = Upstream(
            url,
            "gpt-test",
            given.api_key,
            patience=given.provider_timeout_seconds,
            longest=given.chat_timeout_seconds,
            transport=httpx.AsyncHTTPTransport(verify=CONTEXT),
            timing=Timing(monotonic=monotonic),
        )
        memory._parts = replace(memory._parts, upstream=upstream, owned=(*memory._parts.owned, upstream))
    return Served(memory, options=options)


def eventually(what: Callable[[], T]) -> T:
    """What it says as soon as it says something, for what nobody is told of."""
    ends = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.01)
    return found


def told(reply: httpx.Response) -> Told:
    return Told(reply.status_code, events_of(reply.text) if reply.status_code == 200 else [], reply)


def events_of(text: str) -> list[tuple[str, Any]]:
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


def chunks_of(text: str) -> list[Any]:
    """The chunks of a stream as OpenAI's clients read it; `[DONE]` stays a text."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of_chunks(chunks: Sequence[Any]) -> str:
    choices = [choice for chunk in chunks if isinstance(chunk, dict) for choice in chunk.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def bytes_of(location: str) -> bytes:
    """All bytes of a database: of an SQLite file and those beside it; of PostgreSQL, every row of every table."""
    if not location.startswith("postgresql"):
        path = Path(location)
        return b"\n".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))
    found = []
    with closing(psycopg.connect(location)) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema"
        )
        for (table,) in tables.fetchall():
            with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
                found += [bytes(block) for block in copy]
    return b"\n".join(found)
