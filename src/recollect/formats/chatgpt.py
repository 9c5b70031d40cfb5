"""Reads the conversations of a ChatGPT export: trees of messages (`mapping`).

The trees also hold what nobody said: hidden instructions, calls and results of tools, thoughts of the model. These are
counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recollect.core.message import ROLES
from recollect.core.models import JsonObject
from recollect.formats.batches import (
    HIDDEN_INSTRUCTIONS,
    THOUGHTS,
    TOOL_TRACES,
    Batch,
    LeftOut,
    Skipped,
    Transcript,
    Unreadable,
    conversation_name,
    describe_position,
    short_text,
    to_iso_time,
)
from recollect.formats.parts import join_parts
from recollect.formats.tree import Node, Tree

# Content types that are no messages, whoever is their author.
_LEFT_OUT_TYPES: Final = {
    "user_editable_context": HIDDEN_INSTRUCTIONS,
    "model_editable_context": HIDDEN_INSTRUCTIONS,
    "thoughts": THOUGHTS,
    "reasoning_recap": THOUGHTS,  # "Thought for 4 seconds"
    "execution_output": TOOL_TRACES,
    "computer_output": TOOL_TRACES,
    "citable_code_output": TOOL_TRACES,
    "tether_quote": TOOL_TRACES,
    "tether_browsing_code": TOOL_TRACES,
    "tether_browsing_display": TOOL_TRACES,
    "sonic_webpage": TOOL_TRACES,
    "system_error": TOOL_TRACES,
}


def convert(record: Any, where: str) -> Iterator[Batch | Skipped | LeftOut]:
    """Convert one conversation. `where` is its position in the file, for reports."""
    if not isinstance(record, dict) or not isinstance(mapping := record.get("mapping"), dict):
        yield Skipped(where, "it has no mapping of messages")
        return
    name = conversation_name("chatgpt", record.get("conversation_id") or record.get("id"), record)
    where = describe_position(where, name)
    nodes = {key: _to_node(node) for key, node in mapping.items() if isinstance(node, dict)}
    if unreadable := len(mapping) - len(nodes):
        yield Skipped(where, f"{unreadable} of its nodes are not objects")
    tree = Tree(name, nodes, _add, since=to_iso_time(record.get("create_time")))
    yield from tree.read(record.get("current_node"), where, title=short_text(record.get("title")))


def _to_node(node: JsonObject) -> Node:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    seconds = float(time) if isinstance(time, int | float) and abs(time) < 1e15 else 0.0
    return Node(node.get("parent"), node.get("children"), seconds, message)


def _add(transcript: Transcript, key: str, message: Any, metadata: JsonObject) -> str | None:
    """Append the node's message and return its id; None if the node has no text, or none that somebody said."""
    if message is None:
        return None
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    text, others = _content(message.get("content"))
    if not text:
        return None
    author, details = _object(message.get("author")), _object(message.get("metadata"))
    if (left_out := _find_left_out(message, author, details)) is not None:
        transcript.left_out[left_out] += 1
        return None
    if (role := author.get("role")) not in ROLES:
        raise Unreadable("its author's role is unknown")
    if others:
        metadata["parts"] = others
    return transcript.add(
        role,
        text,
        id=message.get("id") or key,
        at=message.get("create_time"),
        name=short_text(author.get("name")),
        model_variant=short_text(details.get("model_slug")),
        metadata=metadata or None,
    )


def _find_left_out(message: JsonObject, author: JsonObject, details: JsonObject) -> str | None:
    """Return as what a node is left out; None if it is a message that the person wrote or was shown."""
    kind = _object(message.get("content")).get("content_type")
    if isinstance(kind, str) and kind in _LEFT_OUT_TYPES:
        return _LEFT_OUT_TYPES[kind]
    if author.get("role") == "tool" or message.get("recipient") not in (None, "all"):
        return TOOL_TRACES
    if message.get("channel") == "analysis":
        return THOUGHTS
    is_hidden = details.get("is_visually_hidden_from_conversation") or details.get("is_user_system_message")
    return HIDDEN_INSTRUCTIONS if is_hidden or author.get("role") == "system" else None


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _content(content: Any) -> tuple[str, list[Any]]:
    """Return the text of any content type of the export, and the parts that are not text."""
    if isinstance(content, str):
        return content.strip() and content, []
    if not isinstance(content, dict):
        return "", []
    if isinstance(parts := content.get("parts"), list):
        text, others = join_parts(parts)
        return text if text.strip() else "", others
    if isinstance(thoughts := content.get("thoughts"), list):
        texts = [_object(thought).get("content") for thought in thoughts]
    else:
        fields = ("title", "url", "text", "result", "content")
        context_fields = ("user_profile", "user_instructions", "model_set_context")
        texts = [content.get(field) for field in (*fields, *context_fields)]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip()), []
