"""Reads chats of an Open WebUI export: a tree of messages in `chat.history`, or the list `chat.messages`.

An answer's thoughts and tool calls stand in its text, in `<details>` elements with a type. They are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recollect.core.models import JsonObject
from recollect.formats.batches import (
    EMPTY_MESSAGES,
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

_ROLES: Final = {"user": "user", "assistant": "assistant", "tool": "tool"}
_DETAILS_OPEN: Final = '<details type="'
_DETAILS_CLOSE: Final = "</details>"
_LEFT_OUT_DETAILS: Final = {"reasoning": THOUGHTS, "tool_calls": TOOL_TRACES, "code_interpreter": TOOL_TRACES}


def convert(record: Any, where: str) -> Iterator[Batch | Skipped | LeftOut]:
    """Convert one chat. `where` is its position in the file, for reports."""
    chat = record.get("chat") if isinstance(record, dict) else None
    if not isinstance(chat, dict):
        yield Skipped(where, "it has no chat")
        return
    name = conversation_name("openwebui", record.get("id") or chat.get("id"), record)
    where = describe_position(where, name)
    nodes, current = _read_nodes(chat)
    if not nodes and not isinstance(chat.get("messages"), list) and not isinstance(chat.get("history"), dict):
        yield Skipped(where, "it has no messages")
        return
    since = to_iso_time(record.get("created_at")) or to_iso_time(chat.get("timestamp"))
    title = short_text(record.get("title")) or short_text(chat.get("title"))
    yield from Tree(name, nodes, _add, since=since).read(current, where, title=title, tags=_tags(record, chat))
    if _has_system_prompt(chat):
        yield LeftOut(HIDDEN_INSTRUCTIONS)


def _read_nodes(chat: JsonObject) -> tuple[dict[str, Node], Any]:
    """Return the nodes by key, and the key of the newest message that the person saw."""
    history = chat.get("history")
    if isinstance(history, dict) and isinstance(messages := history.get("messages"), dict) and messages:
        return {key: _to_node(message) for key, message in messages.items()}, history.get("currentId")
    listed = chat.get("messages")
    chain = [str(number) for number in range(len(listed))] if isinstance(listed, list) else []
    nodes = {
        key: Node(str(int(key) - 1) if key != "0" else None, None, 0.0, message)
        for key, message in zip(chain, listed or (), strict=False)
    }
    return nodes, chain[-1] if chain else None


def _to_node(message: Any) -> Node:
    if not isinstance(message, dict):
        return Node(None, None, 0.0, message)
    time = message.get("timestamp")
    seconds = float(time) if isinstance(time, int | float) and abs(time) < 1e15 else 0.0
    return Node(message.get("parentId"), message.get("childrenIds"), seconds, message)


def _add(transcript: Transcript, key: str, message: Any, metadata: JsonObject) -> str | None:
    """Append a message and return its id; None if it has no text."""
    if not isinstance(message, dict):
        raise Unreadable("it is not an object")
    foreign_role = message.get("role")
    if foreign_role == "system":
        transcript.left_out[HIDDEN_INSTRUCTIONS] += 1
        return None
    role = _ROLES.get(foreign_role) if isinstance(foreign_role, str) else None
    if role is None:
        raise Unreadable("its role is unknown")
    text, others = _content(message.get("content"))
    if role == "assistant":
        text = _strip_details(text, transcript)
    text = "\n".join(filter(None, (text, *_files(message))))
    if not text:
        transcript.left_out[EMPTY_MESSAGES] += 1
        return None
    if others:
        metadata["parts"] = others
    return transcript.add(
        role,
        text,
        id=message.get("id") or key,
        at=message.get("timestamp"),
        model_variant=short_text(message.get("model")) if role == "assistant" else None,
        metadata=metadata or None,
    )


def _content(content: Any) -> tuple[str, list[Any]]:
    if content is None or isinstance(content, str):
        return (content or "").strip(), []
    if isinstance(content, list):
        text, others = join_parts(content)
        return text.strip(), others
    raise Unreadable("its content is neither text nor a list of parts")


def _strip_details(text: str, transcript: Transcript) -> str:
    """Return the text without the elements that hold thoughts and tool calls. One that never ends goes to the end."""
    kept: list[str] = []
    position = 0
    while (start := text.find(_DETAILS_OPEN, position)) >= 0:
        kind = text[start + len(_DETAILS_OPEN) : start + 40].partition('"')[0]
        end = text.find(_DETAILS_CLOSE, start)
        end = len(text) if end < 0 else end + len(_DETAILS_CLOSE)
        if kind in _LEFT_OUT_DETAILS:
            transcript.left_out[_LEFT_OUT_DETAILS[kind]] += 1
            kept.append(text[position:start])
        else:
            kept.append(text[position:end])
        position = end
    return "".join([*kept, text[position:]]).strip()


def _files(message: JsonObject) -> Iterator[str]:
    """Yield a line for each picture and file of a message."""
    files = message.get("files")
    for item in files if isinstance(files, list) else ():
        if isinstance(item, dict):
            name = short_text(item.get("name"))
            yield "[image]" if item.get("type") == "image" else f"[file: {name}]" if name else "[file]"


def _tags(record: JsonObject, chat: JsonObject) -> tuple[str, ...]:
    meta = record.get("meta")
    listed = meta.get("tags") if isinstance(meta, dict) else None
    names = listed if isinstance(listed, list) else chat.get("tags")
    tags = (
        [item.get("name") if isinstance(item, dict) else item for item in names or ()]
        if isinstance(names, list)
        else []
    )
    return tuple(dict.fromkeys(tag for each in tags if (tag := short_text(each))))


def _has_system_prompt(chat: JsonObject) -> bool:
    parameters = chat.get("params")
    prompts = (chat.get("system"), parameters.get("system") if isinstance(parameters, dict) else None)
    return any(isinstance(prompt, str) and prompt.strip() for prompt in prompts)
