"""Offers the built-in embedder as OpenAI's API offers its own. Nothing that is embedded here is stored or logged."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import Response

from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import JsonObject
from recollect.memory import AsyncMemory
from recollect.providers.token_counts import count_tokens
from recollect.server.json_body import encode_json

MODEL: Final = "all-MiniLM-L6-v2"
MODEL_NAMES: Final = (MODEL, f"sentence-transformers/{MODEL}", "recollect")
DIMENSIONS: Final = 384
MAX_TEXTS: Final = 1_000
MAX_CHARACTERS: Final = 400_000  # of all texts: about half a minute of one core
SLICE_CHARACTERS: Final = 8_000  # that are embedded before the next request gets its turn
VECTORS_PER_TURN: Final = 10  # that are encoded before the event loop gets its turn: some milliseconds
REQUEST_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["input", "model"],
    "properties": {
        "input": {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS},
                {"type": "array", "minItems": 1, "maxItems": MAX_TEXTS, "items": {"type": "string", "minLength": 1}},
            ],
            "description": f"one text, or up to {MAX_TEXTS:,}; together at most {MAX_CHARACTERS:,} characters",
        },
        "model": {"type": "string", "enum": list(MODEL_NAMES)},
        "encoding_format": {"type": ["string", "null"], "enum": ["float", "base64", None]},
        "dimensions": {"type": ["integer", "null"], "minimum": DIMENSIONS, "maximum": DIMENSIONS},
        "user": {"type": ["string", "null"]},
    },
    "examples": [{"input": "I am allergic to peanuts.", "model": MODEL}],
}


class Embeddings:
    """Embeds the texts of requests, one request's slice at a time, so that questions to memory do not wait for them."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory, self._turn = memory, asyncio.Semaphore(1)

    async def create(self, body: bytes) -> Response:
        """Answer a request for embeddings."""
        request = parse_request(body)
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        vectors: dict[str, Sequence[float]] = {}
        for part in _slices(list(dict.fromkeys(texts))):  # equal texts have equal vectors
            async with self._turn:
                vectors.update(zip(part, await self._memory.embed(part), strict=True))
        tokens = await asyncio.to_thread(lambda: sum(map(count_tokens, texts)))
        encoded = await _encode_vectors(vectors, as_base64=request.get("encoding_format") == "base64")
        return Response(_join_reply(texts, encoded, tokens), 200, {"Cache-Control": "no-store"}, "application/json")


def parse_request(body: bytes) -> JsonObject:
    """Parse and check a request for embeddings."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("invalid_json", "The body is not JSON.") from None
    if not isinstance(request, dict):
        raise InvalidInput("invalid_request", "The body must be a JSON object.")
    _check_input(request.get("input"))
    if request.get("model") not in MODEL_NAMES:
        raise NotFound("model_not_found", f"This server embeds with the model {MODEL!r}; name it.")
    if request.get("encoding_format") not in (None, "float", "base64"):
        raise InvalidInput("invalid_encoding_format", "`encoding_format` is float or base64.")
    if request.get("dimensions") not in (None, DIMENSIONS) or isinstance(request.get("dimensions"), float):
        raise InvalidInput("invalid_dimensions", f"Vectors of this model have {DIMENSIONS} dimensions and no fewer.")
    if not isinstance(request.get("user"), str | None):
        raise InvalidInput("invalid_user", "`user` must be a text.")
    return request


def _check_input(value: Any) -> None:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or len(texts) > MAX_TEXTS:
        raise InvalidInput("invalid_input", f"`input` must be a text or a list of 1 to {MAX_TEXTS:,} texts.")
    if any(isinstance(text, int | list) for text in texts):
        advice = "With LangChain, set check_embedding_ctx_length=False."
        raise InvalidInput("invalid_input", f"`input` must be text: this server reads no lists of tokens. {advice}")
    if not all(isinstance(text, str) and text for text in texts):
        raise InvalidInput("invalid_input", "Each item of `input` must be a text that is not empty.")
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise InvalidInput("input_too_long", f"All texts together may have at most {MAX_CHARACTERS:,} characters.")


def _slices(texts: Sequence[str]) -> list[list[str]]:
    """Cut the texts into slices, each of one text or of few characters."""
    slices: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if slices[-1] and size + len(text) > SLICE_CHARACTERS:
            slices.append([])
            size = 0
        slices[-1].append(text)
        size += len(text)
    return slices


async def _encode_vectors(vectors: Mapping[str, Sequence[float]], *, as_base64: bool) -> dict[str, bytes]:
    """Return the JSON of each text's vector. Other requests get their turn after every few vectors."""
    encoded: dict[str, bytes] = {}
    for text, vector in vectors.items():
        encoded[text] = encode_json(_encode_base64(vector) if as_base64 else vector)
        if len(encoded) % VECTORS_PER_TURN == 0:
            await asyncio.sleep(0)
    return encoded


def _join_reply(texts: Sequence[str], encoded: Mapping[str, bytes], tokens: int) -> bytes:
    """Return the JSON of a whole reply, made of vectors that are JSON already."""
    items = (
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, encoded[text]) for index, text in enumerate(texts)
    )
    usage = encode_json({"prompt_tokens": tokens, "total_tokens": tokens})
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (b",".join(items), encode_json(MODEL), usage)


def _encode_base64(vector: Sequence[float]) -> str:
    """Encode a vector as base64 of little-endian floats of 32 bits, which official clients ask for by default."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
