"""What the log costs: add() against a bare commit on the same disk, throughput, bytes.

    python -m bench.log [--adds 1000] [--folder DIR] [--data FILE.json.gz]

Bare and ours take turns, so that both see the same noise. `--data` takes real conversations in the format of the
shared bench data; without it, text is generated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import apsw

from recollect import Memory


def generated_texts(seed: int = 7) -> Iterator[str]:
    """Chat-like text: about 25 words, common words common and rare words rare."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlucmfwypvbgkjqxz", k=chance.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    while True:
        yield " ".join(chance.choices(words, weights, k=max(3, int(chance.gauss(25, 12)))))


def real_texts(path: Path) -> Iterator[str]:
    with gzip.open(path) as stream:
        conversations = json.load(stream)["conversations"]
    return cycle([m["content"] for c in conversations for m in c["messages"]])


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bare_connection(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, content TEXT)")
    return connection


def latency(folder: Path, texts: Iterator[str], count: int) -> None:
    bare = bare_connection(folder / "bare.db")

    def commit(text: str) -> None:
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO bare (content) VALUES (?)", (text,))
        bare.execute("COMMIT")

    ours: list[float] = []
    theirs: list[float] = []
    with Memory(folder / "ours.db", worker=False) as memory:
        memory.add("warm", "user", "up")
        for text in islice(texts, count):
            theirs.append(timed(partial(commit, text)))
            ours.append(timed(partial(memory.add, "chat", "user", text)))
    bare.close()
    print(f"{'one by one':<28}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}")
    for name, values in (("bare INSERT … COMMIT", theirs), ("add()", ours)):
        shown = "".join(f"{percentile(values, share) * 1000:9.2f}" for share in (0.5, 0.95, 0.99))
        print(f"{name:<28}{shown}")
    ratios = "".join(f"{percentile(ours, s) / percentile(theirs, s):8.2f}×" for s in (0.5, 0.95, 0.99))
    print(f"{'ratio (bar: ≤ 3× at p95)':<28}{ratios}\n")


def threads(folder: Path, texts: Iterator[str], rounds: int = 3) -> None:
    print(f"{'group commit':<28}{'1 thread':>12}{'32 threads':>12}{'ratio (bar: ≥ 4×)':>20}")
    with Memory(folder / "threads.db", worker=False) as memory:
        for number in range(rounds):
            alone = rate(memory, list(islice(texts, 400)), 1)
            together = rate(memory, list(islice(texts, 6400)), 32)
            print(f"{f'round {number + 1}':<28}{alone:10.0f}/s{together:10.0f}/s{together / alone:19.1f}×")
    print()


def rate(memory: Memory, texts: list[str], count: int) -> float:
    def work(part: list[str], place: int) -> None:
        for text in part:
            memory.add(f"chat-{place % 8}", "user", text)

    workers = [threading.Thread(target=work, args=(texts[place::count], place)) for place in range(count)]

    def run() -> None:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return len(texts) / timed(run)


def bulk(folder: Path, texts: Iterator[str], count: int) -> None:
    sample = list(islice(texts, count))
    raw = sum(len(text.encode()) for text in sample)
    with Memory(folder / "bulk.db", worker=False) as memory:

        def fill() -> None:
            for start in range(0, count, 500):
                part = [{"role": "user", "content": text} for text in sample[start : start + 500]]
                memory.add_many(f"chat-{start // 500}", part)

        print(f"{'in bulk':<28}{'messages/s':>12}{'of bare':>9}")
        bare = count / timed(lambda: bare_bulk(folder / "bare-bulk.db", sample))
        print(f"{'bare INSERT, 500 a commit':<28}{bare:12.0f}{1:8.2f}×")
        many = count / timed(fill)
        print(f"{'add_many, 500 a call':<28}{many:12.0f}{many / bare:8.2f}×")
        derived = count / timed(memory.drain)
        print(f"{'derived work (tokens)':<28}{derived:12.0f}{derived / bare:8.2f}×")
        memory.export(folder / "all.ndjson")
        size = memory.stats()["bytes"]
    with Memory(folder / "imported.db", worker=False) as memory:
        speed = count / timed(lambda: memory.import_file(folder / "all.ndjson"))
        print(f"{'import of our own export':<28}{speed:12.0f}{speed / bare:8.2f}×\n")
    print(f"{'bytes per message':<28}{'bytes':>12}{'of text':>9}")
    for name, value in (("raw text", raw), ("database", size), *parts(folder / "bulk.db")):
        print(f"{name:<28}{value / count:12.0f}{value / raw:8.2f}×")


def bare_bulk(path: Path, sample: list[str]) -> None:
    connection = bare_connection(path)
    for start in range(0, len(sample), 500):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(text,) for text in sample[start : start + 500]]
        connection.executemany("INSERT INTO bare (content) VALUES (?)", rows)
        connection.execute("COMMIT")
    connection.close()


def parts(path: Path) -> list[tuple[str, int]]:
    """Where the bytes are, by table and index."""
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
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--adds", type=int, default=1000)
    reader.add_argument("--bulk", type=int, default=20_000)
    reader.add_argument("--folder", help="where to write: the disk that is measured")
    reader.add_argument("--data", type=Path, help="real conversations, *.json.gz")
    options = reader.parse_args()
    texts = real_texts(options.data) if options.data else generated_texts()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        latency(Path(folder), texts, options.adds)
        threads(Path(folder), texts)
        bulk(Path(folder), texts, options.bulk)


if __name__ == "__main__":
    main()
