"""Routes for chats: with server-sent events, and for clients of the OpenAI API."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from recollect.chat.completions import Attempt
from recollect.chat.run import ChatRequest
from recollect.core.errors import NotFound
from recollect.server import embeddings, openai, openai_errors, schemas, sse
from recollect.server.problems import problem_responses
from recollect.server.request import (
    ConversationName,
    IdempotencyKey,
    ModelName,
    Reader,
    Writer,
    claim_idempotency_key,
    json_response,
)

router = APIRouter(prefix="/api/v1/conversations", tags=["chat"])
openai_router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])

RETRY_COUNT_HEADER: Final = "x-stainless-retry-count"  # official clients number their attempts with it
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
    return sse.stream_response(caller, await caller.parts.chats.start(caller.memory, request))


@router.post("/{conversation}/chat/stop", response_model=schemas.StoppedOut)
async def stop_chat(caller: Writer, conversation: ConversationName) -> Response:
    """Stop the answers that are being written in this conversation. What is written so far is stored."""
    return json_response({"stopped": await caller.parts.chats.stop(caller.memory, conversation)})


@openai_router.get("/models", response_model=schemas.ModelsOut)
async def models(caller: Reader) -> Response:
    """List the models that can be named: the built-in assistant `recollect`, then those of the configured address."""
    return json_response({"object": "list", "data": await caller.parts.completions.models()})


@openai_router.get(
    "/models/{model:path}", response_model=schemas.ModelOut, responses=openai_errors.error_responses(404)
)
async def get_model(caller: Reader, model: ModelName) -> Response:
    """Return one of the models, or the embedder."""
    if model in embeddings.MODEL_NAMES[:2]:
        return json_response({"id": model, "object": "model", "created": 0, "owned_by": "recollect"})
    for listed in await caller.parts.completions.models():
        if listed["id"] == model:
            return json_response(listed)
    raise NotFound("model_not_found", f"There is no model {model[:80]!r} here. GET /v1/models lists those there are.")


@openai_router.post(
    "/embeddings",
    response_model=schemas.EmbeddingsOut,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": embeddings.REQUEST_SCHEMA}}}
    },
    responses=openai_errors.error_responses(404),
)
async def embed(request: Request, caller: Reader) -> Response:
    """Embed texts with the built-in embedder. Nothing is stored, and no memory is read."""
    body = await request.body()
    sse.check_stream_limit(caller)
    with caller.parts.completions.counted(caller.memory.principal.person):
        return await caller.parts.embeddings.create(body)


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
    mode: Annotated[Literal["auto", "on", "read", "off"], Header(alias="X-Recollect-Mode")] = "auto",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Answer as OpenAI's API does, with memory added to the prompt.

    The conversation is named by the header, else by `metadata.conversation`, else it is found by the history that is
    sent. `user` names the person on a server without keys and for keys with the scope `act_as`. In the mode
    `auto`, memory is on, except for titles, tags and the like that a front-end asks for itself: they are answered and
    not stored.
    """
    attempt = Attempt(idempotency_key, is_retry=request.headers.get(RETRY_COUNT_HEADER, "0") != "0")
    chosen, body = None if mode == "auto" else mode, await request.body()
    return await openai.complete(caller, body, conversation=conversation, mode=chosen, attempt=attempt)
