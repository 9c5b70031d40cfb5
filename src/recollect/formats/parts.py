"""Turns message contents that are lists of parts into text. Text parts are joined; others are named in brackets.

The parts of OpenAI messages, ChatGPT nodes and Claude blocks overlap enough to be read by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from recollect.formats.batches import bound_parts

_PART_NAMES: Final = {
    "image_url": "image",
    "input_image": "image",
    "image_asset_pointer": "image",
    "input_audio": "audio",
    "audio_asset_pointer": "audio",
    "real_time_user_audio_video_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
    "input_file": "file",
    "tool_use": "tool use",
    "tool_result": "tool result",
}
_THOUGHTS: Final = frozenset(("thinking", "redacted_thinking"))
# Fields that hold the text of a part, the preferred one first.
_TEXT_FIELDS: Final = ("text", "refusal")


def join_parts(parts: Sequence[Any], *, unspoken: frozenset[str] = _THOUGHTS) -> tuple[str, list[Any]]:
    """Return the text of all parts, and the parts that are not text, cut to a size that fits into metadata.

    Parts of an `unspoken` type are not named in the text: nobody said them.
    """
    texts: list[str] = []
    others: list[Any] = []
    for part in parts:
        text = _text_of(part)
        if text is None:
            text = "" if _type_of(part) in unspoken else _describe(part)
            others.append(part)
        if text:
            texts.append(text)
    return "\n".join(texts), bound_parts(others)


def _text_of(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for key in _TEXT_FIELDS:
            if isinstance(text := part.get(key), str):
                return text
    return None


def _type_of(part: Any) -> str | None:
    kind = part.get("type") or part.get("content_type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else None


def _describe(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    kind = _type_of(part)
    label = _PART_NAMES.get(kind, kind[:40]) if kind is not None else "part"
    details = [label]
    if isinstance(name := part.get("name"), str) and name:
        details[0] = f"{label}: {name[:100]}"
    if kind == "tool_use":
        details.append(json.dumps(part.get("input"), ensure_ascii=False))
    if kind == "tool_result":
        content = part.get("content")
        details.append(content if isinstance(content, str) else _nested_text(content))
    return f"[{' '.join(filter(None, details))}]"


def _nested_text(content: Any) -> str:
    if not isinstance(content, list):
        return ""
    return "\n".join(text for part in content if (text := _text_of(part)))
