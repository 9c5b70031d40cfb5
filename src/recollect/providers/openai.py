"""A model and an embedder behind any OpenAI-compatible URL.

Owns the shape of requests and replies and the translation of every failure into `ProviderUnavailable`. Replies are
not trusted: their size, form and numbers are checked. Neither content nor the key is ever logged or put into an
error. An object belongs to the event loop that first calls it; `close()` it there.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from recollect.core.errors import InvalidInput, ProviderUnavailable
from recollect.providers.resilience import (
    DEFAULT_BREAKER,
    DEFAULT_TIMEOUTS,
    REAL_TIMING,
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


class OpenAIModel:
    """Answers chat messages through `/chat/completions`, or through a hosted prompt at `/responses`.

    `temperature=None` leaves the temperature out, for models that refuse it.
    """

    def __init__(
        self,
        base_url: str,
        name: str,
        api_key: str | None = None,
        *,
        prompt_id: str | None = None,
        prompt_version: str | None = None,
        temperature: float | None = 0.0,
        timeout: Timeouts = DEFAULT_TIMEOUTS,
        retries: int = 2,
        breaker: BreakerSettings = DEFAULT_BREAKER,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing = REAL_TIMING,
    ) -> None:
        self.name = name
        self._prompt_id = prompt_id
        self._prompt_version = prompt_version
        self._temperature = temperature
        self._endpoint = _Endpoint(
            base_url,
            api_key,
            timeout=timeout,
            retries=retries,
            breaker=breaker,
            transport=transport,
            timing=timing,
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r} at {self._endpoint.host})"

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> str:
        """The answer's text. Whether it fits `schema` is for the caller to check: not every provider obeys.

        A hosted prompt brings its own instructions and format, so it gets the last message's text alone.
        """
        if self._prompt_id is not None:
            reply = await self._endpoint.post("/responses", self._prompt_request(messages, max_tokens))
            text = _responses_text(reply)
        else:
            reply = await self._endpoint.post("/chat/completions", self._chat_request(messages, schema, max_tokens))
            text = _chat_text(reply)
        if not text:
            raise _bad_reply(self._endpoint.host, "there is no text in it")
        return text

    def _chat_request(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None, max_tokens: int | None
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.name, "messages": [dict(message) for message in messages]}
        if self._temperature is not None:
            request["temperature"] = self._temperature
        if max_tokens is not None:
            request["max_tokens"] = max_tokens
        if schema is not None:
            shape = {"name": "reply", "strict": True, "schema": dict(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        return request

    def _prompt_request(self, messages: Sequence[Mapping[str, Any]], max_tokens: int | None) -> dict[str, Any]:
        prompt = {"id": self._prompt_id}
        if self._prompt_version is not None:
            prompt["version"] = self._prompt_version
        content = messages[-1].get("content") if messages else None
        request: dict[str, Any] = {"prompt": prompt, "input": _joined_text(content) or ""}
        if max_tokens is not None:
            request["max_output_tokens"] = max_tokens
        return request

    async def close(self) -> None:
        await self._endpoint.close()


class OpenAIEmbedder:
    """Turns texts into vectors through `/embeddings`, `batch` texts at a time."""

    def __init__(
        self,
        base_url: str,
        name: str,
        dimensions: int,
        *,
        api_key: str | None = None,
        batch: int = 64,
        timeout: Timeouts = DEFAULT_TIMEOUTS,
        retries: int = 2,
        breaker: BreakerSettings = DEFAULT_BREAKER,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing = REAL_TIMING,
    ) -> None:
        if batch < 1:
            raise InvalidInput("invalid_batch", "An embedder's batch must be at least 1.")
        self.name = name
        self.dimensions = dimensions
        self._batch = batch
        self._endpoint = _Endpoint(
            base_url,
            api_key,
            timeout=timeout,
            retries=retries,
            breaker=breaker,
            transport=transport,
            timing=timing,
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.name!r}, {self.dimensions} dimensions, at {self._endpoint.host})"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in the order of the texts."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            vectors += await self._embed_batch(texts[start : start + self._batch])
        return vectors

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        # OpenAI refuses a whole batch for one empty text; a blank stands in.
        request = {"model": self.name, "input": [text or " " for text in texts]}
        reply = await self._endpoint.post("/embeddings", request)
        try:
            return _vectors(reply, len(texts), self.dimensions)
        except (ValueError, OverflowError) as error:
            raise _bad_reply(self._endpoint.host, str(error)) from error

    async def close(self) -> None:
        await self._endpoint.close()


# Reading replies. Anything may be missing or of another type.


def _chat_text(reply: object) -> str | None:
    choices = _member(reply, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return _joined_text(_member(_member(first, "message"), "content"))


def _responses_text(reply: object) -> str | None:
    text = _member(reply, "output_text")
    if isinstance(text, str):
        return text
    output = _member(reply, "output")
    items = output if isinstance(output, list) else []
    return "".join(_joined_text(_member(item, "content")) or "" for item in items)


def _joined_text(content: object) -> str | None:
    """Content as text: itself, or the texts of its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (_member(part, "text") for part in content)
        return "".join(text for text in texts if isinstance(text, str))
    return None


def _member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _vectors(reply: object, count: int, dimensions: int) -> list[list[float]]:
    """The vectors in the order of the texts. Raises ValueError when one is missing or no vector."""
    data = _member(reply, "data")
    if not isinstance(data, list) or len(data) != count:
        raise ValueError(f"{count} vectors were asked for, and other than that came")
    by_index: dict[object, list[float]] = {}
    for place, item in enumerate(data):
        index = item.get("index", place) if isinstance(item, Mapping) else None
        if not isinstance(index, int) or index in by_index or not 0 <= index < count:
            raise ValueError("its vectors are not numbered one by one")
        by_index[index] = _vector(_member(item, "embedding"), dimensions)
    return [by_index[index] for index in range(count)]


def _vector(value: object, dimensions: int) -> list[float]:
    if not isinstance(value, list) or len(value) != dimensions:
        found = len(value) if isinstance(value, list) else 0
        raise ValueError(f"a vector has {found} dimensions instead of {dimensions}")
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in value):
        raise ValueError("a vector holds something that is not a finite number")
    return [float(number) for number in value]


def _bad_reply(host: str, why: str) -> ProviderUnavailable:
    return ProviderUnavailable("provider_bad_reply", f"The reply of {host} cannot be used: {why}.")


# The wire.


class _Endpoint:
    """Posts JSON below one base URL with deadline, retries and circuit breaker."""

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
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")

        async def attempt(seconds: float) -> bytes:
            return await self._attempt(path, body, seconds)

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
            raise _bad_reply(self.host, f"it is not JSON ({type(error).__name__})") from None

    async def _attempt(self, path: str, body: bytes, seconds: float) -> bytes:
        """One request. The deadline covers all of it, so a server that drips bytes gains nothing."""
        import httpx

        client = self._open_client()
        try:
            async with (
                asyncio.timeout(seconds),
                client.stream("POST", self._base_url + path, content=body) as response,
            ):
                if response.is_success:
                    return await self._read(response, LARGEST_REPLY)
                raise await self._refusal(response)
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
            "provider_rejected", f"{answered}: check the base URL, the model's name and the request.", retryable=False
        )

    async def _reason(self, response: httpx.Response) -> str:
        """The error code in the body, if it is a plain one. The message may repeat content or the key."""
        try:
            reply = json.loads(await self._read(response, 64 * 1024))
        except (ValueError, RecursionError, AttemptFailed):
            return ""
        error = _member(reply, "error")
        code = _member(error, "code") or _member(error, "type")
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
                follow_redirects=False,
                trust_env=False,  # the environment is read in compose, nowhere else
            )
        return self._client

    async def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


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
