"""Adds beside erases: how long an add takes on a file of 100 MB while others erase, next to adds without erases.

    python -m bench.erase [--megabytes 100] [--seconds 60]

One thread adds a message every 20 ms, four threads erase a conversation each, again and again. The adds are sent at
fixed moments, so that one which waits delays those after it, as real callers would see.
"""

from __future__ import annotations

import argparse
import importlib
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from recollect import Memory
from recollect.testing import FakeEmbedder

PERIOD_SECONDS = 0.02
sqlite: Any = importlib.import_module("recollect.storage.sqlite")  # its rewrites are timed
ERASERS = 4
MESSAGES = 400  # of a conversation, about half a megabyte


def fill(memory: Memory, path: Path, megabytes: int) -> list[str]:
    """Add conversations until the file has its size. Return their names."""
    chance, names = random.Random(7), list[str]()
    words = ["".join(chance.choices("abcdefghijklmnop", k=6)) for _ in range(5000)]
    while path.stat().st_size < megabytes * 1_000_000:
        names.append(f"c{len(names)}")
        memory.add_many(
            names[-1], [{"role": "user", "content": " ".join(chance.choices(words, k=90))} for _ in range(MESSAGES)]
        )
    return names


def measure_adds(memory: Memory, seconds: float) -> list[float]:
    """Return the milliseconds of adds that are sent at fixed moments, counted from the moment each was due."""
    taken, start = [], time.perf_counter()
    for number in range(int(seconds / PERIOD_SECONDS)):
        due = start + number * PERIOD_SECONDS
        time.sleep(max(0.0, due - time.perf_counter()))
        memory.add("added", "user", f"message number {number}")
        taken.append((time.perf_counter() - due) * 1000)
    return sorted(taken)


def main() -> None:
    """Measure both and print them side by side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    rewrites, erases, stop, rewrite = [], [], threading.Event(), sqlite.rewrite
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with Memory(path, worker=False, embedder=FakeEmbedder()) as memory:
            names = fill(memory, path, options.megabytes)
            print(f"{path.stat().st_size / 1e6:.0f} MB, {len(names) * MESSAGES:,} messages", flush=True)
            alone = measure_adds(memory, min(20.0, options.seconds))

            def timed_rewrite(connection: object) -> None:
                start = time.perf_counter()
                rewrite(connection)
                rewrites.append(time.perf_counter() - start)

            def erase(own: list[str]) -> None:
                while own and not stop.is_set():
                    start = time.perf_counter()
                    if not memory.erase(conversation=own.pop()).pending:
                        erases.append(time.perf_counter() - start)

            sqlite.rewrite = timed_rewrite
            erasers = [threading.Thread(target=erase, args=(names[n::ERASERS],)) for n in range(ERASERS)]
            for thread in erasers:
                thread.start()
            beside = measure_adds(memory, options.seconds)
            stop.set()
            memory._engine._components.driver._purges.close()  # type: ignore[attr-defined]
            for thread in erasers:
                thread.join()
            sqlite.rewrite = rewrite
    for name, taken in (("alone", alone), ("beside erases", beside)):
        print(f"add {name:14} p50 {_at(taken, 50):8.1f} ms   p95 {_at(taken, 95):8.1f} ms   max {taken[-1]:8.1f} ms")
    print(f"ratio of the p95: {_at(beside, 95) / _at(alone, 95):.1f}x")
    print(f"{len(erases)} erases done, {len(rewrites)} rewrites of {max(rewrites, default=0):.2f} s at most")


def _at(values: list[float], percent: int) -> float:
    return values[min(len(values) - 1, len(values) * percent // 100)]


if __name__ == "__main__":
    main()
