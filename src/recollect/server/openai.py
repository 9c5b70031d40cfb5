"""Speaks the OpenAI API over HTTP: checks request bodies and streams chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from typing import Any, Final
from urllib.parse import quote

from fastapi.responses import Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.chat.completions import FIRST_ATTEMPT, Attempt, Completion
from recollect.chat.run import MemoryMode
from recollect.core.errors import InvalidInput, RecollectError
from recollect.core.models import JsonObject
from recollect.server import openai_errors, sse
from recollect.server.json_body import encode_json
from recollect.server.request import Caller, decode_name

MAX_JSON_DEPTH: Final = 64
MAX_MESSAGES: Final = 10_000
MAX_NAME_CHARACTERS: Final = 200
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}
REQUEST_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        "model": {"type": ["string", "null"], "maxLength": MAX_NAME_CHARACTERS},
        "messages": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_MESSAGES,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"type": "string", "enum": list(_ROLES)},
                    "content": {
                        "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": _ANY_OBJECT}]
                    },
                    "tool_calls": {"type": ["array", "null"], "items": _ANY_OBJECT},
                    "tool_call_id": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_CHARACTERS},
                    "name": {"type": ["string", "null"], "maxLength": MAX_NAME_CHARACTERS},
                },
            },
        },
        "stream": {"type": ["boolean", "null"]},
        "user": {"type": ["string", "null"]},
        "metadata": {"type": ["object", "null"]},
    },
    "examples": [{"messages": [{"role": "user", "content": "What can I not eat?"}]}],
}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A completion; with `stream`, its chunks as server-sent events.",
        "content": {"application/json": {"schema": _ANY_OBJECT}, "text/event-stream": {}},
    },
    **openai_errors.error_responses(400, 429, 502, 504),
}


async def complete(
    caller: Caller, body: bytes, *, conversation: str | None, mode: MemoryMode | None, attempt: Attempt = FIRST_ATTEMPT
) -> Response:
    """Answer a request for a completion, whole or streamed. Errors of ours become errors in OpenAI's form.

    `conversation` is percent-encoded, as the header has it.
    """
    try:
        request, completions = parse_request(body), caller.parts.completions
        if request.get("user") is not None:
            caller = caller.act_as(request["user"])
        conversation = None if conversation is None else decode_name(conversation, "conversation")
        sse.check_stream_limit(caller)
        with ExitStack() as on_end:
            # Counted before the first await, so that requests at the same time cannot exceed the limit.
            on_end.enter_context(completions.counted(caller.memory.principal.person))
            completion = await completions.prepare(
                caller.memory, request, conversation=conversation, mode=mode, attempt=attempt
            )
            if request.get("stream"):
                completion.on_end = on_end.pop_all()
                return await _stream_response(caller, completion)
            with caller.watch() as watch:
                async with watch:
                    reply = await completions.complete(completion)
    except RecollectError as error:
        return openai_errors.from_error(error)
    return Response(encode_json(reply), 200, _memory_headers(completion), "application/json")


def parse_request(body: bytes) -> JsonObject:
    """Parse and check the fields that we read ourselves. All other fields are left for the model to judge."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("invalid_json", "The body is not JSON.") from None
    if not isinstance(request, dict) or _is_too_deep(request):
        raise InvalidInput(
            "invalid_request", f"The body must be a JSON object, nested at most {MAX_JSON_DEPTH} levels deep."
        )
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > MAX_MESSAGES:
        raise InvalidInput("invalid_messages", f"`messages` must be a list of 1 to {MAX_MESSAGES} messages.")
    for index, message in enumerate(messages):
        _check_message(index, message)
    for name, kind, kind_name in (
        ("model", str, "a text"), ("stream", bool, "true or false"), ("user", str, "a text"),
        ("metadata", dict, "an object"),
    ):  # fmt: skip
        if request.get(name) is not None and not isinstance(request[name], kind):
            raise InvalidInput(f"invalid_{name}", f"`{name}` must be {kind_name}.")
    if len(request.get("model") or "") > MAX_NAME_CHARACTERS:
        raise InvalidInput("invalid_model", f"`model` has at most {MAX_NAME_CHARACTERS} characters.")
    return request


def _check_message(index: int, message: object) -> None:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise InvalidInput("invalid_message", f"Message {index} needs a role: {', '.join(_ROLES)}.")
    content, calls = message.get("content"), message.get("tool_calls")
    parts = content if isinstance(content, list) else []
    if not (content is None or isinstance(content, str | list)) or not all(isinstance(part, dict) for part in parts):
        raise InvalidInput("invalid_message", f"The content of message {index} must be a text or a list of parts.")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        raise InvalidInput("invalid_message", f"`tool_calls` of message {index} must be a list of objects.")
    for name in ("tool_call_id", "name"):
        value = "-" if message.get(name) is None else message[name]
        is_missing = not value and name == "tool_call_id"
        if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS or is_missing:
            limits = f"a text of at most {MAX_NAME_CHARACTERS} characters"
            raise InvalidInput("invalid_message", f"`{name}` of message {index} must be {limits}.")


def _is_too_deep(value: object, depth: int = 0) -> bool:
    if depth > MAX_JSON_DEPTH:
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_is_too_deep(child, depth + 1) for child in inner)


async def _stream_response(caller: Caller, completion: Completion) -> Response:
    """Build the response when the first chunk has come, so that an earlier failure has a status of its own.

    If the caller's key is no longer good, the stream ends, and what was written is stored.
    """
    chunks = caller.parts.completions.stream(completion)

    def note_reason() -> None:
        completion.cut_by = "access_ended"

    with caller.watch(note_reason) as watch:
        async with watch:
            first = await anext(chunks, None)

    async def encode_events() -> AsyncGenerator[bytes, None]:
        chunk = first
        async with aclosing(chunks):
            try:
                with caller.watch(note_reason) as watch:
                    while chunk is not None:
                        yield b"data: " + encode_json(chunk) + b"\n\n"
                        async with watch:
                            chunk = await anext(chunks, None)
                yield b"data: [DONE]\n\n"
            except RecollectError as error:
                yield b"data: " + encode_json(openai_errors.to_json(error)) + b"\n\n"

    return _ChunkResponse(chunks, encode_events(), media_type="text/event-stream", headers=_memory_headers(completion))


class _ChunkResponse(StreamingResponse):
    """A stream that closes its chunks at once, also if the client leaves before the first one is sent.

    Otherwise they would be closed only when Python collects garbage.
    """

    def __init__(
        self, chunks: AsyncGenerator[JsonObject, None], events: AsyncGenerator[bytes, None], **options: Any
    ) -> None:
        super().__init__(events, **options)
        self._chunks, self._events = chunks, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._chunks), aclosing(self._events):
            await super().__call__(scope, receive, send)


def _memory_headers(completion: Completion) -> dict[str, str]:
    headers = {
        "X-Recollect-Memory-Tokens": str(completion.memory_tokens),
        "X-Recollect-Context-Ms": f"{completion.context_ms:.1f}",
        "Cache-Control": "no-store",
    }
    if completion.conversation is not None:
        headers["X-Recollect-Conversation"] = quote(completion.conversation, safe=" /:@+,;=()[]{}!*'")
    if completion.is_task:
        headers["X-Recollect-Task"] = "true"
    if completion.left_out:
        headers["X-Recollect-Left-Out"] = str(completion.left_out)
    if completion.degraded:
        headers["X-Recollect-Degraded"] = ",".join(dict.fromkeys(completion.degraded))
    return headers
