"""Routes for the person's profile, the consent to use it, and the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.profile import Profile
from recollect.server import schemas
from recollect.server.request import Reader, Writer, json_response

router = APIRouter(prefix="/api/v1/memory", tags=["profile"])


@router.get("/profile", response_model=Profile)
async def get_profile(caller: Reader) -> Response:
    """Return the person's profile. Its contents are shown only while there is consent."""
    return json_response(await caller.memory.profile())


@router.put("/profile", response_model=Profile)
async def set_profile(caller: Writer, body: schemas.ProfileIn) -> Response:
    """Change the profile. Fields that are not sent stay as they are; null or an empty text clears a field."""
    return json_response(await caller.memory.set_profile(body.model_dump(exclude_unset=True)))


@router.get("/consent", response_model=schemas.ConsentOut)
async def get_consent(caller: Reader) -> Response:
    """Return whether the profile may be used."""
    return json_response({"consent": await caller.memory.consent()})


@router.put("/consent", response_model=schemas.ConsentOut)
async def set_consent(caller: Writer, body: schemas.ConsentIn) -> Response:
    """Grant or withdraw consent to use the profile. Withdrawing erases the profile."""
    return json_response({"consent": await caller.memory.set_consent(body.consent)})


@router.delete("/consent", response_model=models.Receipt)
async def revoke_consent(caller: Writer) -> Response:
    """Withdraw consent at once, then erase the profile down to the bytes. The receipt counts what was erased."""
    return json_response(await caller.memory.revoke_consent())


@router.get("/audit", response_model=schemas.AuditOut)
async def list_audit(
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    """List actions on this person's memory, newest first: who, what, when and counts, no content."""
    entries = await caller.memory.audit(limit=limit, before=before)
    return json_response({"entries": entries, "next": entries[-1].id if len(entries) == limit else None})
