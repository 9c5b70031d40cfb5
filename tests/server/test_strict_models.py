"""Models whose templates demand that user and assistant alternate: how they are asked, and what they say about it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from recollect.recall.prompt import fence
from support.fault_server import Reply
from support.serving import RunningServer, make_server, parse_chunks
from support.upstream import ModelServer

REFUSAL = "Conversation roles must alternate user/assistant/user/assistant/..."


def _refusal(**error: Any) -> Reply:
    return Reply(400, json.dumps({"error": {"message": REFUSAL, "code": "bad_request"} | error}).encode())


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _roles(model: ModelServer) -> list[str]:
    return [message["role"] for message in model.bodies[-1]["messages"]]


def _in(conversation: str) -> dict[str, Any]:
    return {"headers": {"X-Recollect-Conversation": conversation}}


# How they are asked


def test_a_chat_asks_by_turns_also_after_questions_that_nobody_answered(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat("monday", "I am allergic to peanuts.")
        for _ in range(2):
            model.then(_refusal())
            server.chat("trip", "Which nuts can I not eat?")
        server.chat("trip", "Are there peanuts in it?", system_prompt="Be brief.")
        assert _roles(model) == ["system", "user"]
        assert str(model.bodies[-1]["messages"][-1]["content"]).endswith("Are there peanuts in it?")
        server.chat("trip", "And now?")
        assert _roles(model) == ["system", "user", "assistant", "user"]


def test_turns_of_a_temporary_conversation_alternate_with_memory(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.chat("monday", "I am allergic to peanuts.")
        for memory, history in (
            ("read", [_user("hello"), _user("peanuts?")]),
            ("read", [{"role": "assistant", "content": "Hello, peanuts?"}]),
            ("off", [{"role": "assistant", "content": "Hello!"}, _user("peanuts?"), _user("well?")]),
        ):
            server.chat("other", "What of peanuts?", memory=memory, history=history)
            _, *roles = _roles(model)
            assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
            sent = "\n".join(message["content"] for message in model.bodies[-1]["messages"])
            assert all(message["content"] in sent for message in history)
            assert (fence.INTRODUCTION in sent) == (memory == "read")


@pytest.mark.parametrize("content", ["Which ferry?", [{"type": "text", "text": "Which ferry?"}]])
def test_a_client_that_sends_one_message_is_asked_for_by_turns(db: str, model: ModelServer, content: Any) -> None:
    """Whatever is stored and not sent: an answered turn, then a question that nobody answered."""
    with make_server(db, model) as server:
        server.complete(_user("I am allergic to peanuts."), **_in("monday"))
        server.complete(_user("Peanuts and ferries?"), **_in("trip"))
        model.then(_refusal())
        server.complete(_user("The blue ferry?"), **_in("trip"))
        server.complete(_user(content), **_in("trip"))
        assert _roles(model) == ["user", "assistant", "user"]
        first, _, last = (message["content"] for message in model.bodies[-1]["messages"])
        assert first.startswith(fence.OPEN_TAG) and first.endswith("Peanuts and ferries?")
        texts = [last] if isinstance(last, str) else [part["text"] for part in last]
        assert "\n\n".join(texts) == "The blue ferry?\n\nWhich ferry?"


def test_memory_stands_before_parts_and_before_an_assistant_who_greets(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.complete(_user("I am allergic to peanuts."), **_in("monday"))
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        parts = [{"type": "text", "text": "Are these peanuts?"}, picture]
        server.complete(_user(parts), **_in("picture"))
        sent = model.bodies[-1]["messages"][0]["content"]
        assert sent[0]["text"].startswith(fence.OPEN_TAG) and sent[1:] == parts
        greeting = {"role": "assistant", "content": "Hello! What about peanuts?"}
        system = {"role": "system", "content": "Be kind."}
        server.complete(system, greeting, _user("Can I eat peanuts?"), **_in("greeting"))
        assert _roles(model) == ["system", "user", "assistant", "user"]
        assert model.bodies[-1]["messages"][2:] == [greeting, _user("Can I eat peanuts?")]


# What they say


def test_the_explanation_of_a_model_that_refuses_reaches_the_caller(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        model.then(_refusal())
        reply = server.complete(_user("Are you there?"), **_in("trip"))
        assert reply.status_code == 400 and REFUSAL in reply.json()["error"]["message"]
        model.then(_refusal())
        reply = server.complete(_user("Are you there?"), stream=True, **_in("stream"))
        assert reply.status_code == 400 and REFUSAL in reply.json()["error"]["message"]
        model.then(_refusal())
        assert REFUSAL in server.chat("trip", "Hello?").done["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [{"message": REFUSAL, "object": "error"}, {"detail": REFUSAL}, {"error": REFUSAL}, {"error": {"message": REFUSAL}}],
)
def test_every_usual_form_of_an_explanation_is_understood(db: str, model: ModelServer, body: Any) -> None:
    with make_server(db, model) as server:
        model.then(Reply(422, json.dumps(body).encode()))
        reply = server.complete(_user("Are you there?"))
        assert reply.status_code == 400 and reply.json()["error"]["message"].endswith(f"It says: {REFUSAL}")


@pytest.mark.parametrize(
    "body", [b"<html>no</html>", b"[]", b'{"error": {"message": 7}}', b'{"detail": [{"loc": 1}]}', b""]
)
def test_a_refusal_without_an_explanation_is_told_as_before(db: str, model: ModelServer, body: bytes) -> None:
    with make_server(db, model) as server:
        model.then(Reply(400, body))
        assert "It says" not in server.complete(_user("Are you there?")).json()["error"]["message"]


def test_an_explanation_is_short_on_one_line_without_keys_and_in_no_log(
    db: str, model: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server: RunningServer
    with caplog.at_level(logging.DEBUG), make_server(db, model, api_key="sk-our-own-secret-key") as server:
        words = "Key sk-our-own-secret-key or Bearer abcdefgh1234 or sk-proj-another123 is\nwrong. " + "canary " * 900
        model.then(_refusal(message=words))
        told = server.complete(_user("Are you there?")).json()["error"]["message"]
        assert "canary" in told and len(told) < 800 and "\n" not in told
        for secret in ("sk-our-own-secret-key", "abcdefgh1234", "sk-proj-another123"):
            assert secret not in told
        assert "canary" not in caplog.text
        model.then(Reply(401, json.dumps({"error": {"message": "canary key"}}).encode()))
        assert "canary" not in server.complete(_user("And now?")).text


def test_an_error_in_the_middle_of_a_stream_is_explained_too(db: str, model: ModelServer) -> None:
    from support.upstream import Trouble

    with make_server(db, model) as server:
        model.then(Trouble.ERROR_INSIDE)
        chunks = parse_chunks(server.complete(_user("Are you there?"), stream=True).text)
        assert "It says: " in chunks[-1]["error"]["message"]
