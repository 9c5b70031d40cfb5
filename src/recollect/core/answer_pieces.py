"""A model's answer as it comes in pieces: text and calls of tools, put together. Pieces may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.core.models import JsonObject


@dataclass(slots=True)
class Answer:
    """What has come so far."""

    content: str = ""
    refusal: str = ""
    calls: dict[int, JsonObject] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    usage: JsonObject | None = None

    @property
    def tool_calls(self) -> list[JsonObject] | None:
        return [self.calls[place] for place in sorted(self.calls)] or None

    @property
    def is_empty(self) -> bool:
        return not (self.content or self.refusal or self.calls)

    def take(self, chunk: object) -> str:
        """Add a piece of a streamed answer. Returns the text that is new in it."""
        if not isinstance(chunk, Mapping):
            return ""
        self._note(chunk)
        new = ""
        for choice in _mappings(chunk.get("choices")):
            if choice.get("index") in (0, None):
                new += self._choice(choice, choice.get("delta"))
        return new

    def take_whole(self, reply: object) -> None:
        """An answer that came at once."""
        if isinstance(reply, Mapping):
            self._note(reply)
            for choice in _mappings(reply.get("choices"))[:1]:
                self._choice(choice, choice.get("message"))

    def _note(self, reply: Mapping[str, Any]) -> None:
        model, usage = reply.get("model"), reply.get("usage")
        self.model = model if isinstance(model, str) else self.model
        self.usage = dict(usage) if isinstance(usage, Mapping) else self.usage

    def _choice(self, choice: Mapping[str, Any], said: object) -> str:
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) else self.finish_reason
        if not isinstance(said, Mapping):
            return ""
        content, refusal = said.get("content"), said.get("refusal")
        new = content if isinstance(content, str) else ""
        self.content += new
        self.refusal += refusal if isinstance(refusal, str) else ""
        for place, call in enumerate(_mappings(said.get("tool_calls"))):
            self._call(call, place)
        return new

    def _call(self, piece: Mapping[str, Any], place: int) -> None:
        """Names and ids come once, arguments in pieces."""
        index = piece.get("index")
        call = self.calls.setdefault(index if isinstance(index, int) else place, {})
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
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
