"""Shared by tests of the context: a conversation to store, and checks that hold for every prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect import Context, Memory, count_tokens, count_tokens_for_messages
from recollect.recall.prompt import fence

Open = Callable[..., Memory]
START = datetime(2026, 1, 1, 10, tzinfo=UTC)
MEMORY_PARTS = ("profile", "important_data", "summary", "recall")


def call(id: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


def part(context: Context, name: str) -> list[dict[str, Any]]:
    return [one for found in context.explain["parts"] if found["name"] == name for one in found["items"]]


def memory_of(context: Context, system: str | None) -> str | None:
    """Return the fenced block at the head of the first message after the system prompt; None if there is none."""
    if not any(found["name"] in MEMORY_PARTS for found in context.explain["parts"]):
        return None
    found = context.messages[0 if system is None else 1]
    assert found["role"] == "user"
    block, _ = fence.split_fence(found["content"])
    assert block == context.memory != ""
    return block


def without_memory(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the messages say beside memory and system prompt, as it was written."""
    spoken = [message["content"] for message in messages if message["role"] != "system"]
    block, rest = fence.split_fence(spoken[0])
    return ([rest] if rest or not block else []) + spoken[1:]


def assert_valid_for_providers(messages: Sequence[dict[str, Any]], system: str | None, question: str) -> None:
    """A system prompt if there is one, then user and assistant by turns, from a user to the user who asks."""
    head, talk = ([], list(messages)) if system is None else (messages[:1], list(messages[1:]))
    assert list(head) == ([] if system is None else [{"role": "system", "content": system}])
    assert all(isinstance(message["content"], str) for message in talk)
    assert talk[0]["role"] == talk[-1]["role"] == "user"
    assert without_memory(talk)[-1].endswith(question)
    if len(talk) > 1:
        assert talk[-1]["content"].endswith(question)
    waiting: list[str] = []
    before = "assistant"
    for message in talk:
        role = message["role"]
        assert set(message) <= {"role", "content"} | {"tool_calls" if role == "assistant" else "tool_call_id"}
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a result without its call right before"
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, "a call without all its results"
            assert role in ("user", "assistant") and role != before, "two messages of one role in a row"
            assert not (before == "tool" and role == "user"), "a result that the assistant did not answer"
            waiting = [one["id"] for one in message.get("tool_calls", ())]
        before = role
    assert not waiting


def assert_within(context: Context, budget: int) -> None:
    assert context.tokens == count_tokens_for_messages(context.messages) <= budget
    assert count_tokens(context.text) <= budget
    assert sum(found["tokens"] for found in context.explain["parts"]) == context.tokens
    assert all(found["tokens"] >= 0 for found in context.explain["parts"])


def tell(memory: Memory, conversation: str, history: Sequence[dict[str, Any]], first: int = 0) -> None:
    memory.add_many(
        conversation,
        [
            message | {"id": f"m{first + place}", "at": START + timedelta(hours=first + place)}
            for place, message in enumerate(history)
        ],
    )


def long_talk(turns: int) -> list[dict[str, Any]]:
    """Return a conversation in which every turn has something to remember."""
    cities = ("Berlin", "Cairo", "Lima", "Oslo", "Rome")
    found = []
    for place in range(turns):
        said = (
            f"I prefer colour{place} for page{place}. We decided to use tool{place} for module{place}."
            f" My friend Friend{place} lives in {cities[place % 5]}. See https://example.com/paper{place}"
            f" for the {place} results of study{place}."
        )
        found += [{"role": "user", "content": said}, {"role": "assistant", "content": f"Noted, item {place} is kept."}]
    return found
