"""The built-in assistant over HTTP: it notes what it is told, and quotes it with dates."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from recollect.recall.fresh_vectors import MAX_FRESH_MESSAGES
from recollect.testing import FakeClock
from support.serving import make_server
from support.upstream import ModelServer


def test_the_built_in_assistant_quotes_with_dates_and_names_what_it_quoted(location: str) -> None:
    clock = FakeClock()
    with make_server(location, clock=clock) as server:
        server.chat("trip", "I am allergic to peanuts.")
        clock.advance(timedelta(days=3))
        reply = server.chat("trip", "What am I allergic to?")
        assert "1 Jan 2026" in reply.text
        assert "“I am allergic to peanuts.”" in reply.text
        assert [source["message_id"] for source in reply.sources["sources"]] == [server.history("trip")[0].id]
        assert reply.done["model"] == reply.done["message"]["model_variant"] == "recollect"
        assert reply.done["finish_reason"] == "stop"


@pytest.mark.parametrize("question", ["What do you know about me?", "ماذا تعرف عني؟"])
def test_who_asks_for_everything_gets_what_was_told_in_all_conversations_newest_first(
    location: str, question: str
) -> None:
    clock = FakeClock()
    with make_server(location, clock=clock) as server:
        for conversation, text in (("trip", "I am allergic to peanuts."), ("home", "أسكن في الرياض.")):
            server.chat(conversation, text)
            clock.advance(timedelta(hours=1))
        for number in range(3):
            server.chat(f"asked {number}", "Where is the station?")
        for conversation in ("trip", "new"):
            reply = server.chat(conversation, question).text
            assert 0 < reply.index("أسكن في الرياض") < reply.index("allergic to peanuts")


def test_a_message_that_shows_no_language_is_answered_in_that_of_the_conversation(location: str) -> None:
    with make_server(location) as server:
        assert server.chat("بيت", "أسكن في الرياض مع أهلي.").text == "دوّنت: «أسكن في الرياض مع أهلي.»"
        assert server.chat("بيت", "ok").text == "حسناً."
        assert server.chat("new", "ok").text == "All right."


def test_the_missing_model_is_a_notice_beside_the_first_answer_and_not_a_part_of_any(location: str) -> None:
    with make_server(location) as server:
        replies = [server.chat("trip", text) for text in ("I live in Lyon.", "Where do I live?", "Hello")]
        assert [bool(reply.sources["notice"]) for reply in replies] == [True, False, False]
        assert "RECOLLECT_MODEL_URL" in replies[0].sources["notice"]
        assert server.chat("other", "أين أعيش؟").sources["notice"].startswith("لم يُضبط نموذج")
        assert not [content for _, content in server.dialogue("trip") if "RECOLLECT_MODEL_URL" in content]
        assert server.dialogue("trip")[1] == ("assistant", "Noted: “I live in Lyon.”")


def test_who_chooses_the_built_in_assistant_gets_no_notice(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        assert server.chat("trip", "I live in Lyon.", model="recollect").sources["notice"] is None
        assert server.chat("trip", "Where do I live?").sources["notice"] is None
        reply = server.complete("I live in Lyon.", model="recollect").json()
        assert reply["choices"][0]["message"]["content"] == "Noted: “I live in Lyon.”"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_sends_the_notice_back_does_not_store_it(location: str, stream: bool) -> None:
    """Clients of the OpenAI API show only the content, so it carries the notice once. They send it back for ever."""
    with make_server(location) as server:
        dialogue: list[dict[str, str]] = []
        named = {"X-Recollect-Conversation": "trip"}
        for text in ("I live in Lyon.", "Where do I live?", "Thanks!"):
            dialogue.append({"role": "user", "content": text})
            reply = server.complete(*dialogue, model="recollect", stream=stream, headers=named)
            if stream:
                chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
                answer = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
            else:
                answer = reply.json()["choices"][0]["message"]["content"]
            assert ("RECOLLECT_MODEL_URL" in answer) == (len(dialogue) == 1)
            dialogue.append({"role": "assistant", "content": answer})
        assert [role for role, _ in server.dialogue("trip")] == ["user", "assistant"] * 3
        assert server.dialogue("trip")[1] == ("assistant", "Noted: “I live in Lyon.”")
        assert not [content for _, content in server.dialogue("trip") if "RECOLLECT_MODEL_URL" in content]


def test_the_built_in_assistant_quotes_the_newest_messages_while_most_have_no_vectors(location: str) -> None:
    older = [{"role": "user", "content": f"Parcel {number} was sent."} for number in range(3 * MAX_FRESH_MESSAGES)]
    with make_server(location) as server:
        server.run(server.memory.add_many("trip", older))
        server.chat("trip", "I am allergic to peanuts.")
        other = server.complete("Which dishes should be avoided?", model="recollect").json()
        for text in (
            server.chat("trip", "Which dishes should be avoided?").text,
            other["choices"][0]["message"]["content"],
        ):
            assert "still being indexed" in text
            assert "you said: “I am allergic to peanuts.”" in text
            assert "“Which dishes" not in text
        assert "“I am allergic to peanuts.”" in server.chat("another", "Which dishes should be avoided?").text
        server.run(server.memory.drain())
        assert "still being indexed" not in server.chat("trip", "Which dishes should be avoided?").text
        assert server.chat("fresh", "Which dishes should be avoided?").text.startswith(
            ("This is", "I remember nothing")
        )


def test_answers_of_the_built_in_assistant_never_become_memory(location: str) -> None:
    with make_server(location, clock=FakeClock()) as server:
        for number in range(8):
            server.chat("trip", f"I am allergic to peanuts and to fruit number {number}.")
        trip = {"conversation": "trip"}
        server.complete("What am I allergic to?", model="recollect", metadata=trip)
        server.complete("What am I allergic to?", model="recollect", metadata=trip, stream=True)
        own = {message.id for message in server.history("trip") if message.role == "assistant"}
        assert len(own) == 10
        server.run(server.memory.drain())
        for query in ("What am I allergic to?", "No model is set", "This is what I remember", "RECOLLECT_MODEL_URL"):
            for params in ({"q": query, "limit": 50}, {"q": query, "limit": 50, "conversation": "trip"}):
                hits = server.client.get("/api/v1/recall", params=params).json()["hits"]
                assert not own & {hit["message_id"] for hit in hits}
                assert "No model is set" not in str([hit["text"] for hit in hits])
            context = server.client.post("/api/v1/conversations/trip/context", json={"query": query}).json()
            memory = [part for part in context["explain"]["parts"] if part["name"] != "tail"]
            assert not own & {item.get("message_id") for part in memory for item in part["items"]}
        brief = server.client.post("/api/v1/conversations/trip/compress", json={"force": True}).json()
        assert "allergic" in str(brief["ledger"]) + brief["narrative"]
        brief_text = brief["narrative"] + str(brief["ledger"]) + str(brief["record"])
        for words in ("No model is set", "This is what I remember", "RECOLLECT_MODEL_URL"):
            assert words not in brief_text
        assert not own & {source for sources in brief["grounding"].values() for source in sources}
