"""Reads the conversations of a ChatGPT export, where messages are nodes of a tree.

The path from `current_node` to the root is the conversation. Messages on other paths go into conversations of their
own, named `<conversation>/branch-1` and so on. Every message is read exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recollect.core.message import ROLES
from recollect.core.models import JsonObject
from recollect.formats.batches import (
    Batch,
    Skipped,
    Transcript,
    Unreadable,
    conversation_name,
    describe_position,
    short_text,
    split_into_batches,
    to_iso_time,
)
from recollect.formats.parts import join_parts

Nodes = dict[str, JsonObject]


@dataclass(frozen=True, slots=True)
class _Path:
    """Nodes from the top down, the parent of the first one (None at a root), and whether a loop was cut."""

    nodes: list[str]
    parent: str | None
    looped: bool


def convert(record: Any, where: str) -> Iterator[Batch | Skipped]:
    """Convert one conversation. `where` is its position in the file, for reports."""
    if not isinstance(record, dict) or not isinstance(mapping := record.get("mapping"), dict):
        yield Skipped(where, "it has no mapping of messages")
        return
    name = conversation_name("chatgpt", record.get("conversation_id") or record.get("id"), record)
    where = describe_position(where, name)
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    if unreadable := len(mapping) - len(nodes):
        yield Skipped(where, f"{unreadable} of its nodes are not objects")
    tree = _Tree(name, nodes, to_iso_time(record.get("create_time")))
    message_count = 0
    for path in _paths(nodes, record.get("current_node")):
        if path.looped:
            yield Skipped(where, "its tree of messages has a loop, which was cut")
        conversation, messages = tree.read_path(path)
        message_count += len(messages)
        yield from split_into_batches(conversation, messages, title=short_text(record.get("title")))
    for key, reason in tree.unreadable:
        yield Skipped(f"{where}, message {key[:40]}", reason)
    if not message_count:
        yield Skipped(where, "it has no messages with text")


class _Tree:
    """Reads the paths of one tree. Remembers the conversation of each message, so that a branch can name its origin."""

    def __init__(self, name: str, nodes: Nodes, since: str | None) -> None:
        self.unreadable: list[tuple[str, str]] = []
        self._name = name
        self._nodes = nodes
        self._since = since
        self._branches = 0
        # For each node, the nearest message at or above it: (conversation, message id).
        self._nearest: dict[str, tuple[str, str] | None] = {}

    def read_path(self, path: _Path) -> tuple[str, list[JsonObject]]:
        """Return the conversation that a path belongs to, and the messages on it."""
        origin = self._nearest.get(path.parent) if path.parent is not None else None
        conversation, link = self._name, None
        if self._nearest:  # only the first path is the conversation itself
            conversation = f"{self._name}/branch-{self._branches + 1}"
            link = {"branch_of": origin[0] if origin else self._name, "after": origin and origin[1]}
        transcript = Transcript(self._since)
        for key in path.nodes:
            try:
                if message_id := _add(transcript, self._nodes[key], key, link):
                    origin = (conversation, message_id)
            except Unreadable as error:
                self.unreadable.append((key, str(error)))
            self._nearest[key] = origin
        if link and transcript.messages:
            self._branches += 1
        return conversation, transcript.messages


def _paths(nodes: Nodes, current: Any) -> Iterator[_Path]:
    """Yield paths that together hold every node once: the current one first, then by the time of their leaf."""
    if not nodes:
        return
    parents = _parents(nodes)
    inner = set(parents.values())
    leaves = sorted((key for key in nodes if key not in inner), key=lambda key: _time(nodes[key]))
    has_current = isinstance(current, str) and current in nodes
    start = current if has_current else (leaves or list(nodes))[-1]
    taken: set[str] = set()
    # Nodes that cannot be reached from a leaf lie on loops. They come last.
    for key in [start, *leaves, *nodes]:
        if key not in taken:
            yield _climb(key, parents, taken)


def _climb(key: str, parents: dict[str, str], taken: set[str]) -> _Path:
    """Return the path from `key` up to a root, a node of an earlier path, or a loop; add its nodes to `taken`."""
    path: list[str] = []
    on_path: set[str] = set()
    above: str | None = key
    while above is not None and above not in taken and above not in on_path:
        path.append(above)
        on_path.add(above)
        above = parents.get(above)
    taken |= on_path
    looped = above in on_path
    return _Path(path[::-1], None if looped else above, looped)


def _parents(nodes: Nodes) -> dict[str, str]:
    """Return the parent of each node: by its `parent`, or by the `children` of others if that names no known node."""
    parents: dict[str, str] = {}
    for key, node in nodes.items():
        children = node.get("children")
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str) and child in nodes:
                parents.setdefault(child, key)
    for key, node in nodes.items():
        if isinstance(parent := node.get("parent"), str) and parent in nodes:
            parents[key] = parent
    return parents


def _time(node: JsonObject) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return float(time) if isinstance(time, int | float) and abs(time) < 1e15 else 0.0


def _add(transcript: Transcript, node: JsonObject, key: str, link: JsonObject | None) -> str | None:
    """Append the node's message and return its id; None if the node has no text."""
    message = node.get("message")
    if message is None:
        return None
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    text, others = _content(message.get("content"))
    if not text:
        return None
    author = _object(message.get("author"))
    if (role := author.get("role")) not in ROLES:
        raise Unreadable("its author's role is unknown")
    details = _object(message.get("metadata"))
    metadata = dict(link or {})
    if others:
        metadata["parts"] = others
    if details.get("is_visually_hidden_from_conversation") is True:
        metadata["hidden"] = True
    return transcript.add(
        role,
        text,
        id=message.get("id") or key,
        at=message.get("create_time"),
        name=short_text(author.get("name")),
        model_variant=short_text(details.get("model_slug")),
        metadata=metadata or None,
    )


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
