"""Keys, and the session of a browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from recollect.admin.access import Key
from recollect.core.errors import Conflict, Denied
from recollect.server import guard, schemas
from recollect.server.problems import documented
from recollect.server.request import Operator, Parts, answer

router = APIRouter(prefix="/api/v1", tags=["access"])


@router.get("/keys", response_model=schemas.Keys)
async def list_keys(asker: Operator) -> Response:
    """All keys there ever were, without what opens anything."""
    return answer({"keys": await asker.parts.access.keys()})


@router.post("/keys", status_code=201, response_model=Key)
async def create_key(asker: Operator, body: schemas.KeyIn) -> Response:
    """A new key. Its token is shown this once. The first one is made on the command line, by who has the database."""
    if not await asker.parts.access.has_keys():
        raise Denied("first_key", "The first key is made on the command line: recollect keys create PERSON")
    return answer(await asker.parts.access.create_key(**body.model_dump()), 201)


@router.delete("/keys/{key}", status_code=204, responses=documented(404, 409))
async def revoke_key(asker: Operator, key: Annotated[str, Path(min_length=1, max_length=200)]) -> Response:
    """Nobody gets in by it any more, nor by its sessions. Not the key that is asked with: nobody locks himself out."""
    if key == asker.grant.key:
        raise Conflict("key_in_use", "Revoke it with another key, or on the command line.")
    await asker.parts.access.revoke_key(key)
    return Response(status_code=204)


@router.get("/session", response_model=schemas.Session)
async def get_session(request: Request) -> Response:
    """Who I am, and the token that a page must send back."""
    return answer(await _shown(request, guard.cookie_of(request.headers.get("cookie", ""))))


@router.post("/session", response_model=schemas.Session, responses=documented(403))
async def login(request: Request, body: schemas.LoginIn) -> Response:
    """Show a key, get a session: an opaque cookie that no script can read."""
    parts: Parts = request.app.state.parts
    settings = await parts.memory.settings()
    made = await parts.access.login(body.key, hours=settings.server_session_hours)
    if made is None:
        raise Denied("unknown_key", "There is no such key, or it is over.")
    response = answer(await _shown(request, made[0]))
    response.set_cookie(
        guard.COOKIE, made[0], max_age=int(settings.server_session_hours * 3600), path="/", httponly=True,
        samesite="strict", secure=request.url.scheme == "https",
    )  # fmt: skip
    return response


@router.delete("/session", status_code=204)
async def logout(request: Request) -> Response:
    """End it."""
    parts: Parts = request.app.state.parts
    cookie = guard.cookie_of(request.headers.get("cookie", ""))
    if cookie is not None:
        await parts.access.logout(cookie)
    response = Response(status_code=204)
    response.delete_cookie(guard.COOKIE, path="/")
    return response


async def _shown(request: Request, cookie: str | None) -> dict[str, object]:
    parts: Parts = request.app.state.parts
    grant = request.state.grant or (await parts.access.session(cookie) if cookie else None)
    return {
        "person": grant.principal.person if grant is not None else None,
        "scopes": list(grant.scopes) if grant is not None else [],
        "csrf": grant.csrf if grant is not None else None,
        "keys": await parts.access.has_keys(),
    }
