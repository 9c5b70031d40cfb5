"""The token trigger knows the size of system prompts that another process built."""

from __future__ import annotations

from datetime import timedelta

from recollect import Memory
from recollect.admin.server_state import SharedServerState
from recollect.core.models import Principal
from recollect.jobs.prompt_sizes import PromptSizes
from recollect.storage.server_state import prompt_size_id
from recollect.testing import FakeClock
from support.summaries import Open, long_turns, user_turns

LONG_PROMPT = "You are a helpful assistant. " * 100  # 600 tokens
ME = Principal()


def stored_sizes(memory: Memory, *conversations: str) -> list[int]:
    """Return what the database has; a memory that has just been opened knows nothing else."""
    sizes = PromptSizes(memory._engine.store, memory._engine.clock)
    return [memory._wait(sizes.get(ME, name)) for name in conversations]


def flush(memory: Memory) -> None:
    """Write what is buffered, as a server does every few seconds."""
    memory._wait(memory._engine.flush())


def two_processes(open_memory: Open) -> tuple[Memory, Memory]:
    """Return two memories on one database: one answers, the other does the derived work."""
    return open_memory(settings="sessions"), open_memory(settings="sessions")


def test_a_worker_in_another_process_counts_the_system_prompt(open_memory: Open) -> None:
    server, worker = two_processes(open_memory)
    server.add_many("trip", long_turns(9))
    worker.drain()
    assert worker.brief("trip") is None  # about 2800 tokens
    server.context("trip", "hello", system_prompt=LONG_PROMPT)
    flush(server)
    worker.drain()  # no new message is needed: the worker looks again
    assert worker.brief("trip") is not None


def test_a_size_is_known_from_the_first_stored_message_on(open_memory: Open) -> None:
    server, worker = two_processes(open_memory)
    server.context("trip", "hello", system_prompt=LONG_PROMPT)
    flush(server)
    assert stored_sizes(worker, "trip") == [0]  # there is no such conversation yet
    server.add_many("trip", user_turns("hello"))
    server.context("trip", "and now?", system_prompt=LONG_PROMPT)
    flush(server)
    assert stored_sizes(worker, "trip", "other") == [601, 0]


def test_the_size_of_a_system_prompt_goes_with_its_conversation_and_its_person(open_memory: Open) -> None:
    server, worker = two_processes(open_memory)
    for name in ("one", "two"):
        server.add_many(name, user_turns(f"hello {name}", first=len(name) * 10 + ord(name[0])))
        server.context(name, "what now?", system_prompt=LONG_PROMPT)
    flush(server)
    assert stored_sizes(worker, "one", "two") == [601, 601]
    server.erase(conversation="one")
    flush(server)
    assert stored_sizes(worker, "one", "two") == [0, 601]
    server.context("two", "what now?", system_prompt=LONG_PROMPT * 2)  # noted, not written yet
    server.erase(person="local")
    flush(server)
    assert stored_sizes(worker, "one", "two") == [0, 0]


def test_nothing_of_the_system_prompt_itself_is_stored(open_memory: Open) -> None:
    server, _ = two_processes(open_memory)
    server.add_many("trip", user_turns("hello"))
    server.context("trip", "what now?", system_prompt="The vault code is 5512. Never tell it.")
    flush(server)
    row_id = prompt_size_id("trip")
    assert "trip" not in row_id
    row = server._wait(server._engine.store._read(lambda tx: tx.one("get_request", person="local", id=row_id)))
    assert bytes(row["fingerprint"]) == (12).to_bytes(8)


def test_an_idempotency_key_of_a_client_cannot_be_taken_for_a_size(open_memory: Open) -> None:
    server, worker = two_processes(open_memory)
    server.add_many("trip", user_turns("hello"))
    claim = SharedServerState(server._engine).first_fingerprint
    for size in (0, 601):  # before there is a size, and after
        assert server._wait(claim(prompt_size_id("trip"), b"first")) == b"first"
        assert server._wait(claim(prompt_size_id("trip"), b"second")) == b"first"
        assert stored_sizes(worker, "trip") == [size]
        server.context("trip", "what now?", system_prompt=LONG_PROMPT)
        flush(server)
    assert stored_sizes(worker, "trip") == [601]


def test_a_size_runs_out_after_a_week_and_is_renewed_before(open_memory: Open, clock: FakeClock) -> None:
    server, worker = two_processes(open_memory)
    server.add_many("trip", user_turns("hello"))
    for _ in range(3):
        server.context("trip", "what now?", system_prompt=LONG_PROMPT)
        flush(server)
        clock.advance(timedelta(days=5))
    worker.drain()
    assert stored_sizes(worker, "trip") == [601]
    clock.advance(timedelta(days=8))
    worker.drain()
    assert stored_sizes(worker, "trip") == [0]
