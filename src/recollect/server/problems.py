"""Turns errors into the answers of the REST API: problem+json (RFC 9457) with a stable code and no stored content."""

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

CLIENT_GONE_STATUS: Final = 499  # for logs and metrics: the client left before its request was complete
MEDIA_TYPE: Final = "application/problem+json"
MAX_REPORTED_FIELDS: Final = 20
MAX_FIELD_MESSAGE_CHARACTERS: Final = 200
_STATUS_BY_ERROR: Final = (
    (InvalidInput, 422), (NotFound, 404), (Conflict, 409), (Denied, 403), (StoreUnavailable, 503),
    (ProviderUnavailable, 502),
)  # fmt: skip
_STATUS_BY_CODE: Final = {  # codes whose status differs from that of their error class
    "content_too_large": 413, "metadata_too_large": 413, "profile_too_large": 413, "body_too_large": 413,
    "budget_too_small": 409, "invalid_period": 409, "provider_timeout": 504, "provider_rate_limited": 429,
}  # fmt: skip
_TITLES: Final = {
    400: "Bad request", 401: "Authentication required", 403: "Not allowed", 404: "Not found",
    405: "Method not allowed", 409: "Conflict", 413: "Too large", 415: "Unsupported media type", 421: "Unknown host",
    422: "Invalid input", 429: "Too many requests", 500: "Internal error", 502: "The model failed",
    503: "Not available now", 504: "The model took too long",
}  # fmt: skip
_SCHEMA_REFERENCE: Final = {"$ref": "#/components/schemas/Problem"}


class Problem(BaseModel):
    """An error, in the form of RFC 9457."""

    type: str = Field(description="`urn:recollect:error:` followed by the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="what went wrong, for programs; codes never change")
    retryable: bool = Field(description="whether the same request may succeed later")
    errors: list[dict[str, Any]] | None = Field(None, description="the fields that are wrong, and why")


def status_of(error: RecollectError) -> int:
    """Return the HTTP status for an error: by its code, else by its class, else 500."""
    if error.code in _STATUS_BY_CODE:
        return _STATUS_BY_CODE[error.code]
    return next((status for kind, status in _STATUS_BY_ERROR if isinstance(error, kind)), 500)


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    retryable: bool = False,
    **more: Any,
) -> Response:
    """Build a response with a problem as its body. `more` are further fields of the problem."""
    title = _TITLES.get(status, "Error")
    problem = {"type": f"urn:recollect:error:{code}", "title": title, "status": status, "detail": detail, "code": code}
    content = json.dumps(problem | {"retryable": retryable} | more, ensure_ascii=False, separators=(",", ":"))
    return Response(content.encode("utf-8", "replace"), status, dict(headers or {}), MEDIA_TYPE)


def error_response(error: RecollectError) -> Response:
    """Build the response for an error of ours."""
    retry = {"Retry-After": "1"} if status_of(error) in (429, 503) else None
    return problem_response(status_of(error), error.code, error.full_message, headers=retry, retryable=error.retryable)


def unexpected_response() -> Response:
    """Build the response for an error that is not ours. Its text stays in the server."""
    return problem_response(500, "unexpected", "Something unexpected failed; the server's log says where.")


def install_handlers(app: FastAPI) -> None:
    """Make the app answer every error as a problem."""

    @app.exception_handler(RecollectError)
    async def handle_recollect_error(_: Request, error: RecollectError) -> Response:
        return error_response(error)

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_GONE_STATUS)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_request(_: Request, error: RequestValidationError) -> Response:
        fields = [
            {
                "where": [str(part) for part in field["loc"]],
                "message": str(field["msg"])[:MAX_FIELD_MESSAGE_CHARACTERS],
                "kind": field["type"],
            }
            for field in error.errors()[:MAX_REPORTED_FIELDS]
        ]
        first = fields[0] if fields else {"where": [], "message": "It cannot be read."}
        detail = f"{'.'.join(first['where'])}: {first['message']}"
        return problem_response(422, "invalid_request", detail, errors=fields)

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        refusal = getattr(error, "response", None)  # set by `guard.Refusal`
        if isinstance(refusal, Response):
            return refusal
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        title = _TITLES.get(error.status_code, "Error")
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed_methods(app, request))
        return problem_response(error.status_code, code, f"{title}.", headers=headers)


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    """Return the methods that a path allows, collected from all its routes."""
    methods = set[str]()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            methods |= route.methods or set()
    return sorted(methods)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI, the problems that a route may answer with."""
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: {"schema": _SCHEMA_REFERENCE}}}
        for status in statuses
    }
