"""Gives a route its caller and the caller's memory, and writes the route's answer as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Header, Path, Request
from fastapi.responses import Response
from pydantic import AfterValidator

from recollect.admin.access import Access, Grant
from recollect.admin.named_person import act_as
from recollect.admin.server_state import SharedServerState
from recollect.chat.chats import Chats
from recollect.chat.completions import Completions
from recollect.core.errors import Conflict, Denied, InvalidInput
from recollect.core.models import OPERATOR
from recollect.memory import AsyncMemory
from recollect.runtime.interruption import Interruption
from recollect.server.embeddings import Embeddings
from recollect.server.exports import ExportSlots
from recollect.server.grant_watch import GrantWatcher
from recollect.server.guard import SLASH_STAND_IN
from recollect.server.json_body import encode_json

VISIBLE_PATTERN: Final = r"^[^\u0000]*[^\s\u0000-\u001f\u007f-\u00a0][^\u0000]*$"  # a visible character, no NUL


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The objects that all routes of a server share."""

    memory: AsyncMemory
    access: Access
    chats: Chats
    completions: Completions
    grants: GrantWatcher
    embeddings: Embeddings
    exports: ExportSlots
    max_streams: int  # answers that one person may have at once


@dataclass(frozen=True, slots=True)
class Caller:
    """The person who sent a request: their memory, and what their key allows."""

    memory: AsyncMemory
    grant: Grant
    parts: ServerParts
    request: Request

    def act_as(self, person: str) -> Caller:
        """Return the caller as the person whom a body names, if the key may act for others; otherwise the same."""
        grant = act_as(self.grant, person)
        if grant is self.grant:
            return self
        self.request.state.move_token(self.grant, grant)
        memory = self.parts.memory.of(grant.principal, actor=grant.key)
        return dataclasses.replace(self, memory=memory, grant=grant)

    @property
    def operator_memory(self) -> AsyncMemory:
        """Return the operator's memory. Its settings apply to everybody."""
        return self.parts.memory.of(OPERATOR, actor=self.grant.key)

    def watch(self, on_end: Callable[[], None] = lambda: None) -> AbstractContextManager[Interruption]:
        """Watch, for as long as an answer is sent, whether the key or session of the request is still good."""
        return self.parts.grants.watch(self.grant, on_end)


def _require(key_scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """Build a FastAPI dependency that returns the caller, or refuses keys without this key scope."""

    async def find_caller(request: Request) -> Caller:  # async, because FastAPI runs plain functions in a thread
        grant: Grant = request.state.grant
        if key_scope not in grant.scopes:
            raise Denied("scope_needed", f"This needs a key with the scope {key_scope!r}.")
        parts: ServerParts = request.app.state.parts
        return Caller(parts.memory.of(grant.principal, actor=grant.key), grant, parts, request)

    return find_caller


Reader = Annotated[Caller, Depends(_require("read"))]
Writer = Annotated[Caller, Depends(_require("write"))]
Operator = Annotated[Caller, Depends(_require("admin"))]

_restore_slashes = AfterValidator(lambda name: name.replace(SLASH_STAND_IN, "/"))
ConversationName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=VISIBLE_PATTERN,
        description="the name of the conversation; each person has names of their own",
        examples=["trip"],
    ),
    _restore_slashes,
]
MessageId = Annotated[
    str,
    Path(min_length=1, max_length=200, pattern=VISIBLE_PATTERN, description="the id of a message"),
    _restore_slashes,
]
TopicId = Annotated[
    str, Path(min_length=1, max_length=200, pattern=VISIBLE_PATTERN, description="the id of a topic"), _restore_slashes
]
ModelName = Annotated[
    str, Path(max_length=200, description="the name of a model", examples=["recollect"]), _restore_slashes
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,200}$",
        description="a key of your choice: however often you repeat the request with it, it is done once",
    ),
]


def decode_name(header: str, what: str) -> str:
    """Return a name that a header carries percent-encoded. Raise InvalidInput if its bytes are not UTF-8."""
    try:
        return unquote_to_bytes(header.encode("latin-1")).decode()
    except UnicodeError:
        raise InvalidInput(f"invalid_{what}", f"The {what} is not UTF-8 after percent-decoding.") from None


def json_response(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Build a JSON response from anything that `encode_json` takes."""
    return Response(encode_json(data), status, headers, "application/json")


def json_response_with_etag(caller: Caller, data: Any) -> Response:
    """Build a JSON response with an ETag, or an empty 304 if the caller has this version already."""
    body = encode_json(data)
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if_none_match = caller.request.headers.get("if-none-match", "")
    if etag in (tag.strip().removeprefix("W/") for tag in if_none_match.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


async def claim_idempotency_key(caller: Caller, key: str | None, *, route: str, body: Any) -> str | None:
    """Return a prefix for message ids, the same for every repetition of a request; None without a key.

    A repeated request then finds the messages that the first one stored. The same key with another route or body is
    refused. Only a keyed hash of the body is stored, so nothing of it can be guessed.
    """
    if key is None:
        return None
    fingerprint = await caller.parts.access.keyed_hash(f"{route}\n{encode_json(body).decode()}")
    memory = caller.memory
    await memory.open()
    if await SharedServerState(memory).first_fingerprint(key, fingerprint) != fingerprint:
        raise Conflict("idempotency_key_reused", "This Idempotency-Key was used for another request; choose a new one.")
    return "i-" + hashlib.sha256(f"{memory.principal.person}\n{key}\n".encode() + fingerprint).hexdigest()[:40]
