"""Lists of messages that name no conversation go to their own conversation, and chats that begin alike never meet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recollect import AsyncMemory, Memory
from recollect.core import unnamed_chat
from recollect.core.history_match import ClientMessage, derive_message_id
from recollect.core.message import Message
from recollect.memory.client_history import INLINE_MATCH_MESSAGES
from recollect.testing import FakeClock, FakeEmbedder

Open = Callable[..., Memory]


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Client:
    """A chat client that names no conversation. It keeps its own list of messages."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.messages, self.conversation = memory, list[dict[str, Any]](), ""

    def say(self, text: str, answer: str = "Hi!", **options: Any) -> str:
        """Say something, get an answer, and return the conversation that both were stored in."""
        self.messages.append(_user(text))
        stored = self.memory.merge(None, self.messages, **options)
        self.conversation = stored[-1].conversation
        _store_answer(self.memory, stored[-1], answer)
        self.messages.append(_assistant(answer))
        return self.conversation

    def back(self, turns: int = 1) -> Client:
        """Forget the last turns, as when one is edited or asked again."""
        del self.messages[len(self.messages) - 2 * turns :]
        return self


def _store_answer(memory: Memory, question: Message, answer: str) -> None:
    """Store an answer as the server does."""
    answer_id = derive_message_id(question.id, ClientMessage("assistant", answer))
    more: Any = {"model_variant": "gpt-test", "metadata": {"follows": question.id}}
    memory.add(question.conversation, "assistant", answer, id=answer_id, **more)


def _texts(memory: Memory, conversation: str) -> list[str]:
    return [message.content for message in memory.history(conversation)]


def test_chats_that_begin_alike_have_conversations_of_their_own(memory: Memory) -> None:
    clients = [Client(memory) for _ in range(5)]
    assert len({client.say("Hello") for client in clients}) == 5
    for number, client in enumerate(clients):
        client.say(f"My number is {number}.", "Noted.")
    for number, client in enumerate(clients):
        client.say("And then?", "That was all.")
        assert _texts(memory, client.conversation) == [
            "Hello", "Hi!", f"My number is {number}.", "Noted.", "And then?", "That was all.",
        ]  # fmt: skip
    assert len(memory.conversations()) == 5


def test_a_single_message_begins_a_conversation_every_time(memory: Memory) -> None:
    names = [memory.merge(None, [_user("Hello")])[0].conversation for _ in range(3)]
    assert len(set(names)) == 3
    greeted = [_assistant("Welcome!"), _user("Hello")]
    assert memory.merge(None, greeted)[0].conversation != memory.merge(None, greeted)[0].conversation


def test_a_chat_goes_on_in_its_conversation_and_each_message_is_stored_once(memory: Memory) -> None:
    client = Client(memory)
    names = {client.say(f"question {number}", f"answer {number}") for number in range(12)}
    assert len(names) == 1
    assert _texts(memory, client.conversation) == [message["content"] for message in client.messages]


def test_an_edited_turn_of_a_long_chat_becomes_a_branch_of_its_conversation(memory: Memory) -> None:
    client = Client(memory)
    for text in ("one", "two", "three"):
        first = client.say(text, f"answer to {text}")
    assert client.back().say("three, edited", "answer") == first
    assert client.say("four", "answer to four") == first
    edited = next(message for message in memory.history(first) if message.content == "three, edited")
    followed = next(message for message in memory.history(first) if message.content == "answer to two")
    assert edited.metadata == {"follows": followed.id}
    assert [message.content for message in memory.history(first)].count("one") == 1


def test_an_edited_turn_that_could_be_another_chats_begins_a_conversation(memory: Memory) -> None:
    """After a greeting nobody can tell an edited second message from another chat with the same greeting."""
    sara, other = Client(memory), Client(memory)
    first = sara.say("Hello")
    sara.say("My PIN is 4711.", "Noted.")
    other.messages = [_user("Hello"), _assistant("Hi!")]  # answered elsewhere
    assert other.say("What is the weather?") != first
    assert "4711" not in str(_texts(memory, other.conversation))


def test_examples_that_a_client_sends_with_every_request_do_not_join_its_requests(memory: Memory) -> None:
    examples = [_user("2+2"), _assistant("4"), _user("3+3"), _assistant("6")]
    names = [memory.merge(None, [*examples, _user(text)])[-1].conversation for text in ("4+4", "5+5", "6+6")]
    assert len(set(names)) == 3


def test_a_history_that_is_not_stored_as_a_whole_begins_a_conversation(memory: Memory) -> None:
    client = Client(memory)
    for text in ("one", "two", "three"):
        first = client.say(text, f"answer to {text}")
    changed = [*client.messages[:3], _assistant("changed by hand"), *client.messages[4:], _user("four")]
    stored = memory.merge(None, changed)
    assert stored[-1].conversation != first
    assert [message.content for message in stored] == [message["content"] for message in changed]


def test_a_client_that_leaves_out_its_oldest_messages_goes_on_in_its_conversation(memory: Memory) -> None:
    client = Client(memory)
    for number in range(12):
        client.messages = client.messages[-5:]
        client.say(f"question {number}", f"answer {number}")
    assert len(memory.conversations()) == 1
    assert len(memory.history(client.conversation)) == 24


def test_a_list_without_its_beginning_that_two_conversations_end_with_begins_another(memory: Memory) -> None:
    clients = [Client(memory), Client(memory)]
    for number, client in enumerate(clients):
        for text in (f"My number is {number}.", "yes", "go on"):
            client.say(text, "ok")
    names = {client.conversation for client in clients}
    assert len(names) == 2
    clients[0].messages = clients[0].messages[2:]
    assert clients[0].say("more") not in names


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_a_long_list_without_its_beginning_is_compared_on_a_thread(
    is_long: bool, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, threads = unnamed_chat.ends_with, list[bool]()

    def note_and_compare(*arguments: Any) -> bool:
        threads.append(threading.current_thread() is not threading.main_thread())
        return compare(*arguments)

    async def find() -> None:
        turns = INLINE_MATCH_MESSAGES // 2 + is_long
        history = [one for n in range(turns) for one in (_user(f"Question {n}?"), _assistant(f"Answer {n}."))]
        async with AsyncMemory(db, worker=False, embedder=FakeEmbedder()) as memory:
            for name in ("chat-one", "chat-two"):
                stored = [{**one, "model_variant": "gpt-test"} for one in (_user(name), _assistant("Hi!"), *history)]
                await memory.add_many(name, stored[: None if name == "chat-one" else -1])
            assert await memory.find_conversation([*history, _user("And now?")]) == "chat-one"

    monkeypatch.setattr(unnamed_chat, "ends_with", note_and_compare)
    asyncio.run(find())
    assert threads == [is_long] * 2


def test_a_repeated_request_begins_no_second_conversation(memory: Memory) -> None:
    first = memory.merge(None, [_user("Hello")], request_key="abc")
    assert memory.merge(None, [_user("Hello")], request_key="abc") == first
    _store_answer(memory, first[0], "Hi!")
    assert memory.merge(None, [_user("Hello")], request_key="abc") == first
    assert memory.merge(None, [_user("Hello")], request_key="xyz")[0].conversation != first[0].conversation
    unanswered = memory.merge(None, [_user("Are you there?")])
    assert memory.merge(None, [_user("Are you there?")], is_retry=True) == unanswered


def test_a_chat_that_was_refused_and_sent_again_joins_no_older_chat_that_begins_alike(
    memory: Memory, clock: FakeClock
) -> None:
    """Clients also send again what was refused, for example by a limit of rates, before anything was stored."""
    older = Client(memory)
    older.say("Hello")
    older.say("My PIN is 4711.")
    assert memory.merge(None, [_user("Hello")], is_retry=True)[0].conversation != older.conversation
    answered = Client(memory).say("Hi there")
    assert memory.merge(None, [_user("Hi there")], is_retry=True)[0].conversation == answered
    clock.advance(timedelta(hours=1))
    assert memory.merge(None, [_user("Hi there")], is_retry=True)[0].conversation != answered


def test_conversations_that_have_a_name_are_never_found_by_a_history(memory: Memory) -> None:
    stored = memory.merge("trip", [_user("one")])
    _store_answer(memory, stored[0], "two")
    history = [_user("one"), _assistant("two"), _user("three")]
    assert memory.find_conversation(history) is None
    assert memory.merge(None, history)[0].conversation != "trip"


def test_no_person_is_led_to_the_conversation_of_another(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    client = Client(sara)
    for text in ("one", "two", "three"):
        client.say(text, f"answer to {text}")
    for is_retry in (False, True):
        assert omar.find_conversation([*client.messages, _user("four")]) is None
        stored = omar.merge(None, [*client.messages, _user("four")], is_retry=is_retry)
        assert len(omar.history(stored[0].conversation)) == 7
    assert len(sara.history(client.conversation)) == 6


def test_an_erased_conversation_is_not_made_anew_by_a_request_that_was_looking_for_it(memory: Memory) -> None:
    first = Client(memory).say("Hello")
    newest = memory.history(first)[-1].seq
    memory.erase(conversation=first)
    engine = memory._engine
    appended = memory._wait(engine.put(first, [_user("more")], expected_seq=newest))
    assert appended == []
    assert memory.conversations() == []


def test_a_branch_far_back_in_a_named_conversation_stores_nothing_twice(memory: Memory) -> None:
    history: list[dict[str, Any]] = []
    for number in range(40):
        history.append(_user(f"question {number}"))
        stored = memory.merge("long", history)
        _store_answer(memory, stored[-1], f"answer {number}")
        history.append(_assistant(f"answer {number}"))
    memory.merge("long", [*history[:2], _user("another second question")])
    assert len(memory.history("long")) == 81
    assert (memory.history("long")[-1].metadata or {})["follows"] == memory.history("long")[1].id


@pytest.mark.parametrize("processes", [1, 2])
def test_chats_that_go_on_at_the_same_moment_do_not_meet(location: str, processes: int) -> None:
    """Each found the same conversation to go on in; only one of them may, the others get their own."""

    async def run() -> None:
        opened = [AsyncMemory(location, embedder=FakeEmbedder(), worker=False) for _ in range(processes)]
        chats = []
        for number in range(12):
            (stored,) = await opened[0].merge(None, [_user("Hello")])
            answer = derive_message_id(stored.id, ClientMessage("assistant", "Hi!"))
            fields = {"role": "assistant", "content": "Hi!", "id": answer, "model_variant": "gpt-test"}
            await opened[0].put(stored.conversation, [fields])
            chats.append([_user("Hello"), _assistant("Hi!"), _user(f"My number is {number}.")])
        merged = await asyncio.gather(
            *(opened[number % processes].merge(None, chat) for number, chat in enumerate(chats))
        )
        names = [stored[-1].conversation for stored in merged]
        assert len(set(names)) == 12
        for name, chat in zip(names, chats, strict=True):
            history = await opened[0].history(name)
            assert [message.content for message in history] == [message["content"] for message in chat]
        for memory in opened:
            await memory.close()

    asyncio.run(run())
