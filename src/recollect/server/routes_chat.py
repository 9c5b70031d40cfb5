"""Routes for chats: with server-sent events, and for clients of the OpenAI API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from recollect.chat.run import ChatRequest
from recollect.server import openai, schemas, sse
from recollect.server.problems import problem_responses
from recollect.server.request import (
    ConversationName,
    IdempotencyKey,
    Reader,
    Writer,
    claim_idempotency_key,
    json_response,
)

router = APIRouter(prefix="/api/v1/conversations", tags=["chat"])
openai_router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])

_STREAM_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: one `sources`, any number of `delta`, at most one `error`, one `done`.",
        "content": {"text/event-stream": {}},
    }
}


@router.post(
    "/{conversation}/chat",
    response_class=Response,
    responses=_STREAM_RESPONSE | problem_responses(404, 409, 413, 429),
)
async def chat(
    caller: Writer,
    conversation: ConversationName,
    body: schemas.ChatIn | schemas.RetryIn,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store the message, answer it with memory, and store the answer, also if the caller disconnects meanwhile."""
    sse.check_stream_limit(caller)
    # A chat that stores nothing must not store its idempotency key either.
    key = idempotency_key if getattr(body, "memory", "on") == "on" else None
    id_prefix = await claim_idempotency_key(caller, key, route=f"chat {conversation}", body=body.model_dump())
    sse.check_stream_limit(caller)  # again, because others may have started while the key was claimed
    request = ChatRequest(conversation, id=id_prefix, **body.model_dump())
    return sse.stream_response(await caller.parts.chats.start(caller.memory, request))


@router.post("/{conversation}/chat/stop", response_model=schemas.StoppedOut)
async def stop_chat(caller: Writer, conversation: ConversationName) -> Response:
    """Stop the answers that are being written in this conversation. What is written so far is stored."""
    return json_response({"stopped": await caller.parts.chats.stop(caller.memory, conversation)})


@openai_router.get("/models", response_model=schemas.ModelsOut)
async def models(caller: Reader) -> Response:
    """List the models that can be named: the built-in assistant `recollect`, then those of the configured address."""
    return json_response({"object": "list", "data": await caller.parts.completions.models()})


@openai_router.post(
    "/chat/completions",
    response_class=Response,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": openai.REQUEST_SCHEMA}}}
    },
    responses=openai.RESPONSES,
)
async def complete(
    request: Request,
    caller: Writer,
    conversation: Annotated[
        str | None, Header(alias="X-Recollect-Conversation", pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")
    ] = None,
    mode: Annotated[Literal["on", "read", "off"], Header(alias="X-Recollect-Mode")] = "on",
) -> Response:
    """Answer as OpenAI's API does, with memory added to the prompt.

    The conversation is named by the header, else by `metadata.conversation`, else by `user`.
    """
    return await openai.complete(caller, await request.body(), conversation=conversation, mode=mode)
