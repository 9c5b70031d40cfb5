"""Renders recall, stats and settings for the routes under /api/v1/memory, and checks changes of settings.

The field names of `debug/retrieval` and `debug/stats` are those of the recall feature's own specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from recollect.core.errors import Denied
from recollect.core.models import Hit, JsonObject, Recalled
from recollect.settings import CHOSEN_BY_PERSON, SECRET_SETTINGS, Settings

HIDDEN_SETTINGS: Final = SECRET_SETTINGS | {"model_url", "embedder_url"}
_SOURCE_BY_ARM: Final = {"dense": "dense", "bm25": "fts", "code": "code", "date": "date"}


def retrieval_to_json(query: str, recalled: Recalled) -> JsonObject:
    """Return one recall for `debug/retrieval`: results with their sources, times by stage, flags."""
    ms, flags, sources = (recalled.metrics[name] for name in ("ms", "flags", "sources"))
    return {
        "query": query,
        "results": [_hit_to_json(hit) for hit in recalled.hits],
        "metrics": {
            "totalMs": ms["total"],
            "loadMs": ms.get("load", 0.0),
            "denseMs": round(ms.get("embed", 0.0) + ms.get("vectors", 0.0), 3),
            "ftsMs": ms.get("words", 0.0),
            "rerankMs": round(ms.get("score", 0.0) - ms.get("words", 0.0) - ms.get("vectors", 0.0), 3),
            "fetchMs": ms.get("fetch", 0.0),
        },
        "sources": {
            **sources,
            "conversationDense": sources["conversation_dense"],
            "globalDense": sources["other_dense"],
            "ftsLexical": sources["lexical"],
        },
        "types": recalled.metrics["types"],
        "topSimilarities": recalled.metrics["similarities"],
        "topScores": recalled.metrics["top"],
        "flags": {
            "hybrid": flags["hybrid"],
            "chunking": flags["chunking"],
            "tokenBudget": flags["token_budget"],
        },
        "degraded": list(recalled.degraded),
    }


def _hit_to_json(hit: Hit) -> JsonObject:
    """Return a hit. Its `source` is the arm that gave most of the score."""
    arms = {name: part for name, part in hit.why.items() if name in _SOURCE_BY_ARM}
    best_arm = max(arms, key=lambda name: arms[name], default="")
    kind = {"passage": "chunk", "brief": "summary"}.get(hit.kind, hit.kind)
    return {
        "content": hit.text, "score": round(hit.score, 4), "source": _SOURCE_BY_ARM.get(best_arm, hit.kind),
        "type": kind, "messageId": hit.message_id, "conversationId": hit.conversation, "why": hit.why,
    }  # fmt: skip


def stats_to_json(counts: Mapping[str, Any], *, consent: bool) -> JsonObject:
    """Return counts and sizes for `debug/stats`. `counts` are those of `AsyncMemory.stats`."""
    return {
        "totalMessages": counts["messages"],
        "totalConversations": counts["conversations"],
        "totalChunks": counts["passages"],
        "totalSummaries": counts["briefs"],
        "profileConsent": consent,
        "indexSizes": {
            "messages": _render_size(counts["text_bytes"]),
            "embeddings": _render_size(counts["vector_bytes"]),
            "fts": _render_size(counts["entry_bytes"]),
        },
        "counts": dict(counts),
    }


def _render_size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


def settings_to_json(current: Settings, origins: Mapping[str, str]) -> JsonObject:
    """Return the settings and where each comes from, without addresses and keys of providers."""
    shown = {name: value for name, value in current.model_dump().items() if name not in HIDDEN_SETTINGS}
    return {
        "settings": shown,
        "origins": {name: origin for name, origin in origins.items() if name in shown},
        "personal": sorted(CHOSEN_BY_PERSON),
    }


def check_changes(changes: Mapping[str, Any], *, is_operator: bool, everybody: bool) -> None:
    """Refuse changes that only the operator may make: of settings that are not personal, or for everybody."""
    not_personal = sorted(set(changes) - CHOSEN_BY_PERSON)
    if not is_operator and (everybody or (not_personal and not_personal[0] in Settings.model_fields)):
        raise Denied("scope_needed", "Only the operator may change that: it needs a key with the scope 'admin'.")
