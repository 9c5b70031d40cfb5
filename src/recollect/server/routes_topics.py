"""Routes for the topics of conversations: listing, searching, changing, merging, splitting and erasing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.topics import Topic
from recollect.server import schemas
from recollect.server.problems import problem_responses
from recollect.server.request import (
    ConversationName,
    Reader,
    TopicId,
    Writer,
    json_response,
    json_response_with_etag,
)

router = APIRouter(prefix="/api/v1", tags=["topics"])


@router.get("/conversations/{conversation}/topics", response_model=schemas.TopicsOut)
async def list_topics(caller: Reader, conversation: ConversationName) -> Response:
    """List the topics of a conversation in all states: the active one first, the others by priority."""
    return json_response_with_etag(caller, {"topics": await caller.memory.topics(conversation)})


@router.get("/topics", response_model=schemas.TopicHitsOut)
async def search_topics(
    caller: Reader,
    q: Annotated[str, Query(max_length=4096)],
    conversation: Annotated[schemas.Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=0, le=50)] = 5,
) -> Response:
    """Search the person's topics, in one conversation or in all of them, the best match first."""
    return json_response({"topics": await caller.memory.search_topics(q, conversation=conversation, limit=limit)})


@router.get("/topics/{topic}", response_model=Topic, responses=problem_responses(404))
async def get_topic(caller: Reader, topic: TopicId) -> Response:
    """Return a topic. For the id of a merged topic, return the one that it was merged into."""
    return json_response_with_etag(caller, await caller.memory.topic(topic))


@router.get("/topics/{topic}/messages", response_model=schemas.StoredOut, responses=problem_responses(404))
async def list_topic_messages(caller: Reader, topic: TopicId) -> Response:
    """Return every message of a topic, archived or not, in the order in which they were stored."""
    stored = await caller.memory.topic(topic)
    return json_response({"messages": await caller.memory.topic_history(stored.conversation, topic=stored.id)})


@router.get("/topics/{topic}/decay", response_model=schemas.DecayOut, responses=problem_responses(404))
async def topic_decay(
    caller: Reader,
    topic: TopicId,
    days: Annotated[float | None, Query(gt=0, le=100_000)] = None,
    points: Annotated[int, Query(ge=2, le=1000)] = 60,
) -> Response:
    """Return how the topic's priority falls after its last message, if no other one follows."""
    curve = await caller.memory.topic_decay(topic, days=days, points=points)
    return json_response({"points": [{"at": at, "priority": priority} for at, priority in curve]})


@router.patch("/topics/{topic}", response_model=Topic, responses=problem_responses(404, 409))
async def change_topic(caller: Writer, topic: TopicId, body: schemas.TopicChangeIn) -> Response:
    """Change a topic's title, tags, pin, importance or state. Fields that are not sent stay as they are."""
    return json_response(await caller.memory.change_topic(topic, **body.model_dump(exclude_none=True)))


@router.post("/topics/{topic}/merge", response_model=Topic, responses=problem_responses(404, 409))
async def merge_topics(caller: Writer, topic: TopicId, body: schemas.MergeIn) -> Response:
    """Merge another topic into this one. `unmerge` takes it back."""
    return json_response(await caller.memory.merge_topics(topic, body.topic))


@router.post("/topics/{topic}/unmerge", response_model=Topic, responses=problem_responses(404, 409))
async def unmerge_topic(caller: Writer, topic: TopicId) -> Response:
    """Separate a merged topic from the one that it was merged into."""
    return json_response(await caller.memory.unmerge_topic(topic))


@router.post("/topics/{topic}/split", response_model=Topic, responses=problem_responses(404, 409))
async def split_topic(caller: Writer, topic: TopicId, body: schemas.SplitIn) -> Response:
    """Move some of a topic's messages into a new topic, and return the new one."""
    return json_response(await caller.memory.split_topic(topic, body.messages, title=body.title))


@router.delete("/topics/{topic}", response_model=models.Receipt, responses=problem_responses(404, 409))
async def erase_topic(caller: Writer, topic: TopicId) -> Response:
    """Erase a topic and all of its messages, down to the bytes. The receipt counts what was erased."""
    return json_response(await caller.memory.erase(topic=topic))
