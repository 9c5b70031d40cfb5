"""The application: parts, routes, guard, and how it begins and ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response

from recollect.admin.access import Access
from recollect.chat.chats import Chats
from recollect.chat.completions import Completions
from recollect.core.errors import RecollectError
from recollect.memory import AsyncMemory
from recollect.server import (
    guard,
    problems,
    routes_access,
    routes_chat,
    routes_log,
    routes_profile,
    routes_recall,
    routes_topics,
    schemas,
)
from recollect.server.guard import LOOPBACK, Guard, Rules
from recollect.server.request import Parts, answer
from recollect.server.signals import hurried_by_signals
from recollect.server.telemetry import Figures
from recollect.settings import Settings

SECRET_VARIABLE: Final = "RECOLLECT_KEY_SECRET"  # noqa: S105 - the name of a variable
DRAIN: Final = 1.0  # seconds that answers have to come to an end, and again to be stored
NOTED: Final = 5.0  # seconds between writing metrics and uses of profiles
ABOUT: Final = "Memory for any chat application: every message kept, the smallest prompt that holds what matters."


_STORED: Final = {"conversation": "$request.path.conversation", "message": "$response.body#/messages/0/id"}
_SAME: Final = {"conversation": "$request.path.conversation"}
_TOPIC: Final = {"topic": "$response.body#/topics/0/id"}
_LINKS: Final = (
    ("add_messages", "201", "list_messages", _SAME),
    ("add_messages", "201", "get_conversation", _SAME),
    ("add_messages", "201", "update_conversation", _SAME),
    ("add_messages", "201", "context", _SAME),
    ("add_messages", "201", "chat", _SAME),
    ("add_messages", "201", "compress", _SAME),
    ("add_messages", "201", "list_topics", _SAME),
    ("add_messages", "201", "give_feedback", _STORED),
    ("add_messages", "201", "erase_message", _STORED),
    ("add_messages", "201", "erase_conversation", _SAME),
    ("list_topics", "200", "get_topic", _TOPIC),
    ("list_topics", "200", "list_topic_messages", _TOPIC),
    ("list_topics", "200", "topic_decay", _TOPIC),
    ("list_topics", "200", "change_topic", _TOPIC),
    ("list_topics", "200", "erase_topic", _TOPIC),
    ("create_key", "201", "revoke_key", {"key": "$response.body#/id"}),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What `recollect serve` was told. It travels to every process of the server."""

    db: str = "recollect.db"
    host: str = "127.0.0.1"
    port: int = 8377
    person: str = "local"
    settings: str | None = None
    json_logs: bool = False
    log_level: str = "info"
    works: bool = True  # whether derived work is done in this process
    processes: int = 1  # that serve together


def make_app(options: Options, memory: AsyncMemory | None = None) -> FastAPI:
    """The application on one database; `memory` is for tests, and closed with it all the same."""
    memory = memory or AsyncMemory(options.db, person=options.person, settings=options.settings, worker=options.works)
    start = memory.start_settings
    figures = Figures()
    access = Access(memory.store, memory.clock, secret=os.environ.get(SECRET_VARIABLE) or None)
    parts = Parts(memory, access, Chats(memory, observe=figures.answer), Completions(memory.upstream))

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with memory:
            await memory.warm_up(processes=options.processes)
            noting = asyncio.create_task(_note(memory))
            with hurried_by_signals(parts.chats):
                yield
            noting.cancel()
            await parts.chats.close(DRAIN)
            await parts.completions.close(DRAIN)

    app = FastAPI(
        title="Recollect", version=metadata.version("recollect"), description=ABOUT, lifespan=life,
        openapi_url=None, docs_url=None, redoc_url=None, separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.parts, app.state.rules_streams = parts, start.server_streams
    problems.install(app)
    for router in (
        routes_log.router, routes_recall.router, routes_recall.memory, routes_profile.router, routes_topics.router,
        routes_chat.router, routes_chat.compatible, routes_access.router,
    ):  # fmt: skip
        app.include_router(router)
    _add_plain_routes(app, parts, figures)
    rules = rules_of(options, start)
    app.add_middleware(Guard, access=access, rules=rules, observe=figures.request)
    return app


async def _note(memory: AsyncMemory) -> None:
    """What is noted while somebody waits is written now and then, also where no worker does it."""
    while True:
        await asyncio.sleep(NOTED)
        await memory.flush()


def rules_of(options: Options, settings: Settings) -> Rules:
    named = {one.lower() for one in _listed(settings.server_hosts)}
    hosts = {*LOOPBACK, options.host.lower(), *named} - {"0.0.0.0", "::"}  # noqa: S104 - taken away
    return Rules(
        frozenset(hosts),
        frozenset(one.rstrip("/") for one in _listed(settings.server_origins)),
        settings.server_body_bytes,
        settings.server_rate_per_minute,
        options.person,
    )


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _add_plain_routes(app: FastAPI, parts: Parts, figures: Figures) -> None:
    @app.get("/healthz", response_model=schemas.Health, tags=["operation"])
    async def healthz() -> Response:
        """Whether the process is there."""
        return answer({"status": "ok", "version": app.version})

    @app.get("/readyz", response_model=schemas.Health, tags=["operation"], responses=problems.documented(503))
    async def readyz() -> Response:
        """Whether the database answers."""
        try:
            await parts.access.has_keys()
        except RecollectError as error:
            return problems.of(error)
        return answer({"status": "ok", "version": app.version})

    @app.get("/metrics", response_class=Response, tags=["operation"], responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Figures for Prometheus."""
        body, kind = figures.render()
        return Response(body, media_type=kind)

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(described(app, keys=await parts.access.has_keys()))

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(docs_page(described(app, keys=False)), media_type="text/html")


def described(app: FastAPI, *, keys: bool) -> dict[str, Any]:
    """The OpenAPI. Whether keys are asked for depends on whether there are any."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas_ = made.setdefault("components", {}).setdefault("schemas", {})
    schemas_["Problem"] = problems.Problem.model_json_schema()
    for path, item in made["paths"].items():
        for operation in item.values():
            _document(path, operation, keys=keys)
    _link(made)
    schemas_.pop("HTTPValidationError", None)
    schemas_.pop("ValidationError", None)
    if keys:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return made


def _document(path: str, operation: dict[str, Any], *, keys: bool) -> None:
    is_open = path in guard.OPEN
    common = [400, 401, 403, 413, 421, 429, 500, 503]
    if "422" in operation["responses"] or "requestBody" in operation:
        common.append(422)
    if keys and not is_open:
        operation["security"] = [{"key": []}]
    operation["responses"].pop("422", None)
    for status, told in problems.documented(*common).items():
        operation["responses"].setdefault(str(status), told)


def _link(made: dict[str, Any]) -> None:
    """What an answer gives that other operations take."""
    names = {
        operation["operationId"].split("_api_")[0].split("_v1_")[0]: operation
        for item in made["paths"].values()
        for operation in item.values()
    }
    for operation, status, target, parameters in _LINKS:
        links = names[operation]["responses"][status].setdefault("links", {})
        links[target] = {"operationId": names[target]["operationId"], "parameters": parameters}


def docs_page(schema: Mapping[str, Any]) -> str:
    """The operations on one plain page: no script, no style of somebody else."""
    rows = [
        f"<tr><td><code>{method.upper()}</code></td><td><code>{path}</code></td>"
        f"<td>{operation.get('description') or operation.get('summary', '')}</td></tr>"
        for path, item in schema["paths"].items()
        for method, operation in item.items()
    ]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Recollect: the API</title>'
    style = "<style>body{font:16px/1.5 system-ui;margin:2rem}td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>"
    table = f"<table>{''.join(rows)}</table>"
    return f'{head}{style}<h1>Recollect: the API</h1><p><a href="/api/v1/openapi.json">OpenAPI</a></p>{table}'
