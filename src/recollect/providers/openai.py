"""A model and an embedder behind any OpenAI-compatible URL.

Owns the form of requests and replies. Replies are not trusted: their form and numbers are checked. An instance belongs
to the event loop that first calls it; `close()` it there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recollect.core.errors import InvalidInput
from recollect.providers.endpoint import Endpoint, bad_reply_error, get_member
from recollect.providers.resilience import (
    DEFAULT_BREAKER,
    DEFAULT_TIMEOUTS,
    REAL_TIMING,
    BreakerSettings,
    Timeouts,
    Timing,
)

if TYPE_CHECKING:
    import httpx


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
        self._endpoint = Endpoint(
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
        """Return the text of the answer. The caller checks whether it fits `schema`: not every provider obeys.

        A hosted prompt brings its own instructions and format, so only the text of the last message is sent.
        """
        if self._prompt_id is not None:
            reply = await self._endpoint.post("/responses", self._prompt_request(messages, max_tokens))
            text = _responses_text(reply)
        else:
            reply = await self._endpoint.post("/chat/completions", self._chat_request(messages, schema, max_tokens))
            text = _chat_text(reply)
        if not text:
            raise bad_reply_error(self._endpoint.host, "there is no text in it")
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
        """Close the connections."""
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
        self._endpoint = Endpoint(
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
        """Return one vector for each text, in the order of the texts."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            vectors += await self._embed_batch(texts[start : start + self._batch])
        return vectors

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        # OpenAI refuses a whole batch because of one empty text, so a blank is sent instead.
        request = {"model": self.name, "input": [text or " " for text in texts]}
        reply = await self._endpoint.post("/embeddings", request)
        try:
            return _vectors(reply, len(texts), self.dimensions)
        except (ValueError, OverflowError) as error:
            raise bad_reply_error(self._endpoint.host, str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()


# Reading replies. Any field may be missing or of another type.


def _chat_text(reply: object) -> str | None:
    choices = get_member(reply, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return _joined_text(get_member(get_member(first, "message"), "content"))


def _responses_text(reply: object) -> str | None:
    text = get_member(reply, "output_text")
    if isinstance(text, str):
        return text
    output = get_member(reply, "output")
    items = output if isinstance(output, list) else []
    return "".join(_joined_text(get_member(item, "content")) or "" for item in items)


def _joined_text(content: object) -> str | None:
    """Return content as text: itself, or the texts of its parts; None if it is neither."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (get_member(part, "text") for part in content)
        return "".join(text for text in texts if isinstance(text, str))
    return None


def _vectors(reply: object, count: int, dimensions: int) -> list[list[float]]:
    """Return the vectors in the order of the texts. Raise ValueError if one is missing or is no vector."""
    data = get_member(reply, "data")
    if not isinstance(data, list) or len(data) != count:
        raise ValueError(f"{count} vectors were asked for, but another number came")
    by_index: dict[object, list[float]] = {}
    for position, item in enumerate(data):
        index = item.get("index", position) if isinstance(item, Mapping) else None
        if not isinstance(index, int) or index in by_index or not 0 <= index < count:
            raise ValueError("its vectors are not numbered one by one")
        by_index[index] = _vector(get_member(item, "embedding"), dimensions)
    return [by_index[index] for index in range(count)]


def _vector(value: object, dimensions: int) -> list[float]:
    if not isinstance(value, list) or len(value) != dimensions:
        length = len(value) if isinstance(value, list) else 0
        raise ValueError(f"a vector has {length} dimensions instead of {dimensions}")
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in value):
        raise ValueError("a vector holds something that is not a finite number")
    return [float(number) for number in value]
