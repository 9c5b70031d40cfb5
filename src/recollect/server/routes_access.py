"""Routes for API keys and for the sessions of browsers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from recollect.admin.access import Key
from recollect.core.errors import Conflict, Denied
from recollect.server import guard, schemas
from recollect.server.problems import problem_responses
from recollect.server.request import Operator, ServerParts, json_response

router = APIRouter(prefix="/api/v1", tags=["access"])


@router.get("/keys", response_model=schemas.KeysOut)
async def list_keys(caller: Operator) -> Response:
    """List all keys, also revoked and expired ones, without their tokens."""
    return json_response({"keys": await caller.parts.access.keys()})


@router.post("/keys", status_code=201, response_model=Key)
async def create_key(caller: Operator, body: schemas.KeyIn) -> Response:
    """Create a key. Its token is in this answer only. The first key is created on the command line."""
    if not await caller.parts.access.requires_keys():
        raise Denied("first_key", "Create the first key on the command line: recollect keys create PERSON")
    return json_response(await caller.parts.access.create_key(**body.model_dump()), 201)


@router.delete("/keys/{key}", status_code=204, responses=problem_responses(404, 409))
async def revoke_key(caller: Operator, key: Annotated[str, Path(min_length=1, max_length=200)]) -> Response:
    """Revoke a key and end its sessions. The key of this request itself cannot be revoked."""
    if key == caller.grant.key:
        raise Conflict("key_in_use", "This request uses that key; revoke it with another key or on the command line.")
    await caller.parts.access.revoke_key(key)
    return Response(status_code=204)


@router.get("/session", response_model=schemas.SessionOut)
async def get_session(request: Request) -> Response:
    """Return the person and key scopes of the session, and its CSRF token; nulls if there is no session."""
    return json_response(await _describe_session(request, guard.read_session_cookie(request.headers.get("cookie", ""))))


@router.post("/session", response_model=schemas.SessionOut, responses=problem_responses(403))
async def login(request: Request, body: schemas.LoginIn) -> Response:
    """Log in with a key. Sets an opaque session cookie that scripts cannot read."""
    parts: ServerParts = request.app.state.parts
    settings = await parts.memory.settings()
    session = await parts.access.login(body.key, hours=settings.server_session_hours)
    if session is None:
        raise Denied("unknown_key", "This key does not exist, has expired or was revoked.")
    cookie = session[0]
    response = json_response(await _describe_session(request, cookie))
    response.set_cookie(
        guard.SESSION_COOKIE, cookie, max_age=int(settings.server_session_hours * 3600), path="/", httponly=True,
        samesite="strict", secure=request.url.scheme == "https",
    )  # fmt: skip
    return response


@router.delete("/session", status_code=204)
async def logout(request: Request) -> Response:
    """End the session and delete its cookie."""
    parts: ServerParts = request.app.state.parts
    cookie = guard.read_session_cookie(request.headers.get("cookie", ""))
    if cookie is not None:
        await parts.access.logout(cookie)
    response = Response(status_code=204)
    response.delete_cookie(guard.SESSION_COOKIE, path="/")
    return response


async def _describe_session(request: Request, cookie: str | None) -> dict[str, object]:
    parts: ServerParts = request.app.state.parts
    grant = request.state.grant or (await parts.access.session(cookie) if cookie else None)
    return {
        "person": grant.principal.person if grant is not None else None,
        "scopes": list(grant.scopes) if grant is not None else [],
        "csrf": grant.csrf if grant is not None else None,
        "keys": await parts.access.requires_keys(),
    }
