"""Topics: what a conversation speaks of, and what people do with them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.topics import Topic
from recollect.server import schemas
from recollect.server.problems import documented
from recollect.server.request import Conversation, Reader, TopicId, Writer, answer, tagged

router = APIRouter(prefix="/api/v1", tags=["topics"])


@router.get("/conversations/{conversation}/topics", response_model=schemas.Topics)
async def list_topics(asker: Reader, conversation: Conversation) -> Response:
    """In all states: the active one first, then by priority."""
    return tagged(asker, {"topics": await asker.memory.topics(conversation)})


@router.get("/topics", response_model=schemas.TopicHits)
async def search_topics(
    asker: Reader,
    q: Annotated[str, Query(max_length=4096)],
    conversation: Annotated[schemas.Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=0, le=50)] = 5,
) -> Response:
    """Topics that speak of something, best first."""
    return answer({"topics": await asker.memory.search_topics(q, conversation=conversation, limit=limit)})


@router.get("/topics/{topic}", response_model=Topic, responses=documented(404))
async def get_topic(asker: Reader, topic: TopicId) -> Response:
    return tagged(asker, await asker.memory.topic(topic))


@router.get("/topics/{topic}/messages", response_model=schemas.Stored, responses=documented(404))
async def list_topic_messages(asker: Reader, topic: TopicId) -> Response:
    """Every message of it, archived or not, in the order of the log."""
    found = await asker.memory.topic(topic)
    return answer({"messages": await asker.memory.topic_history(found.conversation, topic=found.id)})


@router.get("/topics/{topic}/decay", response_model=schemas.Decay, responses=documented(404))
async def topic_decay(
    asker: Reader,
    topic: TopicId,
    days: Annotated[float | None, Query(gt=0, le=100_000)] = None,
    points: Annotated[int, Query(ge=2, le=1000)] = 60,
) -> Response:
    """How its priority falls if nobody speaks of it again."""
    curve = await asker.memory.topic_decay(topic, days=days, points=points)
    return answer({"points": [{"at": at, "priority": priority} for at, priority in curve]})


@router.patch("/topics/{topic}", response_model=Topic, responses=documented(404, 409))
async def change_topic(asker: Writer, topic: TopicId, body: schemas.TopicChange) -> Response:
    """Name it, tag it, pin it, weigh it, let it rest or bring it back."""
    return answer(await asker.memory.change_topic(topic, **body.model_dump(exclude_none=True)))


@router.post("/topics/{topic}/merge", response_model=Topic, responses=documented(404, 409))
async def merge_topics(asker: Writer, topic: TopicId, body: schemas.MergeIn) -> Response:
    """Another topic becomes part of this one."""
    return answer(await asker.memory.merge_topics(topic, body.topic))


@router.post("/topics/{topic}/unmerge", response_model=Topic, responses=documented(404, 409))
async def unmerge_topic(asker: Writer, topic: TopicId) -> Response:
    """It stands by itself again."""
    return answer(await asker.memory.unmerge_topic(topic))


@router.post("/topics/{topic}/split", response_model=Topic, responses=documented(404, 409))
async def split_topic(asker: Writer, topic: TopicId, body: schemas.SplitIn) -> Response:
    """Some of its messages become a topic of their own."""
    return answer(await asker.memory.split_topic(topic, body.messages, title=body.title))


@router.delete("/topics/{topic}", response_model=models.Receipt, responses=documented(404, 409))
async def erase_topic(asker: Writer, topic: TopicId) -> Response:
    """Erase all that was said of it, down to the bytes."""
    return answer(await asker.memory.erase(topic=topic))
