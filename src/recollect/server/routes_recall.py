"""What a question needs: recall, the context, similar questions; and how recall fares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.server import diagnostics, schemas
from recollect.server.problems import documented
from recollect.server.request import Conversation, Operator, Reader, Writer, answer, tagged

router = APIRouter(prefix="/api/v1", tags=["recall"])

Question = Annotated[str, Query(max_length=4096, description="any text")]
Moment = Annotated[schemas.Moment | None, Query()]
Within = Annotated[schemas.Name | None, Query(description="a conversation")]


@router.get("/recall", response_model=schemas.Recalled, responses=documented(409))
async def recall(
    asker: Reader,
    q: Question,
    conversation: Within = None,
    limit: Annotated[int, Query(ge=0, le=200)] = 10,
    budget: Annotated[int | None, Query(ge=0, le=1_000_000)] = None,
    since: Moment = None,
    until: Moment = None,
) -> Response:
    """What was said that bears on a question, best first, with reasons."""
    found = await asker.memory.recall(
        q, conversation=conversation, limit=limit, budget=budget, since=since, until=until
    )
    return answer(found)


@router.post("/conversations/{conversation}/context", response_model=models.Context, responses=documented(409))
async def context(asker: Reader, conversation: Conversation, body: schemas.ContextIn) -> Response:
    """The smallest prompt that still holds what matters, within a hard budget, and the reasons."""
    given = body.model_dump()
    return answer(await asker.memory.context(conversation, given.pop("query"), **given))


@router.get("/conversations/{conversation}/similar", response_model=schemas.SimilarQuestions)
async def similar(
    asker: Reader, conversation: Conversation, q: Question, limit: Annotated[int, Query(ge=0, le=50)] = 3
) -> Response:
    """Earlier questions like this one, in other conversations, with their age."""
    return answer({"similar": await asker.memory.similar(conversation, q, limit=limit)})


memory = APIRouter(prefix="/api/v1/memory", tags=["memory"])


@memory.get("/metrics", response_model=dict[str, Any])
async def metrics(asker: Reader, since: Moment = None) -> Response:
    """How recall fared in the last 30 days: p50/p95/p99 by stage, hit rate, budget use."""
    return answer(await asker.memory.metrics(since=since))


@memory.get("/debug/retrieval", response_model=dict[str, Any])
async def debug_retrieval(
    asker: Reader,
    q: Question,
    conversation_id: Annotated[schemas.Name | None, Query(alias="conversationId")] = None,
    limit: Annotated[int, Query(ge=0, le=50)] = 10,
) -> Response:
    """Document E's view of one retrieval: results with their sources, times by stage, flags."""
    found = await asker.memory.recall(q, conversation=conversation_id, limit=limit)
    return answer(diagnostics.retrieval(q, found))


@memory.get("/debug/stats", response_model=dict[str, Any])
async def debug_stats(asker: Reader) -> Response:
    """Document E's counts and sizes of what the person has."""
    consent = await asker.memory.consent()
    return answer(diagnostics.stats(await asker.memory.stats(), consent=consent))


@memory.get("/settings", response_model=schemas.SettingsOut)
async def get_settings(asker: Reader) -> Response:
    """The settings in force and where each comes from. Addresses and keys of providers are not shown."""
    settings, origins = await asker.memory.settings(), await asker.memory.setting_origins()
    return tagged(asker, diagnostics.settings(settings, origins))


@memory.patch("/settings", response_model=schemas.SettingsOut, responses=documented(403))
async def change_settings(asker: Writer, body: schemas.SettingsChange) -> Response:
    """Change them now, without a restart: one's own, or everybody's."""
    changes = body.changes.model_dump(exclude_unset=True)
    diagnostics.check_changes(changes, is_operator="admin" in asker.grant.scopes, everybody=body.everybody)
    changed = asker.operator if body.everybody else asker.memory
    await changed.change_settings(**changes)
    settings, origins = await asker.memory.settings(), await asker.memory.setting_origins()
    return answer(diagnostics.settings(settings, origins))


@memory.get("/export", response_class=Response, responses={200: {"content": {"application/x-ndjson": {}}}})
async def export(asker: Reader) -> Response:
    """Everything the person has, as NDJSON that `recollect import` reads."""
    return await diagnostics.export(asker.memory)


@memory.delete("", response_model=models.Receipt)
async def erase_everything(
    asker: Writer, confirm: Annotated[Literal["everything"], Query(description="to be sure")]
) -> Response:
    """Erase everything the person has, down to the bytes."""
    return answer(await asker.memory.erase(person=asker.memory.principal.person))


@memory.get("/check", response_model=dict[str, Any])
async def check(asker: Operator) -> Response:
    """What `recollect doctor` finds."""
    return answer({"findings": await asker.memory.check()})
