"""Reads exports in which messages are nodes of a tree: a message that was edited or answered anew has siblings.

The path from the current node to the root is the conversation. Messages on other paths go into conversations of their
own, named `<conversation>/branch-1` and so on. Every message is read exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recollect.core.models import JsonObject
from recollect.formats.batches import (
    Batch,
    LeftOut,
    Skipped,
    Transcript,
    Unreadable,
    count_left_out,
    split_into_batches,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: what the export says of its parent and its children, its time in seconds, and its message."""

    parent: Any
    children: Any
    time: float
    message: Any


# Appends the message of a node (transcript, key, message, metadata of its branch). Returns its id; None if it has none.
AddMessage = Callable[[Transcript, str, Any, JsonObject], str | None]


@dataclass(frozen=True, slots=True)
class _Path:
    """Nodes from the top down, the parent of the first one (None at a root), and whether a loop was cut."""

    nodes: list[str]
    parent: str | None
    looped: bool


class Tree:
    """One tree of messages. Remembers the conversation of each message, so that a branch can name its origin."""

    def __init__(self, name: str, nodes: Mapping[str, Node], add: AddMessage, *, since: str | None = None) -> None:
        """Take the conversation's name, its nodes by key, and the time of messages without one."""
        self._name, self._nodes, self._add, self._since = name, nodes, add, since
        self._unreadable: list[tuple[str, str]] = []
        self._left_out: Counter[str] = Counter()
        self._branch_count = 0
        # For each node, the nearest message at or above it: (conversation, message id).
        self._nearest: dict[str, tuple[str, str] | None] = {}

    def read(
        self, current: Any, where: str, *, title: str | None = None, tags: tuple[str, ...] = ()
    ) -> Iterator[Batch | Skipped | LeftOut]:
        """Yield all messages in batches, the path of the `current` node first, then what was skipped or left out."""
        message_count = 0
        for path in _paths(self._nodes, current):
            if path.looped:
                yield Skipped(where, "its tree of messages has a loop, which was cut")
            conversation, messages = self._read_path(path)
            message_count += len(messages)
            yield from split_into_batches(conversation, messages, title=title, tags=tags)
        for key, reason in self._unreadable:
            yield Skipped(f"{where}, message {key[:40]}", reason)
        yield from count_left_out(self._left_out, is_empty=not message_count)

    def _read_path(self, path: _Path) -> tuple[str, list[JsonObject]]:
        """Return the conversation that a path belongs to, and the messages on it."""
        origin = self._nearest.get(path.parent) if path.parent is not None else None
        conversation, link = self._name, JsonObject()
        if self._nearest:  # only the first path is the conversation itself
            conversation = f"{self._name}/branch-{self._branch_count + 1}"
            link = {"branch_of": origin[0] if origin else self._name, "after": origin and origin[1]}
        transcript = Transcript(self._since)
        for key in path.nodes:
            try:
                if message_id := self._add(transcript, key, self._nodes[key].message, dict(link)):
                    origin = (conversation, message_id)
            except Unreadable as error:
                self._unreadable.append((key, str(error)))
            self._nearest[key] = origin
        if link and transcript.messages:
            self._branch_count += 1
        self._left_out += transcript.left_out
        return conversation, transcript.messages


def _paths(nodes: Mapping[str, Node], current: Any) -> Iterator[_Path]:
    """Yield paths that together hold every node once: the current one first, then by the time of their leaf."""
    if not nodes:
        return
    parents = _parents(nodes)
    inner = set(parents.values())
    leaves = sorted((key for key in nodes if key not in inner), key=lambda key: nodes[key].time)
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


def _parents(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the parent of each node: by its `parent`, or by the `children` of others if that names no known node."""
    parents: dict[str, str] = {}
    for key, node in nodes.items():
        children = node.children
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str) and child in nodes:
                parents.setdefault(child, key)
    for key, node in nodes.items():
        if isinstance(parent := node.parent, str) and parent in nodes:
            parents[key] = parent
    return parents
