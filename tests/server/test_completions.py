"""Clients of the OpenAI API get memory without knowing of it, and what they send is stored once."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from recollect.admin.access import KEY_SCOPES, LOCAL_KEY, Access, Grant
from recollect.chat.completions import Completions
from recollect.core.errors import StoreUnavailable
from recollect.memory import AsyncMemory
from recollect.recall.prompt import fence
from recollect.server import openai as openai_routes
from recollect.server.grant_watch import GrantWatcher
from recollect.server.request import Caller
from recollect.testing import FakeEmbedder
from support.serving import RunningServer, join_chunks, make_server, parse_chunks, wait_for
from support.upstream import ANSWER, ModelServer

TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]


@pytest.fixture
def client(shared: RunningServer) -> Iterator[openai.OpenAI]:
    """Yield the official client."""
    with openai.OpenAI(base_url=f"{shared.url}/v1", api_key="none", max_retries=0) as official:
        yield official


def _named(conversation: str) -> dict[str, str]:
    return {"X-Recollect-Conversation": conversation}


def _user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# The official client


def test_the_official_client_gets_completions_and_both_sides_are_stored(
    client: openai.OpenAI, shared: RunningServer
) -> None:
    reply = client.chat.completions.create(
        model="gpt-test", messages=[_user("What can I not eat?")], extra_headers=_named("official")
    )
    assert reply.choices[0].message.content == ANSWER
    assert reply.usage is not None
    assert reply.usage.total_tokens == 12
    assert shared.dialogue("official") == [("user", "What can I not eat?"), ("assistant", ANSWER)]
    assert shared.history("official")[1].model_variant == "gpt-test"


def test_the_official_client_streams_with_usage_at_the_end(client: openai.OpenAI, shared: RunningServer) -> None:
    stream = client.chat.completions.create(
        model="gpt-other", messages=[_user("What can I not eat?")], stream=True, extra_headers=_named("streamed"),
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-1].usage is not None
    assert shared.dialogue("streamed") == [("user", "What can I not eat?"), ("assistant", ANSWER)]
    assert shared.history("streamed")[1].model_variant == "gpt-other"


def test_the_official_async_client_gets_completions_streams_and_models(shared: RunningServer) -> None:
    async def ask() -> tuple[Any, str, Any]:
        async with openai.AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(
                model="gpt-test", messages=[_user("one")], extra_headers=_named("async")
            )
            stream = await client.chat.completions.create(
                model="gpt-test", messages=[_user("one"), _assistant(ANSWER), _user("two")], stream=True,
                extra_headers=_named("async"),
            )  # fmt: skip
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            return whole, text, await client.models.list()

    whole, text, models = asyncio.run(ask())
    assert whole.choices[0].message.content == text == ANSWER
    assert [model.id for model in models.data] == ["recollect", "gpt-test", "gpt-other"]
    assert [role for role, _ in shared.dialogue("async")] == ["user", "assistant", "user", "assistant"]


def test_models_are_the_built_in_assistant_and_those_of_the_address(client: openai.OpenAI, db: str) -> None:
    assert [model.id for model in client.models.list()] == ["recollect", "gpt-test", "gpt-other"]
    with make_server(db) as alone:
        assert [model["id"] for model in alone.client.get("/v1/models").json()["data"]] == ["recollect"]


def test_the_built_in_assistant_answers_clients_too_whole_and_streamed(
    client: openai.OpenAI, shared: RunningServer
) -> None:
    client.chat.completions.create(
        model="gpt-test", messages=[_user("I am allergic to peanuts.")], extra_headers=_named("quotes")
    )
    asked = {"model": "recollect", "messages": [_user("What am I allergic to?")], "extra_headers": _named("asking")}
    whole = client.chat.completions.create(**asked)
    assert "I am allergic to peanuts." in whole.choices[0].message.content
    assert whole.model == "recollect"
    stream = client.chat.completions.create(**asked, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "I am allergic to peanuts." in text
    assert {message.model_variant for message in shared.history("asking") if message.role == "assistant"} == {
        "recollect"
    }


def test_errors_are_those_that_the_official_client_knows(client: openai.OpenAI, db: str, model: ModelServer) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-test", messages=[])
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-test", messages=[{"role": "emperor", "content": "x"}])  # type: ignore[misc,list-item]
    with make_server(db, model) as server:
        server.new_key("sara")
        stranger = openai.OpenAI(base_url=f"{server.url}/v1", api_key="rk_wrong_key", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.chat.completions.create(model="gpt-test", messages=[_user("hello")])


@pytest.mark.parametrize("way", ["as it is", "as a dict"])
def test_an_answer_of_the_official_client_can_be_put_into_the_next_request(
    way: str, client: openai.OpenAI, shared: RunningServer
) -> None:
    """`model_dump()` has every field there is, most of them null."""
    named = _named(f"back-{way.replace(' ', '-')}")
    history: list[Any] = [_user("one")]
    message = client.chat.completions.create(model="gpt-test", messages=history, extra_headers=named).choices[0].message
    history += [message if way == "as it is" else message.model_dump(), _user("two")]
    client.chat.completions.create(model="gpt-test", messages=history, extra_headers=named)
    assert [role for role, _ in shared.dialogue(named["X-Recollect-Conversation"])] == ["user", "assistant"] * 2


@pytest.mark.parametrize("field", ["stream", "user", "metadata", "model"])
def test_a_field_that_is_null_is_treated_as_missing(field: str, shared: RunningServer) -> None:
    assert shared.complete("hello", **{field: None}).status_code == 200


# Tools


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_call_and_its_result_pass_through_and_are_stored_once(
    stream: bool, client: openai.OpenAI, shared: RunningServer, shared_model: ModelServer
) -> None:
    name = f"tools-{stream}"
    history: list[Any] = [{"role": "system", "content": "Use tools."}, _user("How is the weather in Jeddah?")]
    more: Any = {"model": "gpt-test", "tools": TOOLS, "extra_headers": _named(name)}
    if stream:
        with client.chat.completions.stream(messages=history, **more) as events:
            for _ in events:
                pass
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(messages=history, **more).choices[0].message
    assert message.tool_calls is not None
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Jeddah", "days": 2}
    asked = {"id": call.id, "type": "function", "function": {"name": "weather", "arguments": call.function.arguments}}
    exchange = [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": call.id, "content": "38 degrees"},
    ]
    reply = client.chat.completions.create(messages=[*history, *exchange], **more)
    assert reply.choices[0].message.content == ANSWER

    sent = shared_model.bodies[-1]
    assert sent["messages"][-2:] == exchange
    assert sent["tools"] == TOOLS
    client.chat.completions.create(messages=[*history, *exchange, _assistant(ANSWER), _user("Thanks")], **more)
    stored = shared.history(name)
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [call["id"] for call in stored[1].tool_calls] == [call.id]
    assert stored[2].tool_call_id == call.id


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda call: call | {"index": 0}, id="with an index"),
        pytest.param(
            lambda call: call | {"function": call["function"] | {"arguments": '{"city": "Jeddah", "days": 2}'}},
            id="with arguments written anew",
        ),
    ],
)
def test_a_tool_call_that_a_client_writes_differently_is_recognised(
    change: Any, shared: RunningServer, request: pytest.FixtureRequest
) -> None:
    """LangChain and others parse the arguments and serialise them again."""
    named = _named(request.node.name.replace(" ", "-")[-60:])
    question = _user("How is the weather in Jeddah?")
    message = shared.complete(question, tools=TOOLS, headers=named).json()["choices"][0]["message"]
    message["tool_calls"] = [change(call) for call in message["tool_calls"]]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "38 degrees"}
    shared.complete(question, message, result, tools=TOOLS, headers=named)
    stored = shared.history(named["X-Recollect-Conversation"])
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]


def test_a_prompt_never_has_a_tool_result_without_its_call(shared: RunningServer, shared_model: ModelServer) -> None:
    """A client that sends only its newest message gets earlier turns from the log. Models refuse half an exchange."""
    named = _named("half")
    question = _user("How is the weather in Jeddah?")
    message = shared.complete(question, tools=TOOLS, headers=named).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "38 degrees"}
    shared.complete(question, message, result, tools=TOOLS, headers=named)
    shared.complete(_user("And what was it yesterday?"), headers=named)
    called: set[str] = set()
    for message in shared_model.bodies[-1]["messages"]:
        called |= {call["id"] for call in message.get("tool_calls") or ()}
        assert message["role"] != "tool" or message.get("tool_call_id") in called
        assert message["role"] != "assistant" or message.get("content") or message.get("tool_calls")


# The client's history is recognised by its text and order


def test_a_client_that_sends_its_growing_history_stores_each_message_once(location: str) -> None:
    with (
        ModelServer(lambda asked: f"answer to {asked['messages'][-1]['content']}") as model,
        make_server(location, model) as server,
    ):
        history: list[Any] = []
        for number in range(20):
            history.append(_user(f"question {number}"))
            reply = server.complete(*history, headers=_named("growing"), stream=number % 2 == 0)
            text = join_chunks(parse_chunks(reply.text)) if number % 2 == 0 else _text(reply)
            history.append(_assistant(text))
        assert server.dialogue("growing") == [(message["role"], message["content"]) for message in history]


def _text(reply: Any) -> str:
    return str(reply.json()["choices"][0]["message"]["content"])


def test_the_same_words_said_twice_are_stored_twice(shared: RunningServer) -> None:
    history: list[Any] = []
    for _ in range(4):
        history.append(_user("yes"))
        history.append(_assistant(_text(shared.complete(*history, headers=_named("yes")))))
    assert [role for role, _ in shared.dialogue("yes")] == ["user", "assistant"] * 4


def test_a_client_that_leaves_out_its_oldest_messages_stores_nothing_twice(shared: RunningServer) -> None:
    history: list[Any] = []
    for number in range(12):
        history.append(_user(f"question {number}"))
        reply = shared.complete(*history[-5:], headers=_named("truncated"))
        history.append(_assistant(_text(reply)))
    assert shared.dialogue("truncated") == [(message["role"], message["content"]) for message in history]


def test_an_edited_history_becomes_a_branch_and_nothing_is_stored_twice(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    named = _named("edited")
    first = [_user("I like tea."), _assistant(_text(shared.complete(_user("I like tea."), headers=named)))]
    wrong = _user("Where is Zamalekwrong?")
    shared.complete(*first, wrong, headers=named)
    right = _user("Where is Maadi?")
    answer = _text(shared.complete(*first, right, headers=named))
    assert "Zamalekwrong" not in str(shared_model.bodies[-1]["messages"][-2:])
    shared.complete(*first, right, _assistant(answer), _user("Thanks."), headers=named)
    users = [text for role, text in shared.dialogue("edited") if role == "user"]
    assert users == ["I like tea.", "Where is Zamalekwrong?", "Where is Maadi?", "Thanks."]
    branch = next(message for message in shared.history("edited") if message.content == "Where is Maadi?")
    assert branch.metadata["follows"] == shared.history("edited")[1].id


def test_equal_requests_at_once_store_their_question_once(location: str) -> None:
    async def ask(server: RunningServer) -> list[Any]:
        async with server.new_async_client(headers=_named("twice")) as client:
            body = {"model": "gpt-test", "messages": [_user("one"), _assistant("two"), _user("three")]}
            return await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for _ in range(20)))

    with ModelServer() as model, make_server(location, model) as server:
        replies = asyncio.run(ask(server))
        assert {reply.status_code for reply in replies} == {200}
        assert server.dialogue("twice") == [
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("assistant", ANSWER),
        ]


# What passes through


def test_system_prompts_go_through_and_are_not_stored(shared: RunningServer, shared_model: ModelServer) -> None:
    system = {"role": "system", "content": "You are zephyrsystem."}
    shared.complete(system, "hello", headers=_named("system"), temperature=0.3, seed=7)
    sent = shared_model.bodies[-1]
    assert sent["messages"][0] == system
    assert (sent["temperature"], sent["seed"]) == (0.3, 7)
    assert [role for role, _ in shared.dialogue("system")] == ["user", "assistant"]
    assert "zephyrsystem" not in str(shared.history("system"))


def test_only_what_people_models_and_tools_say_is_stored(shared: RunningServer) -> None:
    messages = [
        {"role": "system", "content": "zephyr one"}, {"role": "developer", "content": "zephyr two"},
        {"role": "function", "name": "f", "content": "zephyr three"}, _user("four"), _assistant("five"), _user("six"),
    ]  # fmt: skip
    shared.complete(*messages, headers=_named("roles"))
    assert shared.dialogue("roles") == [
        ("tool", "zephyr three"), ("user", "four"), ("assistant", "five"), ("user", "six"), ("assistant", ANSWER),
    ]  # fmt: skip
    assert shared.history("roles")[0].source == "tool"


def test_images_pass_through_and_leave_a_mark_in_the_log(shared: RunningServer, shared_model: ModelServer) -> None:
    url = "data:image/png;base64," + "A" * 1000
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    history: list[Any] = [_user(parts)]
    history.append(_assistant(_text(shared.complete(*history, headers=_named("images")))))
    sent = shared_model.bodies[-1]["messages"][-1]["content"]
    assert sent[-len(parts) :] == parts  # memory of other conversations may come before them
    history.append(_user("And now?"))
    shared.complete(*history, headers=_named("images"))
    assert [content for role, content in shared.dialogue("images") if role == "user"] == [
        "What is this?\n[image_url]", "And now?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "more", "name"),
    [
        ({"X-Recollect-Conversation": "by header"}, {"metadata": {"conversation": "no"}}, "by header"),
        ({}, {"metadata": {"conversation": "by metadata"}}, "by metadata"),
        ({}, {"metadata": {"conversation_id": "by its id"}}, "by its id"),
    ],
)
def test_a_conversation_is_named_by_header_or_metadata(
    headers: dict[str, str], more: Any, name: str, shared: RunningServer
) -> None:
    reply = shared.complete("hello", headers=headers, **more)
    assert reply.headers["x-recollect-conversation"] == name
    assert len(shared.dialogue(name)) == 2


def test_a_conversation_without_a_name_is_recognised_by_its_history(shared: RunningServer) -> None:
    first = shared.complete("A beginning like no other.").headers["x-recollect-conversation"]
    next_one = shared.complete("A beginning like no other.", _assistant(ANSWER), "And then?")
    assert next_one.headers["x-recollect-conversation"] == first
    assert shared.complete("Another beginning.").headers["x-recollect-conversation"] != first
    assert [role for role, _ in shared.dialogue(first)] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    "name",
    [
        "a\r\nSet-Cookie: stolen=1",
        "a\nb",
        "tab\tinside",
        "رحلة",
        "x" * 300,
        " ",
        "",
    ],
)
def test_any_name_of_a_conversation_gets_an_answer_and_none_gets_into_headers(name: str, shared: RunningServer) -> None:
    reply = shared.complete("hello", metadata={"conversation": name})
    assert reply.status_code in (200, 400)
    assert "set-cookie" not in reply.headers


# Memory


def test_what_was_said_in_other_conversations_of_the_person_is_recalled(location: str) -> None:
    with ModelServer() as model, make_server(location, model) as server:
        server.complete("I am allergic to peanuts.", headers=_named("monday"))
        reply = server.complete("What am I allergic to?", headers=_named("tuesday"))
        assert "I am allergic to peanuts." in str(model.bodies[-1]["messages"])
        assert [message["role"] for message in model.bodies[-1]["messages"]] == ["user"]
        block, question = fence.split_fence(model.bodies[-1]["messages"][0]["content"])
        assert block and question == "What am I allergic to?"
        assert int(reply.headers["x-recollect-memory-tokens"]) > 0
        assert float(reply.headers["x-recollect-context-ms"]) > 0


def test_a_long_history_becomes_a_small_prompt_that_still_holds_what_matters(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        history = []
        for number in range(60):
            filler = "and so on " * 40
            history += [_user(f"Ferry {number} has {number * 7} seats. {filler}"), _assistant(f"Noted. {filler}")]
        history.append(_user("How many seats has Ferry 9?"))
        server.complete(*history, headers=_named("long"))
        sent = model.bodies[-1]["messages"]
        assert len(json.dumps(sent)) < len(json.dumps(history)) / 4
        assert "Ferry 9 has 63 seats" in str(sent)
        assert sent[-1] == history[-1]
        assert len(server.dialogue("long")) == 122


def test_the_mode_decides_whether_memory_is_used_and_whether_anything_is_stored(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.complete("I am allergic to peanuts.", headers=_named("trip"))
        before = server.dialogue("trip")
        read = server.complete("What am I allergic to?", headers=_named("trip") | {"X-Recollect-Mode": "read"})
        assert "I am allergic to peanuts." in str(model.bodies[-1]["messages"])
        off = server.complete("What am I allergic to?", headers=_named("trip") | {"X-Recollect-Mode": "off"})
        assert model.bodies[-1]["messages"] == [_user("What am I allergic to?")]
        assert read.status_code == off.status_code == 200
        assert server.dialogue("trip") == before
        assert server.complete("?", headers={"X-Recollect-Mode": "perhaps"}).status_code in (400, 422)


@pytest.mark.parametrize("failure", [StoreUnavailable("disk_full", "The disk is full."), RuntimeError("unforeseen")])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("method", ["merge_aligned", "context"])
def test_a_request_passes_through_when_memory_fails_and_says_so(
    method: str, stream: bool, failure: Exception, shared: RunningServer, shared_model: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(AsyncMemory, method, fail)
    history = [{"role": "system", "content": "Be brief."}, _user("one"), _assistant("two"), _user("three")]
    reply = shared.complete(*history, stream=stream)
    assert reply.status_code == 200
    assert "memory" in reply.headers["x-recollect-degraded"]
    assert shared_model.bodies[-1]["messages"] == history
    assert (join_chunks(parse_chunks(reply.text)) if stream else _text(reply)) == ANSWER


@pytest.mark.parametrize(
    "failure",
    [
        StoreUnavailable("disk_full", "The disk is full."),
        RuntimeError("unforeseen"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_cannot_be_stored_is_given_all_the_same(
    stream: bool, failure: Exception, shared: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = AsyncMemory.submit

    def fail(self: AsyncMemory, conversation: str, messages: Any, **options: Any) -> Any:
        if messages and messages[0]["role"] == "assistant":
            raise failure
        return submit(self, conversation, messages, **options)

    monkeypatch.setattr(AsyncMemory, "submit", fail)
    reply = shared.complete("hello", stream=stream)
    assert reply.status_code == 200
    assert (join_chunks(parse_chunks(reply.text)) if stream else _text(reply)) == ANSWER
    assert stream or "store" in reply.headers["x-recollect-degraded"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"nothing", b"[]", b"{}", b'{"messages": []}', b'{"messages": [1]}', b'{"messages": {"role": "user"}}',
        b'{"messages": [{"role": "user", "content": 5}]}', b'{"messages": [{"role": "user", "content": [5]}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "stream": "yes"}', b"[" * 100_000,
        b'{"messages": [{"role": "user", "content": "x"}], "metadata": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
        b'{"messages": [{"role": "assistant", "content": "x", "tool_calls": "y"}]}', b'{"messages": null}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_an_invalid_body_is_refused_with_an_error_in_openais_form(body: bytes, shared: RunningServer) -> None:
    reply = shared.client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("text", ["\ud800 alone", "NUL \x00 inside", "", "   ", None, "word " * 250_000])
def test_any_text_gets_through_to_the_model(text: Any, shared: RunningServer, shared_model: ModelServer) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": text}], "user": "any text"}).encode()
    before = len(shared_model.bodies)
    reply = shared.client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200
    assert len(shared_model.bodies) == before + 1


def test_half_a_surrogate_pair_is_stored_as_its_replacement_and_recognised_again(shared: RunningServer) -> None:
    history, headers = [], {**_named("half a character"), "Content-Type": "application/json"}
    for text in ("tea \ud800 cup", "NUL \x00 inside", "and now?"):
        history.append(_user(text))
        body = json.dumps({"model": "recollect", "messages": history}).encode()
        reply = shared.client.post("/v1/chat/completions", content=body, headers=headers)
        assert reply.status_code == 200
        assert "memory" not in reply.headers.get("x-recollect-degraded", "")
        history.append(_assistant(_text(reply)))
    questions = [content for role, content in shared.dialogue("half a character") if role == "user"]
    assert questions == ["tea \ufffd cup", "NUL \ufffd inside", "and now?"]


def test_a_client_that_leaves_in_the_middle_of_its_request_is_not_logged_as_an_error(
    shared: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = shared.client.base_url
    with socket.create_connection((url.host, url.port)) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b'{"messages"')
    wait_for(lambda: 'status="499"' in shared.client.get("/metrics").text)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_client_that_leaves_before_the_first_piece_leaves_nothing_running(tmp_path: Path) -> None:
    """Its count of running answers and the stream end at once, not only when garbage is collected."""

    async def run() -> None:
        async with AsyncMemory(tmp_path / "some.db", embedder=FakeEmbedder(32), worker=False) as memory:
            completions = Completions(None)
            nobody = SimpleNamespace(count_running=lambda _: 0)
            grants = GrantWatcher(Access(memory))
            parts: Any = SimpleNamespace(completions=completions, chats=nobody, grants=grants, max_streams=5)
            request: Any = None
            caller = Caller(memory, Grant(memory.principal, KEY_SCOPES, LOCAL_KEY), parts, request)
            body = json.dumps({"messages": [_user("Are you there?")], "stream": True}).encode()
            reply = await openai_routes.complete(caller, body, conversation="trip", mode="on")
            assert completions.count_running("local") == 1

            async def gone() -> Any:
                return {"type": "http.disconnect"}

            async def nowhere(_: Any) -> None:
                await asyncio.sleep(0)

            await reply({"type": "http", "asgi": {"spec_version": "2.3"}}, gone, nowhere)
            assert completions.count_running("local") == 0
            assert not grants._watches
            assert [message.role for message in await memory.history("trip")][:1] == ["user"]

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()
