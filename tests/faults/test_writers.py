"""Many writers on one conversation store every row, without a gap in seq and without an error for a caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from faults import inspection
from faults.processes import Victim, run_to_end
from faults.victim import text_of
from recollect import Memory
from recollect.core.message import Message
from support.serving import wait_for

pytestmark = pytest.mark.kill


def _in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run a function in threads that start together. Raise the first of their errors."""
    start = threading.Barrier(count + 1)
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        start.wait(300)
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again by the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    start.wait(300)
    for thread in threads:
        thread.join(900)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def _check_log(location: str, replies: dict[str, int]) -> None:
    """Check that all messages are stored without a gap in seq, each at the seq that its writer was given."""
    with Memory(location, worker=False) as memory:
        log = memory.history("shared")
        assert [one for one in memory.check() if one.state == "error"] == []
    assert [message.seq for message in log] == list(range(1, len(replies) + 1))
    assert {message.id: message.seq for message in log} == replies
    assert all(message.content == text_of(message.id) for message in log)


def _write_from_processes(location: str, *, processes: int, count: int) -> None:
    victims = [
        Victim("write", location=location, conversation="shared", run=f"p{number}", count=count)
        for number in range(processes)
    ]
    replies = {name: int(seq) for _, _, name, seq in run_to_end(victims)}
    assert len(replies) == processes * count
    _check_log(location, replies)


def test_eight_processes_write_one_conversation_of_a_file_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    _write_from_processes(str(path), processes=8, count=250)
    inspection.check_file(path)


def test_eight_processes_write_one_conversation_of_a_server_without_a_gap(pg: str) -> None:
    _write_from_processes(pg, processes=8, count=60)


def test_thirty_two_threads_write_one_conversation_without_a_gap(location: str) -> None:
    replies: dict[str, int] = {}
    with Memory(location, worker=False) as memory:

        def work(number: int) -> None:
            for count in range(200):
                name = f"t{number}-{count}"
                replies[name] = memory.add("shared", "user", text_of(name), id=name).seq

        _in_threads(32, work)
    assert len(replies) == 32 * 200
    _check_log(location, replies)


def test_one_id_from_a_hundred_threads_is_one_row_and_one_reply(location: str) -> None:
    replies: list[Message] = []
    with Memory(location, worker=False) as memory:
        _in_threads(100, lambda number: replies.append(memory.add("shared", "user", f"by {number}", id="once")))
        assert replies == [memory.history("shared")[0]] * 100
        assert memory.conversations()[0].messages == 1


def test_one_id_from_four_processes_of_25_threads_is_one_row_and_one_reply(location: str) -> None:
    victims = [
        Victim("repeat", location=location, conversation="shared", id="once", run=f"p{number}", threads=25)
        for number in range(4)
    ]
    replies = [" ".join(words) for _, *words in run_to_end(victims)]
    assert len(replies) == 100
    assert len(set(replies)) == 1
    with Memory(location, worker=False) as memory:
        assert [(message.seq, message.id) for message in memory.history("shared")] == [(1, "once")]


def test_threads_that_wait_at_the_same_time_share_a_commit(tmp_path: Path) -> None:
    """What this saves is measured by `python -m bench.log`: about as much time as commits."""
    path = tmp_path / "memory.db"
    with Memory(path, worker=False) as memory:
        for _ in range(32):
            memory.add("shared", "user", "From one thread, which waits for each commit.")
        commits_of_one = _count_commits(path)
        assert commits_of_one >= 32
        driver = memory._engine._store._driver
        other_process = apsw.Connection(str(path))
        other_process.execute("BEGIN IMMEDIATE")  # until all threads wait

        def work(number: int) -> None:
            if number < 32:
                memory.add("shared", "user", "From one of many threads.")
            else:
                wait_for(lambda: driver._writer._tasks.qsize() >= 31)  # one more is held by the writer
                other_process.execute("ROLLBACK")

        _in_threads(33, work)
        other_process.close()
        assert _count_commits(path) == commits_of_one + 1
        assert len(memory.history("shared")) == 64


def _count_commits(path: Path) -> int:
    """Return how many commits the write-ahead log has: frames that say how large the database is after them.

    See https://www.sqlite.org/fileformat2.html#walformat. Frames with another salt are older than the last reset.
    """
    log = path.with_name(f"{path.name}-wal").read_bytes()
    page_bytes, salt = int.from_bytes(log[8:12]), log[16:24]
    frames = [log[start : start + 24] for start in range(32, len(log), 24 + page_bytes)]
    return sum(frame[8:16] == salt and frame[4:8] != b"\0" * 4 for frame in frames)
