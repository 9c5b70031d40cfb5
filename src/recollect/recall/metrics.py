"""Describes how recall fared for one question: counts by source, milliseconds by stage, settings in force."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.core.models import Hit, JsonObject
from recollect.recall.ranked_messages import RankedMessages
from recollect.settings import Settings


def describe_recall(
    ranked: RankedMessages,
    hits: Sequence[Hit],
    settings: Settings,
    *,
    conversation: str | None,
    tokens: int | None,
) -> JsonObject:
    """Return the metrics of one question. `conversation` is the one asked about, `tokens` those used, if counted."""
    return {
        "sources": _count_sources(hits, conversation),
        "ms": {stage: round(ms, 3) for stage, ms in ranked.timer.stages.items()}
        | {"total": round(ranked.timer.total(), 3)},
        "top": [round(hit.score, 4) for hit in hits[:3]],
        "flags": {
            "hybrid": settings.rag_hybrid,
            "chunking": settings.rag_chunking,
            "token_budget": settings.rag_token_budget,
        },
        "scope": len(ranked.scope),
        "hits": len(hits),
        "tokens": tokens,
        "degraded": list(ranked.degraded),
    }


def _count_sources(hits: Sequence[Hit], conversation: str | None) -> JsonObject:
    """Count the hits that each arm had a part in, and those from this and other conversations."""
    here = sum(hit.conversation == conversation for hit in hits) if conversation is not None else 0
    from_profile = sum(hit.kind == "profile" for hit in hits)  # the profile belongs to no conversation
    return {
        "conversation": here,
        "other_conversations": len(hits) - here - from_profile,
        "dense": sum("dense" in hit.why for hit in hits),
        "lexical": sum("bm25" in hit.why for hit in hits),
        "code": sum("code" in hit.why for hit in hits),
        "dates": sum("date" in hit.why for hit in hits),
        "summaries": sum(hit.kind == "brief" for hit in hits),
        "profile": from_profile,
    }
