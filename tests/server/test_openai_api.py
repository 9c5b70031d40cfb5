"""What else clients of the OpenAI API ask for: models, embeddings, errors in its form, and front-ends' own tasks."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from recollect import AsyncMemory
from recollect.core import task_prompts
from recollect.core.errors import Conflict, Denied, InvalidInput, NotFound, StoreUnavailable
from recollect.providers.resilience import AttemptFailed
from recollect.server import embeddings, openai_errors
from recollect.server.app import ServerOptions, make_app
from recollect.settings import Settings
from recollect.testing import FakeEmbedder
from support.growth import assert_linear
from support.serving import RunningServer, join_chunks, make_server, parse_chunks
from support.upstream import ANSWER, ModelServer, Reply, Trouble


@pytest.fixture
def client(shared: RunningServer) -> Iterator[openai.OpenAI]:
    """Yield the official client."""
    with openai.OpenAI(base_url=f"{shared.url}/v1", api_key="none", max_retries=0) as official:
        yield official


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# Models


def test_one_model_can_be_asked_for_and_an_unknown_one_is_not_found(client: openai.OpenAI) -> None:
    for name in ("recollect", "gpt-other", embeddings.MODEL, f"sentence-transformers/{embeddings.MODEL}"):
        assert client.models.retrieve(name).id == name
    for name in ("gpt-9", "a/b", "x" * 200):
        with pytest.raises(openai.NotFoundError, match="no model") as refused:
            client.models.retrieve(name)
        assert refused.value.code == "model_not_found"


# Embeddings


def test_the_official_client_gets_embeddings_of_the_built_in_embedder(
    client: openai.OpenAI, shared: RunningServer
) -> None:
    before = shared.run(shared.memory.stats())["messages"]
    texts = ["I am allergic to peanuts.", "Peanuts make me ill.", "The ferry leaves at nine."]
    reply = client.embeddings.create(model=embeddings.MODEL, input=[*texts, texts[0]])  # base64 on the wire
    vectors = [item.embedding for item in reply.data]
    assert [len(vector) for vector in vectors] == [384] * 4
    assert vectors.pop() == vectors[0]
    assert all(abs(sum(value * value for value in vector) - 1) < 1e-5 for vector in vectors)
    first, second, third = vectors
    assert _dot(first, second) > _dot(first, third)
    assert reply.usage.prompt_tokens > 10
    assert shared.run(shared.memory.stats())["messages"] == before
    one = client.embeddings.create(model="recollect", input=texts[0], encoding_format="float", dimensions=384)
    assert [item.index for item in one.data] == [0]
    assert one.data[0].embedding == pytest.approx(first, abs=1e-5)


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_base64_is_little_endian_floats_of_32_bits(shared: RunningServer) -> None:
    def ask(encoding: str) -> Any:
        body = {"model": "recollect", "input": "tea", "encoding_format": encoding}
        return shared.client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]

    assert struct.unpack("<384f", base64.b64decode(ask("base64"))) == pytest.approx(ask("float"), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "status", "hint"),
    [
        ({"input": [1, 2, 3]}, 400, "check_embedding_ctx_length"),
        ({"input": [[1, 2], [3]]}, 400, "check_embedding_ctx_length"),
        ({"input": []}, 400, "1 to 1,000"),
        ({"input": ["x"] * 1001}, 400, "1 to 1,000"),
        ({"input": ["tea", ""]}, 400, "not empty"),
        ({"input": ""}, 400, "not empty"),
        ({"input": None}, 400, "must be a text"),
        ({"input": "word " * 100_000}, 400, "at most 400,000 characters"),
        ({"model": "text-embedding-3-small"}, 404, "all-MiniLM-L6-v2"),
        ({"model": None}, 404, "all-MiniLM-L6-v2"),
        ({"dimensions": 128}, 400, "384 dimensions"),
        ({"encoding_format": "int8"}, 400, "float or base64"),
    ],
)
def test_what_cannot_be_embedded_is_refused_with_a_reason(
    change: Any, status: int, hint: str, shared: RunningServer
) -> None:
    reply = shared.client.post("/v1/embeddings", json={"model": "recollect", "input": "tea"} | change)
    assert reply.status_code == status
    assert hint in reply.json()["error"]["message"]
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_embedding_needs_the_scope_read_and_no_other(db: str) -> None:
    with make_server(db) as server:
        body = {"model": "recollect", "input": "tea"}
        reader = server.new_client(server.new_key("sara", scopes=["read"]))
        writer = server.new_client(server.new_key("omar", scopes=["write"]))
        assert reader.post("/v1/embeddings", json=body).status_code == 200
        assert writer.post("/v1/embeddings", json=body).status_code == 403
        assert server.client.post("/v1/embeddings", json=body).status_code == 401


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_the_event_loop_has_its_turn_while_many_vectors_are_encoded(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"text {number}" for number in range(embeddings.MAX_TEXTS)]
    vectors = {text: [number / 7 + place for place in range(384)] for number, text in enumerate(texts)}
    bytes_by_turn: Counter[int] = Counter()
    turn, encode = 0, embeddings.encode_json

    async def embed(part: list[str]) -> list[list[float]]:
        return [vectors[text] for text in part]

    def count(data: Any) -> bytes:
        encoded = encode(data)
        bytes_by_turn[turn] += len(encoded)
        return encoded

    async def run() -> bytes:
        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        memory: Any = SimpleNamespace(embed=embed)
        counting = asyncio.create_task(count_turns())
        request = {"model": "recollect", "input": [*texts[:-1], texts[0]], "encoding_format": encoding}
        reply = await embeddings.Embeddings(memory).create(json.dumps(request).encode())
        counting.cancel()
        return bytes(reply.body)

    monkeypatch.setattr(embeddings, "encode_json", count)
    reply = json.loads(asyncio.run(run()))
    assert max(bytes_by_turn.values()) < bytes_by_turn.total() / 50
    assert [item["index"] for item in reply["data"]] == list(range(len(texts)))
    assert reply["data"][0]["embedding"] == reply["data"][-1]["embedding"]
    if encoding == "float":
        assert [item["embedding"] for item in reply["data"][:-1]] == [vectors[text] for text in texts[:-1]]


# Errors


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [
        ("POST", "/v1/responses", "chat/completions"),
        ("GET", "/v1/responses/resp_1", "chat/completions"),
        ("POST", "/v1/completions", "chat/completions"),
        ("POST", "/v1/threads/x/runs", "chat/completions"),
        ("POST", "/v1/audio/speech", "/v1/embeddings"),
        ("GET", "/v1", "/v1/embeddings"),
        ("GET", "/v1/", "/v1/embeddings"),
    ],
)
def test_what_is_not_offered_below_v1_is_not_found_in_openais_form(
    method: str, path: str, hint: str, shared: RunningServer
) -> None:
    reply = shared.client.request(method, path, json={} if method == "POST" else None)
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/json"
    assert hint in reply.json()["error"]["message"]
    assert reply.json()["error"]["code"] == "unknown_url"


def test_the_official_client_is_told_what_to_use_instead_of_responses(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="Use POST /v1/chat/completions"):
        client.responses.create(model="gpt-test", input="hello")
    with pytest.raises(openai.NotFoundError, match="Use POST /v1/chat/completions"):
        client.completions.create(model="gpt-test", prompt="hello")


def test_every_refusal_below_v1_has_openais_form(db: str) -> None:
    with make_server(db, server_rate_per_minute=60, server_body_bytes=10_000) as server:
        key = server.new_key("sara", scopes=["read"])
        reader, path = server.new_client(key), "/v1/chat/completions"
        replies = [
            server.client.get("/v1/models"),  # no key
            reader.post(path, json={"messages": [_user("x")]}),  # no scope
            reader.get(path),  # no such method
            reader.post("/v1/embeddings", content=b"x" * 20_000),  # too large
            reader.get("/v1/models", headers={"Host": "evil.example"}),
            reader.get("/v1/models", headers={"Origin": "https://evil.example"}),
            reader.get("/v1/models/" + "x" * 300),  # an invalid name
            *(reader.get("/v1/models") for _ in range(12)),  # too often, in the end
        ]
    assert [reply.status_code for reply in replies[:7]] == [401, 403, 405, 413, 421, 403, 400]
    assert replies[-1].status_code == 429
    assert "retry-after" in replies[-1].headers
    assert replies[2].headers["allow"] == "POST"
    for reply in (*replies[:7], replies[-1]):
        assert reply.headers["content-type"] == "application/json"
        assert set(reply.json()) == {"error"}
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


def test_a_rate_limit_has_one_type_whether_it_is_the_models_or_ours(
    shared: RunningServer, shared_model: ModelServer, db: str
) -> None:
    shared_model.then(Reply(429, headers={"Retry-After": "7"}), Reply(429, headers={"Retry-After": "7"}))
    replies = [shared.complete("Are you there?", stream=stream) for stream in (False, True)]
    with make_server(db, server_rate_per_minute=6) as server:
        client = server.new_client(server.new_key("sara"))
        replies += [client.get("/v1/models") for _ in range(2)]
    assert [reply.status_code for reply in replies] == [429, 429, 200, 429]
    errors = [reply.json()["error"] for reply in replies if reply.status_code == 429]
    assert [error["code"] for error in errors] == [*["provider_rate_limited"] * 2, "too_many_requests"]
    assert {error["type"] for error in errors} == {"rate_limit_error"}


def test_the_type_of_an_error_follows_from_its_status_in_a_stream_too() -> None:
    for error in (
        Conflict("question_erased", "It is gone."),
        NotFound("model_not_found", "There is none."),
        InvalidInput("invalid_json", "It is none."),
        Denied("access_ended", "It is over."),
        AttemptFailed("provider_rejected", "It is too long.", retryable=False, status=413),
        AttemptFailed("provider_rate_limited", "Too many.", status=429, retry_after=7),
        AttemptFailed("provider_timeout", "Too slow."),
        StoreUnavailable("disk_full", "The disk is full."),
    ):
        response = openai_errors.from_error(error)
        status = response.status_code
        expected = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
        assert openai_errors.to_json(error) == json.loads(bytes(response.body))
        assert openai_errors.to_json(error)["error"]["type"] == expected


def test_an_unforeseen_failure_below_v1_has_openais_form(
    shared: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("with a secret in it")

    monkeypatch.setattr(embeddings.Embeddings, "create", fail)
    reply = shared.client.post("/v1/embeddings", json={"model": "recollect", "input": "tea"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (500, "server_error")
    assert "secret" not in reply.text


# Tasks that front-ends ask for themselves


def _open_web_ui(task: str) -> str:
    history = "<chat_history>\nUSER: My PIN is 4711.\nASSISTANT: Noted.\n</chat_history>"
    return f'### Task:\n{task}\n\n### Output:\nJSON format: {{ "x": "y" }}\n\n### Chat History:\n{history}'


QUOTED = "\n\nUser: My PIN is 4711.\nAI: Noted."
TASKS: dict[str, list[Any]] = {
    "title": [_user(_open_web_ui("Generate a concise, 3-5 word title with an emoji summarizing the chat history."))],
    "tags": [_user(_open_web_ui("Generate 1-3 broad tags categorizing the main themes of the chat history."))],
    "follow-ups": [_user(_open_web_ui("Suggest 3-5 relevant follow-up questions that the user might naturally ask."))],
    "queries": [_user(_open_web_ui("Analyze the chat history to determine the necessity of search queries."))],
    "completion": [_user(_open_web_ui("You are an autocompletion system. Continue the text in `<text>`."))],
    "parts": [{"role": "user", "content": [{"type": "text", "text": _open_web_ui("Generate a concise title.")}]}],
    "an earlier version": [
        _user(f"Create a concise, 3-5 word title with an emoji as a title for the chat history.{QUOTED}")
    ],
    "librechat": [
        _user(f"Provide a concise, 5-word-or-less title for the conversation, using title case conventions.{QUOTED}")
    ],
    "librechat as a system prompt": [
        {
            "role": "system",
            "content": "Provide a concise, 5-word-or-less title for the conversation, using its same language.",
        },
        _user(QUOTED),
    ],
    "nextchat": [
        _user("My PIN is 4711."), _assistant("Noted."),
        _user("Please generate a four to five word title summarizing our conversation without any lead-in."),
    ],
    "nextchat's summary": [
        _user("My PIN is 4711."), _assistant("Noted."),
        {
            "role": "system",
            "content": "Summarize the discussion briefly in 200 words or less to use as a prompt for future context.",
        },
    ],
}  # fmt: skip
NO_TASKS: dict[str, list[Any]] = {
    "a question over documents": [
        _user("### Task:\nRespond to the user query using the provided context.\n<context>…</context>\nWhat is tea?")
    ],
    "a heading": [_user("### Task:\nWrite me a poem.")],
    "a title for something else": [_user("Give me a short title for my thesis about chat histories.")],
    "a summary": [_user("Summarize our conversation.")],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_a_front_ends_own_task_is_answered_and_leaves_no_trace(
    name: str, stream: bool, shared: RunningServer, shared_model: ModelServer
) -> None:
    before = shared.run(shared.memory.stats())
    headers = {"X-Recollect-Conversation": "task"} if stream else None
    reply = shared.complete(*TASKS[name], stream=stream, headers=headers)
    assert (join_chunks(parse_chunks(reply.text)) if stream else _text(reply)) == ANSWER
    assert shared_model.bodies[-1]["messages"] == TASKS[name], "nothing is added to its prompt"
    assert reply.headers["x-recollect-task"] == "true"
    assert "x-recollect-conversation" not in reply.headers
    after = shared.run(shared.memory.stats())
    assert (after["messages"], after["conversations"]) == (before["messages"], before["conversations"])


def _text(reply: httpx.Response) -> str:
    return str(reply.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize("name", NO_TASKS)
def test_what_a_person_asks_is_stored_although_it_resembles_a_task(name: str, shared: RunningServer) -> None:
    reply = shared.complete(*NO_TASKS[name])
    assert len(shared.history(reply.headers["x-recollect-conversation"])) == 2
    assert "x-recollect-task" not in reply.headers


def test_a_client_that_asks_for_memory_gets_it_for_any_text(shared: RunningServer) -> None:
    headers = {"X-Recollect-Mode": "on", "X-Recollect-Conversation": "explicit"}
    shared.complete(*TASKS["title"], headers=headers)
    assert len(shared.history("explicit")) == 2


def test_the_built_in_assistant_gives_no_quotes_where_a_title_is_wanted(shared: RunningServer) -> None:
    assert _text(shared.complete(*TASKS["tags"], model="recollect")) == "{}"
    assert _text(shared.complete(*TASKS["librechat"], model="recollect")) == task_prompts.NO_TITLE


def test_recognising_tasks_takes_linear_time() -> None:
    assert_linear(task_prompts.is_task, lambda n: [_user("### Task:" + "<chat_history" * n)] * 3, 20_000)


# Chats without a name


def test_chats_that_begin_alike_are_told_apart_over_the_wire(location: str) -> None:
    """Two windows of one chat program, each with its own history; the model greets both with the same words."""
    with ModelServer(lambda _: "Hi! How can I help?") as model, make_server(location, model) as server:
        histories: list[list[Any]] = [[_user("Hello")], [_user("Hello")]]
        names = []
        for turn in range(3):
            for number, history in enumerate(histories):
                reply = server.complete(*history, stream=turn == 1)
                names.append(reply.headers["x-recollect-conversation"])
                history += [_assistant("Hi! How can I help?"), _user(f"This is turn {turn} of window {number}.")]
        assert len(set(names)) == 2
        for name in set(names):
            stored = [message.content for message in server.history(name)]
            assert len(stored) == 6
            assert len({text[-2:] for text in stored if text.startswith("This")}) == 1, "two windows in one"


def test_a_prompt_has_no_turns_of_a_chat_that_began_alike(db: str) -> None:
    with ModelServer(lambda _: "Hi!") as model, make_server(db, model, memory_prompt_token_budget=4000) as server:
        for text in ("zebra", "quagga"):
            server.complete("Hello")
            server.complete("Hello", _assistant("Hi!"), f"I saw a {text}.")
        history = [_user("Hello"), _assistant("Hi!"), _user("I saw a zebra."), _assistant("Hi!")]
        server.complete(*history, "And then?")
        turns = [message for message in model.bodies[-1]["messages"] if "<" not in str(message["content"])]
        assert "quagga" not in str(turns)


def test_a_repeated_request_and_a_retry_begin_no_second_conversation(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        once = {"Idempotency-Key": "first"}
        names = {server.complete("Hello", headers=once).headers["x-recollect-conversation"] for _ in range(2)}
        assert len(names) == 1
        model.then(Trouble.NOT_JSON)
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=2) as client:
            client.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "Are you there?"}])
        conversations = server.run(server.memory.conversations())
        assert sorted(conversation.messages for conversation in conversations) == [2, 2]


def test_reading_without_storing_finds_the_conversation_of_a_history(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        name = server.complete("I like tea.").headers["x-recollect-conversation"]
        history, read = (
            [_user("I like tea."), _assistant(ANSWER), _user("What do I like?")],
            {"X-Recollect-Mode": "read"},
        )
        assert server.complete(*history, headers=read).headers["x-recollect-conversation"] == name
        assert "x-recollect-conversation" not in server.complete("New.", headers=read).headers
        assert len(server.history(name)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_many_equal_messages_take_linear_time_through_the_route(named: bool, db: str) -> None:
    """Each list is sent twice: the second time, every stored message could be its first."""
    memory = AsyncMemory(db, embedder=FakeEmbedder(8), worker=False, settings=Settings(server_rate_per_minute=0))
    app, numbers = make_app(ServerOptions(), memory=memory), iter(range(1_000))
    equal = [_user("yes")] if named else [_user("yes"), _assistant("yes"), _user("yes"), _user("yes")]

    def make(n: int) -> bytes:
        return json.dumps({"model": "recollect", "messages": equal * (n // len(equal))}).encode()

    async def send(body: bytes) -> None:
        headers = {"Content-Type": "application/json", "X-Recollect-Person": f"person-{next(numbers)}"}
        headers |= {"X-Recollect-Conversation": "equal"} if named else {}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for _ in range(2):
                reply = await client.post("/v1/chat/completions", content=body, headers=headers)
                assert reply.status_code == 200
                assert "memory" not in reply.headers.get("x-recollect-degraded", "")

    with asyncio.Runner() as runner:
        runner.run(memory.open())
        assert_linear(lambda body: runner.run(send(body)), make, 1_024, clock=time.process_time)
        runner.run(memory.close())
