"""Counts the tokens of messages before a question, while older ones are put before them.

An older message changes only the first message of the prompt, with which it may become one. So each message is counted
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recollect.core.models import JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt.alternation import become_one, notes_between

QUESTION: Final[JsonObject] = {"role": "user", "content": "Which"}  # any word: its tokens are not counted
OPENING: Final[JsonObject] = {"role": "user", "content": ""}  # the fence stands here, if the assistant speaks first


class TalkCounter:
    """The tokens of messages before a question: as messages that alternate, or as text, whichever is more.

    If the assistant speaks first, the fence stands before it. Where there is none, `build` notices the difference. It
    also notices if messages that became one have more tokens than were counted, as a message of blanks may.
    """

    def __init__(self, tokenizer: PromptTokenizer, messages: Sequence[JsonObject] = ()) -> None:
        self._tokenizer = tokenizer
        self._oldest, self._oldest_text = QUESTION, str(QUESTION["content"])
        self._message_tokens = self._text_tokens = self.tokens = 0
        self.put_before(messages)

    def put_before(self, messages: Sequence[JsonObject]) -> int:
        """Put older messages before all others. Return the tokens of all."""
        for message in reversed(messages):
            self._put_one_before(message)
        if messages:
            opening = self._tokenizer.count_message(OPENING) if messages[0]["role"] != "user" else 0
            self.tokens = max(opening + self._message_tokens, self._text_tokens)
        return self.tokens

    def _put_one_before(self, message: JsonObject) -> None:
        tokenizer, text = self._tokenizer, message["content"]
        if not become_one(message, self._oldest):
            notes = notes_between(message, self._oldest)
            self._message_tokens += sum(map(tokenizer.count_message, (message, *notes)))
            self._oldest_text = text
        elif text:
            later = self._oldest_text
            self._message_tokens += tokenizer.count_added(f"{text}\n", later) if later else tokenizer.count(text)
            self._oldest_text = text
        self._oldest = message
        self._text_tokens += tokenizer.count_line(f"{message['role']}: {text}\n")  # an empty line follows each message


def count_talk(messages: Sequence[JsonObject], tokenizer: PromptTokenizer) -> int:
    """Return the tokens of messages before a question."""
    return TalkCounter(tokenizer, messages).tokens
