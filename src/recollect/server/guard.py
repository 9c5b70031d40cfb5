"""What stands before every route: which host, which page, how large, who, how often. Plain ASGI, so it costs little.

A request passes here first and is logged here last: method, route, status, sizes, times and the id of the key, never a
query, a body or a key.
"""

from __future__ import annotations

import hmac
import logging
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response

from recollect.admin.access import SCOPES, Access, Grant
from recollect.core.errors import RecollectError
from recollect.core.models import Principal
from recollect.runtime.error_log import log_unexpected
from recollect.server import problems, spans

log = logging.getLogger("recollect.server.access")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE: Final = "recollect_session"
SLASH: Final = "\ue02f"  # stands for a slash inside a name, on the way to its route
SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
OPEN: Final = frozenset(("/healthz", "/readyz", "/api/v1/session"))  # asked before anybody is known
LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))
LOCAL: Final = "local"  # where there never was a key: the one person of this machine, whom nobody slows down
CALLERS: Final = 10_000  # whose rate is kept in mind


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator allows."""

    hosts: frozenset[str] = LOOPBACK
    origins: frozenset[str] = frozenset()
    body_bytes: int = 2 * 1024 * 1024
    rate_per_minute: int = 0
    person: str = "local"  # who asks where there are no keys


@dataclass(slots=True)
class Buckets:
    """How many requests each caller has left: a bucket that fills by itself."""

    per_minute: int
    monotonic: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, caller: str) -> float:
        """Takes one, or says how many seconds to wait."""
        if not self.per_minute:
            return 0.0
        rate, now = self.per_minute / 60, self.monotonic()
        size = max(1.0, self.per_minute / 6)  # ten seconds' worth at once
        left, then = self._left.get(caller, (size, now))
        left = min(size, left + (now - then) * rate)
        if left < 1:
            return (1 - left) / rate
        self._left[caller] = (left - 1, now)
        self._left.move_to_end(caller)
        while len(self._left) > CALLERS:
            self._left.popitem(last=False)
        return 0.0


class Refused(HTTPException):
    """An HTTPException, because those pass through whatever reads a body."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: dict[str, str] | None = None,
        *,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(status, code)
        again = status == 429 if retryable is None else retryable
        self.response = problems.response(status, code, detail, headers=headers, retryable=again)


class Guard:
    def __init__(
        self, app: App, *, access: Access, rules: Rules, observe: Callable[[str, str, int, float], None]
    ) -> None:
        self._app, self._access, self._rules, self._observe = app, access, rules, observe
        self._buckets = Buckets(rules.rate_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), _Seen()
        headers = _headers(scope)
        request_id = uuid.uuid4().hex[:16]
        scope.setdefault("state", {})["request_id"] = request_id
        if b"%2f" in scope.get("raw_path", b"").lower():  # part of a name: it must not end it
            scope["path"] = unquote(re.sub(rb"(?i)%2f", quote(SLASH).encode(), scope["raw_path"]).decode("latin-1"))
        cors = self._cors(headers.get("origin"))

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                message.setdefault("headers", [])
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *_HARDENING, *cors]
            elif message["type"] == "http.response.body":
                seen.sent += len(message.get("body", b""))
            await send(message)

        try:
            with spans.request_span(scope["method"]) as span:
                try:
                    await self._answered(scope, headers, receive, sent, seen)
                finally:
                    spans.note_request(span, scope["method"], _route(scope), seen.status)
        finally:
            self._note(scope, seen, request_id, (time.perf_counter() - began) * 1000)

    async def _answered(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, seen: _Seen) -> None:
        """Whatever happens, as an answer."""
        try:
            await self._pass(scope, headers, receive, send, seen)
        except Refused as refusal:
            if seen.status == 0:
                await refusal.response(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the border of a request; what it says must not reach a log
            log_unexpected(log, "a request", error)
            if seen.status == 0:
                await problems.unexpected()(scope, receive, send)

    async def _pass(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, seen: _Seen) -> None:
        self._check_host(headers)
        self._check_origin(scope, headers)
        if scope["method"] == "OPTIONS" and "origin" in headers and self._cors(headers["origin"]):
            await Response(status_code=204)(scope, receive, send)
            return
        grant = await self._grant(scope, headers)
        scope["state"]["grant"] = grant
        if grant is not None:
            seen.key = grant.key
            wait = self._buckets.wait(grant.key) if grant.key != LOCAL else 0.0
            if wait:
                told = {"Retry-After": str(max(1, int(wait + 0.999)))}
                raise Refused(429, "too_many_requests", "This key asks too often; wait a little.", told)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._rules.body_bytes:
            raise self._too_large()
        await self._app(scope, self._counted(receive, seen), send)

    def _counted(self, receive: Receive, seen: _Seen) -> Receive:
        async def counted() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                seen.received += len(message.get("body", b""))
                if seen.received > self._rules.body_bytes:
                    raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Refused:
        return Refused(413, "body_too_large", f"A request may have at most {self._rules.body_bytes} bytes.")

    # Where from

    def _check_host(self, headers: dict[str, str]) -> None:
        """A page that made its own name point here must not get through (DNS rebinding)."""
        if _hostname(headers.get("host", "")) not in self._rules.hosts:
            raise Refused(421, "unknown_host", "This server does not go by that name; see the setting server_hosts.")

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        origin = headers.get("origin")
        if origin is None or origin in self._rules.origins:
            return
        if origin != f"{scope.get('scheme', 'http')}://{headers.get('host', '')}":
            raise Refused(403, "unknown_origin", "Pages of other sites may not call this; see server_origins.")

    def _cors(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        """Closed, but for the pages that the operator named. Cookies never travel, so any header may: clients of the
        OpenAI API send several of their own."""
        if origin is None or origin not in self._rules.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    # Who

    async def _grant(self, scope: Scope, headers: dict[str, str]) -> Grant | None:
        """By key, by session, or, where there never was a key, as the one person of this machine."""
        path, method = scope["path"], scope["method"]
        if path == "/healthz":  # also when the database is down
            return None
        try:
            if not await self._access.has_keys():
                return Grant(Principal(self._rules.person), SCOPES, LOCAL)
            if path in OPEN:
                return await self._session(scope, headers) if method not in (*SAFE, "POST") else None
            kind, _, token = headers.get("authorization", "").partition(" ")
            if token:
                grant = await self._access.verify(token.strip()) if kind.lower() == "bearer" else None
            else:
                grant = await self._session(scope, headers)
        except RecollectError as error:
            if path == "/readyz":
                return None
            raise Refused(
                problems.status_of(error), error.code, error.message, {"Retry-After": "1"}, retryable=error.retryable
            ) from error
        if grant is None:
            raise Refused(401, "unauthorized", "Show a key: Authorization: Bearer rk_…", {"WWW-Authenticate": "Bearer"})
        return grant

    async def _session(self, scope: Scope, headers: dict[str, str]) -> Grant | None:
        cookie = cookie_of(headers.get("cookie", ""))
        grant = await self._access.session(cookie) if cookie else None
        if grant is not None and scope["method"] not in SAFE:
            shown = headers.get("x-csrf-token", "")
            if grant.csrf is None or not hmac.compare_digest(shown.encode(), grant.csrf.encode()):
                raise Refused(403, "csrf", "A page must send its token: X-CSRF-Token, from GET /api/v1/session.")
            if "origin" not in headers:
                raise Refused(403, "csrf", "A page must say where it comes from.")
        return grant

    def _note(self, scope: Scope, seen: _Seen, request_id: str, ms: float) -> None:
        path = _route(scope)
        self._observe(scope["method"], path, seen.status, ms / 1000)
        log.info(
            "request",
            extra={
                "request": request_id, "method": scope["method"], "route": path, "status": seen.status,
                "ms": round(ms, 1), "bytes_in": seen.received, "bytes_out": seen.sent, "key": seen.key,
            },
        )  # fmt: skip


@dataclass(slots=True)
class _Seen:
    """What passed by."""

    status: int = 0
    received: int = 0
    sent: int = 0
    key: str | None = None


_ALLOWED: Final = (
    b"authorization, content-type, idempotency-key, if-none-match, x-recollect-conversation, x-recollect-mode, *"
)
_HARDENING: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def cookie_of(header: str) -> str | None:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _route(scope: Scope) -> str:
    """The pattern of the path, which names nobody."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _hostname(host: str) -> str:
    """Of a Host header; what is no name of a host is none of ours."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""
    except ValueError:
        return ""
