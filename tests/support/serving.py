"""Runs a real server on a free local port, in a thread of its own, and parses its answers."""

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
from recollect.server.app import ServerOptions, make_app
from recollect.server.connections import PROTOCOL
from recollect.settings import Settings
from recollect.testing import FakeEmbedder
from support.pooler import direct
from support.upstream import ModelServer

T = TypeVar("T")
# One for all clients: loading the certificates takes longer than a request.
TLS_CONTEXT = ssl.create_default_context()
TIMEOUT_SECONDS = 60.0


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that signals when it listens, and ends at once instead of at its next poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # sets the date header of answers
        await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ending.set)


class RunningServer:
    """The app with its memory, reachable at `url` while the context lasts."""

    def __init__(self, memory: AsyncMemory, *, options: ServerOptions | None = None) -> None:
        self.memory = memory
        self.app = make_app(options or ServerOptions(), memory=memory)
        self.access: Access = self.app.state.parts.access
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self.app,
            http=PROTOCOL,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        self._server = _Uvicorn(config)
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._clients: list[httpx.Client] = []
        self.client = self.new_client()

    def new_client(self, key: str | None = None, **headers: str) -> httpx.Client:
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        client = httpx.Client(
            base_url=self.url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False, verify=TLS_CONTEXT
        )
        self._clients.append(client)
        return client

    def new_async_client(self, **more: Any) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(
            base_url=self.url, timeout=TIMEOUT_SECONDS, trust_env=False, verify=TLS_CONTEXT, limits=limits, **more
        )

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()

    def __enter__(self) -> RunningServer:
        self._thread.start()
        assert self._server.ready.wait(TIMEOUT_SECONDS)
        assert self._server.started, "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self._server.end()
        self._thread.join(TIMEOUT_SECONDS)
        self._socket.close()
        assert not self._thread.is_alive(), "the server did not end"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's own loop, and return its result."""
        assert self._server.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(TIMEOUT_SECONDS)

    def new_key(self, person: str, **more: Any) -> str:
        """Create a key and return its token."""
        token = self.run(self.access.create_key(person, **more)).token
        assert token is not None
        return token

    def history(self, conversation: str, person: str = "local") -> list[Any]:
        return self.run(self.memory.of(Principal(person)).history(conversation))

    def dialogue(self, conversation: str) -> list[tuple[str, str]]:
        """Return roles and texts of a conversation's messages."""
        return [(message.role, message.content) for message in self.history(conversation)]

    # Chat

    def chat(self, conversation: str, content: str = "", **more: Any) -> ChatReply:
        """Send a chat message, and read the answer to its end."""
        headers = more.pop("headers", None)
        client = more.pop("client", self.client)
        body = more if more.get("retry") else {"content": content} | more
        reply = client.post(f"/api/v1/conversations/{conversation}/chat", json=body, headers=headers)
        return parse_chat_reply(reply)

    def complete(self, *messages: Any, **more: Any) -> httpx.Response:
        """Send a request of the OpenAI API. A plain text becomes a user message."""
        headers = more.pop("headers", None)
        client = more.pop("client", self.client)
        sent = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
        body = {"model": "gpt-test", "messages": sent} | more
        return client.post("/v1/chat/completions", json=body, headers=headers)


class Browser:
    """A browser that is logged in: it sends its cookie, and headers as the test chooses them."""

    def __init__(self, server: RunningServer, key: str) -> None:
        self.client = server.new_client()
        self.url = server.url
        self.login = self.client.post("/api/v1/session", json={"key": key}, headers={"Origin": server.url})
        self.csrf = self.login.json().get("csrf")

    def add(self, **headers: str) -> int:
        path, body = "/api/v1/conversations/page/messages", {"role": "user", "content": "from a page"}
        return self.client.post(path, json=body, headers=headers).status_code


@dataclass(frozen=True)
class ChatReply:
    """The answer of a chat, with its parsed events."""

    status: int
    events: list[tuple[str, Any]]
    reply: httpx.Response

    def named(self, name: str) -> list[Any]:
        return [data for event_name, data in self.events if event_name == name]

    @property
    def text(self) -> str:
        return "".join(delta["content"] for delta in self.named("delta"))

    @property
    def sources(self) -> Any:
        (data,) = self.named("sources")
        return data

    @property
    def done(self) -> Any:
        assert self.status == 200, self.reply.text
        assert [name for name, _ in self.events].count("done") == 1
        assert self.events[-1][0] == "done"
        return self.events[-1][1]


def make_server(location: str, model: ModelServer | str | None = None, **more: Any) -> RunningServer:
    """Build a server that is not started. `model` is a running one or a URL; settings are passed by their names.

    There is no worker unless the test asks for one. `monotonic` is the clock of the model's circuit breaker.
    """
    options, monotonic = more.pop("options", None), more.pop("monotonic", time.monotonic)
    memory_options = {name: more.pop(name) for name in ("clock", "worker", "person") if name in more}
    url = model.url if isinstance(model, ModelServer) else model
    model_settings = {"model_url": url, "model_name": "gpt-test"} if url is not None else {}
    settings = Settings(**({"provider_retries": 0, "server_rate_per_minute": 0} | model_settings | more))
    memory = AsyncMemory(location, embedder=FakeEmbedder(), settings=settings, **({"worker": False} | memory_options))
    if url is not None:
        upstream = Upstream(
            url,
            "gpt-test",
            settings.api_key,
            piece_timeout=settings.provider_timeout_seconds,
            answer_timeout=settings.chat_timeout_seconds,
            transport=httpx.AsyncHTTPTransport(verify=TLS_CONTEXT),
            timing=Timing(monotonic=monotonic),
        )
        memory._components = replace(memory._components, upstream=upstream, owned=(*memory._components.owned, upstream))
    return RunningServer(memory, options=options)


def wait_for(poll: Callable[[], T]) -> T:
    """Call `poll` until it returns something true, and return that. For events that nothing signals."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (result := poll()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return result


def parse_chat_reply(reply: httpx.Response) -> ChatReply:
    """Parse the response of a chat. An error has no events."""
    return ChatReply(reply.status_code, parse_events(reply.text) if reply.status_code == 200 else [], reply)


def parse_events(text: str) -> list[tuple[str, Any]]:
    """Return names and data of server-sent events. Comments are left out."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


def parse_chunks(text: str) -> list[Any]:
    """Return the chunks of a stream in OpenAI's form. `[DONE]` stays a text."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def join_chunks(chunks: Sequence[Any]) -> str:
    """Return the answer's text that these chunks hold."""
    choices = [choice for chunk in chunks if isinstance(chunk, dict) for choice in chunk.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def read_all_bytes(location: str) -> bytes:
    """Return all bytes of a database: an SQLite file and those beside it, or every row of every PostgreSQL table."""
    if not location.startswith("postgresql"):
        path = Path(location)
        return b"\n".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))
    blocks = []
    with closing(psycopg.connect(direct(location))) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema"
        )
        for (table,) in tables.fetchall():
            with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
                blocks += [bytes(block) for block in copy]
    return b"\n".join(blocks)
