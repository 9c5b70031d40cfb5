"""Turns errors into the answers of the REST API: problem+json (RFC 9457) with a stable code and no stored content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPMethod
from typing import Any, Final, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from recollect.core.errors import RecollectError
from recollect.server import openai_errors
from recollect.server.error_status import retry_headers, status_of

CLIENT_GONE_STATUS: Final = 499  # for logs and metrics: the client left before its request was complete
MEDIA_TYPE: Final = "application/problem+json"
MAX_REPORTED_FIELDS: Final = 20
MAX_FIELD_MESSAGE_CHARACTERS: Final = 200
_TITLES: Final = {
    400: "Bad request", 401: "Authentication required", 403: "Not allowed", 404: "Not found",
    405: "Method not allowed", 408: "Too slow", 409: "Conflict", 413: "Too large", 414: "Target too long",
    415: "Unsupported media type", 421: "Unknown host", 422: "Invalid input", 429: "Too many requests",
    431: "Headers too large", 500: "Internal error", 502: "The model failed", 503: "Not available now",
    504: "The model took too long",
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


def error_response(error: RecollectError, path: str = "") -> Response:
    """Build the response for an error of ours, in the form that clients of this path read."""
    if openai_errors.is_openai_path(path):
        return openai_errors.from_error(error)
    headers, retryable = retry_headers(error), error.retryable
    return problem_response(status_of(error), error.code, error.full_message, headers=headers, retryable=retryable)


def unexpected_response(path: str) -> Response:
    """Build the response for an error that is not ours. Its text stays in the server."""
    return refusal_response(path, 500, "unexpected", "Something unexpected failed; the server's log says where.")


def stopping_response(path: str) -> Response:
    """Build the response for a request that is cut because the server stops."""
    detail = "The server stopped before this was answered. It may have been done or not; ask again."
    return refusal_response(path, 503, "server_stopping", detail, headers={"Retry-After": "1"}, retryable=True)


def refusal_response(
    path: str,
    status: int,
    code: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    retryable: bool = False,
    **more: Any,
) -> Response:
    """Build the response for an error, in the form that clients of this path read. `more` is for problems alone."""
    if openai_errors.is_openai_path(path):
        return openai_errors.error_response(status, code, detail, headers)
    return problem_response(status, code, detail, headers=headers, retryable=retryable, **more)


def install_handlers(app: FastAPI) -> None:
    """Make the app answer every error as a problem."""

    @app.exception_handler(RecollectError)
    async def handle_recollect_error(request: Request, error: RecollectError) -> Response:
        return error_response(error, request.scope["path"])

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_GONE_STATUS)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
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
        return refusal_response(request.scope["path"], 422, "invalid_request", detail, errors=fields)

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"]
        respond = getattr(error, "response_at", None)  # of `guard.Refusal`
        if respond is not None:
            return cast(Response, respond(path))
        if error.status_code == 404 and openai_errors.is_openai_path(path):
            return openai_errors.not_found_response(path)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        title = _TITLES.get(error.status_code, "Error")
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed_methods(app, request))
        return refusal_response(path, error.status_code, code, f"{title}.", headers=headers)


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    """Return the methods that a path allows. Each is tried, because included routers do not list theirs."""
    scope = {"type": "http", "path": request.scope["path"], "root_path": ""}
    return [
        method
        for method in sorted(HTTPMethod)
        if any(route.matches(scope | {"method": method})[0] == Match.FULL for route in app.routes)
    ]


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI, the problems that a route may answer with."""
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: {"schema": _SCHEMA_REFERENCE}}}
        for status in statuses
    }
