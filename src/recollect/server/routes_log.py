"""Conversations and their messages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.errors import NotFound
from recollect.server import schemas
from recollect.server.problems import documented
from recollect.server.request import Conversation, IdempotencyKey, MessageId, Reader, Writer, answer, first_use, tagged

router = APIRouter(prefix="/api/v1/conversations", tags=["conversations"])


@router.get("", response_model=schemas.Conversations)
async def list_conversations(
    asker: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """The person's conversations, the latest first."""
    found = await asker.memory.conversations()
    more = offset + limit if len(found) > offset + limit else None
    return tagged(asker, {"conversations": found[offset : offset + limit], "next": more})


@router.get("/{conversation}", response_model=models.Conversation, responses=documented(404))
async def get_conversation(asker: Reader, conversation: Conversation) -> Response:
    return tagged(asker, await asker.memory.conversation(conversation))


@router.patch("/{conversation}", response_model=models.Conversation, responses=documented(404))
async def update_conversation(asker: Writer, conversation: Conversation, body: schemas.ConversationChange) -> Response:
    """Give it a title, tags, or the time zone in which its times and days are read."""
    changed = await asker.memory.update_conversation(conversation, title=body.title, tags=body.tags, zone=body.zone)
    return answer(changed)


@router.delete("/{conversation}", response_model=models.Receipt, responses=documented(404))
async def erase_conversation(asker: Writer, conversation: Conversation) -> Response:
    """Erase it, down to the bytes. The receipt says what went."""
    return answer(await asker.memory.erase(conversation=conversation))


@router.post(
    "/{conversation}/messages",
    status_code=201,
    response_model=schemas.Stored,
    responses=documented(409, 413) | {200: {"model": schemas.Stored, "description": "All were known."}},
)
async def add_messages(
    asker: Writer,
    conversation: Conversation,
    body: schemas.MessageIn | schemas.CallIn | schemas.MessagesIn,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store one message or many, in one durable transaction; known ids are skipped."""
    many = body.messages if isinstance(body, schemas.MessagesIn) else [body]
    given = [one.model_dump(exclude_none=True) for one in many]
    prefix = await first_use(asker, idempotency_key, route=f"messages {conversation}", body=given)
    if prefix is not None:
        given = [{"id": f"{prefix}-{place}"} | one for place, one in enumerate(given)]
    stored = await asker.memory.append(conversation, given)
    is_new = prefix is not None or any(one.created for one in stored)
    return answer({"messages": [one.message for one in stored]}, 201 if is_new else 200)


@router.get("/{conversation}/messages", response_model=schemas.Messages, responses=documented(404))
async def list_messages(
    asker: Reader,
    conversation: Conversation,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only below this seq")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The newest messages, or those before a seq, in the order of the log."""
    found = await asker.memory.history(conversation, before=before, limit=limit + 1)
    page = found[-limit:]
    if not found:
        await asker.memory.conversation(conversation)  # is not found, if it is not there
    return tagged(asker, {"messages": page, "next": page[0].seq if len(found) > limit else None})


@router.delete("/{conversation}/messages/{message}", response_model=models.Receipt, responses=documented(404))
async def erase_message(asker: Writer, conversation: Conversation, message: MessageId) -> Response:
    """Erase one message, down to the bytes."""
    return answer(await asker.memory.erase(message=message, conversation=conversation))


@router.post("/{conversation}/messages/{message}/feedback", status_code=204, responses=documented(404))
async def give_feedback(
    asker: Writer, conversation: Conversation, message: MessageId, body: schemas.FeedbackIn
) -> Response:
    """What became of a message: +1 or -1, 0 takes it back. The importance of its topic follows."""
    await asker.memory.feedback(message, body.value, kind=body.kind, conversation=conversation)
    return Response(status_code=204)


@router.get("/{conversation}/brief", response_model=dict[str, Any], responses=documented(404))
async def get_brief(
    asker: Reader, conversation: Conversation, version: Annotated[int | None, Query(ge=1, le=2**31)] = None
) -> Response:
    """The compressed memory of what is older than the newest turns."""
    found = await asker.memory.brief(conversation, version=version)
    if found is None:
        raise NotFound("brief_not_found", "There is no such brief yet.")
    return tagged(asker, found)


@router.get("/{conversation}/brief/versions", response_model=schemas.Versions)
async def list_brief_versions(asker: Reader, conversation: Conversation) -> Response:
    return answer({"versions": await asker.memory.brief_versions(conversation)})


@router.post("/{conversation}/compress", response_model=dict[str, Any] | None, responses=documented(409))
async def compress(asker: Writer, conversation: Conversation, body: schemas.CompressIn) -> Response:
    """Fold what is due into the brief now; null if nothing is due."""
    return answer(await asker.memory.compress(conversation, force=body.force))
