"""Assembles a model's streamed answer, text and tool calls, from its chunks.

Chunks come from outside and may hold anything: fields of the wrong type are ignored. An answer may have hundreds of
thousands of pieces, so adding one must not copy those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.core.models import JsonObject


class TextPieces:
    """A text that grows piece by piece. The pieces are joined when the text is asked for."""

    __slots__ = ("_pieces", "length")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0  # in characters

    def add(self, piece: str) -> None:
        """Add a piece at the end."""
        if piece:
            self._pieces.append(piece)
            self.length += len(piece)

    def join(self) -> str:
        """Return the whole text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


@dataclass(slots=True)
class StreamedAnswer:
    """The part of an answer that has arrived so far. `calls` holds the tool calls by their index."""

    calls: dict[int, JsonObject] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    usage: JsonObject | None = None
    _content: TextPieces = field(default_factory=TextPieces)
    _refusal: TextPieces = field(default_factory=TextPieces)

    @property
    def content(self) -> str:
        """Return the text so far. Use `length` where only its length matters."""
        return self._content.join()

    @property
    def refusal(self) -> str:
        """Return the text with which the model refused, as far as it came."""
        return self._refusal.join()

    @property
    def length(self) -> int:
        """Return the characters of the text so far, without joining its pieces."""
        return self._content.length

    @property
    def tool_calls(self) -> list[JsonObject] | None:
        """Return the tool calls in the order of their indexes, or None if there are none."""
        return [_join_call(self.calls[index]) for index in sorted(self.calls)] or None

    @property
    def is_empty(self) -> bool:
        """Return whether there is no text, no refusal and no tool call yet."""
        return not (self._content.length or self._refusal.length or self.calls)

    def add_text(self, piece: str) -> None:
        """Add a piece of text."""
        self._content.add(piece)

    def add_chunk(self, chunk: object) -> str:
        """Add a chunk of a streamed answer and return the text that is new in it."""
        if not isinstance(chunk, Mapping):
            return ""
        self._add_model_and_usage(chunk)
        choices = (choice for choice in _mappings(chunk.get("choices")) if choice.get("index") in (0, None))
        return "".join([self._add_choice(choice, choice.get("delta")) for choice in choices])

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
        self._content.add(new_text)
        self._refusal.add(refusal if isinstance(refusal, str) else "")
        for position, call in enumerate(_mappings(message.get("tool_calls"))):
            self._add_call(call, position)
        return new_text

    def _add_call(self, piece: Mapping[str, Any], position: int) -> None:
        """Add a piece of a tool call. Providers send names and ids once, and arguments in pieces."""
        index = piece.get("index")
        call = self.calls.setdefault(index if isinstance(index, int) else position, {})
        for name, value in piece.items():
            if name == "index" or value is None or (name == "function" and not isinstance(value, Mapping)):
                continue
            if name == "function":
                function = call.setdefault("function", {"name": TextPieces(), "arguments": TextPieces()})
                for part, pieces in function.items():
                    pieces.add(value.get(part) if isinstance(value.get(part), str) else "")
            else:
                call[name] = value


def _join_call(call: JsonObject) -> JsonObject:
    """Return a tool call with the pieces of its function joined."""
    if "function" not in call:
        return call
    return call | {"function": {part: pieces.join() for part, pieces in call["function"].items()}}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
