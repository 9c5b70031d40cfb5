"""Measures how well messages are grouped into topics, beside simpler methods, and tunes the numbers of `MatchRules`.

    python -m bench.topics [--data FOLDER] [--cache build/bench_vectors.npz] [--seed N]

There is no public set of long chats whose topics are known, so conversations are made (`bench.topic_threads`). Numbers
were tuned on the even half of the sources; the figures that count are those of the odd half, the held half. The data
lie outside this repository. A second run is quick: vectors are kept in the cache.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import data
from bench.cache import CachedEmbedder
from bench.measures import percentile
from bench.topic_groupings import (
    BASELINES,
    Method,
    assign_all,
    match_topics,
    measure,
    nearest_thread_share,
    threshold_rule,
)
from bench.topic_threads import Talk, Thread, interleave, load_threads
from recollect import Memory
from recollect.testing import FakeEmbedder
from recollect.topics.matcher import MICROS_PER_MINUTE, Matcher, MatchRules, calibrated_rules, find_related

CACHE: Final = Path("build/bench_vectors.npz")
CONVERSATIONS: Final = 40  # made of each half of a set
THREADS: Final = {  # the smallest and the largest number of threads in a conversation
    "lme_pool": (4, 24),
    "lme_s_samples": (8, 20),
    "beam_100k": (3, 5),
    "dialogsum": (4, 24),
    "locomo": (4, 12),
}
TUNED_SETS: Final = ("lme_pool", "beam_100k", "dialogsum", "locomo")
THRESHOLDS: Final = tuple(n / 20 for n in range(2, 15))
TOPIC_COUNTS: Final = (10, 100, 1000)
ADDED_MESSAGES: Final = 1200
MAX_ADD_OVERHEAD_MS: Final = 1.0


def new_table(title: str, *columns: str) -> Table:
    """Return an empty table. Columns of names are aligned to the left, columns of numbers to the right."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("", "set") else "right")
    return table


def print_thresholds(console: Console, tuned: Mapping[str, Sequence[Talk]], rules: MatchRules) -> float:
    """Print the score by threshold on the tuned half. Return the best threshold of the plain rule."""
    best = 0.0
    methods: tuple[tuple[str, Callable[[float], Method]], ...] = (
        ("plain rule", threshold_rule),
        ("ours", lambda threshold: match_topics(replace(rules, threshold=threshold))),
    )
    for title, method in methods:
        table = new_table(
            f"{title}, by threshold: (V + ARI) / 2 on the tuned half", "threshold", *tuned, "mean", "topics"
        )
        means = {}
        for threshold in THRESHOLDS:
            row = [measure(talks, method(threshold)) for talks in tuned.values()]
            means[threshold] = float(np.mean([figures.score for figures in row]))
            ratio = float(np.mean([figures.found_topics / figures.true_topics for figures in row]))
            cells = [f"{figures.score:.3f}" for figures in row]
            table.add_row(f"{threshold:.2f}", *cells, f"{means[threshold]:.3f}", f"× {ratio:.2f}")
        top = max(means, key=lambda threshold: means[threshold])
        if title == "plain rule":
            best = top
        console.print(table, f"best at {top:.2f}\n")
    return best


def print_figures(
    console: Console, title: str, sets: Mapping[str, Sequence[Talk]], methods: Mapping[str, Method]
) -> None:
    """Print the figures of each method on each set."""
    table = new_table(title, "set", "", "V", "homogeneity", "completeness", "ARI", "topics found : true")
    for name, talks in sets.items():
        for method, group in methods.items():
            figures = measure(talks, group)
            ratio = f"{figures.found_topics:.1f} : {figures.true_topics:.1f}"
            values = (figures.v, figures.homogeneity, figures.completeness, figures.rand)
            cells = [f"{value:.3f}" for value in values]
            table.add_row(name if method == next(iter(methods)) else "", method, *cells, ratio)
        table.add_section()
    console.print(table)


def print_separability(console: Console, held: Mapping[str, Sequence[Talk]]) -> None:
    """Print how well vectors alone could tell the threads apart."""
    table = new_table("held user messages that are nearest to the rest of their own thread", "set", "share")
    for name, talks in held.items():
        table.add_row(name, f"{np.mean([nearest_thread_share(talk) for talk in talks]):.2f}")
    console.print(table)


def minute_steps(count: int) -> list[int]:
    """Return times in microseconds, a minute apart."""
    return [MICROS_PER_MINUTE * n for n in range(count)]


def print_single_threads(console: Console, threads: Mapping[str, Sequence[Thread]], rules: MatchRules) -> None:
    """Print into how many topics threads fall that nothing interrupts. Each should be one topic."""
    table = new_table("held threads alone", "set", "messages", "topics", "share of the largest", "one topic")
    for name, threads_of_set in threads.items():
        held = [thread.messages for thread in threads_of_set if thread.half == 1]
        groupings = [assign_all(messages, minute_steps(len(messages)), rules)[0] for messages in held]
        sizes = [np.bincount(grouping) for grouping in groupings]
        largest = float(np.mean([counts.max() / counts.sum() for counts in sizes]))
        topic_counts = [len(counts) for counts in sizes]
        whole = float(np.mean([count == 1 for count in topic_counts]))
        length = float(np.mean([len(messages) for messages in held]))
        table.add_row(name, f"{length:.1f}", f"{np.mean(topic_counts):.2f}", f"{largest:.2f}", f"{whole:.2f}")
    console.print(table)


def print_proposals(console: Console, held: Mapping[str, Sequence[Talk]], rules: MatchRules) -> None:
    """Print how many pairs of topics are proposed for merging, and how many of them are mostly of one thread."""
    levels = (0.2, 0.3, 0.4, 0.5)
    table = new_table("pairs proposed in a conversation, and how many are of one thread", "set", *map(str, levels))
    for name, talks in held.items():
        pairs: list[tuple[float, bool]] = []
        for talk in talks:
            grouping, matcher = assign_all(talk.messages, talk.at["some"], rules)
            main_threads = [np.bincount(talk.threads[grouping == topic]).argmax() for topic in range(len(matcher))]
            for first, second, similarity in find_related(matcher.centroids, replace(rules, merge_threshold=levels[0])):
                pairs.append((similarity, bool(main_threads[first] == main_threads[second])))
        cells = []
        for level in levels:
            right = [is_same for similarity, is_same in pairs if similarity >= level]
            cells.append(f"{len(right) / len(talks):.2f}, {np.mean(right):.0%}" if right else "0")
        table.add_row(name, *cells)
    console.print(table)


def print_matcher_times(console: Console, rules: MatchRules, dimensions: int, seed: int) -> None:
    """Print the time to assign a message beside the bare product of all centroids and a vector."""
    rng = np.random.default_rng(seed)
    table = new_table("microseconds for a user message, p50 / p95", "topics", "assign", "bare product")
    for topic_count in TOPIC_COUNTS:
        vectors = rng.normal(size=(400, dimensions)).astype(np.float32)
        matcher = Matcher(replace(rules, threshold=-2.0), rng.normal(size=(topic_count, dimensions)).astype(np.float32))
        centroids = matcher.centroids.copy()
        matcher_times, product_times = [], []
        for number, vector in enumerate(vectors):
            start = time.perf_counter()
            matcher.assign(vector, role="user", words=9, at=number)
            middle = time.perf_counter()
            centroids @ vector
            matcher_times.append(middle - start)
            product_times.append(time.perf_counter() - middle)
        cells = [
            f"{percentile(times, 0.5) * 1e6:.0f} / {percentile(times, 0.95) * 1e6:.0f}"
            for times in (matcher_times, product_times)
        ]
        table.add_row(str(topic_count), *cells)
    console.print(table)


def print_add_times(console: Console, folder: Path, seed: int) -> bool:
    """Print the time of add() while the worker assigns and folds, and while it does not. Return True if it is within
    the bar."""
    conversations = data.load(folder, "locomo", max_conversations=3)
    texts = [message["content"] for conversation in conversations for message in conversation.messages]
    texts = texts[:ADDED_MESSAGES]
    times: dict[bool, list[float]] = {True: [], False: []}
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        paths = {with_topics: Path(temporary) / f"{with_topics}.db" for with_topics in times}
        memories = {
            with_topics: stack.enter_context(Memory(path, embedder=FakeEmbedder()))
            for with_topics, path in paths.items()
        }
        work = memories[False]._engine._work
        for worker in (work.indexing, work.summarising):
            worker._jobs = [job for job in worker._jobs if job.name not in ("topics", "folded")]
        for number, text in enumerate(texts):
            role = ("user", "assistant")[number % 2]
            for with_topics in rng.sample((True, False), 2):  # in turn, so that both see the same noise
                start = time.perf_counter()
                memories[with_topics].add("talk", role, text)
                times[with_topics].append(time.perf_counter() - start)
            time.sleep(0.002)
        work_times = measure_work(Path(temporary) / "alone.db", texts)
    table = new_table("milliseconds of add(), worker running", "", "p50", "p95", "mean")
    for with_topics, name in ((False, "without topics"), (True, "with topics")):
        values = times[with_topics]
        seconds = (percentile(values, 0.5), percentile(values, 0.95), np.mean(values))
        table.add_row(name, *(f"{1000 * value:.2f}" for value in seconds))
    overhead_ms = 1000 * (percentile(times[True], 0.5) - percentile(times[False], 0.5))
    table.caption = f"topics add {overhead_ms:+.2f} ms to the middle add (bar {MAX_ADD_OVERHEAD_MS:.0f}); {work_times}"
    console.print(table)
    return overhead_ms <= MAX_ADD_OVERHEAD_MS


def measure_work(path: Path, texts: Sequence[str]) -> str:
    """Return a sentence with the processor time that assigning and folding take for each message."""
    with Memory(path, worker=False, embedder=FakeEmbedder()) as memory:
        rows = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
        memory.add_many("talk", rows)
        work = memory._engine._work
        milliseconds = []
        for worker, names in ((work.indexing, ("index", "vectors")), (work.indexing, ("topics",)),
                              (work.summarising, ("folded",))):  # fmt: skip
            all_jobs, worker._jobs = worker._jobs, [job for job in worker._jobs if job.name in names]
            start = time.process_time()
            memory._wait(worker.drain())
            milliseconds.append(1000 * (time.process_time() - start) / len(texts))
            worker._jobs = all_jobs
        topic_count = len(memory.topics("talk"))
    _, assigning, folding = milliseconds
    return (
        f"a message costs {assigning:.2f} ms to assign and {folding:.2f} ms to fold, of processor time"
        f" ({topic_count} topics)"
    )


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    parser.add_argument("--seed", type=int, default=7, help="of the random numbers")
    return parser.parse_args()


def main() -> int:
    """Run all measurements. Return 1 if a bar is missed."""
    options = parse_options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    embedder = CachedEmbedder(options.cache)
    rules = calibrated_rules(embedder.name)
    threads = {name: load_threads(options.data, name, embedder) for name in THREADS}
    embedder.save()
    talks: dict[int, dict[str, list[Talk]]] = {0: {}, 1: {}}
    for half, sets in talks.items():
        for name in THREADS if half else TUNED_SETS:
            rng = random.Random(f"{options.seed} {name} {half}")
            threads_of_half = [thread for thread in threads[name] if thread.half == half]
            sets[name] = [interleave(threads_of_half, THREADS[name], rng) for _ in range(CONVERSATIONS)]
    console.print(f"{embedder.name}: {rules}\n")
    best = print_thresholds(console, talks[0], rules)
    methods = {
        "ours": match_topics(rules),
        "ours, pauses at all borders": match_topics(rules, "all"),
        "ours, no pauses": match_topics(rules, "none"),
        f"plain rule at {best:.2f}": threshold_rule(best),
        **BASELINES,
    }
    print_figures(console, "held half", talks[1], methods)
    print_figures(console, "tuned half", talks[0], methods)
    print_separability(console, talks[1])
    print_single_threads(console, threads, rules)
    print_proposals(console, talks[1], rules)
    print_matcher_times(console, rules, embedder.dimensions, options.seed)
    return 0 if print_add_times(console, options.data, options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
