"""An answer that is being written when its question is erased ends, and nothing of it is stored."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from recollect import Conflict
from recollect.chat.chats import Chats
from recollect.chat.completions import Completions
from recollect.chat.run import ChatRequest
from recollect.core.message import Anchor
from recollect.memory import AsyncMemory
from recollect.testing import FakeClock, FakeEmbedder
from support.serving import RunningServer, make_server, parse_chunks, read_all_bytes, wait_for
from support.upstream import ModelServer, Trouble

CANARY = "zanzibarcanary"
QUESTION = f"Where is the {CANARY}?"


async def _erase_topic(memory: AsyncMemory, conversation: str) -> Any:
    await memory.drain(briefs=False)
    (topic,) = await memory.topics(conversation)
    return await memory.erase(topic=topic.id)


async def _erase_message(memory: AsyncMemory, conversation: str) -> Any:
    (question,) = await memory.history(conversation)
    return await memory.erase(message=question.id, conversation=conversation)


async def _erase_day(memory: AsyncMemory, conversation: str) -> Any:
    return await memory.erase(day=memory.clock.now().date().isoformat(), conversation=conversation)


ERASES: dict[str, Callable[[AsyncMemory, str], Any]] = {
    "conversation": lambda memory, conversation: memory.erase(conversation=conversation),
    "message": _erase_message,
    "day": _erase_day,
    "topic": _erase_topic,
    "person": lambda memory, conversation: memory.erase(person="local"),
}


def _chat(server: RunningServer, conversation: str) -> str | None:
    """Ask and listen. Return the code of the error that the caller is told."""
    reply = server.chat(conversation, QUESTION)
    assert (reply.done["message"], reply.done["stopped"]) == (None, True)
    assert [error["code"] for error in reply.named("error")] == [reply.done["error"]["code"]]
    return str(reply.done["error"]["code"])


def _chat_unheard(server: RunningServer, conversation: str) -> None:
    """Ask, and leave when the answer has begun. It goes on without a listener."""
    path = f"/api/v1/conversations/{conversation}/chat"
    with server.client.stream("POST", path, json={"content": QUESTION}) as reply:
        next(reply.iter_raw())


def _complete(server: RunningServer, conversation: str) -> str:
    reply = server.complete(QUESTION, headers={"X-Recollect-Conversation": conversation})
    assert reply.status_code == 400
    return str(reply.json()["error"]["code"])


def _complete_streamed(server: RunningServer, conversation: str) -> str:
    reply = server.complete(QUESTION, stream=True, headers={"X-Recollect-Conversation": conversation})
    return str(parse_chunks(reply.text)[-1]["error"]["code"])


ASKS: dict[str, Callable[[RunningServer, str], str | None]] = {
    "chat": _chat,
    "chat without a listener": _chat_unheard,
    "completion": _complete,
    "streamed completion": _complete_streamed,
}


def _end(model: ModelServer, server: RunningServer) -> None:
    """Wait until no answer is being written any more. The model may wait for a reader that has gone."""
    parts = server.app.state.parts
    wait_for(lambda: not parts.chats.count_running("local") and not parts.completions.count_running("local"))
    model.resume()


@pytest.mark.parametrize("ask", ASKS)
def test_an_answer_that_is_being_written_ends_and_is_not_stored_when_its_question_is_erased(
    ask: str, location: str
) -> None:
    with (
        ModelServer(f"The {CANARY} is on the left.") as model,
        make_server(location, model) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        for name, erase in ERASES.items():
            model.then(Trouble.WAIT)
            told: Future[Any] = pool.submit(ASKS[ask], server, name)
            assert model.is_waiting.wait(20)
            receipt = server.run(erase(server.memory, name))
            assert (receipt.counts["messages"], receipt.pending) == (1, False)
            assert told.result(20) in ("question_erased", None)
            _end(model, server)
            assert server.dialogue(name) == []
        assert server.run(server.memory.conversations()) == []
    assert CANARY.encode() not in read_all_bytes(location)


@pytest.mark.parametrize("ask", ["chat", "streamed completion"])
def test_an_answer_ends_when_another_process_erases_its_question(ask: str, location: str) -> None:
    with (
        ModelServer(f"The {CANARY} is on the left.") as model,
        make_server(location, model) as server,
        make_server(location) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        model.then(Trouble.WAIT)
        told: Future[Any] = pool.submit(ASKS[ask], server, "trip")
        assert model.is_waiting.wait(20)
        other.run(other.memory.erase(conversation="trip"))
        assert told.result(20) == "question_erased"
        _end(model, server)
        assert server.dialogue("trip") == []


def test_an_answer_that_is_complete_is_not_stored_either_once_its_question_is_erased(location: str) -> None:
    """The store itself compares, whatever the watch has seen: also if the same id is asked again in its place."""

    async def store_after_erase() -> None:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder(), clock=FakeClock()) as memory:
            question = {"role": "user", "content": "Where?", "id": "q"}
            for erase in (
                lambda: memory.erase(conversation="trip"),
                lambda: memory.erase(message="q"),
                lambda: memory.erase(person="local"),
            ):
                (stored,) = await memory.put("trip", [question])
                anchor = await memory.anchor("trip", [stored.message])
                await erase()
                for _ in range(2):
                    answer = {"role": "assistant", "content": CANARY, "id": "a"}
                    with pytest.raises(Conflict) as caught:
                        await memory.put("trip", [answer], anchor=anchor)
                    assert caught.value.code == "question_erased"
                    await memory.put("trip", [question])  # and once more, with another question of the same id
                assert [message.role for message in await memory.history("trip")] == ["user"]
            with pytest.raises(Conflict):
                await memory.anchor("nowhere", [stored.message])

    asyncio.run(store_after_erase())
    assert CANARY.encode() not in read_all_bytes(location)


def test_answers_that_are_stored_together_fail_one_by_one(location: str) -> None:
    async def store_together() -> None:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder(), clock=FakeClock()) as memory:
            anchors: dict[str, Anchor] = {}
            for name in ("erased", "kept"):
                (stored,) = await memory.put(name, [{"role": "user", "content": "Where?"}])
                anchors[name] = await memory.anchor(name, [stored.message])
            await memory.erase(conversation="erased")
            answer = [{"role": "assistant", "content": "Here."}]
            puts = [memory.put(name, answer, anchor=anchors[name]) for name in ("erased", "kept") for _ in range(5)]
            results = await asyncio.gather(*puts, return_exceptions=True)
            assert [isinstance(result, Conflict) for result in results] == [True] * 5 + [False] * 5
            assert [conversation.name for conversation in await memory.conversations()] == ["kept"]

    asyncio.run(store_together())


def test_an_answer_in_another_conversation_goes_on(db: str) -> None:
    with ModelServer("On the left.") as model, make_server(db, model) as server, ThreadPoolExecutor(1) as pool:
        server.run(server.memory.add("other", "user", "to be erased"))
        model.then(Trouble.WAIT)
        reply = pool.submit(server.chat, "trip", QUESTION)
        assert model.is_waiting.wait(20)
        server.run(server.memory.erase(conversation="other"))
        model.resume()
        assert reply.result(20).done["message"]["content"] == "On the left."
        assert [role for role, _ in server.dialogue("trip")] == ["user", "assistant"]


def test_the_built_in_assistant_stores_no_answer_to_an_erased_question(db: str) -> None:
    async def erase_meanwhile() -> None:
        async with AsyncMemory(db, worker=False, embedder=FakeEmbedder()) as memory:
            chats, released = Chats(memory), threading.Event()
            recall = memory.recall

            async def erase_and_recall(*args: Any, **options: Any) -> Any:
                if not released.is_set():
                    released.set()
                    await memory.erase(conversation="trip")
                return await recall(*args, **options)

            memory.recall = erase_and_recall  # type: ignore[method-assign]
            run = await chats.start(memory, ChatRequest("trip", QUESTION))
            events = [event async for event in run.events()]
            assert events[-1].data["error"]["code"] == "question_erased"
            assert await memory.conversations() == []

    asyncio.run(erase_meanwhile())


def test_a_completion_ends_when_its_question_is_erased_before_it_is_asked(db: str) -> None:
    async def erase_meanwhile() -> None:
        async with AsyncMemory(db, worker=False, embedder=FakeEmbedder()) as memory:
            merge = memory.merge_aligned

            async def merge_and_erase(*args: Any, **options: Any) -> Any:
                stored = await merge(*args, **options)
                await memory.erase(conversation="trip")
                return stored

            memory.merge_aligned = merge_and_erase  # type: ignore[method-assign]
            request = {"messages": [{"role": "user", "content": QUESTION}]}
            with pytest.raises(Conflict, match="erased"):
                await Completions(None).prepare(memory, request, conversation="trip", mode="on")
            assert await memory.conversations() == []

    asyncio.run(erase_meanwhile())


@pytest.mark.parametrize("name", ["trip", None])
@pytest.mark.parametrize("scope", ["messages", "conversation", "person"])
def test_what_was_erased_does_not_come_back_with_the_history_that_a_client_sends(
    location: str, name: str | None, scope: str
) -> None:
    headers = {} if name is None else {"X-Recollect-Conversation": name}
    with ModelServer("Noted.") as model, make_server(location, model) as server:

        def ask(*texts: str) -> str:
            sent = [message for text in texts for message in (_said("user", text), _said("assistant", "Noted."))][:-1]
            return server.complete(*sent, headers=headers).headers["X-Recollect-Conversation"]

        def everything() -> list[str]:
            names = [each.name for each in server.run(server.memory.conversations())]
            return [message.content for each in names for message in server.history(each)]

        first = f"My passport is {CANARY}."
        ask(first)
        used = ask(first, "Where do I fly?")
        if scope == "messages":
            for message in server.history(used)[:2]:
                server.run(server.memory.erase(message=message.id, conversation=used))
            ask(first, "Where do I fly?", "And when?")
            used_then = ask(first, "Where do I fly?", "And when?", "With whom?")
            assert used_then == used
        else:
            server.run(
                server.memory.erase(**({"conversation": used} if scope == "conversation" else {"person": "local"}))
            )
            used = ask(first, "Where do I fly?", "And when?")
            assert ask(first, "Where do I fly?", "And when?", "With whom?") == used
        kept = ["Where do I fly?", "Noted."] if scope == "messages" else []
        assert everything() == [*kept, "And when?", "Noted.", "With whom?", "Noted."]
        ask(first)  # who says it again says something new
        assert everything().count(first) == 1
        assert len({ask(first, "Go on."), ask(first, "Go on.", "Further.")}) == 1
        assert everything().count(first) == 1


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}
