"""How much room archived messages take: groups of consecutive real messages as blocks, against gzip and plain zstd.

    python -m bench.archive [--data PATH] [--cache FILE]

Saved is measured on the UTF-8 bytes of the texts alone; every block counts whole, with head and checksum. The shipped
dictionary has seen neither set. A learned one is measured twice: on the rows it was learned from, as a store folds them
anew (all conversations of the set as one store), also net of its own bytes; and on the last 30 % of each conversation,
learned from the first 70 %. At last both sets are stored as a person would, folded, and the file is looked at.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw
from rich.console import Console
from rich.table import Table

from bench import data
from bench.cache import CachedEmbedder
from bench.measuring import Report
from recollect import Memory
from recollect.core import archive
from recollect.core.archive import NONE, Dictionary

GROUPS: Final = (10, 20, 50)
EARLIER: Final = 0.7  # of a conversation
SHIPPED_BAR: Final = (10, 62)  # messages, percent
LEARNED_BAR: Final = (20, 69)
GROWTH: Final = (16_000, 32_000, 64_000, 128_000, 256_000, 400_000)  # bytes of text a store may have
OTHER_SHARES: Final = (16, 8, 2)

CACHE: Final = Path("build/bench_vectors.npz")
ARCHIVE: Final = ("blocks", "blocks_conversation", "archived", "dictionaries", "dictionaries_person")

Texts = Sequence[str]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to pack a group of texts, and back."""

    name: str
    pack: Callable[[Texts], bytes]
    unpack: Callable[[bytes], list[str]]


@dataclass(frozen=True, slots=True)
class Result:
    saved: float  # percent
    packing: float  # µs of processor time, median
    unpacking: float

    def __str__(self) -> str:
        return f"{self.saved:.1f} % {self.packing:,.0f}/{self.unpacking:,.0f}"


def gzipped(texts: Texts) -> bytes:
    """gzip -6 of the same run; its head and tail are 18 bytes."""
    run = b"".join(text.encode("utf-8", "surrogatepass") + archive.END for text in texts)
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(run) + packer.flush()


def gunzipped(block: bytes) -> list[str]:
    return [text.decode("utf-8", "surrogatepass") for text in zlib.decompress(block, wbits=31)[:-1].split(archive.END)]


def way(name: str, dictionary: Dictionary) -> Way:
    known = {dictionary.id: dictionary}
    return Way(
        name, lambda texts: archive.encode(texts, dictionary), lambda block: archive.decode(block, known.__getitem__)
    )


def learned(texts: Texts, id: int = archive.LEARNED) -> Dictionary:
    """As the rule says for so much text."""
    return Dictionary(id, archive.train(texts, archive.dictionary_size(size_of(texts))))


def size_of(texts: Texts) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def grouped(conversations: Sequence[Texts], count: int) -> list[Texts]:
    """Whole groups; what is left at the end of a conversation is left out."""
    return [
        texts[start : start + count] for texts in conversations for start in range(0, len(texts) - count + 1, count)
    ]


def measured(way: Way, groups: Sequence[Texts]) -> Result:
    raw = packed = 0
    packing, unpacking = [], []
    way.pack(groups[0])  # dictionaries are compiled once
    for texts in groups:
        start = time.process_time()
        block = way.pack(texts)
        middle = time.process_time()
        found = way.unpack(block)
        end = time.process_time()
        if found != list(texts):
            raise SystemExit(f"{way.name} did not give the texts back.")
        raw, packed = raw + size_of(texts), packed + len(block)
        packing.append(middle - start)
        unpacking.append(end - middle)
    return Result(100 * (1 - packed / raw), median(packing) * 1e6, median(unpacking) * 1e6)


def add(report: Report, way: Way, conversations: Sequence[Texts], bar: tuple[int, int] | None = None) -> list[Result]:
    """A row of the report; the bar is the group it is for and the percentage."""
    results = [measured(way, grouped(conversations, count)) for count in GROUPS]
    if bar is None:
        report.add(way.name, *map(str, results))
    else:
        group, percent = bar
        met = results[GROUPS.index(group)].saved >= percent
        report.add(way.name, *map(str, results), bar=f"≥ {percent} % at {group}", met=met)
    return results


def compare(name: str, conversations: Sequence[Texts], *, bars: bool) -> Report:
    columns = [f"{count} messages" for count in GROUPS]
    size = size_of([text for texts in conversations for text in texts])
    report = Report(f"{name}, {size:,} bytes: saved, µs to pack / to unpack", *columns)
    add(report, Way("gzip -6", gzipped, gunzipped), conversations)
    add(report, way("zstd", NONE), conversations)
    add(report, way("shipped dictionary", archive.shipped()), conversations, SHIPPED_BAR if bars else None)
    report.section()
    everything = [text for texts in conversations for text in texts]
    own = learned(everything)
    results = add(report, way("learned of these rows", own), conversations, LEARNED_BAR if bars else None)
    kept = len(archive.pack(own.body))
    net = [f"{result.saved - 100 * kept / size:.1f} %" for result in results]
    report.add(f"  net of its {kept:,} bytes ({len(own.body):,} unpacked)", *net)
    cuts = [int(len(texts) * EARLIER) for texts in conversations]
    earlier = [text for texts, cut in zip(conversations, cuts, strict=True) for text in texts[:cut]]
    later = [texts[cut:] for texts, cut in zip(conversations, cuts, strict=True)]
    add(report, way("learned of earlier rows", learned(earlier)), later, LEARNED_BAR if bars else None)
    add(report, way("  shipped, same rows", archive.shipped()), later)
    return report


def growth(conversations: Sequence[Texts]) -> Table:
    """What a learned dictionary is worth to a store of so much text, in blocks of 20: less its own bytes."""
    table = Table(title="When a dictionary pays for itself: 20 messages, net of its own bytes", title_justify="left")
    for column in (
        "text",
        "dictionary",
        "packed",
        "shipped",
        "learned",
        "net",
        *(f"net at 1/{n}" for n in OTHER_SHARES),
    ):
        table.add_column(column, justify="right")
    everything = [text for texts in conversations for text in texts]
    for goal in GROWTH:
        texts = first(everything, goal)
        groups, size = grouped([texts], 20), size_of(texts)
        base = measured(way("", archive.shipped()), groups).saved
        dictionary, kept, saved = tried(texts, size // archive.SHARE, groups)
        others = [
            f"{gross - 100 * own / size:.1f} %"
            for _, own, gross in (tried(texts, size // n, groups) for n in OTHER_SHARES)
        ]
        net = f"{saved - 100 * kept / size:.1f} %"
        table.add_row(f"{size:,}", f"{dictionary:,}", f"{kept:,}", f"{base:.1f} %", f"{saved:.1f} %", net, *others)
    return table


def tried(texts: Texts, size: int, groups: Sequence[Texts]) -> tuple[int, int, float]:
    """Bytes of a dictionary of this size, bytes it is kept in, percent it saves."""
    dictionary = Dictionary(archive.LEARNED, archive.train(texts, size))
    return len(dictionary.body), len(archive.pack(dictionary.body)), measured(way("", dictionary), groups).saved


def first(texts: Texts, goal: int) -> list[str]:
    found: list[str] = []
    size = 0
    for text in texts:
        if size >= goal:
            break
        found.append(text)
        size += size_of([text])
    return found


def shrunk(title: str, conversations: Sequence[data.Conversation], cache: Path) -> Table:
    """A store before and after its topics are folded: the table of texts, the archive, the file."""
    table = Table("bytes", "before folding", "after", "saved %", title=f"{title}: one person's store")
    embedder = CachedEmbedder(cache)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with Memory(path, worker=False, embedder=embedder) as memory:
            for one in conversations:
                memory.add_many(one.id, [_stored(message) for message in one.messages])
            worker = memory._engine._background.briefing
            tracks = worker._tracks
            worker._tracks = [track for track in tracks if track.name != "folded"]
            memory.drain()
            before = _sizes(path)
            worker._tracks = tracks
            memory.drain()
            rests = memory.stats()["archived"], memory.stats()["messages"]
            after = _sizes(path, give_back=True)
    embedder.save()
    for name in before:
        table.add_row(name, f"{before[name]:,}", f"{after[name]:,}", f"{100 * (1 - after[name] / before[name]):.1f}")
    table.caption = (
        f"{rests[0]:,} of {rests[1]:,} messages rest in the archive; the summaries of topics are new in the file"
    )
    return table


def _stored(message: data.Message) -> dict[str, Any]:
    role = message["role"] if message["role"] in ("user", "assistant") else "user"
    name = message.get("speaker") if message.get("speaker") != role else None
    return {"role": role, "content": message["content"], "name": name, "at": message["timestamp"]}


def _sizes(path: Path, *, give_back: bool = False) -> dict[str, int]:
    connection = apsw.Connection(str(path))
    if give_back:  # all at once what the worker does now and then
        connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    connection.close()
    tables = {str(name): int(size or 0) for name, size in rows}
    archive_size = sum(tables.get(name, 0) for name in ARCHIVE)
    return {
        "table of texts": tables["texts"],
        "texts and archive": tables["texts"] + archive_size,
        "file": path.stat().st_size,
    }


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT, help="folder of the data (../shared/bench)")
    reader.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    given = reader.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 130)
    missed = []
    for name, title, bars in (("locomo", "LoCoMo", True), ("beam_100k", "BEAM", False)):
        conversations = [[message["content"] for message in one.messages] for one in data.load(given.data, name)]
        report = compare(title, conversations, bars=bars)
        report.show(console)
        missed += report.missed
        if bars:
            console.print(growth(conversations))
        console.print(shrunk(title, data.load(given.data, name), given.cache))
    for one in missed:
        console.print(f"missed: {one}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
