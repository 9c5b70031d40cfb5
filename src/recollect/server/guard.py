"""Checks every request before its route runs: host, origin, key or session, rate and size of the body.

Plain ASGI middleware, because it runs for every request and must cost little. It also writes one log line for each
request: method, route, status, sizes, times and the id of the key. It never logs a query, a body or a key.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.admin.access import ACT_AS, KEY_SCOPES, LOCAL_KEY, Access, Grant
from recollect.admin.named_person import act_as
from recollect.core.errors import InvalidInput, RecollectError
from recollect.core.models import Principal
from recollect.runtime.error_log import log_unexpected
from recollect.server import api_page, error_status, problems, spans

log = logging.getLogger("recollect.server.access")

SESSION_COOKIE: Final = "recollect_session"
PERSON_HEADER: Final = b"x-recollect-person"
SLASH_STAND_IN: Final = "\ue02f"  # replaces %2F in a path until the route is found, so that it does not split a name
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
OPEN_PATHS: Final = frozenset(("/healthz", "/readyz", "/api/v1/session"))  # answered without a key
LOOPBACK_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1"))
MAX_TRACKED_KEYS: Final = 10_000  # keys whose rate is remembered; the longest unused are dropped first
BURST_SECONDS: Final = 10  # a key may send this many seconds' worth of requests at once
_SINGLE_HEADERS: Final = frozenset(
    ("authorization", "content-type", "cookie", "host", "idempotency-key", "origin", "x-csrf-token")
)
_ENCODED_SLASH: Final = re.compile(rb"%2f", re.IGNORECASE)
_ENCODED_STAND_IN: Final = quote(SLASH_STAND_IN).encode()
_ALLOWED_HEADERS: Final = (
    b"authorization, content-type, idempotency-key, if-none-match, x-recollect-conversation, x-recollect-mode, "
    b"x-recollect-person, *"
)
_SECURITY_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True, slots=True)
class GuardRules:
    """The limits and names that the operator has set."""

    hosts: frozenset[str] = LOOPBACK_HOSTS
    origins: frozenset[str] = frozenset()
    body_bytes: int = 2 * 1024 * 1024
    rate_per_minute: int = 0  # 0: no limit
    person: str = "local"  # the caller on a server without keys
    may_be_keyless: bool = True  # False if other machines can reach the server: then every request needs a key


@dataclass(slots=True)
class RateLimiter:
    """A token bucket for each key: every request takes a token, and tokens come back at `per_minute`."""

    per_minute: int
    monotonic: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # tokens, when counted

    def take(self, key: str) -> float:
        """Take a token and return 0, or return the seconds to wait for one."""
        if not self.per_minute:
            return 0.0
        rate, now = self.per_minute / 60, self.monotonic()
        size = max(1.0, self.per_minute * BURST_SECONDS / 60)
        tokens, counted_at = self._buckets.get(key, (size, now))
        tokens = min(size, tokens + (now - counted_at) * rate)
        if tokens < 1:
            return (1 - tokens) / rate
        self._buckets[key] = (tokens - 1, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > MAX_TRACKED_KEYS:
            self._buckets.popitem(last=False)
        return 0.0

    def give_back(self, key: str) -> None:
        """Return a token that was taken for a request that another bucket pays for."""
        if key in self._buckets:
            tokens, counted_at = self._buckets[key]
            self._buckets[key] = (tokens + 1, counted_at)


class Refusal(HTTPException):
    """A refused request, with its response. An HTTPException, because FastAPI lets those pass while it reads a body."""

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
        self._retryable = status == 429 if retryable is None else retryable
        self._code, self._detail, self._headers = code, detail, headers

    def response_at(self, path: str) -> Response:
        """Build the response, in the form that clients of this path read."""
        return problems.refusal_response(
            path, self.status_code, self._code, self._detail, headers=self._headers, retryable=self._retryable
        )


@dataclass(slots=True)
class _RequestRecord:
    """The figures of a request for its log line, filled while it is answered."""

    status: int = 0  # 0: no response has been started
    bytes_in: int = 0
    bytes_out: int = 0
    key: str | None = None


class Guard:
    """The middleware. `observe` gets method, route, status and seconds of every request."""

    def __init__(
        self, app: ASGIApp, *, access: Access, rules: GuardRules, observe: Callable[[str, str, int, float], None]
    ) -> None:
        self._app, self._access, self._rules, self._observe = app, access, rules, observe
        self._limiter = RateLimiter(rules.rate_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check and answer one request, and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, record = time.perf_counter(), _RequestRecord()
        headers, request_id = _read_headers(scope), uuid.uuid4().hex[:16]
        scope.setdefault("state", {})["request_id"] = request_id
        cors = self._cors_headers(headers.get("origin"))

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *_SECURITY_HEADERS, *cors]
                message["headers"] = [*message.get("headers", []), *own]
            elif message["type"] == "http.response.body":
                record.bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            with spans.request_span(scope["method"]) as span:
                try:
                    await self._respond(scope, headers, receive, send_recorded, record)
                finally:
                    spans.record_request(span, scope["method"], _route_pattern(scope), record.status)
        finally:
            self._log_request(scope, record, request_id, (time.perf_counter() - start) * 1000)

    async def _respond(
        self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, record: _RequestRecord
    ) -> None:
        """Answer the request. Every exception becomes a response, unless one has been started."""
        try:
            await self._check_and_forward(scope, headers, receive, send, record)
        except Refusal as refusal:
            if record.status == 0:
                await refusal.response_at(scope["path"])(scope, receive, send)
        except asyncio.CancelledError:  # the server stops, and the request did not end in time
            if record.status != 0:
                raise
            await problems.stopping_response(scope["path"])(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the border of a request; the error's text must not reach a log
            log_unexpected(log, "a request", error)
            if record.status == 0:
                await problems.unexpected_response(scope["path"])(scope, receive, send)

    async def _check_and_forward(
        self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, record: _RequestRecord
    ) -> None:
        _check_repeated_headers(scope, headers)
        self._check_host(headers)
        self._check_origin(scope, headers)
        _decode_target(scope)
        if scope["method"] == "OPTIONS" and "origin" in headers and self._cors_headers(headers["origin"]):
            await Response(status_code=204)(scope, receive, send)
            return
        grant = await self._authenticate(scope, headers)
        if grant is not None:
            grant = _act_as_named(grant, scope)
            record.key = grant.key
            self._take_token(grant)
        scope["state"].update(grant=grant, move_token=self._move_token)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._rules.body_bytes:
            raise self._too_large()
        await self._app(scope, self._limit_body(receive, record), send)

    def _take_token(self, grant: Grant) -> None:
        """Refuse the request if its person sends too many with this key."""
        wait = self._limiter.take(_rate_key(grant)) if grant.key != LOCAL_KEY else 0.0
        if wait:
            retry = {"Retry-After": str(max(1, int(wait + 0.999)))}
            raise Refusal(429, "too_many_requests", "This key sends too many requests; wait a little.", retry)

    def _move_token(self, before: Grant, after: Grant) -> None:
        """Count a request for the person whom its body names, and not for the key's own."""
        self._limiter.give_back(_rate_key(before))
        self._take_token(after)

    def _limit_body(self, receive: Receive, record: _RequestRecord) -> Receive:
        """Wrap `receive` so that it counts the body's bytes and refuses too many."""

        async def receive_counted() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                record.bytes_in += len(message.get("body", b""))
                if record.bytes_in > self._rules.body_bytes:
                    raise self._too_large()
            return message

        return receive_counted

    def _too_large(self) -> Refusal:
        return Refusal(413, "body_too_large", f"A request may have at most {self._rules.body_bytes} bytes.")

    # Host and origin

    def _check_host(self, headers: dict[str, str]) -> None:
        """Refuse unknown Host headers. This stops DNS rebinding: a page whose own name resolves to this server."""
        if _hostname(headers.get("host", "")) not in self._rules.hosts:
            detail = "This server is not known by this host name; add it to the setting server_hosts."
            raise Refusal(421, "unknown_host", detail)

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse pages of other sites, except those that the operator allows."""
        origin = headers.get("origin")
        if origin is None or origin in self._rules.origins:
            return
        if origin != f"{scope.get('scheme', 'http')}://{headers.get('host', '')}":
            detail = "Pages of this origin may not call this server; see the setting server_origins."
            raise Refusal(403, "unknown_origin", detail)

    def _cors_headers(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        """Return the CORS headers for an origin that the operator allows, else none.

        Any request header is allowed: clients of the OpenAI API send several of their own, and cookies stay at home.
        """
        if origin is None or origin not in self._rules.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    # Keys and sessions

    async def _authenticate(self, scope: Scope, headers: dict[str, str]) -> Grant | None:
        """Return the grant of the request's key or session; None for paths that are answered without one.

        If no key was ever created, every request is the local person's and may do everything. The database is asked
        about that at every request: here if there were no keys, and below before a request is refused.
        """
        path, method = scope["path"], scope["method"]
        if path in ("/healthz", "/readyz") or (path in api_page.PATHS and method in SAFE_METHODS):
            return None  # even if the database hangs
        try:
            if self._rules.may_be_keyless and not await self._access.requires_keys():
                return self._local_grant()
            if path in OPEN_PATHS:
                return await self._check_session(scope, headers) if method not in (*SAFE_METHODS, "POST") else None
            kind, _, token = headers.get("authorization", "").partition(" ")
            if token:
                grant = await self._access.verify(token.strip()) if kind.lower() == "bearer" else None
            else:
                grant = await self._check_session(scope, headers)
            if grant is None and self._rules.may_be_keyless and not await self._access.requires_keys(fresh=True):
                return self._local_grant()
        except RecollectError as error:
            status = error_status.status_of(error)
            raise Refusal(status, error.code, error.message, {"Retry-After": "1"}, retryable=error.retryable) from error
        if grant is None:
            raise Refusal(401, "unauthorized", "Show a key: Authorization: Bearer rk_…", {"WWW-Authenticate": "Bearer"})
        return grant

    def _local_grant(self) -> Grant:
        return Grant(Principal(self._rules.person), KEY_SCOPES, LOCAL_KEY)

    async def _check_session(self, scope: Scope, headers: dict[str, str]) -> Grant | None:
        """Return the grant of the session cookie, if it is good. Requests that change something need a CSRF token."""
        cookie = read_session_cookie(headers.get("cookie", ""))
        grant = await self._access.session(cookie) if cookie else None
        if grant is not None and scope["method"] not in SAFE_METHODS:
            token = headers.get("x-csrf-token", "")
            if grant.csrf is None or not hmac.compare_digest(token.encode(), grant.csrf.encode()):
                detail = "Send the header X-CSRF-Token with the value of `csrf` from GET /api/v1/session."
                raise Refusal(403, "csrf", detail)
            if "origin" not in headers:
                raise Refusal(403, "csrf", "A request with a session cookie must have an Origin header.")
        return grant

    def _log_request(self, scope: Scope, record: _RequestRecord, request_id: str, ms: float) -> None:
        route = _route_pattern(scope)
        self._observe(scope["method"], route, record.status, ms / 1000)
        log.info(
            "request",
            extra={
                "request": request_id, "method": scope["method"], "route": route, "status": record.status,
                "ms": round(ms, 1), "bytes_in": record.bytes_in, "bytes_out": record.bytes_out, "key": record.key,
            },
        )  # fmt: skip


def _rate_key(grant: Grant) -> str:
    return f"{grant.key} {grant.principal.person}"


def _act_as_named(grant: Grant, scope: Scope) -> Grant:
    """Return the grant for the person whom the header names, if the key may act for others."""
    names = [value for name, value in scope["headers"] if name == PERSON_HEADER]
    if not names or ACT_AS not in grant.scopes:
        return grant
    try:
        if len(names) > 1 or not names[0].isascii():
            raise InvalidInput("invalid_person", "Send one X-Recollect-Person, percent-encoded if it is not ASCII.")
        return act_as(grant, unquote_to_bytes(names[0]).decode())
    except UnicodeDecodeError:
        raise Refusal(422, "invalid_person", "The name in X-Recollect-Person is not UTF-8.") from None
    except InvalidInput as error:
        raise Refusal(422, error.code, error.message) from error


def read_session_cookie(header: str) -> str | None:
    """Return the session cookie's value from a Cookie header; None if there is none or the header is malformed."""
    try:
        cookie = SimpleCookie(header).get(SESSION_COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


def _route_pattern(scope: Scope) -> str:
    """Return the route's path with placeholders, so that no name of a conversation or person is logged."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _read_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _check_repeated_headers(scope: Scope, headers: dict[str, str]) -> None:
    """Refuse a header that is sent twice and decides something: readers could believe different ones."""
    if len(headers) == len(scope["headers"]):
        return
    counts = Counter(name.decode("latin-1") for name, _ in scope["headers"])
    for name, count in counts.items():
        if count > 1 and (name in _SINGLE_HEADERS or name.startswith("x-recollect-")):
            raise Refusal(400, "repeated_header", f"The header {name[:60]} is sent {count} times; send it once.")


def _decode_target(scope: Scope) -> None:
    """Decode the path anew where it has percent signs, so that %2F stays inside its name. Refuse what is not UTF-8.

    Without this, bytes that are no characters would all become U+FFFD, and different names the same one.
    """
    raw_path, query = scope.get("raw_path", b""), scope.get("query_string", b"")
    try:
        if b"%" in raw_path:
            path = unquote_to_bytes(_ENCODED_SLASH.sub(_ENCODED_STAND_IN, raw_path)).decode()
            if path.count(SLASH_STAND_IN) != len(_ENCODED_SLASH.findall(raw_path)):
                raise Refusal(400, "invalid_path", "The path has the character U+E02F, which no name here may have.")
            scope["path"] = path
        if b"%" in query:
            unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise Refusal(400, "invalid_path", "The path or the query is not UTF-8 after percent-decoding.") from None


def _hostname(host: str) -> str:
    """Return the name in a Host header without its port; an empty text if the header is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""
    except ValueError:
        return ""
