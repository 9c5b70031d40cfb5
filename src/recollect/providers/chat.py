"""The chat model that answers people, behind an OpenAI-compatible URL. Requests and replies pass through unchanged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from recollect.core.errors import RecollectError
from recollect.core.models import JsonObject
from recollect.providers.endpoint import Endpoint, bad_reply_error, get_member
from recollect.providers.resilience import (
    DEFAULT_BREAKER,
    REAL_TIMING,
    AttemptFailed,
    BreakerSettings,
    Timeouts,
    Timing,
)

if TYPE_CHECKING:
    import httpx

MODEL_LIST_SECONDS: Final = 60.0  # a list of models is cached for so long
MODEL_LIST_RETRY_SECONDS: Final = 5.0  # until a provider that gave no list is asked again
MODEL_LIST_TIMEOUT_SECONDS: Final = 3.0


class Upstream:
    """A provider of chat models."""

    def __init__(
        self,
        base_url: str,
        default: str,
        api_key: str | None = None,
        *,
        piece_timeout: float = 30.0,
        answer_timeout: float = 600.0,
        breaker: BreakerSettings = DEFAULT_BREAKER,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing = REAL_TIMING,
    ) -> None:
        """Connect to nothing yet. `default` is the model for requests that name none.

        A whole answer may take `answer_timeout` seconds, each piece of a streamed answer `piece_timeout` seconds.
        """
        self.default, self._piece_timeout, self._answer_timeout = default, piece_timeout, answer_timeout
        self._endpoint = Endpoint(
            base_url,
            api_key,
            timeout=Timeouts(attempt=answer_timeout, total=answer_timeout),
            retries=0,
            breaker=breaker,
            transport=transport,
            timing=timing,
        )
        self._models: tuple[float, list[JsonObject]] | None = None

    def __repr__(self) -> str:
        return f"Upstream({self.default!r} at {self.host})"

    @property
    def host(self) -> str:
        """Return the host and port of the provider."""
        return self._endpoint.host

    async def complete(self, request: Mapping[str, Any]) -> JsonObject:
        """Return the whole answer at once, as the provider sends it."""
        reply = await self._endpoint.post("/chat/completions", {**request, "stream": False})
        if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list) or not reply["choices"]:
            raise bad_reply_error(self.host, "there is no answer in it")
        return reply

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[JsonObject, None]:
        """Yield the answer in pieces, as the provider sends them."""
        deadline = time.monotonic() + self._answer_timeout
        body = {**request, "stream": True}
        events = self._endpoint.stream_events("/chat/completions", body, event_timeout=self._piece_timeout)
        async with aclosing(events) as pieces:
            async for piece in pieces:
                if time.monotonic() > deadline:
                    message = f"{self.host} did not finish within {self._answer_timeout:g} s."
                    raise AttemptFailed("provider_timeout", message)
                yield piece

    async def models(self) -> list[JsonObject]:
        """Return the models that the provider lists. Its default model is always the first."""
        now = time.monotonic()
        if self._models is None or now > self._models[0]:
            models, is_listed = await self._list_models()
            self._models = (now + (MODEL_LIST_SECONDS if is_listed else MODEL_LIST_RETRY_SECONDS), models)
        return self._models[1]

    async def _list_models(self) -> tuple[list[JsonObject], bool]:
        """Return the models, and whether the provider gave a list."""
        models: dict[str, JsonObject] = {self.default: {"id": self.default, "object": "model", "owned_by": self.host}}
        try:
            async with asyncio.timeout(MODEL_LIST_TIMEOUT_SECONDS):
                data = get_member(await self._endpoint.get("/models"), "data")
        except (RecollectError, TimeoutError):
            data = None
        for entry in data if isinstance(data, list) else ():
            name = get_member(entry, "id")
            if isinstance(name, str) and name and len(name) <= 200:
                models.setdefault(name, {"id": name, "object": "model", "owned_by": self.host})
        return list(models.values()), data is not None

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()
