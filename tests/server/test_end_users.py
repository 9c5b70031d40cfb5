"""One key for an application with many end users: each request reaches the memory of the person whom it names."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import openai
import pytest

from recollect.admin.access import Grant
from recollect.admin.named_person import LOCAL_KEY, act_as
from recollect.core.errors import InvalidInput
from recollect.core.models import Principal
from support.serving import Browser, RunningServer, make_server
from support.upstream import ModelServer

PIN = "My PIN is 4711."
QUESTION = "What is my PIN?"


@pytest.fixture(scope="module")
def app(shared: RunningServer) -> str:
    """Return the key of an application."""
    shared.new_key("root", scopes=["admin"])
    return shared.new_key("app", scopes=["act_as"], department="water", clearances=["secrets"])


def _for(person: str) -> dict[str, str]:
    return {"X-Recollect-Person": quote(person, safe="")}


# The OpenAI API


def test_user_names_the_person_and_no_user_gets_what_another_said(location: str) -> None:
    """Both end users ask over one official client, as an application would."""
    with ModelServer() as model, make_server(location, model) as server:
        key = server.new_key("app", scopes=["act_as"])
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            for user, text in (("sara", PIN), ("omar", "My dog is called Rex.")):
                client.chat.completions.create(
                    model="gpt-test", messages=[{"role": "user", "content": text}], user=user
                )
            for user, own, foreign in (("sara", "4711", "Rex"), ("omar", "Rex", "4711")):
                for question in (QUESTION, "What is my dog called?"):
                    client.chat.completions.create(
                        model="gpt-test", messages=[{"role": "user", "content": question}], user=user
                    )
                    assert foreign not in str(model.bodies[-1])
                client.chat.completions.create(
                    model="gpt-test", messages=[{"role": "user", "content": f"{QUESTION} And my dog?"}], user=user
                )
                assert own in str(model.bodies[-1])
        assert server.run(server.memory.of(Principal("app")).conversations()) == []


def test_on_a_server_without_keys_user_names_the_person_too(db: str, model: ModelServer) -> None:
    with make_server(db, model) as server:
        server.complete(PIN, user="sara")
        server.complete(QUESTION, user="omar")
        assert "4711" not in str(model.bodies[-1])
        server.complete(QUESTION)
        assert "4711" not in str(model.bodies[-1])
        server.complete(QUESTION, headers=_for("sara"))
        assert "4711" in str(model.bodies[-1])
        server.complete(QUESTION, user="")
        assert len(server.run(server.memory.conversations())) == 2


@pytest.mark.parametrize("named", [{"user": "sara"}, {"headers": _for("sara")}])
def test_a_personal_key_is_its_own_persons_whatever_the_request_names(
    named: Any, shared: RunningServer, app: str
) -> None:
    nadia = shared.new_client(shared.new_key(f"nadia-{len(str(named))}"))
    reply = shared.complete("I am Nadia.", client=nadia, **named)
    assert reply.status_code == 200
    name = reply.headers["x-recollect-conversation"]
    assert shared.history(name, "sara") == []
    assert nadia.get(f"/api/v1/conversations/{name}").status_code == 200
    assert nadia.get("/api/v1/session", headers=_for("sara")).status_code == 200


def test_the_header_counts_before_user(shared: RunningServer, app: str) -> None:
    reply = shared.complete("hello", client=shared.new_client(app), headers=_for("by-header"), user="by-user")
    name = reply.headers["x-recollect-conversation"]
    assert len(shared.history(name, "by-header")) == 2
    assert shared.history(name, "by-user") == []


def test_without_a_name_a_request_is_for_the_keys_own_person(shared: RunningServer, app: str) -> None:
    reply = shared.complete("hello", client=shared.new_client(app), user=None)
    assert len(shared.history(reply.headers["x-recollect-conversation"], "app")) == 2


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\x00b", "\ud800"])
def test_a_name_that_no_person_can_have_is_refused(name: str, shared: RunningServer, app: str) -> None:
    client = shared.new_client(app)
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "user": name}).encode()
    reply = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_person")
    header = {"X-Recollect-Person": quote(name.encode("utf-8", "surrogatepass"), safe="")}
    refused = client.get("/api/v1/conversations", headers=header)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_person")


def test_two_headers_or_bytes_that_are_no_text_are_refused(shared: RunningServer, app: str) -> None:
    client = shared.new_client(app)
    twice: Any = [("X-Recollect-Person", "sara"), ("X-Recollect-Person", "omar")]
    repeated = client.get("/api/v1/conversations", headers=twice)
    assert (repeated.status_code, repeated.json()["code"]) == (400, "repeated_header")
    for name in ("%FF%FE", "سارة".encode()):
        refused = client.get("/api/v1/conversations", headers=[("X-Recollect-Person", name)])  # type: ignore[list-item]
        assert refused.status_code == 422, name
    assert client.get("/api/v1/conversations", headers=_for("سارة")).status_code == 200


# REST


def test_everything_of_a_person_can_be_done_in_their_name_and_nothing_of_another(
    shared: RunningServer, app: str
) -> None:
    client, path = shared.new_client(app), "/api/v1/conversations/trip"
    for person in ("sara", "omar"):
        body = {"role": "user", "content": f"I am {person}, and my PIN is secret-{person}."}
        assert client.post(f"{path}/messages", json=body, headers=_for(person)).status_code == 201
        assert client.put("/api/v1/memory/consent", json={"consent": True}, headers=_for(person)).status_code == 200
    for person, other in (("sara", "omar"), ("omar", "sara")):
        for reply in (
            client.get(f"{path}/messages", headers=_for(person)),
            client.get("/api/v1/recall", params={"q": "What is my PIN?"}, headers=_for(person)),
            client.post(f"{path}/context", json={"query": "What is my PIN?"}, headers=_for(person)),
            client.get("/api/v1/memory/export", headers=_for(person)),
        ):
            assert f"secret-{person}" in reply.text
            assert f"secret-{other}" not in reply.text
    assert client.delete("/api/v1/memory", params={"confirm": "everything"}, headers=_for("sara")).status_code == 200
    assert client.get(path, headers=_for("sara")).status_code == 404
    assert "secret-omar" in client.get(f"{path}/messages", headers=_for("omar")).text


def test_settings_and_idempotency_keys_are_those_of_the_named_person(shared: RunningServer, app: str) -> None:
    client = shared.new_client(app)
    change = {"changes": {"memory_prompt_token_budget": 1234}}
    client.patch("/api/v1/memory/settings", json=change, headers=_for("lena")).raise_for_status()
    budgets = [
        client.get("/api/v1/memory/settings", headers=_for(person)).json()["settings"]["memory_prompt_token_budget"]
        for person in ("lena", "mona")
    ]
    assert budgets[0] == 1234
    assert budgets[1] != 1234
    for person in ("lena", "mona"):
        body = {"role": "user", "content": f"I am {person}."}
        once = {"Idempotency-Key": "one", **_for(person)}
        assert client.post("/api/v1/conversations/once/messages", json=body, headers=once).status_code == 201
    assert [len(shared.history("once", person)) for person in ("lena", "mona")] == [1, 1]


def test_a_key_that_acts_for_others_can_never_administer(shared: RunningServer, app: str) -> None:
    client = shared.new_client(app)
    for headers in ({}, _for("root"), _for("sara")):
        assert client.get("/api/v1/keys", headers=headers).status_code == 403
        assert client.post("/api/v1/keys", json={"person": "x"}, headers=headers).status_code == 403
        everybody = {"changes": {"rag_hybrid": False}, "everybody": True}
        assert client.patch("/api/v1/memory/settings", json=everybody, headers=headers).status_code == 403
    with pytest.raises(InvalidInput, match="act_as"):
        shared.new_key("app", scopes=["act_as", "admin"])


def test_a_key_that_acts_for_others_revokes_no_keys(shared: RunningServer, app: str) -> None:
    client, own = shared.new_client(app), shared.new_client(shared.new_key("keyholder"))
    everything = "/api/v1/memory?confirm=everything"
    for person in ("keyholder", "app"):
        refused = client.delete(everything, headers=_for(person))
        assert (refused.status_code, refused.json()["code"]) == (403, "person_has_keys")
    assert client.delete(everything).status_code == 403
    assert own.get("/api/v1/conversations").status_code == client.get("/api/v1/conversations").status_code == 200
    assert client.delete(everything, headers=_for("end user")).json()["counts"]["api_keys"] == 0
    assert own.delete(everything).json()["counts"]["api_keys"] == 1


def test_a_named_person_has_neither_offices_nor_more_rights_than_the_key() -> None:
    grant = Grant(Principal("app", "water", "env", ("secrets",)), ("read", "act_as"), "abc")
    named = act_as(grant, "sara")
    assert (named.principal, named.scopes, named.key) == (Principal("sara"), ("read",), "abc")
    assert act_as(named, "omar") is named, "only a request's first name counts"
    own = act_as(grant, "app")
    assert own.principal == Principal("app"), "whoever has the application's name has no more rights than others"
    local = Grant(Principal("local"), ("read", "write", "admin", "act_as"), LOCAL_KEY)
    assert act_as(local, "sara").scopes == ("read", "write")


def test_act_as_alone_means_reading_and_writing_and_may_be_less(shared: RunningServer, app: str) -> None:
    reader = shared.new_client(shared.new_key("viewer", scopes=["read", "act_as"]))
    assert reader.get("/api/v1/conversations", headers=_for("sara")).status_code == 200
    assert shared.complete("hello", client=reader, user="sara").status_code == 403


def test_a_browsers_session_acts_for_nobody_else(shared: RunningServer, app: str) -> None:
    browser = Browser(shared, app)
    headers = {"Origin": shared.url, "X-CSRF-Token": browser.csrf, **_for("victim")}
    assert browser.add(**headers) == 201
    assert shared.history("page", "victim") == []
    assert len(shared.history("page", "app")) == 1


def test_the_audit_of_a_person_names_the_key_that_acted(shared: RunningServer, app: str) -> None:
    client = shared.new_client(app)
    client.put("/api/v1/memory/consent", json={"consent": True}, headers=_for("audited")).raise_for_status()
    entries = client.get("/api/v1/memory/audit", headers=_for("audited")).json()["entries"]
    assert {entry["actor"] for entry in entries} == {app.split("_")[1]}


@pytest.mark.parametrize("way", ["header", "user"])
def test_the_rate_of_one_end_user_does_not_stop_another(way: str, db: str) -> None:
    with make_server(db, server_rate_per_minute=60) as server:  # ten at once
        client = server.new_client(server.new_key("app", scopes=["act_as"]))

        def ask(person: str) -> int:
            named: Any = {"headers": _for(person)} if way == "header" else {"user": person}
            return server.complete("hello", client=client, model="recollect", **named).status_code

        statuses = [ask("loud") for _ in range(14)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses
        assert [ask(f"quiet {number}") for number in range(14)] == [200] * 14


def test_answers_that_run_are_counted_and_stopped_for_each_named_person(db: str, model: ModelServer) -> None:
    async def ask(server: RunningServer, key: str) -> list[int]:
        async with server.new_async_client(headers={"Authorization": f"Bearer {key}"}) as client:
            body = {"model": "recollect", "messages": [{"role": "user", "content": "hello"}]}
            bodies = [body | {"user": f"person {number % 4}"} for number in range(12)]
            return [
                reply.status_code
                for reply in await asyncio.gather(*(client.post("/v1/chat/completions", json=b) for b in bodies))
            ]

    with make_server(db, model, server_streams=3) as server:
        assert asyncio.run(ask(server, server.new_key("app", scopes=["act_as"]))) == [200] * 12
