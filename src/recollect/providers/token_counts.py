"""Counts the tokens of texts, of chat messages, and of prompts that are built from many lines.

Owns the price of a message. Every part of Recollect counts through these functions, so that budgets agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from recollect.core.errors import InvalidInput
from recollect.providers.tokenizer import BpeTokenizer, tokenizer_for

if TYPE_CHECKING:
    from recollect.core.protocols import Tokenizer

DEFAULT_MODEL: Final = "gpt-4o-mini"
FRAMING_TOKENS: Final = 4  # tokens that a chat API adds around each message


class TokenCount(int):
    """A number of tokens that knows whether it is exact or an estimate."""

    exact: bool

    def __new__(cls, value: int, *, exact: bool = True) -> TokenCount:
        """Make a count of `value` tokens."""
        count = super().__new__(cls, value)
        count.exact = exact
        return count


def count_tokens(text: str, model: str = DEFAULT_MODEL) -> TokenCount:
    """Return the number of tokens of `text` for `model`."""
    tokenizer = tokenizer_for(model)
    return TokenCount(tokenizer.count(text), exact=tokenizer.exact)


def count_tokens_for_messages(messages: Iterable[Mapping[str, Any]], model: str = DEFAULT_MODEL) -> TokenCount:
    """Return the number of tokens of OpenAI-style `messages` for `model`, framing included."""
    tokenizer = tokenizer_for(model)
    return TokenCount(sum(count_message(message, tokenizer) for message in messages), exact=tokenizer.exact)


def count_message(message: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """Return the tokens of one message: content, role, framing and, when present, name and tool calls."""
    total = FRAMING_TOKENS + tokenizer.count(str(message.get("role") or ""))
    total += sum(tokenizer.count(text) for text in _content_texts(message.get("content")))
    if name := message.get("name"):
        total += tokenizer.count(str(name))
    if calls := message.get("tool_calls"):
        total += tokenizer.count(json.dumps(calls, ensure_ascii=False, separators=(",", ":"), default=str))
    return total


def _content_texts(content: object) -> list[str]:
    """Return the texts of a message's content, which is a string, None, or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, list | tuple):
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        return [text for text in texts if isinstance(text, str)]
    raise InvalidInput(
        "invalid_content", f"Message content must be text or a list of parts, not {type(content).__name__}."
    )


# Counting for one prompt

# A line end is the end of a piece in both patterns, unless blanks, another line end or a slash follow. No pattern
# looks back. So at these line ends the tokens of the parts add up to the tokens of the whole.
_LINE_END: Final = re.compile(r"\n(?=[^\s/])")
_STARTS_A_PIECE: Final = re.compile(r"[^\s/]").match


class CachedPromptTokenizer:
    """A tokenizer that counts each text and each line once. It gives the same counts as the tokenizer it wraps.

    Make one for each prompt and drop it with the prompt: it keeps every text that it has counted.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap `tokenizer`. Only a real encoding can be counted by lines: an estimate is rounded for each text."""
        self.name, self.exact = tokenizer.name, tokenizer.exact
        self._counts_by_line = isinstance(tokenizer, BpeTokenizer)
        self._count_with_end = (
            tokenizer.count_cached if isinstance(tokenizer, BpeTokenizer) else _count_with_end(tokenizer)
        )
        self._text_counts: dict[str, int] = {}
        self._line_counts: dict[str, int] = {}  # the line end is counted in

    def count(self, text: str) -> int:
        """Return the tokens of `text`."""
        count = self._text_counts.get(text)
        if count is None:
            count = self._text_counts[text] = self._count_text(text)
        return count

    def count_message(self, message: Mapping[str, Any]) -> int:
        """Return the tokens of a message as a chat API takes it."""
        return count_message(message, self)

    def count_lines(self, lines: Sequence[str]) -> int:
        """Return the tokens of "\\n".join(lines), without joining them where that is possible."""
        if not self._counts_by_line or not lines or not all(map(_STARTS_A_PIECE, lines[1:])):
            return self.count("\n".join(lines))
        *ended, last = lines
        return sum(map(self.count_line, ended)) + self.count(last)

    def count_line(self, line: str) -> int:
        """Return the tokens of `line` and its line end."""
        count = self._line_counts.get(line)
        if count is None:
            parts = _LINE_END.split(line) if self._counts_by_line and "\n" in line else ()
            count = sum(map(self.count_line, parts)) if len(parts) > 1 else self._count_with_end(line, "\n")
            self._line_counts[line] = count
        return count

    def count_added(self, line: str, later: str) -> int:
        """Return the tokens that `line` and its line end add before the text `later`."""
        if self._counts_by_line and _STARTS_A_PIECE(later):
            return self.count_line(line)
        return self.count(f"{line}\n{later}") - self.count(later)

    def _count_text(self, text: str) -> int:
        if not self._counts_by_line or "\n" not in text:
            return self._count_with_end(text)
        *lines, last = _LINE_END.split(text)
        count = sum(map(self.count_line, lines))
        return count + (self.count_line(last[:-1]) if last.endswith("\n") else self._count_with_end(last))


def _count_with_end(tokenizer: Tokenizer) -> Callable[..., int]:
    return lambda text, end="": tokenizer.count(text + end)
