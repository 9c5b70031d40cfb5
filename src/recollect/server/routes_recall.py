"""Routes for recall and contexts, and for the person's memory as a whole: metrics, settings, export, erasing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.server import diagnostics, exports, schemas
from recollect.server.problems import problem_responses
from recollect.server.request import (
    Caller,
    ConversationName,
    Operator,
    Reader,
    Writer,
    json_response,
    json_response_with_etag,
)

router = APIRouter(prefix="/api/v1", tags=["recall"])
memory_router = APIRouter(prefix="/api/v1/memory", tags=["memory"])
_EXPORT_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/x-ndjson": {}}}}

QuestionParam = Annotated[str, Query(max_length=4096, description="the question, as any text")]
MomentParam = Annotated[schemas.Moment | None, Query()]
ConversationParam = Annotated[schemas.Name | None, Query(description="search only this conversation")]


@router.get("/recall", response_model=schemas.RecallOut, responses=problem_responses(409))
async def recall(
    caller: Reader,
    q: QuestionParam,
    conversation: ConversationParam = None,
    limit: Annotated[int, Query(ge=0, le=200)] = 10,
    budget: Annotated[int | None, Query(ge=0, le=1_000_000)] = None,
    min_relevance: Annotated[float | None, Query(ge=0, le=1)] = None,
    since: MomentParam = None,
    until: MomentParam = None,
) -> Response:
    """Return the messages that help to answer a question, the best first, with the parts of their scores."""
    recalled = await caller.memory.recall(
        q,
        conversation=conversation,
        limit=limit,
        budget=budget,
        since=since,
        until=until,
        min_relevance=min_relevance,
    )
    return json_response(recalled)


@router.post("/conversations/{conversation}/context", response_model=models.Context, responses=problem_responses(409))
async def context(caller: Reader, conversation: ConversationName, body: schemas.ContextIn) -> Response:
    """Build the smallest prompt that still holds what matters for a question.

    It never has more tokens than the budget. `explain` says what is in it, what was left out, and why.
    """
    options = body.model_dump()
    return json_response(await caller.memory.context(conversation, options.pop("query"), **options))


@router.get("/conversations/{conversation}/similar", response_model=schemas.SimilarOut)
async def similar(
    caller: Reader,
    conversation: ConversationName,
    q: QuestionParam,
    limit: Annotated[int, Query(ge=0, le=50)] = 3,
) -> Response:
    """Return earlier, similar questions from the person's other conversations, with their age."""
    return json_response({"similar": await caller.memory.similar(conversation, q, limit=limit)})


@memory_router.get("/metrics", response_model=dict[str, Any])
async def metrics(caller: Reader, since: MomentParam = None) -> Response:
    """Return figures on recall, of the last 30 days by default: p50/p95/p99 by stage, hit rate, budget use."""
    return json_response(await caller.memory.metrics(since=since))


@memory_router.get("/debug/retrieval", response_model=dict[str, Any])
async def debug_retrieval(
    caller: Reader,
    q: QuestionParam,
    conversation: ConversationParam = None,
    conversation_id: Annotated[
        schemas.Name | None,
        Query(alias="conversationId", description="another name of `conversation`, which counts if both are given"),
    ] = None,
    limit: Annotated[int, Query(ge=0, le=50)] = 10,
) -> Response:
    """Recall, and show how: results with their sources, times by stage, flags."""
    recalled = await caller.memory.recall(q, conversation=conversation or conversation_id, limit=limit)
    return json_response(diagnostics.retrieval_to_json(q, recalled))


@memory_router.get("/debug/stats", response_model=dict[str, Any])
async def debug_stats(caller: Reader) -> Response:
    """Return counts and sizes of everything that the person has stored."""
    consent = await caller.memory.consent()
    return json_response(diagnostics.stats_to_json(await caller.memory.stats(), consent=consent))


@memory_router.get("/settings", response_model=schemas.SettingsOut)
async def get_settings(caller: Reader) -> Response:
    """Return the settings in force and where each comes from. Addresses and keys of providers are not shown."""
    return json_response_with_etag(caller, await _read_settings(caller))


@memory_router.patch("/settings", response_model=schemas.SettingsOut, responses=problem_responses(403))
async def change_settings(caller: Writer, body: schemas.SettingsChangeIn) -> Response:
    """Change settings without a restart: the caller's own, or those of everybody, for which a key needs `admin`."""
    changes = body.changes.model_dump(exclude_unset=True)
    diagnostics.check_changes(changes, is_operator="admin" in caller.grant.scopes, everybody=body.everybody)
    target = caller.operator_memory if body.everybody else caller.memory
    await target.change_settings(**changes)
    return json_response(await _read_settings(caller))


async def _read_settings(caller: Caller) -> models.JsonObject:
    settings, origins = await caller.memory.settings(), await caller.memory.setting_origins()
    return diagnostics.settings_to_json(settings, origins)


@memory_router.get(
    "/export",
    response_class=Response,
    responses=_EXPORT_RESPONSE | problem_responses(429),
)
async def export(caller: Reader) -> Response:
    """Export everything that the person has as NDJSON, which `recollect import` reads."""
    return await exports.export_response(caller.memory, caller.parts.exports, caller.watch)


@memory_router.delete("", response_model=models.Receipt)
async def erase_everything(
    caller: Writer,
    confirm: Annotated[Literal["everything"], Query(description="protects against calls by mistake")],
) -> Response:
    """Erase everything that the person has, down to the bytes. The receipt counts what was erased."""
    await caller.parts.access.protect_keys(caller.grant)
    return json_response(await caller.memory.erase(person=caller.memory.principal.person))


@memory_router.get("/check", response_model=dict[str, Any])
async def check(caller: Operator) -> Response:
    """Check the database and the settings, and return the same findings as `recollect doctor`."""
    return json_response({"findings": await caller.memory.check()})
