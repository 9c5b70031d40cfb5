"""Chats that begin alike, in clients that name no conversation: none is ever led into the conversation of another.

Clients of several people talk in turns, with few words and a model of few answers, so that their lists are equal again
and again. They go on, edit, ask again, lose answers and begin anew. The promise: the conversation into which a request
is stored holds nothing that this very chat has not said or been told itself.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core.history_match import ClientMessage, derive_message_id, derive_path, to_client_message
from recollect.core.models import Principal
from recollect.memory import AsyncMemory
from recollect.testing import FakeEmbedder

CLIENTS = 4  # of each person
PEOPLE = 2
MAX_PROGRAMS = 500  # that `--long` runs, within a minute
TEXTS = st.sampled_from(["Hello", "Go on", "Hello"])
ANSWERS = st.sampled_from(["Hi!", "Hi!", "Yes?"])
ACTIONS = st.sampled_from(["say", "say", "say", "edit", "again", "lose", "begin"])
STEPS = st.lists(
    st.tuples(st.integers(0, PEOPLE - 1), st.integers(0, CLIENTS - 1), ACTIONS, TEXTS, ANSWERS), min_size=4, max_size=30
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AsyncMemory, asyncio.Runner]]:
    """Yield a memory that all programs share, each with people of its own, and the loop that it runs on."""
    folder: Path = tmp_path_factory.mktemp("alike")
    with asyncio.Runner() as runner:
        memory = AsyncMemory(folder / "memory.db", embedder=FakeEmbedder(8), worker=False)
        yield memory, runner
        runner.run(memory.close())


class Chat:
    """One chat of a client: its list of messages, and the path of every list that it ever had."""

    def __init__(self, memory: AsyncMemory) -> None:
        self.memory = memory
        self.messages: list[dict[str, Any]] = []
        self.own_ids: set[str] = set()

    async def act(self, action: str, text: str, answer: str) -> None:
        """Send the list with one more message; afterwards the client has the answer, unless it is lost."""
        if action in ("edit", "again") and self.messages:
            text = self.messages[-2]["content"] if action == "again" else text
            del self.messages[-2:]
        sent = [*self.messages, {"role": "user", "content": text}]
        path = derive_path([to_client_message(message) for message in sent])
        answer_id = derive_message_id(path[-1], ClientMessage("assistant", answer))
        self.own_ids.update(path, [answer_id])
        stored = await self.memory.merge(None, sent)
        assert [message.content for message in stored] == [message["content"] for message in sent]
        conversation = stored[-1].conversation
        if action != "lose":
            fields = {"role": "assistant", "content": answer, "id": answer_id, "model_variant": "gpt-test"}
            await self.memory.put(conversation, [fields | {"metadata": {"follows": stored[-1].id}}])
            self.messages = [*sent, {"role": "assistant", "content": answer}]
        foreign = [m for m in await self.memory.history(conversation) if m.id not in self.own_ids]
        assert not foreign, f"{conversation} holds what another chat said"


@settings(max_examples=min(MAX_PROGRAMS, settings().max_examples))
@given(STEPS)
def test_no_chat_is_stored_among_what_another_chat_said(
    store: tuple[AsyncMemory, asyncio.Runner], steps: list[tuple[int, int, str, str, str]]
) -> None:
    memory, runner = store
    tag = uuid.uuid4().hex
    own = [memory.of(Principal(f"{person}-{tag}")) for person in range(PEOPLE)]

    async def run() -> None:
        chats: dict[tuple[int, int], Chat] = {}
        for person, client, action, text, answer in steps:
            if action == "begin" or (person, client) not in chats:
                chats[person, client] = Chat(own[person])
            await chats[person, client].act(action, text, answer)

    runner.run(run())


def test_a_program_that_joins_chats_by_their_first_message_is_caught(
    store: tuple[AsyncMemory, asyncio.Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise is checked: an assignment by the first message alone breaks it."""
    memory, runner = store
    person = memory.of(Principal(uuid.uuid4().hex))
    merge = AsyncMemory.merge

    async def merge_by_first_message(self: AsyncMemory, conversation: str | None, messages: Any) -> Any:
        return await merge(self, conversation or f"chat-{messages[0]['content']}", messages)

    async def run() -> None:
        first, second = Chat(person), Chat(person)
        for chat, text in ((first, "Hello"), (first, "My PIN is 4711."), (second, "Hello")):
            await chat.act("say", text, "Hi!")

    monkeypatch.setattr(AsyncMemory, "merge", merge_by_first_message)
    with pytest.raises(AssertionError, match="what another chat said"):
        runner.run(run())
