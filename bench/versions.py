"""Compares what add, recall and context cost in this tree and in an older commit, in alternating runs.

    python -m bench.versions [--base REV] [--rounds 8] [--messages 3000]

Each run is a process of its own with a fresh store. The embedder is a fake: the model costs the same in both. Processor
time is what counts; the clock of a shared machine changes from minute to minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parents[1]
TALKS: Final = 10
CALLS: Final = 300  # of each kind, in one run
WARM_UP_CALLS: Final = 20
TOLERATED: Final = 1.05
TEXT: Final = """the budget of our garden plan moved to Tuesday because water and paint are late again while Sara and
Omar booked a train to Jeddah with two friends who like coffee rain music and old maps of the harbour near the museum"""


def measure(messages: int) -> dict[str, float]:
    """Return the milliseconds of processor time that one call of each kind takes, in the tree that is imported."""
    from recollect import Memory
    from recollect.testing import FakeClock, FakeEmbedder

    chance, words = random.Random(7), TEXT.split()

    def sentence() -> str:
        return " ".join(chance.choices(words, k=chance.randint(6, 40)))

    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(f"{folder}/store.db", worker=False, embedder=FakeEmbedder(), clock=FakeClock()) as memory,
    ):
        for number in range(TALKS):
            roles = ("user", "assistant")
            rows = [{"role": roles[n % 2], "content": sentence()} for n in range(messages // TALKS)]
            memory.add_many(f"talk {number}", rows)
        memory.drain()
        inputs = [(f"talk {n % TALKS}", sentence()) for n in range(CALLS)]
        return {
            "add": _cost(lambda talk, text: memory.add(talk, "user", text), inputs),
            "recall": _cost(lambda _, text: memory.recall(text), inputs),
            "context": _cost(memory.context, inputs),
        }


def _cost(call: Callable[[str, str], object], inputs: Sequence[tuple[str, str]]) -> float:
    for talk, text in inputs[:WARM_UP_CALLS]:
        call(talk, text)
    start = time.process_time()
    for talk, text in inputs[WARM_UP_CALLS:]:
        call(talk, text)
    return (time.process_time() - start) * 1000 / (len(inputs) - WARM_UP_CALLS)


def run(source: Path, messages: int) -> dict[str, float]:
    """Measure the tree below `source` in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", "--messages", str(messages)]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603 - our own
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(base: Path, *, rounds: int, messages: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return the costs of each kind of call in the older tree and in this one, which take turns at going first."""
    costs: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(rounds):
        trees = [(0, base), (1, ROOT / "src")]
        for side, source in trees if number % 2 else reversed(trees):
            for name, cost in run(source, messages).items():
                costs.setdefault(name, ([], []))[side].append(cost)
    return costs


def report(costs: dict[str, tuple[list[float], list[float]]], base: str) -> bool:
    """Print medians, their ratio and the spread of the ratios of the rounds. Return whether none grew by over 5 %."""
    table = Table("", f"{base}, ms", "this tree, ms", "ratio", "middle half of the rounds", box=None)
    is_kept = True
    for name, (before, after) in costs.items():
        ratio = median(after) / median(before)
        ratios = [new / old for old, new in zip(before, after, strict=True)]
        low, _, high = quantiles(ratios, n=4)
        is_kept = is_kept and ratio <= TOLERATED
        table.add_row(name, f"{median(before):.3f}", f"{median(after):.3f}", f"{ratio:.3f}", f"{low:.2f} to {high:.2f}")
    Console().print(table)
    return is_kept


def main() -> int:
    """Compare, and return 1 if a call costs over 5 % more than before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="HEAD~1", help="the older commit")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.messages)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", arguments.base, "src"], cwd=ROOT, check=True, capture_output=True)  # noqa: S603, S607
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)  # noqa: S603, S607
        costs = compare(Path(folder) / "src", rounds=arguments.rounds, messages=arguments.messages)
    return 0 if report(costs, arguments.base) else 1


if __name__ == "__main__":
    sys.exit(main())
