"""Answers in progress end when the key or session that asked for them does, and say so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from recollect.admin.access import Access
from recollect.admin.named_person import act_as
from recollect.memory import AsyncMemory
from recollect.server.grant_watch import GrantWatcher
from recollect.testing import FakeClock, FakeEmbedder
from support.serving import TIMEOUT_SECONDS, Browser, RunningServer, make_server, parse_chunks, parse_events, wait_for
from support.upstream import ModelServer, Trouble

CHAT = "/api/v1/conversations/trip/chat"
HALF = "Peanuts are what you cannot eat, and "


@pytest.fixture
def server(location: str, clock: FakeClock, model: ModelServer) -> Iterator[RunningServer]:
    with make_server(location, model, clock=clock) as running:
        yield running


class Listening:
    """A request whose answer has come half way when this returns. `text` waits for its end."""

    def __init__(self, client: httpx.Client, model: ModelServer, path: str, body: Any, headers: Any = None) -> None:
        model.then(Trouble.WAIT)
        self._reply: httpx.Response | None = None
        self._thread = threading.Thread(target=self._read, args=(client, path, body, headers), daemon=True)
        self._thread.start()
        assert model.is_waiting.wait(TIMEOUT_SECONDS)

    def _read(self, client: httpx.Client, path: str, body: Any, headers: Any) -> None:
        self._reply = client.post(path, json=body, headers=headers)

    def reply(self) -> httpx.Response:
        self._thread.join(TIMEOUT_SECONDS)
        assert self._reply is not None, "the answer did not end"
        return self._reply


def completion(*, stream: bool) -> dict[str, Any]:
    message = {"role": "user", "content": "Go on."}
    return {"messages": [message], "stream": stream, "metadata": {"conversation": "trip"}}


async def _revoke_elsewhere(location: str, key: str) -> None:
    """Revoke a key as another process does."""
    async with AsyncMemory(location, embedder=FakeEmbedder(), worker=False) as memory:
        await Access(memory).revoke_key(key)


def _id(token: str) -> str:
    return token.split("_")[1]


def test_the_stream_of_a_chat_ends_with_an_error_when_another_process_revokes_its_key(
    server: RunningServer, location: str, model: ModelServer
) -> None:
    token = server.new_key("sara")
    listening = Listening(server.new_client(token), model, CHAT, {"content": "Go on."})
    server.run(_revoke_elsewhere(location, _id(token)))
    events = parse_events(listening.reply().text)  # although the model still waits
    assert [name for name, _ in events][-2:] == ["error", "done"]
    error, done = events[-2][1], events[-1][1]
    assert (error["code"], done["finish_reason"], done["error"]["code"]) == ("access_ended", "error", "access_ended")
    assert done["message"] is None
    # What was written is the person's: it is stored, and marked as incomplete.
    stored = wait_for(lambda: found if len(found := server.history("trip", "sara")) == 2 else [])
    assert (stored[1].content, stored[1].metadata["incomplete"]) == (HALF, "stopped")
    model.resume()


def test_a_stream_of_the_openai_api_ends_with_an_error_when_another_process_revokes_its_key(
    server: RunningServer, location: str, model: ModelServer
) -> None:
    token = server.new_key("sara")
    body = completion(stream=True)
    listening = Listening(server.new_client(token), model, "/v1/chat/completions", body)
    server.run(_revoke_elsewhere(location, _id(token)))
    chunks = parse_chunks(listening.reply().text)
    assert chunks[-1]["error"]["code"] == "access_ended"
    assert "[DONE]" not in chunks
    stored = wait_for(lambda: found if len(found := server.history("trip", "sara")) == 2 else [])
    assert (stored[1].content, stored[1].metadata["incomplete"]) == (HALF, "access_ended")
    model.resume()


def test_a_whole_answer_of_the_openai_api_is_refused_when_its_key_was_revoked_meanwhile(
    server: RunningServer, location: str, model: ModelServer
) -> None:
    token = server.new_key("sara")
    body = completion(stream=False)
    listening = Listening(server.new_client(token), model, "/v1/chat/completions", body)
    server.run(_revoke_elsewhere(location, _id(token)))
    reply = listening.reply()
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "access_ended")
    assert "Peanuts" not in reply.text
    model.resume()


def _log_out(server: RunningServer, _: str, browser: Browser) -> None:
    headers = {"Origin": browser.url, "X-CSRF-Token": browser.csrf}
    other = server.new_client(cookie="; ".join(f"{name}={value}" for name, value in browser.client.cookies.items()))
    assert other.delete("/api/v1/session", headers=headers).status_code == 204


def _revoke(server: RunningServer, token: str, _: Browser) -> None:
    server.run(server.access.revoke_key(_id(token)))


@pytest.mark.parametrize("end", [_log_out, _revoke])
def test_the_stream_of_a_browser_ends_when_its_session_does(
    end: Callable[..., None], db: str, model: ModelServer
) -> None:
    with make_server(db, model) as server:
        token = server.new_key("sara")
        browser = Browser(server, token)
        headers = {"Origin": browser.url, "X-CSRF-Token": browser.csrf}
        listening = Listening(browser.client, model, CHAT, {"content": "Go on."}, headers)
        end(server, token, browser)
        assert dict(parse_events(listening.reply().text))["error"]["code"] == "access_ended"
        model.resume()


def test_a_stream_ends_when_its_key_expires(server: RunningServer, clock: FakeClock, model: ModelServer) -> None:
    token = server.new_key("sara", days=1)
    listening = Listening(server.new_client(token), model, CHAT, {"content": "Go on."})
    clock.advance(timedelta(days=1))
    assert dict(parse_events(listening.reply().text))["error"]["code"] == "access_ended"
    model.resume()


def test_a_stream_without_a_key_ends_when_the_first_key_is_made(server: RunningServer, model: ModelServer) -> None:
    listening = Listening(server.client, model, CHAT, {"content": "Go on."})
    server.new_key("sara")
    assert dict(parse_events(listening.reply().text))["error"]["code"] == "access_ended"
    model.resume()


def test_an_answer_goes_on_for_another_listener_whose_key_is_good(
    server: RunningServer, location: str, model: ModelServer
) -> None:
    revoked, good = server.new_key("sara"), server.new_key("sara")
    once, body = {"Idempotency-Key": "once"}, {"content": "Go on."}
    listening = Listening(server.new_client(revoked), model, CHAT, body, once)
    with server.new_client(good).stream("POST", CHAT, json=body, headers=once) as other:
        lines = other.iter_lines()
        assert next(lines) == "event: sources"
        server.run(_revoke_elsewhere(location, _id(revoked)))
        assert dict(parse_events(listening.reply().text))["error"]["code"] == "access_ended"
        model.resume()
        events = dict(parse_events("event: sources\n" + "\n".join(lines)))
    assert events["done"]["stopped"] is False
    assert "error" not in events


def test_streams_of_good_keys_are_left_alone_while_others_end(server: RunningServer, model: ModelServer) -> None:
    gone, good = server.new_key("sara"), server.new_key("omar")
    ending = Listening(server.new_client(gone), model, CHAT, {"content": "Go on."})
    staying = Listening(server.new_client(good), model, CHAT, {"content": "Go on."})
    server.run(server.access.revoke_key(_id(gone)))
    assert dict(parse_events(ending.reply().text))["error"]["code"] == "access_ended"
    model.resume()
    done = dict(parse_events(staying.reply().text))["done"]
    assert (done["stopped"], done["error"]) == (False, None)


def test_the_database_is_asked_once_for_a_key_however_many_persons_it_asks_for(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    persons = [f"user {number}" for number in range(300)]

    async def run() -> list[str]:
        async with AsyncMemory(db, embedder=FakeEmbedder(), worker=False) as memory:
            access, rows = Access(memory), memory.store.server_state
            key = await access.create_key("app", scopes=["act_as"])
            grant = await access.verify(key.token or "")
            assert grant is not None
            await access.revoke_key(key.id)
            read_key, reads, ended, all_ended = rows.key, list[str](), list[str](), asyncio.Event()

            async def count_read(id: str) -> Any:
                reads.append(id)
                return await read_key(id)

            def note_end(person: str) -> None:
                ended.append(person)
                if len(ended) == len(persons):
                    all_ended.set()

            monkeypatch.setattr(rows, "key", count_read)
            watcher = GrantWatcher(access)
            with ExitStack() as answers:
                for person in persons:
                    answers.enter_context(watcher.watch(act_as(grant, person), partial(note_end, person)))
                await all_ended.wait()
            assert sorted(ended) == sorted(persons)
            return reads

    assert len(asyncio.run(run())) == 1
