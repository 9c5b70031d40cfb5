"""Writes errors in the form of OpenAI's API, for everything below /v1: its clients read no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import Response

from recollect.core.errors import RecollectError
from recollect.core.models import JsonObject
from recollect.server.error_status import retry_headers, status_of
from recollect.server.json_body import encode_json

_ERROR_SCHEMA: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}
_INSTEAD: Final = "Use POST /v1/chat/completions, which has memory."
_HINTS: Final = {  # for operations of OpenAI's API that clients may ask for
    "/v1/responses": f"This server does not offer the Responses API. {_INSTEAD}",
    "/v1/conversations": f"This server does not offer the Conversations API. {_INSTEAD}",
    "/v1/completions": f"This server does not offer the old completions of plain text. {_INSTEAD}",
    "/v1/assistants": f"This server does not offer the Assistants API. {_INSTEAD}",
    "/v1/threads": f"This server does not offer the Assistants API. {_INSTEAD}",
}
_OFFERED: Final = "GET /v1/models, POST /v1/chat/completions and POST /v1/embeddings"


def is_openai_path(path: str) -> bool:
    """Return whether clients of OpenAI's API ask for this path."""
    return path == "/v1" or path.startswith("/v1/")


def from_error(error: RecollectError) -> Response:
    """Build the response for an error of ours, or of the model."""
    return error_response(_status_of(error), error.code, error.full_message, retry_headers(error))


def to_json(error: RecollectError) -> JsonObject:
    """Return an error as a stream has it, whose status is sent already."""
    return _to_json(_status_of(error), error.code, error.full_message)


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response for an error. Invalid requests have status 400, as the clients expect."""
    status = 400 if status in (409, 422) else status
    return Response(encode_json(_to_json(status, code, message)), status, dict(headers or {}), "application/json")


def _to_json(status: int, code: str, message: str) -> JsonObject:
    """Return an error as OpenAI's API has it. Its type follows from the status alone, whoever caused it."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _status_of(error: RecollectError) -> int:
    """Return the status for an error. A request that the model refused as wrong is the caller's fault."""
    return 400 if getattr(error, "status", None) in (400, 404, 413, 422) else status_of(error)


def not_found_response(path: str) -> Response:
    """Build the response for a path that there is not, with what to use instead."""
    hint = next((_HINTS[name] for name in _HINTS if path == name or path.startswith(f"{name}/")), None)
    return error_response(404, "unknown_url", hint or f"There is nothing at this address. This server has {_OFFERED}.")


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI, the errors that an operation may answer with."""
    return {
        status: {
            "description": "An error in OpenAI's form.",
            "content": {"application/json": {"schema": _ERROR_SCHEMA}},
        }
        for status in statuses
    }
