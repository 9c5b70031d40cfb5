"""What a person chose to tell about themselves, whether it may be used, and who did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from recollect.core import models
from recollect.core.profile import Profile
from recollect.server import schemas
from recollect.server.request import Reader, Writer, answer

router = APIRouter(prefix="/api/v1/memory", tags=["profile"])


@router.get("/profile", response_model=Profile)
async def get_profile(asker: Reader) -> Response:
    """It is shown only while there is consent."""
    return answer(await asker.memory.profile())


@router.put("/profile", response_model=Profile)
async def set_profile(asker: Writer, body: schemas.ProfileIn) -> Response:
    """Fields that are not named stay; null or an empty text empties one."""
    return answer(await asker.memory.set_profile(body.model_dump(exclude_unset=True)))


@router.get("/consent", response_model=schemas.Consent)
async def get_consent(asker: Reader) -> Response:
    """Whether the profile may be used."""
    return answer({"consent": await asker.memory.consent()})


@router.put("/consent", response_model=schemas.Consent)
async def set_consent(asker: Writer, body: schemas.Consent) -> Response:
    """Grant it, or take it back, which erases the profile."""
    return answer({"consent": await asker.memory.set_consent(body.consent)})


@router.delete("/consent", response_model=models.Receipt)
async def revoke_consent(asker: Writer) -> Response:
    """Switch it off at once, then erase the profile down to the bytes."""
    return answer(await asker.memory.revoke_consent())


@router.get("/audit", response_model=schemas.Audit)
async def list_audit(
    asker: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    """Who did what with this memory, newest first: names and counts, no content."""
    found = await asker.memory.audit(limit=limit, before=before)
    return answer({"entries": found, "next": found[-1].id if len(found) == limit else None})
