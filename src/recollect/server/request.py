"""Who asks in a request, and how it is answered: what every route is given and gives back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Request
from fastapi.responses import Response
from pydantic import AfterValidator
from pydantic_core import PydanticSerializationError, to_json

from recollect.admin.access import Access, Grant
from recollect.chat.chats import Chats
from recollect.chat.completions import Completions
from recollect.core.errors import Conflict, Denied
from recollect.core.models import OPERATOR, Context, Record, plain
from recollect.memory import AsyncMemory
from recollect.server.guard import SLASH

NAME: Final = r"^[^\u0000]*[^\s\u0000-\u001f\u007f-\u00a0][^\u0000]*$"  # a character that can be seen, and no NUL


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server is made of."""

    memory: AsyncMemory
    access: Access
    chats: Chats
    completions: Completions


@dataclass(frozen=True, slots=True)
class Asker:
    """Whoever asks, with the memory that is theirs."""

    memory: AsyncMemory
    grant: Grant
    parts: Parts
    request: Request

    @property
    def operator(self) -> AsyncMemory:
        """The memory under no name, whose settings hold for everybody."""
        return self.parts.memory.of(OPERATOR, actor=self.grant.key)


def _asker(scope: str) -> Callable[[Request], Awaitable[Asker]]:
    async def asker(request: Request) -> Asker:  # not a plain function, which would run in a thread
        grant: Grant = request.state.grant
        if scope not in grant.scopes:
            raise Denied("scope_needed", f"This key has not the scope {scope!r}.")
        parts: Parts = request.app.state.parts
        return Asker(parts.memory.of(grant.principal, actor=grant.key), grant, parts, request)

    return asker


Reader = Annotated[Asker, Depends(_asker("read"))]
Writer = Annotated[Asker, Depends(_asker("write"))]
Operator = Annotated[Asker, Depends(_asker("admin"))]

Named = AfterValidator(lambda name: name.replace(SLASH, "/"))
Conversation = Annotated[
    str,
    Path(min_length=1, max_length=200, pattern=NAME, description="its name, the person's own", examples=["trip"]),
    Named,
]
MessageId = Annotated[str, Path(min_length=1, max_length=200, pattern=NAME, description="the id of a message"), Named]
TopicId = Annotated[str, Path(min_length=1, max_length=200, pattern=NAME, description="the id of a topic"), Named]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,200}$",
        description="the same request with the same key is done once, whatever happens in between",
    ),
]


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON, written at once: records know how."""
    return Response(encoded(data), status, headers, "application/json")


def encoded(data: Any) -> bytes:
    if isinstance(data, Context):  # the largest answer, asked for most often; it has no times, which others write
        with suppress(PydanticSerializationError):  # for half a character, which takes the longer way
            return to_json(data)
    return _ENCODER.encode(data).encode("utf-8", "replace")


def _fields(value: object) -> Any:
    """What JSON does not know itself; a record is not copied before it is written."""
    if isinstance(value, Record):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
    return plain(value)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_fields)


def tagged(asker: Asker, data: Any) -> Response:
    """With an ETag, so that who has it already is told so and no more."""
    body = encoded(data)
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = asker.request.headers.get("if-none-match", "")
    if tag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


async def first_use(asker: Asker, key: str | None, *, route: str, body: Any) -> str | None:
    """A prefix for ids made of the idempotency key, so that a repeated request finds what it did the first time."""
    if key is None:
        return None
    fingerprint = await asker.parts.access.keyed(
        f"{route}\n{encoded(body).decode()}"
    )  # of which nothing can be guessed
    memory = asker.memory
    await memory.open()
    first = await memory.store.serving.first_use(memory.principal, key, fingerprint, now=memory.clock.now())
    if first != fingerprint:
        raise Conflict("idempotency_key_reused", "This Idempotency-Key was used for another request.")
    return "i-" + hashlib.sha256(f"{memory.principal.person}\n{key}\n".encode() + fingerprint).hexdigest()[:40]
