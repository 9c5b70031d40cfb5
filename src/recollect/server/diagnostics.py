"""The documents' views of what recall did and what there is, and settings as they may be shown and changed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fastapi.responses import StreamingResponse

from recollect.core.errors import Denied
from recollect.core.models import Hit, JsonObject, Recalled
from recollect.memory import AsyncMemory
from recollect.settings import PERSONAL, Settings

HIDDEN: Final = frozenset(("api_key", "model_url", "embedder_url"))
BLOCK: Final = 1 << 16
_SOURCES: Final = {"dense": "dense", "bm25": "fts", "code": "code", "date": "date"}


def retrieval(query: str, found: Recalled) -> JsonObject:
    """Document E's `debug/retrieval`."""
    ms, flags = found.metrics["ms"], found.metrics["flags"]
    return {
        "query": query,
        "results": [_result(hit) for hit in found.hits],
        "metrics": {
            "totalMs": ms["total"],
            "denseMs": ms.get("embed", 0.0),
            "ftsMs": ms.get("load", 0.0),
            "rerankMs": ms.get("score", 0.0),
            "fetchMs": ms.get("fetch", 0.0),
        },
        "sources": found.metrics["sources"],
        "topSimilarities": found.metrics["top"],
        "flags": {"hybrid": flags["hybrid"], "chunking": flags["chunking"], "tokenBudget": flags["token_budget"]},
        "degraded": list(found.degraded),
    }


def _result(hit: Hit) -> JsonObject:
    arms = {name: part for name, part in hit.why.items() if name in _SOURCES}
    best = max(arms, key=lambda name: arms[name], default=None)
    kind = {"passage": "chunk", "brief": "summary"}.get(hit.kind, hit.kind)
    return {
        "content": hit.text, "score": round(hit.score, 4), "source": _SOURCES.get(best or "", hit.kind), "type": kind,
        "messageId": hit.message_id, "conversationId": hit.conversation, "why": hit.why,
    }  # fmt: skip


def stats(counted: Mapping[str, Any], *, consent: bool) -> JsonObject:
    """Document E's `debug/stats`, and our own counts beside it."""
    return {
        "totalMessages": counted["messages"],
        "totalConversations": counted["conversations"],
        "totalChunks": counted["passages"],
        "totalSummaries": counted["briefs"],
        "profileConsent": consent,
        "indexSizes": {
            "messages": _size(counted["text_bytes"]),
            "embeddings": _size(counted["vector_bytes"]),
            "fts": _size(counted["entry_bytes"]),
        },
        "counts": dict(counted),
    }


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


def settings(current: Settings, origins: Mapping[str, str]) -> JsonObject:
    shown = {name: value for name, value in current.model_dump().items() if name not in HIDDEN}
    return {
        "settings": shown,
        "origins": {name: origin for name, origin in origins.items() if name in shown},
        "personal": sorted(PERSONAL),
    }


def check_changes(changes: Mapping[str, Any], *, is_operator: bool, everybody: bool) -> None:
    """A person changes how their own prompts are made; the rest is the operator's."""
    others = sorted(set(changes) - PERSONAL)
    if not is_operator and (everybody or (others and others[0] in Settings.model_fields)):
        raise Denied("scope_needed", "Only the operator may change that: it needs the scope 'admin'.")


async def export(memory: AsyncMemory) -> StreamingResponse:
    """By way of a file that has no name any more when it is sent."""
    with tempfile.TemporaryDirectory(prefix="recollect-export-") as folder:
        target = Path(folder) / "export.ndjson"
        await memory.export(target)
        file = await asyncio.to_thread(target.open, "rb")

    def blocks() -> Iterator[bytes]:
        with file:
            while block := file.read(BLOCK):
                yield block

    headers = {"Content-Disposition": 'attachment; filename="recollect.ndjson"'}
    return StreamingResponse(blocks(), media_type="application/x-ndjson", headers=headers)
