"""Measures the log: add() beside a bare commit on the same disk, throughput, bytes.

    python -m bench.log [--adds 1000] [--folder DIR] [--data FILE.json.gz]

Bare commits and adds take turns, so that both see the same noise. `--data` takes real conversations in the format of
the shared bench data; without it, text is generated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import apsw

from bench.measures import percentile, time_call
from recollect import Memory


def generated_texts(seed: int = 7) -> Iterator[str]:
    """Yield chat-like texts of about 25 words. Words are as common and as rare as in real text (Zipf's law)."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    while True:
        yield " ".join(rng.choices(words, weights, k=max(3, int(rng.gauss(25, 12)))))


def real_texts(path: Path) -> Iterator[str]:
    """Yield the messages of a file of conversations, again and again."""
    with gzip.open(path) as stream:
        conversations = json.load(stream)["conversations"]
    return cycle([message["content"] for conversation in conversations for message in conversation["messages"]])


def open_bare_database(path: Path) -> apsw.Connection:
    """Open an SQLite database with one plain table, as safe against power loss as ours."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, content TEXT)")
    return connection


def measure_latency(folder: Path, texts: Iterator[str], count: int) -> None:
    """Print the latency of single adds beside that of bare commits."""
    bare = open_bare_database(folder / "bare.db")

    def commit(text: str) -> None:
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO bare (content) VALUES (?)", (text,))
        bare.execute("COMMIT")

    ours: list[float] = []
    theirs: list[float] = []
    with Memory(folder / "ours.db", worker=False) as memory:
        memory.add("warm", "user", "up")
        for text in islice(texts, count):
            theirs.append(time_call(partial(commit, text)))
            ours.append(time_call(partial(memory.add, "chat", "user", text)))
    bare.close()
    print(f"{'one by one':<28}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}")
    for name, values in (("bare INSERT … COMMIT", theirs), ("add()", ours)):
        cells = "".join(f"{percentile(values, share) * 1000:9.2f}" for share in (0.5, 0.95, 0.99))
        print(f"{name:<28}{cells}")
    ratios = "".join(f"{percentile(ours, share) / percentile(theirs, share):8.2f}×" for share in (0.5, 0.95, 0.99))
    print(f"{'ratio (bar: ≤ 3× at p95)':<28}{ratios}\n")


def measure_threads(folder: Path, texts: Iterator[str], rounds: int = 3) -> None:
    """Print how many adds a second one thread makes, and 32 threads that share commits."""
    print(f"{'group commit':<28}{'1 thread':>12}{'32 threads':>12}{'ratio (bar: ≥ 4×)':>20}")
    with Memory(folder / "threads.db", worker=False) as memory:
        for number in range(rounds):
            alone = adds_per_second(memory, list(islice(texts, 400)), 1)
            together = adds_per_second(memory, list(islice(texts, 6400)), 32)
            print(f"{f'round {number + 1}':<28}{alone:10.0f}/s{together:10.0f}/s{together / alone:19.1f}×")
    print()


def adds_per_second(memory: Memory, texts: list[str], thread_count: int) -> float:
    """Add the texts from so many threads and return the adds per second."""

    def work(part: list[str], number: int) -> None:
        for text in part:
            memory.add(f"chat-{number % 8}", "user", text)

    workers = [
        threading.Thread(target=work, args=(texts[number::thread_count], number)) for number in range(thread_count)
    ]

    def run() -> None:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return len(texts) / time_call(run)


def measure_bulk(folder: Path, texts: Iterator[str], count: int) -> None:
    """Print the speed of adds in bulk, derived work and imports, and the bytes of the database."""
    sample = list(islice(texts, count))
    raw = sum(len(text.encode()) for text in sample)
    with Memory(folder / "bulk.db", worker=False) as memory:

        def fill() -> None:
            for start in range(0, count, 500):
                part = [{"role": "user", "content": text} for text in sample[start : start + 500]]
                memory.add_many(f"chat-{start // 500}", part)

        print(f"{'in bulk':<28}{'messages/s':>12}{'of bare':>9}")
        bare = count / time_call(lambda: fill_bare_database(folder / "bare-bulk.db", sample))
        print(f"{'bare INSERT, 500 a commit':<28}{bare:12.0f}{1:8.2f}×")
        many = count / time_call(fill)
        print(f"{'add_many, 500 a call':<28}{many:12.0f}{many / bare:8.2f}×")
        derived = count / time_call(memory.drain)
        print(f"{'derived work (tokens)':<28}{derived:12.0f}{derived / bare:8.2f}×")
        memory.export(folder / "all.ndjson")
        size = memory.stats()["bytes"]
    with Memory(folder / "imported.db", worker=False) as memory:
        speed = count / time_call(lambda: memory.import_file(folder / "all.ndjson", own=True))
        print(f"{'import of our own export':<28}{speed:12.0f}{speed / bare:8.2f}×\n")
    print(f"{'bytes per message':<28}{'bytes':>12}{'of text':>9}")
    for name, value in (("raw text", raw), ("database", size), *largest_tables(folder / "bulk.db")):
        print(f"{name:<28}{value / count:12.0f}{value / raw:8.2f}×")


def fill_bare_database(path: Path, sample: list[str]) -> None:
    """Insert the texts into a plain table, 500 in each commit."""
    connection = open_bare_database(path)
    for start in range(0, len(sample), 500):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(text,) for text in sample[start : start + 500]]
        connection.executemany("INSERT INTO bare (content) VALUES (?)", rows)
        connection.execute("COMMIT")
    connection.close()


def largest_tables(path: Path) -> list[tuple[str, int]]:
    """Return the six largest tables and indexes with their bytes."""
    connection = apsw.Connection(str(path))
    sizes: dict[str, int] = {}
    for name, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
        label = (
            "full text" if str(name).startswith("message_words") else str(name).replace("sqlite_autoindex_", "index ")
        )
        sizes[label] = sizes.get(label, 0) + int(size or 0)
    connection.close()
    return [(f"  {name}", size) for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:6]]


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=1000)
    parser.add_argument("--bulk", type=int, default=20_000)
    parser.add_argument("--folder", help="where to write: the disk that is measured")
    parser.add_argument("--data", type=Path, help="real conversations, *.json.gz")
    options = parser.parse_args()
    texts = real_texts(options.data) if options.data else generated_texts()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure_latency(Path(folder), texts, options.adds)
        measure_threads(Path(folder), texts)
        measure_bulk(Path(folder), texts, options.bulk)


if __name__ == "__main__":
    main()
