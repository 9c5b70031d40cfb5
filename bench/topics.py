"""How well messages are grouped into topics, beside simpler ways to do it, and where the numbers of `Rules` come from.

    python -m bench.topics [--data FOLDER] [--cache build/bench_vectors.npz] [--seed N]

There is no public set of long chats whose topics are known. So threads that are each about one thing are cut into
stretches of 2 to 8 messages and interleaved by chance: threads are left and come back, and the truth is the thread.
Numbers were found on the even half of the sources; what counts are the figures of the odd half. The data lie outside
this repository. A second run is quick: vectors are kept in the cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bench import data
from bench.cache import CachedEmbedder
from bench.log import percentile
from recollect import Memory
from recollect.core.language.analyser import raw_words
from recollect.recall import vectors
from recollect.recall.embedding import embedded_texts
from recollect.testing import FakeEmbedder
from recollect.topics.matcher import MINUTE, Matcher, Rules, calibrated, related

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

CACHE: Final = Path("build/bench_vectors.npz")
CONVERSATIONS: Final = 40  # that are made of each half of a set
THREADS: Final = {  # how many threads a conversation has, at least and at most
    "lme_pool": (4, 24),
    "lme_s_samples": (8, 20),
    "beam_100k": (3, 5),
    "dialogsum": (4, 24),
    "locomo": (4, 12),
}
TUNED: Final = ("lme_pool", "beam_100k", "dialogsum", "locomo")
CURVE: Final = tuple(n / 20 for n in range(2, 15))
SPEAKER: Final = re.compile(r"#Person(\d)#:\s*(\S.*)")
WINDOW: Final = 12
LEAST: Final = 4  # messages of a thread
# How often the talk rests where the thread changes, and at other messages of the user.
PAUSES: Final = {"some": (0.7, 0.1), "all": (1.0, 0.0), "none": (0.0, 0.0)}
SIZES: Final = (10, 100, 1000)
ADDED: Final = 1200  # messages


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the matcher sees it."""

    role: str
    words: int
    vector: Floats


@dataclass(frozen=True, slots=True)
class Thread:
    """Messages about one thing. Threads of one family are about the same, and never meet in a conversation."""

    half: int
    family: str
    pool: str  # only threads of one pool meet
    messages: Sequence[Said]


@dataclass(frozen=True, slots=True)
class Talk:
    """An interleaved conversation: each message's thread, stretch, and time, by how often the talk rests."""

    messages: Sequence[Said]
    threads: Labels
    stretches: Labels
    at: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Figures:
    """How a grouping compares with the truth."""

    v: float
    homogeneity: float
    completeness: float
    rand: float
    found: float  # how many topics
    true: float

    @property
    def score(self) -> float:
        """What is tuned."""
        return (self.v + self.rand) / 2


Method = Callable[[Talk], Labels]


# Measures


def counts(truth: Labels, found: Labels) -> NDArray[np.int64]:
    """How many messages each pair of a true and a found topic shares."""
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (truth, found))
    table = np.zeros((rows.max() + 1, columns.max() + 1), np.int64)
    np.add.at(table, (rows, columns), 1)
    return table


def v_measure(truth: Labels, found: Labels) -> tuple[float, float, float]:
    """V, the harmonic mean of homogeneity (a found topic holds one true one) and completeness (a true topic lies in one
    found one), and these two."""
    table = counts(truth, found)
    true, own, joint = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0)), _entropy(table.ravel())
    shared = true + own - joint
    homogeneity, completeness = (shared / true if true > 0 else 1.0), (shared / own if own > 0 else 1.0)
    both = homogeneity + completeness
    return (2 * homogeneity * completeness / both if both > 0 else 0.0), homogeneity, completeness


def _entropy(sizes: NDArray[np.int64]) -> float:
    shares = sizes[sizes > 0] / sizes.sum()
    return float(-(shares * np.log(shares)).sum())


def adjusted_rand(truth: Labels, found: Labels) -> float:
    """The share of pairs of messages that are rightly together or apart: 0 is chance, 1 is right."""
    table = counts(truth, found)
    true, own, both = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0)), _pairs(table.ravel())
    chance = true * own / _pairs(np.array([len(truth)])) if len(truth) > 1 else 0.0
    most = (true + own) / 2
    return (both - chance) / (most - chance) if most != chance else 1.0


def _pairs(sizes: NDArray[np.int64]) -> float:
    return float((sizes * (sizes - 1) / 2).sum())


def compare(talk: Talk, found: Labels) -> Figures:
    sizes = (float(len(np.unique(labels))) for labels in (found, talk.threads))
    return Figures(*v_measure(talk.threads, found), adjusted_rand(talk.threads, found), *sizes)


def mean(rows: Sequence[Figures]) -> Figures:
    return Figures(*map(float, np.mean([astuple(one) for one in rows], axis=0)))


# Threads


def load(folder: Path, name: str, embedder: CachedEmbedder) -> list[Thread]:
    """The threads of a set, each message with its vector as it would be stored."""
    found = list(_dialogues(folder) if name == "dialogsum" else _sessions(folder, name))
    texts = [text for *_, messages in found for _, content, who in messages for text in embedded_texts(content, who)]
    rows = iter(embedder.encode(texts))
    return [
        Thread(half, family, pool, [_said(*one, rows) for one in messages]) for half, family, pool, messages in found
    ]


def _said(role: str, content: str, name: str | None, rows: Iterator[Floats]) -> Said:
    own = [next(rows) for _ in embedded_texts(content, name)]
    scales, bytes_ = vectors.unpack(vectors.pack(np.stack(own)), len(own[0]))
    return Said(role, len(raw_words(content)), (bytes_ * scales[:, None]).mean(axis=0).astype(np.float32))


Raw = tuple[int, str, str, list[tuple[str, str, str | None]]]


def _dialogues(folder: Path) -> Iterator[Raw]:
    """Short dialogues of two people, one of whom stands in for the user."""
    with gzip.open(folder / "summaries" / "dialogsum_dev.jsonl.gz", "rt", encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            row = json.loads(line)
            lines = filter(None, map(SPEAKER.match, row["dialogue"].split("\n")))
            said = [("user" if one[1] == "1" else "assistant", one[2], None) for one in lines]
            yield number % 2, row["topic"], "", list(said)


def _sessions(folder: Path, name: str) -> Iterator[Raw]:
    """Sessions with an assistant, from all conversations; of LoCoMo, sessions of the same two people.

    LongMemEval has sessions on the same question, and the parts of a conversation of BEAM are about one project: these
    are families.
    """
    for number, conversation in enumerate(data.load(folder, name)):
        sessions: dict[str, list[tuple[str, str, str | None]]] = {}
        for one in conversation.messages:
            who = None if one["speaker"] == one["role"] else one["speaker"]
            if one["content"].strip():
                sessions.setdefault(one["session_id"], []).append((one["role"], one["content"], who))
        for session, messages in sessions.items():
            family = {"lme_pool": session.rsplit("_", 1)[0], "beam_100k": conversation.id}.get(name, session)
            half = 1 if name == "lme_s_samples" else number % 2  # one conversation, for a look at the end
            yield half, family, conversation.id if name == "locomo" else "", messages


# Interleaving


def interleaved(threads: Sequence[Thread], sizes: tuple[int, int], chance: random.Random) -> Talk:
    """Some threads as one conversation: in stretches, in any order, each thread in its own."""
    pool = chance.choice(sorted({one.pool for one in threads}))
    left = {
        number: list(_stretches(messages, chance))
        for number, messages in enumerate(_chosen([one for one in threads if one.pool == pool], sizes, chance))
    }
    said: list[Said] = []
    truth: list[int] = []
    stretch: list[int] = []
    last, count = -1, 0
    while left:
        number = chance.choice([one for one in left if one != last] or list(left))
        count += number != last
        last = number
        some = left[number].pop(0)
        if not left[number]:
            del left[number]
        said += some
        truth += [number] * len(some)
        stretch += [count] * len(some)
    borders = np.array(stretch)
    times = {name: _times(said, borders, *shares, chance) for name, shares in PAUSES.items()}
    return Talk(said, np.array(truth), borders, times)


def _chosen(threads: Sequence[Thread], sizes: tuple[int, int], chance: random.Random) -> Iterator[Sequence[Said]]:
    """One thread of each family. They begin with the user; very long ones are cut to a piece."""
    most, families = chance.randint(*sizes), set[str]()
    for one in chance.sample(threads, len(threads)):
        begins = [place for place, message in enumerate(one.messages) if message.role == "user"]
        if one.family in families or len(families) == most or not begins:
            continue
        length = len(one.messages) if len(one.messages) <= 40 else chance.randint(12, 40)
        start = chance.choice([place for place in begins if place + length <= len(one.messages)] or begins[:1])
        piece = one.messages[start : start + length]
        if len(piece) >= LEAST:
            families.add(one.family)
            yield piece


def _stretches(messages: Sequence[Said], chance: random.Random) -> Iterator[Sequence[Said]]:
    """Pieces of 2 to 8 messages, and up to the next of the user."""
    start = 0
    while start < len(messages):
        stop = start + chance.randint(2, 8)
        while stop < len(messages) and messages[stop].role != "user":
            stop += 1
        yield messages[start:stop]
        start = stop


def _times(
    messages: Sequence[Said], stretches: Labels, at_borders: float, elsewhere: float, chance: random.Random
) -> list[int]:
    """A minute or so from one message to the next, hours where the talk rests."""
    now, found = 0, list[int]()
    for place, one in enumerate(messages):
        border = place > 0 and stretches[place] != stretches[place - 1]
        rests = one.role == "user" and chance.random() < (at_borders if border else elsewhere)
        now += int(MINUTE * (chance.uniform(60, 1200) if rests else chance.uniform(0.2, 3)))
        found.append(now)
    return found


# Ways to group


def ours(rules: Rules, pauses: str = "some") -> Method:
    def group(talk: Talk) -> Labels:
        return place_all(talk.messages, talk.at[pauses], rules)[0]

    return group


def place_all(messages: Sequence[Said], at: Sequence[int], rules: Rules) -> tuple[Labels, Matcher]:
    matcher = Matcher(rules, np.empty((0, len(messages[0].vector)), np.float32))
    found: list[int] = []
    for one, moment in zip(messages, at, strict=True):
        topics = len(matcher)
        placed = matcher.place(one.vector, role=one.role, words=one.words, at=moment)
        if placed.folded:
            found = [placed.topic if topic == topics - 1 else topic for topic in found]
        found.append(placed.topic)
    return np.array(found), matcher


def plain(threshold: float, decay: float = 0.9) -> Method:
    """The bare rule: cosine to running centroids, a threshold, no more."""

    def group(talk: Talk) -> Labels:
        sums, found = list[Floats](), list[int]()
        for one in talk.messages:
            unit = _unit(one.vector)
            near = [float(unit @ _unit(own)) for own in sums] if one.role == "user" else []
            if near and max(near) >= threshold:
                found.append(near.index(max(near)))
            elif one.role == "user" or not sums:
                found.append(len(sums))
                sums.append(np.zeros_like(unit))
            else:
                found.append(found[-1])
            sums[found[-1]] = np.float32(decay) * sums[found[-1]] + unit
        return np.array(found)

    return group


def _unit(vector: Floats) -> Floats:
    unit: Floats = vector / np.float32(max(float(np.linalg.norm(vector)), 1e-9))
    return unit


def nearest_thread(talk: Talk) -> float:
    """How many user messages are nearest to the rest of their own thread: how far vectors can tell threads apart."""
    rows = np.stack([_unit(one.vector) for one in talk.messages])
    sums = np.stack([rows[talk.threads == thread].sum(axis=0) for thread in range(talk.threads.max() + 1)])
    right = []
    for place, one in enumerate(talk.messages):
        if one.role == "user":
            own = sums.copy()
            own[talk.threads[place]] -= rows[place]
            near = (own @ rows[place]) / np.maximum(np.linalg.norm(own, axis=1), 1e-9)
            right.append(near.argmax() == talk.threads[place])
    return float(np.mean(right))


BASELINES: Final[Mapping[str, Method]] = {
    "one topic": lambda talk: np.zeros(len(talk.messages), np.int64),
    "true borders": lambda talk: talk.stretches,
    "pauses": lambda talk: np.cumsum(np.diff(talk.at["some"], prepend=0) >= 30 * MINUTE),
    f"windows of {WINDOW}": lambda talk: np.arange(len(talk.messages)) // WINDOW,
}


def measure(talks: Sequence[Talk], method: Method) -> Figures:
    return mean([compare(talk, method(talk)) for talk in talks])


# Showing it


def table(title: str, *columns: str) -> Table:
    found = Table(title=title, title_justify="left")
    for column in columns:
        found.add_column(column, justify="left" if column in ("", "set") else "right")
    return found


def calibration(console: Console, tuned: Mapping[str, Sequence[Talk]], rules: Rules) -> float:
    """The score by threshold on the half that is tuned on; the best threshold of the plain rule."""
    best = 0.0
    for title, made in (("plain rule", plain), ("ours", lambda one: ours(replace(rules, threshold=one)))):
        shown = table(f"{title}, by threshold: (V + ARI) / 2 on the tuned half", "threshold", *tuned, "mean", "topics")
        means = {}
        for threshold in CURVE:
            row = [measure(talks, made(threshold)) for talks in tuned.values()]
            means[threshold] = float(np.mean([one.score for one in row]))
            ratio = float(np.mean([one.found / one.true for one in row]))
            cells = [f"{one.score:.3f}" for one in row]
            shown.add_row(f"{threshold:.2f}", *cells, f"{means[threshold]:.3f}", f"× {ratio:.2f}")
        top = max(means, key=lambda one: means[one])
        if title == "plain rule":
            best = top
        console.print(shown, f"best at {top:.2f}\n")
    return best


def figures(console: Console, title: str, sets: Mapping[str, Sequence[Talk]], methods: Mapping[str, Method]) -> None:
    shown = table(title, "set", "", "V", "homogeneity", "completeness", "ARI", "topics found : true")
    for name, talks in sets.items():
        for method, group in methods.items():
            one = measure(talks, group)
            ratio = f"{one.found:.1f} : {one.true:.1f}"
            cells = [f"{value:.3f}" for value in (one.v, one.homogeneity, one.completeness, one.rand)]
            shown.add_row(name if method == next(iter(methods)) else "", method, *cells, ratio)
        shown.add_section()
    console.print(shown)


def separable(console: Console, held: Mapping[str, Sequence[Talk]]) -> None:
    shown = table("held user messages that are nearest to the rest of their own thread", "set", "share")
    for name, talks in held.items():
        shown.add_row(name, f"{np.mean([nearest_thread(talk) for talk in talks]):.2f}")
    console.print(shown)


def alone(console: Console, threads: Mapping[str, Sequence[Thread]], rules: Rules) -> None:
    """A thread that nothing interrupts should be one topic."""
    shown = table("held threads alone", "set", "messages", "topics", "share of the largest", "one topic")
    for name, some in threads.items():
        held = [one.messages for one in some if one.half == 1]
        found = [place_all(one, [MINUTE * n for n in range(len(one))], rules)[0] for one in held]
        sizes = [np.bincount(one) for one in found]
        largest = float(np.mean([one.max() / one.sum() for one in sizes]))
        topics = [len(one) for one in sizes]
        whole = float(np.mean([one == 1 for one in topics]))
        length = float(np.mean([len(one) for one in held]))
        shown.add_row(name, f"{length:.1f}", f"{np.mean(topics):.2f}", f"{largest:.2f}", f"{whole:.2f}")
    console.print(shown)


def proposals(console: Console, held: Mapping[str, Sequence[Talk]], rules: Rules) -> None:
    """How many pairs are proposed to be merged, and how many of them are mostly of one thread."""
    levels = (0.2, 0.3, 0.4, 0.5)
    shown = table("pairs proposed in a conversation, and how many are of one thread", "set", *map(str, levels))
    for name, talks in held.items():
        pairs: list[tuple[float, bool]] = []
        for talk in talks:
            found, matcher = place_all(talk.messages, talk.at["some"], rules)
            main = [np.bincount(talk.threads[found == topic]).argmax() for topic in range(len(matcher))]
            for one, other, similarity in related(matcher.sums, replace(rules, alike=levels[0])):
                pairs.append((similarity, bool(main[one] == main[other])))
        cells = []
        for level in levels:
            right = [same for similarity, same in pairs if similarity >= level]
            cells.append(f"{len(right) / len(talks):.2f}, {np.mean(right):.0%}" if right else "0")
        shown.add_row(name, *cells)
    console.print(shown)


def speed(console: Console, rules: Rules, dimensions: int, seed: int) -> None:
    """The time of placing beside the bare product of the sums and a vector."""
    chance = np.random.default_rng(seed)
    shown = table("microseconds for a user message, p50 / p95", "topics", "place", "bare product")
    for size in SIZES:
        some = chance.normal(size=(400, dimensions)).astype(np.float32)
        matcher = Matcher(replace(rules, threshold=-2.0), chance.normal(size=(size, dimensions)).astype(np.float32))
        sums = matcher.sums.copy()
        whole, bare = [], []
        for place, vector in enumerate(some):
            start = time.perf_counter()
            matcher.place(vector, role="user", words=9, at=place)
            middle = time.perf_counter()
            sums @ vector
            whole.append(middle - start)
            bare.append(time.perf_counter() - middle)
        cells = [f"{percentile(one, 0.5) * 1e6:.0f} / {percentile(one, 0.95) * 1e6:.0f}" for one in (whole, bare)]
        shown.add_row(str(size), *cells)
    console.print(shown)


def cost(console: Console, folder: Path, seed: int, bar: float = 1.0) -> bool:
    """What topics cost: add() while the worker places and folds beside one that does not, and the work itself."""
    texts = [message["content"] for one in data.load(folder, "locomo", most=3) for message in one.messages][:ADDED]
    times: dict[bool, list[float]] = {True: [], False: []}
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place, ExitStack() as opened:
        stores = {on: opened.enter_context(Memory(Path(place) / f"{on}.db", embedder=FakeEmbedder())) for on in times}
        background = stores[False]._engine._background
        for worker in (background.indexing, background.briefing):
            worker._tracks = [one for one in worker._tracks if one.name not in ("topiced", "folded")]
        for number, text in enumerate(texts):
            role = ("user", "assistant")[number % 2]
            for on in chance.sample((True, False), 2):  # in turn, so that both see the same noise
                start = time.perf_counter()
                stores[on].add("talk", role, text)
                times[on].append(time.perf_counter() - start)
            time.sleep(0.002)
        alone = work_alone(Path(place) / "alone.db", texts)
    shown = table("milliseconds of add(), worker running", "", "p50", "p95", "mean")
    for on, name in ((False, "without topics"), (True, "with topics")):
        found = times[on]
        cells = [f"{1000 * one:.2f}" for one in (percentile(found, 0.5), percentile(found, 0.95), np.mean(found))]
        shown.add_row(name, *cells)
    more = 1000 * (percentile(times[True], 0.5) - percentile(times[False], 0.5))
    shown.caption = f"topics add {more:+.2f} ms to the middle add (bar {bar:.0f}); {alone}"
    console.print(shown)
    return more <= bar


def work_alone(path: Path, texts: Sequence[str]) -> str:
    """Placing and folding by themselves, for each message."""
    with Memory(path, worker=False, embedder=FakeEmbedder()) as memory:
        rows = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
        memory.add_many("talk", rows)
        background = memory._engine._background
        found = []
        for worker, names in ((background.indexing, ("worked", "embedded")), (background.indexing, ("topiced",)),
                              (background.briefing, ("folded",))):  # fmt: skip
            kept, worker._tracks = worker._tracks, [one for one in worker._tracks if one.name in names]
            start = time.process_time()
            memory._wait(worker.drain())
            found.append(1000 * (time.process_time() - start) / len(texts))
            worker._tracks = kept
        topics = len(memory.topics("talk"))
    return (
        f"a message costs {found[1]:.2f} ms to place and {found[2]:.2f} ms to fold, of processor time ({topics} topics)"
    )


def options() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT, help="folder of the data (../shared/bench)")
    reader.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    reader.add_argument("--seed", type=int, default=7, help="of what is left to chance")
    return reader.parse_args()


def main() -> int:
    given = options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    embedder = CachedEmbedder(given.cache)
    rules = calibrated(embedder.name)
    threads = {name: load(given.data, name, embedder) for name in THREADS}
    embedder.save()
    talks: dict[int, dict[str, list[Talk]]] = {0: {}, 1: {}}
    for half, sets in talks.items():
        for name in THREADS if half else TUNED:
            chance = random.Random(f"{given.seed} {name} {half}")
            own = [one for one in threads[name] if one.half == half]
            sets[name] = [interleaved(own, THREADS[name], chance) for _ in range(CONVERSATIONS)]
    console.print(f"{embedder.name}: {rules}\n")
    best = calibration(console, talks[0], rules)
    methods = {
        "ours": ours(rules),
        "ours, pauses at all borders": ours(rules, "all"),
        "ours, no pauses": ours(rules, "none"),
        f"plain rule at {best:.2f}": plain(best),
        **BASELINES,
    }
    figures(console, "held half", talks[1], methods)
    figures(console, "tuned half", talks[0], methods)
    separable(console, talks[1])
    alone(console, threads, rules)
    proposals(console, talks[1], rules)
    speed(console, rules, embedder.dimensions, given.seed)
    return 0 if cost(console, given.data, given.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
