"""Reads the conversations of a ChatGPT export, where messages are nodes of a tree.

The path from `current_node` to the root is the conversation; what was said on other paths is kept in
conversations of its own, named `<conversation>/branch-1` and so on. Every message is read exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recollect.core.models import ROLES, JsonObject
from recollect.formats.batches import (
    Batch,
    Skipped,
    Transcript,
    Unreadable,
    batched,
    conversation_name,
    label,
    moment,
    short,
)
from recollect.formats.parts import join_parts

Nodes = dict[str, JsonObject]


@dataclass(frozen=True, slots=True)
class _Path:
    """Nodes from the top down, the node they hang on (None at a root), and whether a loop was cut."""

    nodes: list[str]
    after: str | None
    looped: bool


def convert(record: Any, where: str) -> Iterator[Batch | Skipped]:
    if not isinstance(record, dict) or not isinstance(mapping := record.get("mapping"), dict):
        yield Skipped(where, "it has no mapping of messages")
        return
    name = conversation_name("chatgpt", record.get("conversation_id") or record.get("id"), record)
    where = label(where, name)
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    if lost := len(mapping) - len(nodes):
        yield Skipped(where, f"{lost} of its nodes are not objects")
    tree = _Tree(name, nodes, moment(record.get("create_time")))
    said = 0
    for path in _paths(nodes, record.get("current_node")):
        if path.looped:
            yield Skipped(where, "its tree of messages has a loop, which was cut")
        conversation, messages = tree.follow(path)
        said += len(messages)
        yield from batched(conversation, messages, title=short(record.get("title")))
    for key, reason in tree.unreadable:
        yield Skipped(f"{where}, message {key[:40]}", reason)
    if not said:
        yield Skipped(where, "it has no messages with text")


class _Tree:
    """Follows paths and remembers where each message was put, so that a branch can say what it left."""

    def __init__(self, name: str, nodes: Nodes, since: str | None) -> None:
        self.unreadable: list[tuple[str, str]] = []
        self._name = name
        self._nodes = nodes
        self._since = since
        self._branches = 0
        # For each node, the nearest message at or above it: (conversation, message id).
        self._placed: dict[str, tuple[str, str] | None] = {}

    def follow(self, path: _Path) -> tuple[str, list[JsonObject]]:
        """The conversation a path belongs to, and what was said on it."""
        origin = self._placed.get(path.after) if path.after is not None else None
        conversation, link = self._name, None
        if self._placed:  # only the first path is the conversation itself
            conversation = f"{self._name}/branch-{self._branches + 1}"
            link = {"branch_of": origin[0] if origin else self._name, "after": origin and origin[1]}
        transcript = Transcript(self._since)
        for key in path.nodes:
            try:
                if said := _add(transcript, self._nodes[key], key, link):
                    origin = (conversation, said)
            except Unreadable as error:
                self.unreadable.append((key, str(error)))
            self._placed[key] = origin
        if link and transcript.messages:
            self._branches += 1
        return conversation, transcript.messages


def _paths(nodes: Nodes, current: Any) -> Iterator[_Path]:
    """Paths that together hold every node once: the current one first, the others oldest leaf first."""
    if not nodes:
        return
    parents = _parents(nodes)
    inner = set(parents.values())
    leaves = sorted((key for key in nodes if key not in inner), key=lambda key: _time(nodes[key]))
    known = isinstance(current, str) and current in nodes
    start = current if known else (leaves or list(nodes))[-1]
    taken: set[str] = set()
    # Nodes that no leaf leads to lie on loops; they come last.
    for key in [start, *leaves, *nodes]:
        if key not in taken:
            yield _climb(key, parents, taken)


def _climb(key: str, parents: dict[str, str], taken: set[str]) -> _Path:
    path: list[str] = []
    mine: set[str] = set()
    above: str | None = key
    while above is not None and above not in taken and above not in mine:
        path.append(above)
        mine.add(above)
        above = parents.get(above)
    taken |= mine
    looped = above in mine
    return _Path(path[::-1], None if looped else above, looped)


def _parents(nodes: Nodes) -> dict[str, str]:
    """Who hangs on whom, by `parent`, or by `children` where a node names no known parent."""
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
    """Append the node's message and return its id; None if the node has nothing to say."""
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
        name=short(author.get("name")),
        model_variant=short(details.get("model_slug")),
        metadata=metadata or None,
    )


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _content(content: Any) -> tuple[str, list[Any]]:
    """The text of any of the export's content types, and parts that are more than text."""
    if isinstance(content, str):
        return content.strip() and content, []
    if not isinstance(content, dict):
        return "", []
    if isinstance(parts := content.get("parts"), list):
        text, others = join_parts(parts)
        return text if text.strip() else "", others
    if isinstance(thoughts := content.get("thoughts"), list):
        found = [_object(thought).get("content") for thought in thoughts]
    else:
        fields = ("title", "url", "text", "result", "content")
        context = ("user_profile", "user_instructions", "model_set_context")
        found = [content.get(field) for field in (*fields, *context)]
    return "\n".join(text for text in found if isinstance(text, str) and text.strip()), []
