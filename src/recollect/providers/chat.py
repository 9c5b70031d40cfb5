"""The model that answers people, behind an OpenAI-compatible URL: requests and replies pass through as they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from recollect.core.errors import RecollectError
from recollect.core.models import JsonObject
from recollect.providers.endpoint import Endpoint, bad_reply, member
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

LISTED: Final = 60.0  # seconds for which a list of models is believed
ASK_AGAIN: Final = 5.0  # seconds until one that told none is asked again
LIST_PATIENCE: Final = 3.0


class Upstream:
    """One provider of chat models."""

    def __init__(
        self,
        base_url: str,
        default: str,
        api_key: str | None = None,
        *,
        patience: float = 30.0,
        longest: float = 600.0,
        breaker: BreakerSettings = DEFAULT_BREAKER,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing = REAL_TIMING,
    ) -> None:
        """`default` is the model that is asked when nobody names one. A whole answer may take `longest` seconds, the
        first piece and each further one `patience`."""
        self.default, self._patience, self._longest = default, patience, longest
        self._endpoint = Endpoint(
            base_url,
            api_key,
            timeout=Timeouts(attempt=longest, total=longest),
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
        return self._endpoint.host

    async def complete(self, request: Mapping[str, Any]) -> JsonObject:
        """The whole answer at once."""
        reply = await self._endpoint.post("/chat/completions", {**request, "stream": False})
        if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list) or not reply["choices"]:
            raise bad_reply(self.host, "there is no answer in it")
        return reply

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[JsonObject, None]:
        """The answer in pieces."""
        ends = time.monotonic() + self._longest
        asked = {**request, "stream": True}
        async with aclosing(self._endpoint.events("/chat/completions", asked, patience=self._patience)) as pieces:
            async for piece in pieces:
                if time.monotonic() > ends:
                    raise AttemptFailed("provider_timeout", f"{self.host} did not finish within {self._longest:g} s.")
                yield piece

    async def models(self) -> list[JsonObject]:
        """What it offers, as far as it says so: always its default, first."""
        now = time.monotonic()
        if self._models is None or now > self._models[0]:
            found, said = await self._listed()
            self._models = (now + (LISTED if said else ASK_AGAIN), found)
        return self._models[1]

    async def _listed(self) -> tuple[list[JsonObject], bool]:
        """The models, and whether it was the provider who told them."""
        found: dict[str, JsonObject] = {self.default: {"id": self.default, "object": "model", "owned_by": self.host}}
        try:
            async with asyncio.timeout(LIST_PATIENCE):
                data = member(await self._endpoint.get("/models"), "data")
        except (RecollectError, TimeoutError):
            data = None
        for one in data if isinstance(data, list) else ():
            name = member(one, "id")
            if isinstance(name, str) and name and len(name) <= 200:
                found.setdefault(name, {"id": name, "object": "model", "owned_by": self.host})
        return list(found.values()), data is not None

    async def close(self) -> None:
        await self._endpoint.close()
