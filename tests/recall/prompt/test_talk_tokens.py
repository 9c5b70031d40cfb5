"""Tokens of a talk are counted once for each message, and come out as if the whole prompt had been counted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recollect.providers.token_counts import CachedPromptTokenizer, tokenizer_for
from recollect.recall.prompt.alternation import alternate
from recollect.recall.prompt.talk_tokens import TalkCounter, count_talk

QUESTION = {"role": "user", "content": "And when?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
}
TEXTS = st.sampled_from(["Hello", "Two of us.\nThe other line", "صباح الخير", "", "(see /tmp)", "x = 1\n\n\ny = 2"])
MESSAGES = st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), TEXTS)
RESULT = {"role": "tool", "content": "found", "tool_call_id": "1"}
TURNS = st.lists(MESSAGES.map(lambda message: [message]) | st.just([CALL, RESULT]), max_size=12)


def new_tokenizer(model: str = "gpt-4o") -> CachedPromptTokenizer:
    return CachedPromptTokenizer(tokenizer_for(model))


@given(TURNS)
def test_tokens_are_those_of_the_longer_form_of_the_prompt(turns: list[list[dict[str, Any]]]) -> None:
    tokenizer = new_tokenizer()
    messages = [message for turn in turns for message in turn]
    prompt = alternate([*messages, QUESTION], opening="")
    as_messages = sum(map(tokenizer.count_message, prompt)) - tokenizer.count_message(QUESTION)
    as_text = sum(tokenizer.count(f"{message['role']}: {message['content']}\n\n") for message in messages)
    assert count_talk(messages, tokenizer) == (max(as_messages, as_text) if messages else 0)


@given(TURNS)
def test_turns_put_before_one_another_count_as_all_at_once(turns: list[list[dict[str, Any]]]) -> None:
    tokenizer = new_tokenizer()
    counter = TalkCounter(tokenizer)
    for turn in reversed(turns):
        counter.put_before(turn)
    assert counter.tokens == count_talk([message for turn in turns for message in turn], tokenizer)


def test_each_message_is_counted_once_however_long_the_talk_is() -> None:
    class Noting(CachedPromptTokenizer):
        counted = 0

        def count(self, text: str) -> int:
            self.counted += 1
            return super().count(text)

    def calls(messages: int) -> int:
        tokenizer = Noting(tokenizer_for("gpt-4o"))
        counter = TalkCounter(tokenizer)
        for number in range(messages):
            counter.put_before([{"role": "user", "content": f"Point {number}"}])
        return tokenizer.counted

    assert calls(400) <= 2 * calls(200)
