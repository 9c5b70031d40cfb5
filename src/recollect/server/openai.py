"""The wire of the OpenAI API: its bodies, its stream, its form of errors."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing
from typing import Any, Final
from urllib.parse import quote

from fastapi.responses import Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.chat.chats import Mode
from recollect.chat.completions import Completion, Completions
from recollect.core.errors import Denied, InvalidInput, RecollectError
from recollect.core.models import JsonObject
from recollect.server import problems, sse
from recollect.server.request import Asker, encoded

DEPTH: Final = 64
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_NESTED: Final = {"type": "object", "additionalProperties": True}
REQUEST: Final[JsonObject] = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        "model": {"type": ["string", "null"], "maxLength": 200},
        "messages": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10_000,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"type": "string", "enum": list(_ROLES)},
                    "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": _NESTED}]},
                    "tool_calls": {"type": ["array", "null"], "items": _NESTED},
                    "tool_call_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 200},
                    "name": {"type": ["string", "null"], "maxLength": 200},
                },
            },
        },
        "stream": {"type": ["boolean", "null"]},
        "user": {"type": ["string", "null"]},
        "metadata": {"type": ["object", "null"]},
    },
}
_FORM: Final = {"type": "object", "required": ["error"], "properties": {"error": _NESTED}}
_ERROR: Final = {
    "description": "In OpenAI's form, or a problem where it did not get that far.",
    "content": {"application/json": {"schema": _FORM}, problems.MEDIA_TYPE: {}},
}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A completion, or chunks of one as events.",
        "content": {"application/json": {"schema": _NESTED}, "text/event-stream": {}},
    },
    **dict.fromkeys((400, 429, 502, 504), _ERROR),
}


async def complete(asker: Asker, body: bytes, *, conversation: str | None, mode: Mode) -> Response:
    try:
        request, completions = parse(body), asker.parts.completions
        sse.check_room(asker)
        with ExitStack() as held:
            held.enter_context(completions.counted(asker.memory.principal.person))  # before anything is waited for
            made = await completions.prepare(asker.memory, request, conversation=conversation, mode=mode)
            if request.get("stream"):
                made.held = held.pop_all()
                return await _streamed(completions, made)
            reply = await completions.complete(made)
    except RecollectError as error:
        return refused(error)
    return Response(encoded(reply), 200, _headers(made), "application/json")


def parse(body: bytes) -> JsonObject:
    """A request that can be passed on. What models take beyond that is theirs to judge."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("invalid_json", "The body is not JSON.") from None
    if not isinstance(request, dict) or _is_deep(request):
        raise InvalidInput("invalid_request", f"The body is a JSON object, nested at most {DEPTH} deep.")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > 10_000:
        raise InvalidInput("invalid_messages", "`messages` is a list of at least one message.")
    for place, message in enumerate(messages):
        _check_message(place, message)
    for name, kind in (("model", str), ("stream", bool), ("user", str), ("metadata", dict)):
        if request.get(name) is not None and not isinstance(request[name], kind):
            raise InvalidInput(f"invalid_{name}", f"`{name}` is of another kind.")
    if len(request.get("model") or "") > 200:
        raise InvalidInput("invalid_model", "`model` has at most 200 characters.")
    return request


def _check_message(place: int, message: object) -> None:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise InvalidInput("invalid_message", f"Message {place} has no role that is known.")
    content, calls = message.get("content"), message.get("tool_calls")
    parts = content if isinstance(content, list) else []
    if not (content is None or isinstance(content, str | list)) or not all(isinstance(one, dict) for one in parts):
        raise InvalidInput("invalid_message", f"The content of message {place} is text or a list of parts.")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        raise InvalidInput("invalid_message", f"`tool_calls` of message {place} is a list of objects.")
    for name in ("tool_call_id", "name"):
        value = "-" if message.get(name) is None else message[name]
        if not isinstance(value, str) or len(value) > 200 or (not value and name == "tool_call_id"):
            raise InvalidInput("invalid_message", f"`{name}` of message {place} is text of at most 200 characters.")


def _is_deep(value: object, depth: int = 0) -> bool:
    if depth > DEPTH:
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_is_deep(one, depth + 1) for one in inner)


async def _streamed(completions: Completions, made: Completion) -> Response:
    """The response begins with the first piece: what fails before it has its own status."""
    pieces = completions.stream(made)
    first = await anext(pieces, None)

    async def events() -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            try:
                if first is not None:
                    yield b"data: " + encoded(first) + b"\n\n"
                async for piece in pieces:
                    yield b"data: " + encoded(piece) + b"\n\n"
                yield b"data: [DONE]\n\n"
            except RecollectError as error:
                yield b"data: " + encoded(_error(error)) + b"\n\n"

    return _Pieces(pieces, events(), media_type="text/event-stream", headers=_headers(made))


class _Pieces(StreamingResponse):
    """Ends what it streams also when the client is gone before it began, and not when memory is tidied up."""

    def __init__(self, pieces: AsyncGenerator[JsonObject, None], events: AsyncIterator[bytes], **options: Any) -> None:
        super().__init__(events, **options)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pieces):
            await super().__call__(scope, receive, send)


def _headers(made: Completion) -> dict[str, str]:
    headers = {
        "X-Recollect-Conversation": quote(made.conversation, safe=" /:@+,;=()[]{}!*'"),
        "X-Recollect-Memory-Tokens": str(made.memory_tokens),
        "X-Recollect-Context-Ms": f"{made.context_ms:.1f}",
        "Cache-Control": "no-store",
    }
    if made.degraded:
        headers["X-Recollect-Degraded"] = ",".join(dict.fromkeys(made.degraded))
    return headers


def refused(error: RecollectError) -> Response:
    status = problems.status_of(error)
    status = 400 if status in (409, 422) or _is_theirs(error) else status
    wait = getattr(error, "retry_after", None)
    headers = {"Retry-After": str(max(1, int(wait or 1)))} if status in (429, 503) else {}
    return Response(encoded(_error(error)), status, headers, "application/json")


def _is_theirs(error: RecollectError) -> bool:
    """Whether the model found fault with the request itself."""
    return getattr(error, "status", None) in (400, 404, 413, 422)


def _error(error: RecollectError) -> JsonObject:
    is_request = isinstance(error, InvalidInput | Denied) or _is_theirs(error)
    kind = "invalid_request_error" if is_request else "server_error"
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}
