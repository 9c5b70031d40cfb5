"""An answer is stored although the model adds something to it that cannot be: odd tool calls, a long name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.core.message import LABEL_LIMIT, TOOL_CALLS_LIMIT
from support.fault_server import Reply
from support.serving import RunningServer
from support.upstream import ModelServer

TEXT = "Important answer."
ODD_VALUES = {
    "not a number": "NaN",
    "infinite": "-Infinity",
    "beyond all numbers": "1e999",
    "80 levels deep": "[" * 80 + "]" * 80,
    "above the limit": f'"{"x" * (TOOL_CALLS_LIMIT + 100_000)}"',
}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def plan(model: ModelServer, *, stream: bool, odd: str | None = None, arguments: str = "{}", name: str = "m") -> None:
    """Let the model answer once with the text and a tool call that has an odd field."""
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    said = json.dumps({"role": "assistant", "content": TEXT, "tool_calls": [call]} if odd else {"content": TEXT})
    if odd:
        said = said.replace('"index": 0', f'"index": 0, "x": {odd}')
    part = "delta" if stream else "message"
    body = f'{{"model": "{name}", "choices": [{{"index": 0, "finish_reason": "stop", "{part}": {said}}}]}}'
    if stream:
        headers = {"Content-Type": "text/event-stream"}
        model.then(Reply(200, f"data: {body}\n\ndata: [DONE]\n\n".encode(), headers=headers))
    else:
        model.then(Reply(200, body.encode()))


def complete(server: RunningServer, conversation: str, *, stream: bool) -> list[Any]:
    """Ask through /v1. Return what the client gets, parsed strictly."""
    body = {"model": "gpt-test", "stream": stream, "messages": [{"role": "user", "content": "q"}]}
    headers = {"X-Recollect-Conversation": conversation}
    answer = server.client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200
    if not stream:
        return [json.loads(answer.text, parse_constant=refuse_constant)]
    events = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
    return [json.loads(event, parse_constant=refuse_constant) for event in events]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("odd", ODD_VALUES)
def test_an_answer_is_stored_without_what_its_tool_call_cannot_keep(
    shared: RunningServer, shared_model: ModelServer, stream: bool, odd: str
) -> None:
    name = f"odd {odd} {stream}"
    plan(shared_model, stream=stream, odd=ODD_VALUES[odd])
    assert TEXT in json.dumps(complete(shared, name, stream=stream))
    _, answer = shared.history(name)
    assert answer.content == TEXT
    assert [call["id"] for call in answer.tool_calls] == ["a"]
    is_whole = ODD_VALUES[odd] in ("NaN", "-Infinity")  # read as null
    assert (answer.metadata or {}).get("incomplete") == (None if is_whole else "tool_calls")


def test_an_answer_with_huge_arguments_is_stored_without_its_tool_calls(
    shared: RunningServer, shared_model: ModelServer
) -> None:
    plan(shared_model, stream=False, odd="1", arguments="x" * (TOOL_CALLS_LIMIT + 1))
    complete(shared, "huge arguments", stream=False)
    _, answer = shared.history("huge arguments")
    assert (answer.content, answer.tool_calls) == (TEXT, None)
    assert answer.metadata["incomplete"] == "tool_calls"


def test_a_clients_own_odd_tool_calls_do_not_turn_memory_off(shared: RunningServer) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, "x": "y" * TOOL_CALLS_LIMIT}
    messages = [
        {"role": "user", "content": "q"}, {"role": "assistant", "content": TEXT, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"}, {"role": "user", "content": "q2"},
    ]  # fmt: skip
    body = {"model": "gpt-test", "messages": messages}
    for _ in range(2):
        headers = {"X-Recollect-Conversation": "odd client"}
        assert shared.client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    stored = shared.history("odd client")
    assert [message.role for message in stored][:4] == ["user", "assistant", "tool", "user"]
    assert [call["id"] for call in stored[1].tool_calls] == ["a"] and "x" not in stored[1].tool_calls[0]


@pytest.mark.parametrize("ask", ["completion", "chat"])
def test_an_answer_of_a_model_with_a_long_name_is_stored(
    shared: RunningServer, shared_model: ModelServer, ask: str
) -> None:
    name = f"long model {ask}"
    plan(shared_model, stream=True, name="m" * 300)
    if ask == "chat":
        shared.client.post(f"/api/v1/conversations/{name}/chat", json={"content": "q", "model": "gpt-test"})
    else:
        complete(shared, name, stream=True)
    _, answer = shared.history(name)
    assert (answer.content, answer.model_variant) == (TEXT, "m" * LABEL_LIMIT)
