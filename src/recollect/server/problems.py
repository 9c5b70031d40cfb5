"""Errors as callers of the REST API see them: problem+json with a stable code, whether to try again, and no content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route

from recollect.core.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    ProviderUnavailable,
    RecollectError,
    StoreUnavailable,
)

GONE: Final = 499  # what logs and figures say where the client left before its request was whole
MEDIA_TYPE: Final = "application/problem+json"
_STATUS: Final = (
    (InvalidInput, 422), (NotFound, 404), (Conflict, 409), (Denied, 403), (StoreUnavailable, 503),
    (ProviderUnavailable, 502),
)  # fmt: skip
_TITLES: Final = {
    400: "Bad request", 401: "Who are you?", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    409: "Conflict", 413: "Too large", 415: "Unsupported media type", 421: "Unknown host", 422: "Invalid input",
    429: "Too many requests", 500: "Internal error", 502: "The model failed", 503: "Not available now",
    504: "The model took too long",
}  # fmt: skip
_OTHERWISE: Final = {
    "content_too_large": 413, "metadata_too_large": 413, "profile_too_large": 413, "body_too_large": 413,
    "budget_too_small": 409, "invalid_period": 409, "provider_timeout": 504, "provider_rate_limited": 429,
}  # fmt: skip


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = Field(description="urn:recollect:error: and the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="stable, for programs")
    retryable: bool = Field(description="whether the same request may succeed later")
    errors: list[dict[str, Any]] | None = Field(None, description="which fields are wrong, and how")


def status_of(error: RecollectError) -> int:
    if error.code in _OTHERWISE:
        return _OTHERWISE[error.code]
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def body(status: int, code: str, detail: str, *, retryable: bool = False, **more: Any) -> dict[str, Any]:
    title = _TITLES.get(status, "Error")
    told = {"type": f"urn:recollect:error:{code}", "title": title, "status": status, "detail": detail, "code": code}
    return told | {"retryable": retryable} | more


def response(
    status: int,
    code: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    retryable: bool = False,
    **more: Any,
) -> Response:
    told = body(status, code, detail, retryable=retryable, **more)
    content = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return Response(content.encode("utf-8", "replace"), status, dict(headers or {}), MEDIA_TYPE)


def of(error: RecollectError) -> Response:
    retry = {"Retry-After": "1"} if status_of(error) in (429, 503) else None
    return response(status_of(error), error.code, error.message, headers=retry, retryable=error.retryable)


def unexpected() -> Response:
    return response(500, "unexpected", "Something unexpected failed; the server's log says where.")


def install(app: FastAPI) -> None:
    """Every error of the app as a problem."""

    @app.exception_handler(RecollectError)
    async def _ours(_: Request, error: RecollectError) -> Response:
        return of(error)

    @app.exception_handler(ClientDisconnect)
    async def _gone(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        found = [
            {"where": [str(part) for part in one["loc"]], "message": str(one["msg"])[:200], "kind": one["type"]}
            for one in error.errors()[:20]
        ]
        first = found[0] if found else {"where": [], "message": "It cannot be read."}
        detail = f"{'.'.join(first['where'])}: {first['message']}"
        return response(422, "invalid_request", detail, errors=found)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        told = getattr(error, "response", None)  # a refusal of the guard
        if isinstance(told, Response):
            return told
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        title = _TITLES.get(error.status_code, "Error")
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(app, request))
        return response(error.status_code, code, f"{title}.", headers=headers)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """All that a path takes, whichever route serves them."""
    found = set[str]()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for the OpenAPI."""
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: {"schema": _REFERENCE}}} for status in statuses
    }


_REFERENCE: Final = {"$ref": "#/components/schemas/Problem"}
