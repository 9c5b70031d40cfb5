"""Sends requests to one provider's URL, with deadline, retries and circuit breaker.

Every failure becomes `ProviderUnavailable`. Neither content nor the key is ever logged or put into the message of an
error. What a provider says about a refused request is kept apart, as the error's `explanation`, for the one who asked.
The size of a reply is bounded.
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
from recollect.core.json_text import StrictEncoder, parse_foreign_json
from recollect.core.text import replace_unstorable
from recollect.providers.event_stream import EventDecoder
from recollect.providers.resilience import (
    AttemptFailed,
    BreakerSettings,
    CircuitBreakers,
    Timeouts,
    Timing,
    call_with_retries,
    parse_retry_after,
)

if TYPE_CHECKING:
    import httpx

MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
MAX_REFUSAL_BYTES: Final = 64 * 1024
MAX_EXPLANATION_CHARACTERS: Final = 500
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024  # of one piece of a streamed answer; a picture in it may be large
_ERROR_CODE: Final = re.compile(r"[a-z][a-z_]{0,63}", re.ASCII)  # too plain to carry content or keys
_KEY_LIKE: Final = re.compile(r"\b(?:sk|pk|api|key|gsk|xai|hf)[-_][\w*-]{6,200}|(?<=Bearer )\S{6,500}", re.IGNORECASE)
_ENCODER: Final = StrictEncoder()


def bad_reply_error(host: str, reason: str) -> ProviderUnavailable:
    """Return the error for a reply whose form or numbers are wrong."""
    return ProviderUnavailable("provider_bad_reply", f"The reply of {host} cannot be used: {reason}.")


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
        self.host = _check_host(base_url)
        self._base_url = base_url.rstrip("/")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # so that a small reply cannot unpack into a huge one
        }
        self._api_key = _check_key(api_key) if api_key else ""
        if self._api_key:
            self._headers["Authorization"] = f"Bearer {self._api_key}"
        self._timeout = timeout
        self._retries = retries
        self._timing = timing
        self._breakers = CircuitBreakers(breaker, provider=self.host, monotonic=timing.monotonic)
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    async def post(self, path: str, payload: Mapping[str, Any]) -> object:
        """Send JSON and return the JSON of the reply. Raise `ProviderUnavailable` for everything that can go wrong."""
        return await self._request("POST", path, _encode(payload), _breaker_name(path, payload))

    async def get(self, path: str) -> object:
        """Return the JSON that lies at `path`. Raise `ProviderUnavailable` as `post` does."""
        return await self._request("GET", path, None, path)

    async def _request(self, method: str, path: str, body: bytes | None, breaker_name: str) -> object:
        async def attempt(seconds: float) -> bytes:
            return await self._attempt(method, path, body, seconds)

        with self._breakers.of(breaker_name) as breaker:
            reply = await call_with_retries(
                attempt, retries=self._retries, timeouts=self._timeout, breaker=breaker, timing=self._timing
            )
        try:
            return parse_foreign_json(reply)
        except (ValueError, RecursionError) as error:
            # Not chained: the decoder's exception carries the whole reply.
            raise bad_reply_error(self.host, f"it is not JSON ({type(error).__name__})") from None

    async def _attempt(self, method: str, path: str, body: bytes | None, seconds: float) -> bytes:
        """Send one request. The deadline covers the whole reply, so a server cannot hold it by sending single bytes."""
        client = self._open_client()
        with self._translate_errors(seconds):
            async with (
                asyncio.timeout(seconds),
                client.stream(method, self._base_url + path, content=body) as response,
            ):
                if response.is_success:
                    return await self._read(response, MAX_REPLY_BYTES)
                raise await self._refusal(response)

    async def stream_events(
        self, path: str, payload: Mapping[str, Any], *, event_timeout: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the objects of server-sent events. There is one attempt; the caller decides about another one.

        Each event must be complete within `event_timeout` seconds. The time that the caller takes between two events
        does not count; the caller may be another task each time. The stream ends at `[DONE]`; if it ends before that,
        it was cut off.
        """
        client = self._open_client()
        request = client.build_request(
            "POST", self._base_url + path, content=_encode(payload), headers={"Accept": "text/event-stream"}
        )
        with (
            self._breakers.of(_breaker_name(path, payload)) as breaker,
            breaker.attempt(),
            self._translate_errors(event_timeout),
        ):
            async with asyncio.timeout(event_timeout):
                response = await client.send(request, stream=True)
            try:
                events = _read_events(response, self.host)
                while True:
                    async with asyncio.timeout(event_timeout):
                        if not response.is_success:
                            raise await self._refusal(response)
                        data = await anext(events, None)
                    if data is None:
                        raise AttemptFailed("provider_cut_off", f"{self.host} broke off in the middle of its answer.")
                    if data == "[DONE]":
                        return
                    piece = self._parse_piece(data)
                    breaker.note_answer()
                    yield piece
            finally:
                await response.aclose()

    def _parse_piece(self, data: str) -> dict[str, Any]:
        """Parse a piece of an answer. An unreadable piece counts as a failure of the provider."""
        try:
            piece = parse_foreign_json(data)
        except (ValueError, RecursionError):
            raise AttemptFailed("provider_bad_reply", f"A piece of {self.host}'s answer is not JSON.") from None
        if not isinstance(piece, dict):
            raise AttemptFailed("provider_bad_reply", f"A piece of {self.host}'s answer is no object.")
        if piece.get("error") is not None:
            message = f"{self.host} reported an error in the middle of its answer."
            is_fault, explanation = not _is_callers_error(piece["error"]), self._explain(piece)
            raise AttemptFailed("provider_error", message, is_fault=is_fault, explanation=explanation)
        return piece

    @contextmanager
    def _translate_errors(self, seconds: float) -> Iterator[None]:
        """Turn timeouts and errors of the HTTP client into `AttemptFailed`."""
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
        reply = await self._read_refusal(response)
        answered, explanation = f"{self.host} answered {status}{_describe_code(reply)}", self._explain(reply)
        if status == 429:
            wait = parse_retry_after(response.headers.get("Retry-After"), self._timing.now())
            message = f"{answered}: too many requests."
            return AttemptFailed(
                "provider_rate_limited", message, retry_after=wait, is_fault=False, explanation=explanation
            )
        if status in (408, 409) or status >= 500:
            wait = parse_retry_after(response.headers.get("Retry-After"), self._timing.now())
            is_fault = status >= 500
            return AttemptFailed(
                "provider_error", f"{answered}.", retry_after=wait, is_fault=is_fault, explanation=explanation
            )
        if status in (401, 403):  # such an explanation may repeat the key
            return AttemptFailed(
                "provider_unauthorized", f"{answered}: check the API key and what it may do.", retryable=False
            )
        return AttemptFailed(
            "provider_rejected",
            f"{answered}: check the base URL, the model's name and the request.",
            retryable=False,
            status=status,
            explanation=explanation,
        )

    async def _read_refusal(self, response: httpx.Response) -> object:
        """Return the JSON of a refusal, or None if it has none."""
        try:
            return json.loads(await self._read(response, MAX_REFUSAL_BYTES))
        except (ValueError, RecursionError, AttemptFailed):
            return None

    def _explain(self, reply: object) -> str:
        """Return the provider's own words about a refusal, on one line, of bounded length and without keys."""
        error = get_member(reply, "error")
        candidates = (get_member(error, "message"), error, get_member(reply, "message"), get_member(reply, "detail"))
        text = next((words for words in candidates if isinstance(words, str) and words.strip()), "")
        text = replace_unstorable(" ".join(text.split()))[0]
        if self._api_key:
            text = text.replace(self._api_key, "…")
        text = _KEY_LIKE.sub("…", text[: 2 * MAX_EXPLANATION_CHARACTERS])
        return text if len(text) <= MAX_EXPLANATION_CHARACTERS else f"{text[: MAX_EXPLANATION_CHARACTERS - 1]}…"

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        if self._closed:
            raise ProviderUnavailable("provider_closed", "This provider was closed.", retryable=False)
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=self._timeout.connect),
                transport=self._transport,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=20
                ),  # many answers may be streamed at once
                follow_redirects=False,
                trust_env=False,  # only admin/compose reads the environment
            )
        return self._client

    async def close(self) -> None:
        """Close the connections. Later requests are refused."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _describe_code(reply: object) -> str:
    """Return the error code of a refusal, if it is a plain one. Its message may repeat content or the key."""
    error = get_member(reply, "error")
    code = get_member(error, "code") or get_member(error, "type")
    return f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""


def _breaker_name(path: str, payload: Mapping[str, Any]) -> str:
    """Return the name of the circuit breaker of a request: what is asked for, and of which model."""
    prompt = get_member(payload.get("prompt"), "id")  # of a hosted prompt, which names its own model
    return f"{path} {payload.get('model') or prompt or ''}"


def _is_callers_error(error: object) -> bool:
    """Return whether an error inside a stream has a status from 400 to 499 as its code."""
    code = get_member(error, "code")
    return str(code).isdecimal() and 400 <= int(str(code)[:4]) < 500


def _encode(payload: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(payload).encode("utf-8", "replace")


async def _read_events(response: httpx.Response, host: str) -> AsyncIterator[str]:
    """Yield the `data` of each event. Raise `AttemptFailed` if the reply is not a stream of events, or too large."""
    kind = response.headers.get("Content-Type", "")
    if not kind.startswith("text/event-stream"):
        raise AttemptFailed("provider_bad_reply", f"{host} sent no stream of events.", retryable=False)
    decoder, size = EventDecoder(), 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise AttemptFailed(
                "provider_bad_reply", f"{host} sent more than {MAX_REPLY_BYTES} bytes.", retryable=False
            )
        for data in decoder.feed(chunk):
            yield data
        if decoder.pending_bytes > MAX_EVENT_BYTES:
            raise AttemptFailed(
                "provider_bad_reply",
                f"A piece of {host}'s answer has more than {MAX_EVENT_BYTES} bytes.",
                retryable=False,
            )
    for data in decoder.end():
        yield data


def _check_host(base_url: str) -> str:
    """Return host and port, the only part of the URL that errors and logs show. Raise if the URL cannot be used."""
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


def _check_key(api_key: str) -> str:
    """Return the key if it can be sent in a header. Otherwise the HTTP client would quote it in its error."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("invalid_api_key", "The API key holds characters that no key has; copy it again.")
    return key


def get_member(value: object, key: str) -> object:
    """Return the value of `key` if `value` is a JSON object, else None."""
    return value.get(key) if isinstance(value, Mapping) else None
