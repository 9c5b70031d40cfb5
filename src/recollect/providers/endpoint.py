"""One provider's address: requests with deadline, retries and breaker, and every failure as `ProviderUnavailable`.

Neither content nor the key is ever logged or put into an error. The size of a reply is bounded.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from recollect.core.errors import InvalidInput, ProviderUnavailable
from recollect.providers.resilience import (
    AttemptFailed,
    BreakerSettings,
    CircuitBreaker,
    Timeouts,
    Timing,
    call,
    parse_retry_after,
)

if TYPE_CHECKING:
    import httpx

LARGEST_REPLY: Final = 16 * 1024 * 1024
_REASON: Final = re.compile(r"[a-z][a-z_]{0,63}", re.ASCII)  # an error code, too plain to carry content or keys


def bad_reply(host: str, why: str) -> ProviderUnavailable:
    return ProviderUnavailable("provider_bad_reply", f"The reply of {host} cannot be used: {why}.")


# The wire.


class Endpoint:
    """Sends JSON below one base URL with deadline, retries and circuit breaker."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        timeout: Timeouts,
        retries: int,
        breaker: BreakerSettings,
        transport: httpx.AsyncBaseTransport | None,
        timing: Timing,
    ) -> None:
        self.host = _checked_host(base_url)
        self._base_url = base_url.rstrip("/")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # so that a small reply cannot unpack into a huge one
        }
        if api_key:
            self._headers["Authorization"] = f"Bearer {_checked_key(api_key)}"
        self._timeout = timeout
        self._retries = retries
        self._timing = timing
        self._breaker = CircuitBreaker(breaker, provider=self.host, monotonic=timing.monotonic)
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    async def post(self, path: str, payload: Mapping[str, Any]) -> object:
        """The reply's JSON. Raises `ProviderUnavailable` for everything that can go wrong."""
        return await self._request("POST", path, _encoded(payload))

    async def get(self, path: str) -> object:
        return await self._request("GET", path, None)

    async def _request(self, method: str, path: str, body: bytes | None) -> object:
        async def attempt(seconds: float) -> bytes:
            return await self._attempt(method, path, body, seconds)

        reply = await call(
            attempt,
            retries=self._retries,
            timeouts=self._timeout,
            breaker=self._breaker,
            timing=self._timing,
        )
        try:
            return json.loads(reply)
        except (ValueError, RecursionError) as error:
            # Not chained: the decoder's exception carries the whole reply.
            raise bad_reply(self.host, f"it is not JSON ({type(error).__name__})") from None

    async def _attempt(self, method: str, path: str, body: bytes | None, seconds: float) -> bytes:
        """One request. The deadline covers all of it, so a server that drips bytes gains nothing."""
        client = self._open_client()
        with self._translated(seconds):
            async with (
                asyncio.timeout(seconds),
                client.stream(method, self._base_url + path, content=body) as response,
            ):
                if response.is_success:
                    return await self._read(response, LARGEST_REPLY)
                raise await self._refusal(response)

    async def events(
        self, path: str, payload: Mapping[str, Any], *, patience: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The objects in server-sent events, one by one. There is one attempt: who waits for an answer decides himself.

        Each event must be complete within `patience` seconds, however its bytes drip. Ends at `[DONE]`; a stream that
        ends before it was cut off. No clock runs while the reader, which may be another task each time, has the word.
        """
        client = self._open_client()
        request = client.build_request(
            "POST", self._base_url + path, content=_encoded(payload), headers={"Accept": "text/event-stream"}
        )
        with self._breaker.attempt(), self._translated(patience):
            async with asyncio.timeout(patience):
                response = await client.send(request, stream=True)
            try:
                events = _events(response, self.host)
                while True:
                    async with asyncio.timeout(patience):
                        if not response.is_success:
                            raise await self._refusal(response)
                        data = await anext(events, None)
                    if data is None:
                        raise AttemptFailed("provider_cut_off", f"{self.host} broke off in the middle of its answer.")
                    if data == "[DONE]":
                        return
                    piece = self._piece(data)
                    self._breaker.answered()
                    yield piece
            finally:
                await response.aclose()

    def _piece(self, data: str) -> dict[str, Any]:
        """A piece of an answer. One that cannot be read counts against the provider."""
        try:
            piece = json.loads(data)
        except (ValueError, RecursionError):
            raise AttemptFailed("provider_bad_reply", f"A piece of {self.host}'s answer is not JSON.") from None
        if not isinstance(piece, dict):
            raise AttemptFailed("provider_bad_reply", f"A piece of {self.host}'s answer is no object.")
        if piece.get("error") is not None:
            raise AttemptFailed("provider_error", f"{self.host} reported an error in the middle of its answer.")
        return piece

    @contextmanager
    def _translated(self, seconds: float) -> Iterator[None]:
        """Every failure of the wire as one of ours."""
        import httpx

        try:
            yield
        except TimeoutError as error:
            message = f"{self.host} did not finish its answer within {seconds:.1f} s."
            raise AttemptFailed("provider_timeout", message) from error
        except httpx.TimeoutException as error:
            message = f"{self.host} did not accept a connection within {self._timeout.connect:g} s."
            raise AttemptFailed("provider_timeout", message) from error
        except httpx.HTTPError as error:
            message = (
                f"{self.host} cannot be reached or broke off ({type(error).__name__}); check the URL and the network."
            )
            raise AttemptFailed("provider_unreachable", message) from error

    async def _read(self, response: httpx.Response, limit: int) -> bytes:
        data = bytearray()
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > limit:
                raise AttemptFailed("provider_bad_reply", f"{self.host} sent more than {limit} bytes.", retryable=False)
        return bytes(data)

    async def _refusal(self, response: httpx.Response) -> AttemptFailed:
        status = response.status_code
        answered = f"{self.host} answered {status}{await self._reason(response)}"
        if status == 429:
            wait = parse_retry_after(response.headers.get("Retry-After"), self._timing.now())
            return AttemptFailed("provider_rate_limited", f"{answered}: too many requests.", retry_after=wait)
        if status in (408, 409) or status >= 500:
            wait = parse_retry_after(response.headers.get("Retry-After"), self._timing.now())
            return AttemptFailed("provider_error", f"{answered}.", retry_after=wait)
        if status in (401, 403):
            return AttemptFailed(
                "provider_unauthorized", f"{answered}: check the API key and what it may do.", retryable=False
            )
        return AttemptFailed(
            "provider_rejected",
            f"{answered}: check the base URL, the model's name and the request.",
            retryable=False,
            status=status,
        )

    async def _reason(self, response: httpx.Response) -> str:
        """The error code in the body, if it is a plain one. The message may repeat content or the key."""
        try:
            reply = json.loads(await self._read(response, 64 * 1024))
        except (ValueError, RecursionError, AttemptFailed):
            return ""
        error = member(reply, "error")
        code = member(error, "code") or member(error, "type")
        return f" ({code})" if isinstance(code, str) and _REASON.fullmatch(code) else ""

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        if self._closed:
            raise ProviderUnavailable("provider_closed", "This provider was closed.", retryable=False)
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=self._timeout.connect),
                transport=self._transport,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),  # streams may be many
                follow_redirects=False,
                trust_env=False,  # the environment is read in compose, nowhere else
            )
        return self._client

    async def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


async def _events(response: httpx.Response, host: str) -> AsyncIterator[str]:
    """What stands behind `data:`, an event at a time; anything else is no stream of events."""
    kind = response.headers.get("Content-Type", "")
    if not kind.startswith("text/event-stream"):
        raise AttemptFailed("provider_bad_reply", f"{host} sent no stream of events.", retryable=False)
    buffer, size, lines = b"", 0, list[str]()
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > LARGEST_REPLY:
            raise AttemptFailed("provider_bad_reply", f"{host} sent more than {LARGEST_REPLY} bytes.", retryable=False)
        *complete, buffer = (buffer + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for line in complete:
            if line.startswith(b"data:"):
                lines.append(line[5:].decode("utf-8", "replace").removeprefix(" "))
            elif not line and lines:
                yield "\n".join(lines)
                lines = []
    if lines:
        yield "\n".join(lines)


def _checked_host(base_url: str) -> str:
    """The host and port, which is all of the URL that errors and logs show."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidInput(
            "invalid_base_url", "A provider's base URL looks like https://host/v1, without user, query or fragment."
        )
    return host if port is None else f"{host}:{port}"


def _checked_key(api_key: str) -> str:
    """The key, if it can be a header. Otherwise the HTTP client would quote it in its error."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("invalid_api_key", "The API key holds characters that no key has; copy it again.")
    return key


def member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None
