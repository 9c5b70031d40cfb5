"""Many writers on one conversation: every row, no gap in seq, and no error that a caller would see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import inspection
from faults.processes import Victim, run_to_end
from faults.victim import text_of
from recollect import Memory
from recollect.core.models import Message

pytestmark = pytest.mark.kill


def _in_threads(count: int, work: Callable[[int], None]) -> float:
    """Run the work in so many threads that start together; returns the seconds. Their errors are raised here."""
    start = threading.Barrier(count + 1)
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        start.wait(30)
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again by the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    start.wait(30)
    begun = time.perf_counter()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]
    return time.perf_counter() - begun


def _check_log(location: str, replies: dict[str, int]) -> None:
    """All of them, in a line without a gap, each where its writer was told."""
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


@pytest.mark.alone
def test_threads_that_share_commits_store_four_times_what_one_stores(tmp_path: Path) -> None:
    rounds: list[tuple[float, float]] = []
    for number in range(5):  # other programs disturb a measurement; one undisturbed round is enough
        with Memory(tmp_path / f"{number}.db", worker=False) as memory:

            def work(_: int, memory: Memory = memory) -> None:
                for _ in range(200):
                    memory.add("shared", "user", "A message of usual length, as people write them to each other.")

            alone, together = 200 / _in_threads(1, work), 32 * 200 / _in_threads(32, work)
        rounds.append((alone, together))
        print(f"{alone:,.0f} messages/s from one thread, {together:,.0f} from 32: {together / alone:.1f} times")
        if together >= 4 * alone:
            return
    pytest.fail(f"no round reached four times: {[f'{many / one:.1f}' for one, many in rounds]}")
