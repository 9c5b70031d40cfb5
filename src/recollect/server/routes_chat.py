"""Chat over server-sent events, and the same for clients of the OpenAI API."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from recollect.chat.chats import Ask
from recollect.server import openai, schemas, sse
from recollect.server.problems import documented
from recollect.server.request import Conversation, IdempotencyKey, Reader, Writer, answer, first_use

router = APIRouter(prefix="/api/v1/conversations", tags=["chat"])
compatible = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events: `sources`, `delta` …, perhaps `error`, `done`.",
        "content": {"text/event-stream": {}},
    }
}


@router.post("/{conversation}/chat", response_class=Response, responses=_STREAM | documented(404, 409, 413, 429))
async def chat(
    asker: Writer,
    conversation: Conversation,
    body: schemas.ChatIn | schemas.RetryIn,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store what is said, answer with memory, store the answer. It goes on when the caller has gone."""
    sse.check_room(asker)
    key = idempotency_key if getattr(body, "memory", "on") == "on" else None  # what is not stored leaves no trace
    prefix = await first_use(asker, key, route=f"chat {conversation}", body=body.model_dump())
    sse.check_room(asker)  # again: nothing is waited for between this and the beginning of the answer
    ask = Ask(conversation, id=prefix, **body.model_dump())
    return sse.of_run(await asker.parts.chats.start(asker.memory, ask))


@router.post("/{conversation}/chat/stop", response_model=schemas.Stopped)
async def stop_chat(asker: Writer, conversation: Conversation) -> Response:
    """Stop the answer that is being written. What there is of it is stored."""
    return answer({"stopped": await asker.parts.chats.stop(asker.memory, conversation)})


@compatible.get("/models", response_model=schemas.Models)
async def models(asker: Reader) -> Response:
    """The built-in assistant, and what the configured model's address offers."""
    return answer({"object": "list", "data": await asker.parts.completions.models()})


@compatible.post(
    "/chat/completions",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": openai.REQUEST}}}},
    responses=openai.RESPONSES,
)
async def complete(
    request: Request,
    asker: Writer,
    conversation: Annotated[
        str | None, Header(alias="X-Recollect-Conversation", pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")
    ] = None,
    mode: Annotated[Literal["on", "read", "off"], Header(alias="X-Recollect-Mode")] = "on",
) -> Response:
    """As OpenAI's, with memory. The conversation is named by the header, by `metadata.conversation` or by `user`."""
    named = None if conversation is None else unquote(conversation)
    return await openai.complete(asker, await request.body(), conversation=named, mode=mode)
