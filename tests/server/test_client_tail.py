"""A client's own list of messages is what the model sees of the talk, whatever else the log keeps of it."""

from __future__ import annotations

from typing import Any

import pytest

from support.serving import RunningServer, make_server
from support.upstream import ModelServer

HEADERS = {"X-Recollect-Conversation": "letters"}
UNNAMED: dict[str, str] = {}


def _user(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _ask(server: RunningServer, model: ModelServer, *messages: Any, headers: dict[str, str]) -> list[Any]:
    """Ask, and return the messages that the model got."""
    assert server.complete(*messages, headers=headers).status_code == 200
    sent: list[Any] = model.bodies[-1]["messages"]
    return sent


@pytest.mark.parametrize("headers", [HEADERS, UNNAMED])
def test_an_edited_question_is_asked_without_what_it_replaced(
    db: str, model: ModelServer, headers: dict[str, str]
) -> None:
    with make_server(db, model) as server:
        begin = [
            _user("Let us write letters."),
            _assistant("Peanuts are fine."),
            _user("A first one."),
            _assistant("Ok"),
        ]
        _ask(server, model, begin[0], headers=headers)
        begin[1] = _assistant(server.history(server.run(server.memory.conversations())[0].name)[1].content)
        _ask(server, model, *begin[:3], headers=headers)
        name = server.run(server.memory.conversations())[0].name
        begin[3] = _assistant(server.history(name)[3].content)
        _ask(server, model, *begin, _user("Draft an insult to my landlord."), headers=headers)
        sent = _ask(server, model, *begin, _user("Draft a kind note to my landlord."), headers=headers)
        talk = [message["content"].rpartition("</memory>\n\n")[2] for message in sent]
        assert talk == [*(message["content"] for message in begin), "Draft a kind note to my landlord."]
        assert "insult" in "".join(message.content for message in server.history(name)), "the log keeps everything"


@pytest.mark.parametrize("headers", [HEADERS, UNNAMED])
def test_the_newest_answer_is_sent_also_after_a_message_that_does_not_fit(
    db: str, model: ModelServer, headers: dict[str, str]
) -> None:
    lease = "Summarise this lease:\n" + "\n".join(
        f"Clause {n}: the tenant pays for repair number {n}." for n in range(600)
    )
    with make_server(db, model) as server:
        _ask(server, model, _user(lease), headers=headers)
        answer = server.history(server.run(server.memory.conversations())[0].name)[1].content
        server.run(server.memory.drain())
        sent = _ask(server, model, _user(lease), _assistant(answer), _user("Make that shorter."), headers=headers)
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert (sent[1]["content"], sent[2]["content"]) == (answer, "Make that shorter.")
        assert "Clause" in sent[0]["content"] and len(sent[0]["content"]) < len(lease)


@pytest.mark.parametrize("mode", ["on", "read"])
def test_messages_are_sent_on_as_they_came(db: str, model: ModelServer, mode: str) -> None:
    picture = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    talk = [
        _user(picture, name="Sara"),
        _assistant("A cat."),
        _user("Sure?", name="Omar"),
        _assistant("Yes."),
        _user("Ok"),
    ]
    with make_server(db, model) as server:
        sent = _ask(server, model, *talk, headers={"X-Recollect-Mode": mode})
        assert sent == talk


def test_a_client_that_sends_only_what_is_new_gets_the_turns_before_it_from_the_log(
    db: str, model: ModelServer
) -> None:
    with make_server(db, model) as server:
        _ask(server, model, _user("My landlord is called Tom."), headers=HEADERS)
        sent = _ask(server, model, _user("Write to him."), headers=HEADERS)
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert sent[0]["content"].endswith("My landlord is called Tom.")


def test_an_answer_says_how_much_of_a_long_history_had_no_room(db: str, model: ModelServer) -> None:
    talk = [
        message for n in range(40) for message in (_user(f"Question {n} " + "word " * 60), _assistant(f"Answer {n}"))
    ]
    with make_server(db, model) as server:
        reply = server.complete(*talk, "And now?", headers=HEADERS)
        sent = model.bodies[-1]["messages"]
        assert int(reply.headers["X-Recollect-Left-Out"]) == len(talk) + 1 - len(sent) > 0
        assert sent[-2] == talk[-1]
        assert "X-Recollect-Left-Out" not in server.complete("Hello", headers=UNNAMED).headers
