"""A process that forks while a memory is open: the child gets a clear error at once, and the parent goes on unharmed.

Each test runs in a process of its own, because the tests' process has threads of other tests.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import apsw
import pytest

pytestmark = [pytest.mark.kill, pytest.mark.skipif(not hasattr(sys, "abiflags"), reason="only POSIX forks")]

WAIT_SECONDS = 120
START = """
import asyncio, gc, io, multiprocessing, os, sys
from recollect import AsyncMemory, Memory, RecollectError
from recollect.testing import FakeEmbedder

location = sys.argv[1]

def opened(**options):
    return Memory(location, embedder=FakeEmbedder(), **({"worker": False} | options))

def code_of(call):
    try:
        call()
    except RecollectError as error:
        return error.code
    return "no error"

def in_child(work, end=sys.exit):
    'Run work in a forked child that ends as Python programs do, and return what it printed.'
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        sys.stdout = io.StringIO()
        work()
        os.write(writing, sys.stdout.getvalue().encode())
        end(0)
    os.close(writing)
    with os.fdopen(reading) as printed:
        text = printed.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (status, text)
    return text.split()
"""


def run(location: str, program: str) -> None:
    """Run a program that forks. It must end by itself, without an error and without a word on stderr."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + textwrap.dedent(program), location],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    if not location.startswith("postgresql"):
        with closing(apsw.Connection(location)) as connection:
            assert connection.pragma("integrity_check") == "ok"


def test_every_call_in_a_forked_child_fails_at_once_and_the_parent_goes_on(location: str) -> None:
    run(
        location,
        """
        memory = opened(worker=True)
        memory.add("trip", "user", "Peanuts make me ill.")
        memory.drain()
        calls = (
            lambda: memory.history("trip"), lambda: memory.recall("peanuts"), lambda: memory.add("trip", "user", "x"),
            lambda: memory.context("trip", "peanuts?"), lambda: memory.erase(conversation="trip"), memory.stats,
            memory.settings, memory.drain, memory.check, lambda: memory.backup(location + ".backup"),
        )
        def child():
            print(*map(code_of, calls))
            memory.close()
        codes = in_child(child)
        assert codes == ["forked"] * len(calls), codes
        memory.add("trip", "user", "I am still here.")
        assert len(memory.history("trip")) == 2
        assert memory.recall("peanuts").hits[0].text == "Peanuts make me ill."
        memory.close()
        with opened() as again:
            assert [message.content for message in again.history("trip")][-1] == "I am still here."
        """,
    )


def test_a_child_that_leaves_the_block_of_its_parent_closes_nothing(location: str) -> None:
    run(
        location,
        """
        def child():
            global memory
            memory.__exit__(None, None, None)
            del memory
            gc.collect()
        memory = opened()
        memory.add("trip", "user", "one")
        for _ in range(3):
            in_child(child)
            memory.add("trip", "user", "more")
            assert memory.history("trip")
        memory.close()
        """,
    )


def test_the_async_face_says_the_same(location: str) -> None:
    run(
        location,
        """
        memory = AsyncMemory(location, embedder=FakeEmbedder(), worker=False)
        calls = (lambda: memory.history("t"), lambda: memory.add("t", "user", "x"), lambda: memory.recall("x"))
        loop = asyncio.new_event_loop()
        loop.run_until_complete(memory.add("t", "user", "one"))
        def child():
            async def both(call):
                return await call()
            print(*(code_of(lambda: asyncio.run(both(call))) for call in calls))
            asyncio.run(memory.close())
        assert in_child(child, os._exit) == ["forked"] * 3  # the loop is not ours to close
        assert len(loop.run_until_complete(memory.history("t"))) == 1
        loop.run_until_complete(memory.close())
        loop.close()
        """,
    )


def test_a_memory_that_is_first_used_after_the_fork_works_in_every_child(location: str) -> None:
    run(
        location,
        """
        with opened() as memory:  # creates the tables, and is closed again before the fork
            memory.add("t", "user", "zero")
        unused = AsyncMemory(location, embedder=FakeEmbedder(), worker=False)
        def child():
            async def use():
                async with unused:
                    await unused.add("t", "user", "more")
                    print(len(await unused.history("t")))
            asyncio.run(use())
        assert [in_child(child) for _ in range(3)] == [["2"], ["3"], ["4"]]
        """,
    )


def test_workers_of_multiprocessing_get_the_error_too(location: str) -> None:
    run(
        location,
        """
        memory = opened()
        memory.add("t", "user", "one")
        def count(_):
            return code_of(lambda: memory.history("t"))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(count, range(4)) == ["forked"] * 4
        assert len(memory.history("t")) == 1
        memory.close()
        """,
    )


def test_a_child_may_not_open_the_file_that_its_parent_has_open_for_its_writes_would_be_lost(tmp_path: Path) -> None:
    run(
        str(tmp_path / "memory.db"),
        """
        memory = opened()
        memory.add("t", "user", "one")
        def grandchild():
            print(code_of(opened))
        def child():
            print(code_of(opened))
            other = Memory(location + ".other", embedder=FakeEmbedder(), worker=False)
            other.add("t", "user", "another file is fine")
            print(len(other.history("t")))
            other.close()
            print(*in_child(grandchild))
        assert in_child(child) == ["forked", "1", "forked"]
        memory.add("t", "user", "two")
        memory.close()
        def after():
            with opened() as memory:
                memory.add("t", "user", "three")
                print(len(memory.history("t")))
        assert in_child(after) == ["3"]
        """,
    )


def test_on_postgresql_a_child_may_open_a_memory_of_its_own_beside_its_parents(pg: str) -> None:
    run(
        pg,
        """
        memory = opened()
        memory.add("t", "user", "one")
        def child():
            with opened() as own:
                own.add("t", "user", "two")
                print(len(own.history("t")))
        assert in_child(child) == ["2"]
        assert len(memory.history("t")) == 2
        memory.close()
        """,
    )


def test_a_child_embeds_although_its_parent_was_embedding_when_it_forked(tmp_path: Path) -> None:
    """Locks that other threads of the parent hold are not held in the child."""
    run(
        str(tmp_path / "memory.db"),
        """
        from recollect.providers import tokenizer
        from recollect.providers.minilm import embedder
        locks = (embedder._loading, embedder._background_lock, tokenizer._loading)
        for lock in locks:
            lock.acquire()
        def child():
            with Memory(location, worker=False) as memory:
                memory.add("t", "user", "Peanuts make me ill.")
                print(memory.drain().complete, memory.stats()["embedded"])
        assert in_child(child) == ["True", "1"]
        """,
    )
