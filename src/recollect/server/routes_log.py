"""Routes for conversations, their messages and their briefs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.errors import NotFound
from recollect.server import schemas
from recollect.server.problems import problem_responses
from recollect.server.request import (
    ConversationName,
    IdempotencyKey,
    MessageId,
    Reader,
    Writer,
    claim_idempotency_key,
    json_response,
    json_response_with_etag,
)

router = APIRouter(prefix="/api/v1/conversations", tags=["conversations"])


@router.get("", response_model=schemas.ConversationsOut)
async def list_conversations(
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """List the person's conversations, the one with the newest message first."""
    conversations = await caller.memory.conversations()
    next_offset = offset + limit if len(conversations) > offset + limit else None
    page = conversations[offset : offset + limit]
    return json_response_with_etag(caller, {"conversations": page, "next": next_offset})


@router.get("/{conversation}", response_model=models.Conversation, responses=problem_responses(404))
async def get_conversation(caller: Reader, conversation: ConversationName) -> Response:
    """Return a conversation's title, tags, time zone, counts and times."""
    return json_response_with_etag(caller, await caller.memory.conversation(conversation))


@router.patch("/{conversation}", response_model=models.Conversation, responses=problem_responses(404))
async def update_conversation(
    caller: Writer, conversation: ConversationName, body: schemas.ConversationChangeIn
) -> Response:
    """Change the title, the tags, or the time zone in which times without an offset and days are read."""
    updated = await caller.memory.update_conversation(conversation, title=body.title, tags=body.tags, zone=body.zone)
    return json_response(updated)


@router.delete("/{conversation}", response_model=models.Receipt, responses=problem_responses(404))
async def erase_conversation(caller: Writer, conversation: ConversationName) -> Response:
    """Erase a conversation and everything derived from it, down to the bytes. The receipt counts what was erased."""
    return json_response(await caller.memory.erase(conversation=conversation))


@router.post(
    "/{conversation}/messages",
    status_code=201,
    response_model=schemas.StoredOut,
    responses=problem_responses(409, 413)
    | {200: {"model": schemas.StoredOut, "description": "All messages were stored before."}},
)
async def add_messages(
    caller: Writer,
    conversation: ConversationName,
    body: schemas.MessageIn | schemas.CallIn | schemas.MessagesIn,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store one message or many, in one durable transaction. Messages whose id is stored already are skipped."""
    messages = body.messages if isinstance(body, schemas.MessagesIn) else [body]
    fields = [message.model_dump(exclude_none=True) for message in messages]
    id_prefix = await claim_idempotency_key(caller, idempotency_key, route=f"messages {conversation}", body=fields)
    if id_prefix is not None:
        fields = [{"id": f"{id_prefix}-{index}"} | message for index, message in enumerate(fields)]
    appended = await caller.memory.append(conversation, fields)
    is_new = id_prefix is not None or any(entry.created for entry in appended)
    return json_response({"messages": [entry.message for entry in appended]}, 201 if is_new else 200)


@router.get("/{conversation}/messages", response_model=schemas.MessagesOut, responses=problem_responses(404))
async def list_messages(
    caller: Reader,
    conversation: ConversationName,
    before: Annotated[
        int | None, Query(ge=1, le=2**53, description="return only messages with a smaller seq than this")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return the newest messages, or the newest before a seq, in the order in which they were stored."""
    messages = await caller.memory.history(conversation, before=before, limit=limit + 1)
    page = messages[-limit:]
    if not messages:
        await caller.memory.conversation(conversation)  # raises NotFound if it does not exist
    next_before = page[0].seq if len(messages) > limit else None
    return json_response_with_etag(caller, {"messages": page, "next": next_before})


@router.delete("/{conversation}/messages/{message}", response_model=models.Receipt, responses=problem_responses(404))
async def erase_message(caller: Writer, conversation: ConversationName, message: MessageId) -> Response:
    """Erase one message and everything derived from it, down to the bytes."""
    return json_response(await caller.memory.erase(message=message, conversation=conversation))


@router.post("/{conversation}/messages/{message}/feedback", status_code=204, responses=problem_responses(404))
async def give_feedback(
    caller: Writer, conversation: ConversationName, message: MessageId, body: schemas.FeedbackIn
) -> Response:
    """Rate a message from -1 (bad) to 1 (good); 0 takes a rating back. It changes the importance of its topic."""
    await caller.memory.feedback(message, body.value, kind=body.kind, conversation=conversation)
    return Response(status_code=204)


@router.get("/{conversation}/brief", response_model=dict[str, Any], responses=problem_responses(404))
async def get_brief(
    caller: Reader, conversation: ConversationName, version: Annotated[int | None, Query(ge=1, le=2**31)] = None
) -> Response:
    """Return the brief: the compressed memory of the turns that are older than the newest ones."""
    brief = await caller.memory.brief(conversation, version=version)
    if brief is None:
        raise NotFound("brief_not_found", "This conversation has no such brief yet.")
    return json_response_with_etag(caller, brief)


@router.get("/{conversation}/brief/versions", response_model=schemas.BriefVersionsOut)
async def list_brief_versions(caller: Reader, conversation: ConversationName) -> Response:
    """List the versions of the brief."""
    return json_response({"versions": await caller.memory.brief_versions(conversation)})


@router.post("/{conversation}/compress", response_model=dict[str, Any] | None, responses=problem_responses(409))
async def compress(caller: Writer, conversation: ConversationName, body: schemas.CompressIn) -> Response:
    """Compress older turns into the next version of the brief now. Returns null if nothing is due."""
    return json_response(await caller.memory.compress(conversation, force=body.force))
