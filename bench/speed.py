"""Measures what recall and indexing cost, beside the bare parts they are made of, in the same run.

    python -m bench.speed [--small] [--messages 100000] [--times 10] [--parts recall first context ingest adds sizes]
                          [--data PATH] [--folder DIR]

`--small` is a tenth, for a quick look; its figures are not those the bars are about. Texts are real messages with
their words mixed (generated ones without data), vectors are mixtures of real ones. Times are p50 / p95 in milliseconds;
those of processor time (CPU) hold all threads, and hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from bench import data
from bench.adapter import Adapter
from bench.baselines import match_expression
from bench.log import open_bare_database
from bench.measures import Report, Times, resident_mb, table_bytes, time_call, time_in_turn
from bench.stores import CONVERSATION_MESSAGES, MixedEmbedder, copy_to_more_people, fill_store, unite_people
from recollect import Memory
from recollect.core.language.analyser import STOP_WORDS
from recollect.core.models import Recalled
from recollect.providers.minilm import MiniLM
from recollect.recall.vector_job import embedded_texts

PARTS: Final = ("recall", "first", "context", "ingest", "adds", "sizes")
SHORT, LONG = 120, 400  # characters of a message
LIMIT: Final = 10  # hits
FILLED: Final = 100_000  # messages of a store that are made one by one; those of a larger one are copies
OPENINGS: Final = 3  # of which the median counts
FIRST_MS: Final = 3.0  # of the first question, for a thousand messages
BUDGETS: Final = (500, 1000, 3000)  # tokens of a prompt

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scale:
    messages: int
    times: int
    questions: int
    ingest: int
    adds: int


@dataclass(slots=True)
class Asked:
    """Asks a memory, and keeps what it said of its stages and of how far it had to look."""

    memory: Memory
    conversation: str | None = None
    stages: list[dict[str, float]] = field(default_factory=list)
    scopes: list[int] = field(default_factory=list)

    def __call__(self, question: str) -> Recalled:
        found = self.memory.recall(question, conversation=self.conversation, limit=LIMIT)
        self.stages.append(found.metrics["ms"])
        self.scopes.append(found.metrics["scope"])
        return found

    def by_stage(self, share: float = 0.5) -> str:
        names = [name for name in self.stages[0] if name != "total"]
        at = [Times([one[name] / 1000 for one in self.stages]).ms(share) for name in names]
        return ", ".join(f"{name} {ms:.1f}" for name, ms in zip(names, at, strict=True))


class BareWords:
    """FTS5 as one would use it for this: a word for the conversation beside the text, no stop words, a LIMIT."""

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        self._db = apsw.Connection(str(path))
        self._db.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (scope, body, content = '', tokenize = 'porter unicode61')"
        )
        self._db.execute("BEGIN")
        rows = [(place, f"chat{place // CONVERSATION_MESSAGES}", text) for place, text in enumerate(texts)]
        self._db.executemany("INSERT INTO words (rowid, scope, body) VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def find(self, question: str, scope: int | None = None) -> list[Any]:
        telling = [word for word in re.findall(r"\w+", question.lower()) if word not in STOP_WORDS]
        asked = f"body : ({match_expression(' '.join(telling) or question)})"
        if scope is not None:
            asked = f'scope : "chat{scope}" AND {asked}'
        return list(self._db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 100", (asked,)))

    def close(self) -> None:
        self._db.close()


def product(matrix: Floats, query: Floats) -> object:
    """The bare comparison of vectors, with the best hundred in order."""
    scores = matrix @ query
    best = np.argpartition(-scores, 100)[:100]
    return best[np.argsort(-scores[best])]


def recall(console: Console, folder: Path, texts: data.Texts, scale: Scale) -> list[str]:
    console.print(f"[dim]making a store of {scale.messages:,} messages …[/]")
    embedder = MixedEmbedder.from_texts(texts)
    sample = [texts.text(SHORT) for _ in range(scale.messages)]
    names = fill_store(folder / "one.db", sample, embedder)
    words = BareWords(folder / "bare.db", sample)
    matrix = embedder.mix(scale.messages)
    report = Report(
        f"recall, {scale.messages:,} messages of one person", "bare", "ours", "ours/bare", "CPU", "cold", "MB"
    )
    asked = texts.questions(4 * scale.questions + 12)
    model = MiniLM()
    alone = time_in_turn(asked[: scale.questions], {"embed": lambda text: model.encode([text])})["embed"]
    report.add("embedding a question", str(alone))
    in_conversation(report, folder / "one.db", names, asked, scale, words, matrix)
    person = in_person(report, folder / "one.db", asked, scale, words, matrix)
    words.close()
    report.show(console)
    console.print(f"[dim]person by stage, p50: {person.by_stage()}; p95: {person.by_stage(0.95)}[/]\n")
    larger = Report(
        f"in larger stores, {scale.messages * scale.times:,} messages",
        "the same alone",
        "here",
        "ratio",
        "CPU",
        "cold",
        "MB",
    )
    multiplied(console, larger, folder, asked, scale, embedder)
    return [*report.missed, *larger.missed]


def in_conversation(
    report: Report,
    path: Path,
    names: Sequence[str],
    asked: Sequence[str],
    scale: Scale,
    words: BareWords,
    matrix: Floats,
) -> None:
    """One conversation again and again, then another one each time."""
    model = MiniLM()
    place = len(names) // 2
    part = matrix[:CONVERSATION_MESSAGES]
    before = resident_mb()
    with Memory(path, worker=False) as memory:
        ours = Asked(memory, names[place])
        cold = time_call(partial(ours, asked[-1]))
        ours(asked[-2])
        found = time_in_turn(
            asked[: scale.questions],
            {
                "embed": lambda text: model.encode([text]),
                "words": lambda text: words.find(text, place),
                "product": lambda text: product(part, part[0]),
                "ours": ours,
            },
        )
        bare = found["embed"] + found["words"] + found["product"]
        within = found["ours"].ms(0.95) <= 25
        ours_cells = (*against(found["ours"], bare), found["ours"].busy)
        report.add("in a conversation", str(bare), *ours_cells, f"{cold * 1000:.0f}", f"{resident_mb() - before:+.0f}",
                   bar="p95 ≤ 25 ms", met=within)  # fmt: skip
        goal = found["embed"].ms(0.95) + 5
        report.add("  goal: embedding + 5 ms", "", f"{found['ours'].ms(0.95):.1f}",
                   bar=f"p95 ≤ {goal:.1f} ms", met=None)  # fmt: skip
        wide = sum(size > CONVERSATION_MESSAGES for size in ours.scopes) / len(ours.scopes)
        report.add("  asked others too", "", f"{wide:.0%}")
        report.add("  by stage, p50", "", ours.by_stage())
    with Memory(path, worker=False) as memory:
        memory.recall(asked[-1], conversation=names[0], limit=LIMIT)
        times = Times()
        for name, question in zip(islice(names, 1, None), asked[scale.questions : 2 * scale.questions], strict=False):
            times.seconds.append(time_call(partial(memory.recall, question, conversation=name, limit=LIMIT)))
        report.add("  another one each time", "", str(times))
    report.section()


def in_person(
    report: Report, path: Path, asked: Sequence[str], scale: Scale, words: BareWords, matrix: Floats
) -> Asked:
    model = MiniLM()
    before = resident_mb()
    with Memory(path, worker=False) as memory:
        ours = Asked(memory)
        cold = time_call(partial(ours, asked[-3]))
        ours(asked[-4])
        ours.stages.clear()
        found = time_in_turn(
            asked[: scale.questions],
            {
                "embed": lambda text: model.encode([text]),
                "words": words.find,
                "product": lambda text: product(matrix, matrix[0]),
                "ours": ours,
            },
        )
        bare = found["embed"] + found["words"] + found["product"]
        met = found["ours"].ms(0.5) <= 60 and found["ours"].ms(0.95) <= 120
        ours_cells = (*against(found["ours"], bare), found["ours"].busy)
        report.add("over the person", str(bare), *ours_cells, f"{cold * 1000:.0f}", f"{resident_mb() - before:+.0f}",
                   bar="p50 ≤ 60, p95 ≤ 120 ms", met=met)  # fmt: skip
        for name, label in (("embed", "embedding"), ("words", "FTS5"), ("product", "matrix product")):
            report.add(f"  bare {label}", str(found[name]))
        return ours


def against(ours: Times, bare: Times) -> tuple[str, str]:
    return str(ours), f"{ours.ms(0.5) / bare.ms(0.5):.2f}× / {ours.ms(0.95) / bare.ms(0.95):.2f}×"


def multiplied(
    console: Console, report: Report, folder: Path, asked: Sequence[str], scale: Scale, embedder: MixedEmbedder
) -> None:
    """Measure one person among others, then all of them as one person."""
    console.print(f"[dim]making it {scale.times} times as large …[/]")
    shutil.copyfile(folder / "one.db", folder / "many.db")
    copy_to_more_people(folder / "many.db", scale.times, embedder)
    with Memory(folder / "one.db", worker=False) as alone:
        kinds = ((f"that person among {scale.times}", 1.5, 2), (f"one person with {scale.times} times", 6.0, 3))
        for name, limit, part in kinds:  # other questions each time: vectors of questions are remembered
            if part == 3:
                unite_people(folder / "many.db")
            before = resident_mb()
            with Memory(folder / "many.db", worker=False) as memory:
                calls = {"alone": Asked(alone), "here": Asked(memory)}
                cold = time_call(partial(calls["here"], asked[-5 - 2 * part]))
                calls["alone"](asked[-5 - 2 * part])
                for call in calls.values():
                    call(asked[-6 - 2 * part])
                found = time_in_turn(asked[part * scale.questions : (part + 1) * scale.questions], calls)
                ratios = [found["here"].ms(share) / found["alone"].ms(share) for share in (0.5, 0.95)]
                report.add(name, str(found["alone"]), str(found["here"]), f"{ratios[0]:.2f}× / {ratios[1]:.2f}×",
                           found["here"].busy, f"{cold * 1000:.0f}", f"{resident_mb() - before:+.0f}",
                           bar=f"≤ {limit:g}×", met=max(ratios) <= limit)  # fmt: skip
                report.add("  by stage, p50", calls["alone"].by_stage(), calls["here"].by_stage())
    report.show(console)


def first(console: Console, folder: Path, texts: data.Texts, scale: Scale) -> list[str]:
    """The first question after opening, with segments and without, beside the bare read of the same bytes."""
    console.print(f"[dim]making a store of {scale.messages:,} messages …[/]")
    path, embedder = folder / "first.db", MixedEmbedder.from_texts(texts, 300)
    fill_store(path, [texts.text(SHORT) for _ in range(min(scale.messages, FILLED))], embedder)
    if scale.messages > FILLED:
        copy_to_more_people(path, scale.messages // FILLED, embedder)
        unite_people(path)
        with Memory(path, worker=False, embedder=embedder) as memory:
            packing = time_call(memory.drain)
            console.print(f"[dim]segments of the copies were packed in {packing:.1f} s[/]")
    connection = apsw.Connection(str(path))
    made = table_bytes(connection)["segments"] / scale.messages
    report = Report(
        f"first question, {scale.messages:,} messages",
        "bare read, ms",
        "load, ms",
        "all, ms",
        "CPU, ms",
        "2nd, ms",
        "MB",
    )
    with Memory(folder / "empty.db", worker=False) as memory:
        memory.recall("which modules does a question need?")  # they are loaded now
    limit = FIRST_MS * max(scale.messages, FILLED) / 1000
    asked = texts.questions(4 * OPENINGS)
    _open_and_ask(report, "with segments", path, asked[: 2 * OPENINGS], ("segments.body",), limit)
    connection.execute("DELETE FROM segments")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    _open_and_ask(report, "without", path, asked[2 * OPENINGS :], ("entries.words", "vectors.vectors"), None)
    report.add(f"  segments take {made:.0f} bytes per message")
    report.show(console)
    return report.missed


def _open_and_ask(
    report: Report, name: str, path: Path, asked: Sequence[str], columns: Sequence[str], limit: float | None
) -> None:
    firsts, busy, loads, seconds, bare, grown = [], [], [], [], [], []
    for one, other in zip(asked[::2], asked[1::2], strict=True):
        bare.append(time_call(partial(_read_columns, path, columns)))
        before = resident_mb()
        with Memory(path, worker=False) as memory:
            ours, cpu = Asked(memory), time.process_time()
            firsts.append(time_call(partial(ours, one)))
            busy.append(time.process_time() - cpu)
            loads.append(ours.stages[0]["load"] / 1000)
            grown.append(resident_mb() - before)
            seconds.append(time_call(partial(ours, other)))
    times = [f"{median(values) * 1000:.0f}" for values in (bare, loads, firsts, busy, seconds)]
    goal: dict[str, Any] = {}
    if limit is not None:
        goal = {"bar": f"≤ {limit:.0f} ms", "met": median(firsts) * 1000 <= limit}
    report.add(name, *times, f"{max(grown):+.0f}", **goal)


def _read_columns(path: Path, columns: Sequence[str]) -> None:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for column in columns:
        table, name = column.split(".")
        connection.execute(f"SELECT {name} FROM {table}").fetchall()  # noqa: S608 - our own names
    connection.close()


# Writing.


def ingest(console: Console, folder: Path, texts: data.Texts, scale: Scale, given: Path) -> list[str]:
    """Words and vectors of real messages against the embedder alone; both take turns, one conversation or four at once.
    Briefs are made afterwards, as the worker does it without a model."""
    messages = real_messages(given, texts, scale.ingest)
    report = Report(
        f"ingest, {len(messages):,} messages, passages/s", "embedder alone", "words and vectors", "ratio", "by CPU"
    )
    model = MiniLM()
    model.encode(["warm"])
    folding = 0.0
    spent = {"one conversation": [0.0] * 5, "four at once": [0.0] * 5}  # seconds, passages, seconds of CPU
    with Memory(folder / "ingest.db", worker=False) as memory:
        memory.add("warm", "user", "up")
        memory.drain()
        step = min(500, len(messages) // 2)
        for round_, start in enumerate(range(0, len(messages), step)):
            part = messages[start : start + step]
            kind, count = (("one conversation", 1), ("four at once", 4))[round_ % 2]
            pieces = [text for one in part for text in embedded_texts(one["content"])]
            for place in range(count):
                some = [{"role": one["role"], "content": one["content"]} for one in part[place::count]]
                memory.add_many(f"{start}-{place}", some)
            runs: list[Callable[[], object]] = [partial(model.encode, pieces), partial(memory.drain, briefs=False)]
            for which in (0, 1) if round_ % 4 < 2 else (1, 0):
                busy = time.process_time()
                spent[kind][which] += time_call(runs[which])
                spent[kind][3 + which] += time.process_time() - busy
            spent[kind][2] += len(pieces)
            folding += time_call(memory.drain)
    totals = [sum(values) for values in zip(*spent.values(), strict=True)]
    for name, (bare, ours, pieces_, *cpu) in {**spent, "all": totals}.items():
        if pieces_:
            ratio = bare / ours
            bar = {"bar": "≥ 0.90×", "met": ratio >= 0.9} if name == "all" else {}
            report.add(
                name,
                f"{pieces_ / bare:.0f}",
                f"{pieces_ / ours:.0f}",
                f"{ratio:.2f}×",
                f"{cpu[0] / cpu[1]:.2f}×",
                **bar,
            )
    report.add("  and briefs afterwards", "", "", f"{totals[0] / (totals[1] + folding):.2f}×")
    report.show(console)
    return report.missed


def context(console: Console, texts: data.Texts, scale: Scale, given: Path) -> list[str]:
    """A prompt at several budgets, beside recall alone, in a conversation with a brief."""
    report = Report("context() in one conversation", "recall()", *(f"context, {budget:,} tokens" for budget in BUDGETS))
    if not texts.are_real:
        return report.missed
    for name in ("locomo", "lme_pool"):
        one = data.load(given, name, max_conversations=1)[0]
        adapter = Adapter(MixedEmbedder.from_texts(texts, 50))
        adapter.add(one.id, one.messages)
        memory = adapter.memory
        questions = [question.text for question in one.questions][: scale.questions]
        calls: dict[str, Callable[[str], object]] = {"recall": partial(memory.recall, conversation=one.id)}
        calls |= {str(budget): partial(memory.context, one.id, budget=budget) for budget in BUDGETS}
        time_in_turn(questions[:3], calls)  # warm
        found = time_in_turn(questions, calls)
        report.add(f"{name}, {len(one.messages)} messages", *(str(times) for times in found.values()))
        ratios = [found[str(budget)].ms(0.5) / found["recall"].ms(0.5) for budget in BUDGETS]
        report.add("  against recall, p50", "", *(f"{ratio:.1f}×" for ratio in ratios))
        adapter.close()
    report.show(console)
    return report.missed


def real_messages(folder: Path, texts: data.Texts, count: int) -> list[dict[str, Any]]:
    if not texts.are_real:
        return [{"role": ("user", "assistant")[i % 2], "content": texts.text(SHORT)} for i in range(count)]
    conversations = [one for name in ("locomo", "lme_pool") for one in data.load(folder, name)]
    short = [message for one in conversations for message in one.messages if len(message["content"]) < 1000]
    return short[:count]


def adds(console: Console, folder: Path, texts: data.Texts, scale: Scale) -> list[str]:
    """One message after another: with nothing else to do, and while older messages are being embedded."""
    bare = open_bare_database(folder / "commit.db")
    report = Report("add(), one by one, ms", "bare commit", "add()", "add()/bare")

    def commit(text: str) -> None:
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO bare (content) VALUES (?)", (text,))
        bare.execute("COMMIT")

    sample = [texts.text(SHORT) for _ in range(scale.adds)]
    alone = None
    for name, busy in (("no worker", False), ("while the worker embeds", True)):
        with Memory(folder / f"adds-{busy}.db", worker=busy) as memory:
            backlog = [{"role": "user", "content": texts.text(SHORT)} for _ in range(40 * scale.adds if busy else 1)]
            memory.add_many("old", backlog)
            if busy:
                wait_for_vectors(folder / f"adds-{busy}.db")
            found = time_in_turn(sample, {"bare": commit, "ours": partial(memory.add, "chat", "user")})
            alone = alone or found["bare"]
            ratio = found["ours"].ms(0.95) / alone.ms(0.95)
            report.add(name, str(found["bare"]), *against(found["ours"], found["bare"]),
                       bar=f"p95 ≤ 3× a bare commit alone: {ratio:.2f}×", met=ratio <= 3)  # fmt: skip
            if busy:
                made = vectors_made(folder / f"adds-{busy}.db")
                state = "still at work" if made < len(backlog) + len(sample) else "[red]was done before the end[/]"
                report.add(f"  {made} of {len(backlog) + len(sample)} embedded", "", state)
    bare.close()
    report.show(console)
    return report.missed


def vectors_made(path: Path) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = next(iter(connection.execute("SELECT count(*) FROM vectors")))[0]
    connection.close()
    return int(found)


def wait_for_vectors(path: Path, seconds: float = 30) -> None:
    """Until the worker has begun to embed."""
    deadline = time.monotonic() + seconds
    while not vectors_made(path) and time.monotonic() < deadline:
        threading.Event().wait(0.05)


def sizes(console: Console, folder: Path, texts: data.Texts, scale: Scale) -> list[str]:
    """Bytes by table, for short and for longer messages, all derived rows made."""
    report = Report("sizes", "bytes per message", "of the text")
    embedder = MixedEmbedder.from_texts(texts, 50)
    for characters in (SHORT, LONG):
        path = folder / f"sizes-{characters}.db"
        sample = [texts.text(characters) for _ in range(max(2000, scale.messages // 10))]
        fill_store(path, sample, embedder)
        raw = sum(len(text.encode()) for text in sample)
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tables = table_bytes(connection)
        connection.close()
        whole = path.stat().st_size
        each, share = whole / len(sample), tables["entries"] / raw
        report.add(f"{len(sample):,} messages of ~{characters} characters", f"{raw / len(sample):.0f}")
        bar: dict[str, Any] = {"bar": "≤ 3,000 bytes", "met": each <= 3000} if characters == LONG else {}
        report.add("  whole file", f"{each:.0f}", f"{whole / raw:.2f}×", **bar)
        report.add(
            "  entries", f"{tables['entries'] / len(sample):.0f}", f"{share:.2f}×", bar="≤ 0.80×", met=share <= 0.8
        )
        for name, size in sorted(tables.items(), key=lambda item: -item[1])[:6]:
            if name != "entries":
                report.add(f"  {name}", f"{size / len(sample):.0f}", f"{size / raw:.2f}×")
        report.section()
    report.show(console)
    return report.missed


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--small", action="store_true", help="a tenth of everything")
    reader.add_argument("--messages", type=int, help="of one person (100,000)")
    reader.add_argument("--times", type=int, default=10, help="how many such people the large store has")
    reader.add_argument("--questions", type=int, help="asked of each (100)")
    reader.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART")
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    reader.add_argument("--folder", help="where to write: the disk that is measured")
    return reader.parse_args()


def main() -> int:
    given = options()
    tenth = 10 if given.small else 1
    scale = Scale(
        given.messages or 100_000 // tenth, given.times, given.questions or (30 if given.small else 100),
        5000 // tenth, 500 // tenth,
    )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 150)
    texts = data.Texts(given.data)
    missed: list[str] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        loading = time_call(lambda: MiniLM().encode(["up"]))
        console.print(f"[dim]the model was loaded in {loading:.1f} s; {resident_mb():.0f} MB; "
                      f"texts are {'real, mixed' if texts.are_real else 'generated'}[/]\n")  # fmt: skip
        if "recall" in given.parts:
            missed += recall(console, folder, texts, scale)
        if "first" in given.parts:
            missed += first(console, folder, texts, scale)
        if "context" in given.parts:
            missed += context(console, texts, scale, given.data)
        if "ingest" in given.parts:
            missed += ingest(console, folder, texts, scale, given.data)
        if "adds" in given.parts:
            missed += adds(console, folder, texts, scale)
        if "sizes" in given.parts:
            missed += sizes(console, folder, texts, scale)
    console.print(f"[dim]{resident_mb():.0f} MB in memory at the end[/]")
    if missed:
        console.print(f"[red]missed:[/] {', '.join(dict.fromkeys(missed))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
