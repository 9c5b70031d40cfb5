"""Describes how recall fared for one question: counts by source and type, milliseconds by stage, settings in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from recollect.core.models import Hit, JsonObject
from recollect.recall.ranked_messages import RankedMessages
from recollect.settings import Settings

TOP_MESSAGES: Final = 3  # best messages whose scores and similarities are noted
TYPES: Final = ("message", "passage", "brief", "profile", "memory")  # what recall can give
_TYPE_OF_PART: Final = {"profile": "profile", "summary": "brief", "important_data": "brief"}  # of a prompt


class Used(NamedTuple):
    """Something that recall gave: a hit, or an item of a prompt. `arms` found it; the brief and profile have none."""

    type: str  # one of TYPES
    conversation: str | None
    arms: Collection[str] = ()


def hits_to_used(hits: Iterable[Hit]) -> list[Used]:
    """Return what the hits of a recall are."""
    return [Used(hit.kind, hit.conversation or None, hit.why) for hit in hits]


def prompt_to_used(explain: JsonObject, conversation: str) -> list[Used]:
    """Return what a prompt has of memory, by its explanation: passages, parts of the brief, lines of the profile."""
    used = []
    for part in explain["parts"]:
        if part["name"] == "recall":
            used += [Used(item["type"], item["conversation"], item["why"]) for item in part["items"]]
        elif part["name"] in _TYPE_OF_PART:
            kind = _TYPE_OF_PART[part["name"]]
            used += [Used(kind, None if kind == "profile" else conversation)] * len(part["items"])
    return used


def describe_recall(
    ranked: RankedMessages,
    used: Sequence[Used],
    settings: Settings,
    *,
    conversation: str | None,
    tokens: int | None,
) -> JsonObject:
    """Return the metrics of one question. `conversation` is the one asked about, `tokens` those used, if counted.

    `top` and `similarities` are scores and cosines of the best messages. The milliseconds of `words` and `vectors` are
    part of those of `score`.
    """
    best = ranked.ranked[:TOP_MESSAGES]
    return {
        "sources": _count_sources(used, conversation),
        "types": {kind: count for kind, count in _count_types(used).items() if count},
        "ms": {stage: round(ms, 3) for stage, ms in ranked.timer.stages.items()}
        | {"total": round(ranked.timer.total(), 3)},
        "top": [round(float(score), 4) for score in ranked.ordered.scores_of(best)],
        "similarities": [round(float(cosine), 4) for cosine in ranked.scores.dense[best]],
        "flags": {
            "hybrid": settings.rag_hybrid,
            "chunking": settings.rag_chunking,
            "summary_frequency": settings.rag_summary_frequency,
            "token_budget": settings.rag_token_budget,
        },
        "scope": len(ranked.scope),
        "hits": len(used),
        "tokens": tokens,
        "degraded": list(ranked.degraded),
    }


def _count_types(used: Iterable[Used]) -> dict[str, int]:
    counts = Counter(item.type for item in used)
    return {kind: counts[kind] for kind in TYPES}


def _count_sources(used: Sequence[Used], conversation: str | None) -> JsonObject:
    """Count what each arm had a part in, and what comes from this and from other conversations.

    The profile belongs to no conversation.
    """
    here = [item for item in used if item.conversation == conversation is not None]
    dense = [item for item in used if "dense" in item.arms]
    dense_here = sum(item.conversation == conversation is not None for item in dense)
    types = _count_types(used)
    return {
        "conversation": len(here),
        "other_conversations": sum(item.conversation is not None for item in used) - len(here),
        "conversation_dense": dense_here,
        "other_dense": len(dense) - dense_here,
        "dense": len(dense),
        "lexical": sum("bm25" in item.arms for item in used),
        "code": sum("code" in item.arms for item in used),
        "dates": sum("date" in item.arms for item in used),
        "summaries": types["brief"],
        "profile": types["profile"],
    }
