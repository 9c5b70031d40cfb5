"""Builds the application: its parts, routes, guard and OpenAPI, and what runs at start and end."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, RedirectResponse, Response

from recollect.admin.access import Access
from recollect.chat.chats import Chats
from recollect.chat.completions import Completions
from recollect.core.errors import RecollectError, StoreUnavailable
from recollect.memory import AsyncMemory
from recollect.server import (
    api_page,
    openai_errors,
    problems,
    routes_access,
    routes_chat,
    routes_log,
    routes_profile,
    routes_recall,
    routes_topics,
    schemas,
)
from recollect.server.connections import TABLE_KEY, ConnectionLimits, ConnectionTable, fit_to_file_limit
from recollect.server.embeddings import Embeddings
from recollect.server.exports import ExportSlots
from recollect.server.grant_watch import GrantWatcher
from recollect.server.guard import LOOPBACK_HOSTS, OPEN_PATHS, Guard, GuardRules
from recollect.server.request import ServerParts, json_response
from recollect.server.signals import end_answers_on_signal
from recollect.server.telemetry import ServerMetrics
from recollect.settings import Settings

ANSWER_GRACE_SECONDS: Final = 1.0  # for answers to end at shutdown, and as long again to be stored
READY_SECONDS: Final = 3.0  # for the database to answer a probe
FLUSH_SECONDS: Final = 5.0  # between writes of buffered metrics and audit entries
MAX_KEPT_PAGES: Final = 8  # pages of the reference, one for each address by which the server is called
API_DESCRIPTION: Final = (
    "Memory for any chat application: it stores every message, and builds the smallest prompt that holds what matters. "
    "On a server without keys, and with a key that has the scope `act_as`, the header `X-Recollect-Person` names the "
    "person whose memory a request is about; any other key is its own person's."
)

_SAME_CONVERSATION: Final = {"conversation": "$request.path.conversation"}
_STORED_MESSAGE: Final = {"conversation": "$request.path.conversation", "message": "$response.body#/messages/0/id"}
_FIRST_TOPIC: Final = {"topic": "$response.body#/topics/0/id"}
# OpenAPI links: an operation and its status, the operation that can follow, and how the answer names its parameters.
_LINKS: Final = (
    ("add_messages", "201", "list_messages", _SAME_CONVERSATION),
    ("add_messages", "201", "get_conversation", _SAME_CONVERSATION),
    ("add_messages", "201", "update_conversation", _SAME_CONVERSATION),
    ("add_messages", "201", "context", _SAME_CONVERSATION),
    ("add_messages", "201", "chat", _SAME_CONVERSATION),
    ("add_messages", "201", "compress", _SAME_CONVERSATION),
    ("add_messages", "201", "list_topics", _SAME_CONVERSATION),
    ("add_messages", "201", "give_feedback", _STORED_MESSAGE),
    ("add_messages", "201", "erase_message", _STORED_MESSAGE),
    ("add_messages", "201", "erase_conversation", _SAME_CONVERSATION),
    ("list_topics", "200", "get_topic", _FIRST_TOPIC),
    ("list_topics", "200", "list_topic_messages", _FIRST_TOPIC),
    ("list_topics", "200", "topic_decay", _FIRST_TOPIC),
    ("list_topics", "200", "change_topic", _FIRST_TOPIC),
    ("list_topics", "200", "erase_topic", _FIRST_TOPIC),
    ("create_key", "201", "revoke_key", {"key": "$response.body#/id"}),
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of `recollect serve`. They are pickled for every process of the server."""

    db: str = "recollect.db"
    host: str = "127.0.0.1"
    port: int = 8377
    person: str = "local"
    settings: str | None = None  # the name of a preset
    json_logs: bool = False
    log_level: str = "info"
    runs_worker: bool = True  # whether this process does derived work
    processes: int = 1  # how many serve together


def make_app(options: ServerOptions, memory: AsyncMemory | None = None) -> FastAPI:
    """Build the application on one database. Tests pass a `memory`; it is closed with the application all the same."""
    memory = memory or AsyncMemory(
        options.db, person=options.person, settings=options.settings, worker=options.runs_worker
    )
    settings = memory.start_settings
    server_metrics = ServerMetrics()
    access = Access(memory)
    chats = Chats(memory, observe=server_metrics.observe_answer)
    parts = ServerParts(
        memory, access, chats, Completions(memory.upstream), GrantWatcher(access), Embeddings(memory), ExportSlots(),
        max_streams=settings.server_streams,
    )  # fmt: skip

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        connections = ConnectionTable(connection_limits(settings), server_metrics.observe_refused_connection)
        async with memory:
            await memory.warm_up(processes=options.processes)
            background = [
                asyncio.create_task(_flush_periodically(memory)),
                asyncio.create_task(connections.sweep_periodically()),
            ]
            with end_answers_on_signal(parts.chats):
                yield {TABLE_KEY: connections}
            for task in background:
                task.cancel()
            await parts.chats.close(ANSWER_GRACE_SECONDS)
            await parts.completions.close(ANSWER_GRACE_SECONDS)

    app = FastAPI(
        title="Recollect", version=metadata.version("recollect"), description=API_DESCRIPTION, lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None, separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.parts = parts  # all that requests share; `request.py` hands it to the routes
    problems.install_handlers(app)
    for router in (
        routes_log.router, routes_recall.router, routes_recall.memory_router, routes_profile.router,
        routes_topics.router, routes_chat.router, routes_chat.openai_router, routes_access.router,
    ):  # fmt: skip
        app.include_router(router)
    _add_operation_routes(app, parts, server_metrics)
    rules = guard_rules(options, settings)
    app.add_middleware(Guard, access=access, rules=rules, observe=server_metrics.observe_request)
    return app


async def _flush_periodically(memory: AsyncMemory) -> None:
    """Write buffered metrics and audit entries now and then, because no worker in this process does it."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await memory.flush()


def guard_rules(options: ServerOptions, settings: Settings) -> GuardRules:
    """Return the guard's rules from options and settings. Addresses that stand for all hosts are no host names."""
    listed_hosts = {host.lower() for host in _split_list(settings.server_hosts)}
    hosts = {*LOOPBACK_HOSTS, options.host.lower(), *listed_hosts} - {"0.0.0.0", "::"}  # noqa: S104 - removed here
    return GuardRules(
        frozenset(hosts),
        frozenset(origin.rstrip("/") for origin in _split_list(settings.server_origins)),
        settings.server_body_bytes,
        settings.server_rate_per_minute,
        options.person,
        is_loopback(options.host),
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of connections from the settings, as far as the process may have so many open files."""
    return ConnectionLimits(
        connections=fit_to_file_limit(settings.server_connections),
        head_bytes=settings.server_head_bytes,
        head_seconds=settings.server_head_seconds,
        body_bytes=settings.server_body_bytes,
        body_seconds=settings.server_body_seconds,
    )


def _split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _add_operation_routes(app: FastAPI, parts: ServerParts, server_metrics: ServerMetrics) -> None:
    """Add the routes for operators, and the OpenAPI with its page."""
    documents: dict[bool, dict[str, Any]] = {}  # with and without keys; building one takes a tenth of a second
    pages: dict[tuple[bool, str], str] = {}  # by address too; kept because anybody may ask, without a key

    async def find_document() -> dict[str, Any]:
        keys = await parts.access.requires_keys()
        if keys not in documents:
            documents[keys] = build_openapi(app, keys=keys)
        return documents[keys]

    @app.get("/healthz", response_model=schemas.HealthOut, tags=["operation"])
    async def healthz() -> Response:
        """Check that the process is alive. The database is not asked."""
        return json_response({"status": "ok", "version": app.version})

    @app.get("/readyz", response_model=schemas.HealthOut, tags=["operation"], responses=problems.problem_responses(503))
    async def readyz() -> Response:
        """Check that the database answers, within three seconds."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await parts.access.requires_keys(fresh=True)
        except RecollectError as error:
            return problems.error_response(error)
        except TimeoutError:
            detail = f"The database did not answer within {READY_SECONDS:.0f} seconds."
            return problems.error_response(StoreUnavailable("store_unreachable", detail))
        return json_response({"status": "ok", "version": app.version})

    @app.get("/metrics", response_class=Response, tags=["operation"], responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return the server's metrics in Prometheus' text format."""
        body, media_type = server_metrics.render()
        return Response(body, media_type=media_type)

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(await find_document())

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse("/api/docs", status_code=307)

    @app.get("/api/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        keys = await parts.access.requires_keys()
        address = str(request.base_url)
        if (keys, address) not in pages:
            if len(pages) >= MAX_KEPT_PAGES:
                pages.clear()
            pages[keys, address] = api_page.render_page(await find_document(), address=address, keys=keys)
        return Response(
            pages[keys, address], media_type="text/html", headers={"Content-Security-Policy": api_page.POLICY}
        )


def build_openapi(app: FastAPI, *, keys: bool) -> dict[str, Any]:
    """Build the OpenAPI document. With `keys` it says that operations need a key."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = document.setdefault("components", {}).setdefault("schemas", {})
    components["Problem"] = problems.Problem.model_json_schema()
    for path, item in document["paths"].items():
        for operation in item.values():
            _add_common_responses(path, operation, keys=keys)
    _add_links(document)
    components.pop("HTTPValidationError", None)
    components.pop("ValidationError", None)
    if keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


def _add_common_responses(path: str, operation: dict[str, Any], *, keys: bool) -> None:
    """Add the problems that any operation may answer with, and whether it needs a key."""
    common = [400, 401, 403, 413, 421, 429, 500, 503]
    describe = openai_errors.error_responses if openai_errors.is_openai_path(path) else problems.problem_responses
    if describe is problems.problem_responses and ("422" in operation["responses"] or "requestBody" in operation):
        common.append(422)
    if keys and path not in OPEN_PATHS:
        operation["security"] = [{"key": []}]
    operation["responses"].pop("422", None)  # FastAPI's own, which is no problem+json
    for status, description in describe(*common).items():
        operation["responses"].setdefault(str(status), description)


def _add_links(document: dict[str, Any]) -> None:
    """Add `_LINKS`: which values of an answer are parameters of which other operations."""
    operations_by_name = {
        operation["operationId"].split("_api_")[0].split("_v1_")[0]: operation
        for item in document["paths"].values()
        for operation in item.values()
    }
    for name, status, target, parameters in _LINKS:
        links = operations_by_name[name]["responses"][status].setdefault("links", {})
        links[target] = {"operationId": operations_by_name[target]["operationId"], "parameters": parameters}
