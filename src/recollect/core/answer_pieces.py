"""Assembles a model's streamed answer, text and tool calls, from its chunks.

Chunks come from outside and may hold anything: fields of the wrong type are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.core.models import JsonObject


@dataclass(slots=True)
class StreamedAnswer:
    """The part of an answer that has arrived so far. `calls` holds the tool calls by their index."""

    content: str = ""
    refusal: str = ""
    calls: dict[int, JsonObject] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    usage: JsonObject | None = None

    @property
    def tool_calls(self) -> list[JsonObject] | None:
        """Return the tool calls in the order of their indexes, or None if there are none."""
        return [self.calls[index] for index in sorted(self.calls)] or None

    @property
    def is_empty(self) -> bool:
        """Return whether there is no text, no refusal and no tool call yet."""
        return not (self.content or self.refusal or self.calls)

    def add_chunk(self, chunk: object) -> str:
        """Add a chunk of a streamed answer and return the text that is new in it."""
        if not isinstance(chunk, Mapping):
            return ""
        self._add_model_and_usage(chunk)
        new_text = ""
        for choice in _mappings(chunk.get("choices")):
            if choice.get("index") in (0, None):
                new_text += self._add_choice(choice, choice.get("delta"))
        return new_text

    def add_reply(self, reply: object) -> None:
        """Add an answer that arrived whole, not in chunks."""
        if isinstance(reply, Mapping):
            self._add_model_and_usage(reply)
            for choice in _mappings(reply.get("choices"))[:1]:
                self._add_choice(choice, choice.get("message"))

    def _add_model_and_usage(self, reply: Mapping[str, Any]) -> None:
        model, usage = reply.get("model"), reply.get("usage")
        self.model = model if isinstance(model, str) else self.model
        self.usage = dict(usage) if isinstance(usage, Mapping) else self.usage

    def _add_choice(self, choice: Mapping[str, Any], message: object) -> str:
        """Add a choice with its `message` or `delta`, and return the text that is new in it."""
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) else self.finish_reason
        if not isinstance(message, Mapping):
            return ""
        content, refusal = message.get("content"), message.get("refusal")
        new_text = content if isinstance(content, str) else ""
        self.content += new_text
        self.refusal += refusal if isinstance(refusal, str) else ""
        for position, call in enumerate(_mappings(message.get("tool_calls"))):
            self._add_call(call, position)
        return new_text

    def _add_call(self, piece: Mapping[str, Any], position: int) -> None:
        """Add a piece of a tool call. Providers send names and ids once, and arguments in pieces."""
        index = piece.get("index")
        call = self.calls.setdefault(index if isinstance(index, int) else position, {})
        for name, value in piece.items():
            if name == "index" or value is None:
                continue
            if name == "function" and isinstance(value, Mapping):
                function = call.setdefault("function", {"name": "", "arguments": ""})
                for part in ("name", "arguments"):
                    function[part] += value.get(part) if isinstance(value.get(part), str) else ""
            else:
                call[name] = value


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
