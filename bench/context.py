"""Measures prompts a second of one process, beside the questions a second that its embedder alone embeds.

    python -m bench.context [--small] [--messages 50000] [--questions 100] [--rounds 3] [--budget 3000]
                            [--data PATH] [--store FILE]

Five people have ten conversations each; every question is asked once. Both sides take turns, so that they see the same
noise. `--store` keeps the database for further runs. What runs in the background does not run here.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench import data
from bench.measures import Report, percentile, resident_mb
from bench.stores import FIRST_MESSAGE_AT, MESSAGES_PER_DAY, MixedEmbedder
from recollect import AsyncMemory
from recollect.core.models import Principal
from recollect.providers.minilm import MiniLM

PEOPLE: Final = 5
TALKS: Final = 10  # conversations of each
LENGTHS: Final = (120, 400)  # characters of what is asked and answered
CALLERS: Final = (1, 2, 4, 8)
ALONE: Final = (1, 2)  # callers of the embedder
BAR, GOAL = 0.5, 0.8


@dataclass(slots=True)
class Spent:
    """Seconds that calls took: each by itself, all together, and of processor time."""

    each: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.each) / self.seconds

    @property
    def busy(self) -> float:
        """Milliseconds of processor time for one."""
        return self.cpu / len(self.each) * 1000

    def add(self, other: Spent) -> None:
        self.each += other.each
        self.seconds, self.cpu = self.seconds + other.seconds, self.cpu + other.cpu

    def cells(self) -> tuple[str, ...]:
        spread = " / ".join(f"{percentile(self.each, share) * 1000:.1f}" for share in (0.5, 0.95, 0.99))
        return f"{self.rate:.0f}", spread, f"{self.busy:.1f}"


async def fill(path: Path, texts: data.Texts, messages: int) -> None:
    """All derived rows are made; vectors are mixtures of real ones."""
    async with AsyncMemory(path, worker=False, embedder=MixedEmbedder.from_texts(texts)) as memory:
        for person in range(PEOPLE):
            own = memory.of(Principal(f"person-{person}"))
            for talk in range(TALKS):
                await own.add_many(f"chat-{talk}", talked(texts, messages // (PEOPLE * TALKS)))
            done = await own.drain()
            if not done.complete:
                raise RuntimeError(f"not everything could be indexed: {done.failed}")


def talked(texts: data.Texts, count: int) -> list[dict[str, str]]:
    return [
        {
            "role": ("user", "assistant")[place % 2],
            "content": texts.text(LENGTHS[place % 2]),
            "at": (
                FIRST_MESSAGE_AT + timedelta(days=place // MESSAGES_PER_DAY, minutes=place % MESSAGES_PER_DAY)
            ).isoformat(),
        }
        for place in range(count)
    ]


async def at_once(callers: int, asked: Sequence[str], call: Callable[[str], Awaitable[object]], spent: Spent) -> None:
    """All questions, by so many callers who each ask one after another."""
    waiting = iter(asked)

    async def caller() -> None:
        for question in waiting:
            start = time.perf_counter()
            await call(question)
            spent.each.append(time.perf_counter() - start)

    start, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    spent.seconds += time.perf_counter() - start
    spent.cpu += time.process_time() - busy


def embed(callers: int, asked: Sequence[str], model: MiniLM, spent: Spent) -> None:
    """The embedder as it is, in threads: nothing else is between."""

    def one(question: str) -> None:
        start = time.perf_counter()
        model.encode([question])
        spent.each.append(time.perf_counter() - start)

    start, busy = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(one, asked))
    spent.seconds += time.perf_counter() - start
    spent.cpu += time.process_time() - busy


async def measure(path: Path, asked: Sequence[str], given: argparse.Namespace) -> tuple[dict[str, Spent], Any]:
    found = {f"embedder alone, {count} at once": Spent() for count in ALONE}
    found |= {f"context(), {count} at once": Spent() for count in CALLERS}
    names, model = list(found), MiniLM()
    questions = cycle(asked)
    async with AsyncMemory(path, worker=False) as memory:
        people = [memory.of(Principal(f"person-{number}")) for number in range(PEOPLE)]
        places = cycle([(person, f"chat-{talk}") for talk in range(TALKS) for person in people])

        async def context(question: str) -> object:
            person, talk = next(places)
            return await person.context(talk, question, budget=given.budget)

        await at_once(1, list(islice(questions, PEOPLE * TALKS)), context, Spent())  # reads all scopes
        began = datetime.now(UTC)
        for _ in range(given.rounds):
            for count, name in zip(ALONE, names[: len(ALONE)], strict=True):
                embed(count, list(islice(questions, given.questions)), model, found[name])
            for count, name in zip(CALLERS, names[len(ALONE) :], strict=True):
                await at_once(count, list(islice(questions, given.questions)), context, found[name])
        stages = (await people[0].metrics(since=began))["ms"]
    return found, stages


def report(console: Console, found: dict[str, Spent], stages: Any, given: argparse.Namespace) -> list[str]:
    table = Report(
        f"context(), {given.messages:,} messages, {given.budget:,} tokens", "a second", "p50 / p95 / p99 ms",
        "CPU ms each", "of the embedder", "by CPU",
    )  # fmt: skip
    alone = [spent for name, spent in found.items() if name.startswith("embedder")]
    best, least = max(one.rate for one in alone), min(one.busy for one in alone)
    ours = [spent for name, spent in found.items() if name.startswith("context")]
    most = max(one.rate for one in ours)
    for name, spent in found.items():
        bar: dict[str, Any] = {}
        if spent.rate == most and spent in ours:
            bar = {"bar": f"≥ {BAR:.0%}, goal {GOAL:.0%}", "met": most / best >= BAR}
        table.add(name, *spent.cells(), f"{spent.rate / best:.0%}", f"{least / spent.busy:.0%}", **bar)
    table.show(console)
    told = ", ".join(f"{name} {ms['p50']:.1f}" for name, ms in stages.items())
    console.print(f"[dim]by stage, all runs, p50 ms: {told}; {resident_mb():.0f} MB[/]")
    return table.missed


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--small", action="store_true", help="a tenth of the messages, one round")
    reader.add_argument("--messages", type=int, help="stored (50,000)")
    reader.add_argument("--questions", type=int, default=100, help="in each round, of each line")
    reader.add_argument("--rounds", type=int, help="(3)")
    reader.add_argument("--budget", type=int, default=3000, help="tokens of a prompt")
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    reader.add_argument("--store", type=Path, help="a database to keep; made if it is not there")
    given = reader.parse_args()
    given.messages = given.messages or (5000 if given.small else 50_000)
    given.rounds = given.rounds or (1 if given.small else 3)
    return given


def main() -> int:
    given = options()
    console = Console(width=None if sys.stdout.isatty() else 150)
    texts = data.Texts(given.data)
    asked = texts.questions(2000)
    with tempfile.TemporaryDirectory() as folder:
        path: Path = given.store or Path(folder) / "context.db"
        if not path.exists():
            console.print(f"[dim]making a store of {given.messages:,} messages …[/]")
            asyncio.run(fill(path, texts, given.messages))
        found, stages = asyncio.run(measure(path, asked, given))
    missed = report(console, found, stages, given)
    if missed:
        console.print(f"[red]missed:[/] {', '.join(missed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
