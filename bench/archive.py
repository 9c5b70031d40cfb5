"""Measures how much room archived messages take: groups of real messages as blocks, against gzip and plain zstd.

    python -m bench.archive [--data PATH] [--cache FILE]

Savings are shares of the UTF-8 bytes of the texts alone; every block counts whole, with head and checksum. The shipped
dictionary has seen neither set. A learned one is measured twice. First on the texts it was learned from (all
conversations of the set as one store), also net of its own bytes. Then on the last 30 % of each conversation, learned
from the first 70 %. At last both sets are stored as one person's, their topics are folded, and the file is measured.
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
from bench.measures import Report
from recollect import Memory
from recollect.core import archive
from recollect.core.archive import NO_DICTIONARY, Dictionary
from recollect.storage.shipped_dictionary import learned_dictionary, shipped_dictionary

GROUP_SIZES: Final = (10, 20, 50)  # messages of a block
LEARNED_SHARE: Final = 0.7  # of a conversation, from its beginning
SHIPPED_BAR: Final = (10, 62)  # messages of a block, percent saved
LEARNED_BAR: Final = (20, 69)
STORE_BYTES: Final = (16_000, 32_000, 64_000, 128_000, 256_000, 400_000)  # sizes of a store's text
OTHER_RATIOS: Final = (16, 8, 2)  # bytes of text for one byte of dictionary

CACHE: Final = Path("build/bench_vectors.npz")
ARCHIVE_TABLES: Final = ("blocks", "blocks_conversation", "archived", "dictionaries", "dictionaries_person")

Texts = Sequence[str]


@dataclass(frozen=True, slots=True)
class Packing:
    """A way to pack a group of texts and to unpack it."""

    name: str
    pack: Callable[[Texts], bytes]
    unpack: Callable[[bytes], list[str]]


@dataclass(frozen=True, slots=True)
class PackingResult:
    """Percent saved, and the median microseconds of processor time to pack and unpack a group."""

    saved: float
    packing: float
    unpacking: float

    def __str__(self) -> str:
        return f"{self.saved:.1f} % {self.packing:,.0f}/{self.unpacking:,.0f}"


def pack_gzip(texts: Texts) -> bytes:
    """Pack the texts with gzip -6, whose head and tail are 18 bytes."""
    run = b"".join(text.encode("utf-8", "surrogatepass") + archive.TEXT_END for text in texts)
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(run) + packer.flush()


def unpack_gzip(block: bytes) -> list[str]:
    """Unpack what `pack_gzip` packed."""
    run = zlib.decompress(block, wbits=31)[:-1]
    return [text.decode("utf-8", "surrogatepass") for text in run.split(archive.TEXT_END)]


def block_packing(name: str, dictionary: Dictionary) -> Packing:
    """Return our own packing into blocks, with this dictionary."""
    dictionaries = {dictionary.id: dictionary}
    return Packing(
        name,
        lambda texts: archive.encode(texts, dictionary),
        lambda block: archive.decode(block, dictionaries.__getitem__),
    )


def learn(texts: Texts, id: int = archive.FIRST_LEARNED_ID) -> Dictionary:
    """Return a dictionary learned from the texts, of the size that the archive gives so much text."""
    return learned_dictionary(id, archive.train(texts, archive.dictionary_size(count_bytes(texts))))


def count_bytes(texts: Texts) -> int:
    """Return the UTF-8 bytes of the texts."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def cut_groups(conversations: Sequence[Texts], count: int) -> list[Texts]:
    """Return groups of `count` consecutive texts. A rest at the end of a conversation is left out."""
    return [
        texts[start : start + count] for texts in conversations for start in range(0, len(texts) - count + 1, count)
    ]


def measure(packing: Packing, groups: Sequence[Texts]) -> PackingResult:
    """Pack and unpack all groups. Exit if a text does not come back as it was."""
    raw = packed = 0
    pack_seconds, unpack_seconds = [], []
    packing.pack(groups[0])  # the first use compiles the dictionary
    for texts in groups:
        start = time.process_time()
        block = packing.pack(texts)
        middle = time.process_time()
        unpacked = packing.unpack(block)
        end = time.process_time()
        if unpacked != list(texts):
            raise SystemExit(f"{packing.name} did not give the texts back.")
        raw, packed = raw + count_bytes(texts), packed + len(block)
        pack_seconds.append(middle - start)
        unpack_seconds.append(end - middle)
    return PackingResult(100 * (1 - packed / raw), median(pack_seconds) * 1e6, median(unpack_seconds) * 1e6)


def add_row(
    report: Report, packing: Packing, conversations: Sequence[Texts], bar: tuple[int, int] | None = None
) -> list[PackingResult]:
    """Measure a packing and add a row to the report. A bar is the size of a group and the percentage to save."""
    results = [measure(packing, cut_groups(conversations, count)) for count in GROUP_SIZES]
    if bar is None:
        report.add(packing.name, *map(str, results))
    else:
        group, percent = bar
        met = results[GROUP_SIZES.index(group)].saved >= percent
        report.add(packing.name, *map(str, results), bar=f"≥ {percent} % at {group}", met=met)
    return results


def compare(name: str, conversations: Sequence[Texts], *, bars: bool) -> Report:
    """Return a report of all packings on one set. With `bars`, ours must save what the bars say."""
    columns = [f"{count} messages" for count in GROUP_SIZES]
    size = count_bytes([text for texts in conversations for text in texts])
    report = Report(f"{name}, {size:,} bytes: saved, µs to pack / to unpack", *columns)
    add_row(report, Packing("gzip -6", pack_gzip, unpack_gzip), conversations)
    add_row(report, block_packing("zstd", NO_DICTIONARY), conversations)
    add_row(
        report, block_packing("shipped dictionary", shipped_dictionary()), conversations, SHIPPED_BAR if bars else None
    )
    report.section()
    everything = [text for texts in conversations for text in texts]
    own = learn(everything)
    results = add_row(report, block_packing("learned of these rows", own), conversations, LEARNED_BAR if bars else None)
    stored_bytes = len(archive.pack_dictionary(own.body, shipped_dictionary()))
    net = [f"{result.saved - 100 * stored_bytes / size:.1f} %" for result in results]
    report.add(f"  net of its {stored_bytes:,} bytes ({len(own.body):,} unpacked)", *net)
    cuts = [int(len(texts) * LEARNED_SHARE) for texts in conversations]
    earlier = [text for texts, cut in zip(conversations, cuts, strict=True) for text in texts[:cut]]
    later = [texts[cut:] for texts, cut in zip(conversations, cuts, strict=True)]
    add_row(report, block_packing("learned of earlier rows", learn(earlier)), later, LEARNED_BAR if bars else None)
    add_row(report, block_packing("  shipped, same rows", shipped_dictionary()), later)
    return report


def measure_growth(conversations: Sequence[Texts]) -> Table:
    """Return what a learned dictionary saves in stores of growing size, in blocks of 20, net of its own bytes."""
    table = Table(title="When a dictionary pays for itself: 20 messages, net of its own bytes", title_justify="left")
    for column in (
        "text",
        "dictionary",
        "packed",
        "shipped",
        "learned",
        "net",
        *(f"net at 1/{n}" for n in OTHER_RATIOS),
    ):
        table.add_column(column, justify="right")
    everything = [text for texts in conversations for text in texts]
    for goal in STORE_BYTES:
        texts = take_first(everything, goal)
        groups, size = cut_groups([texts], 20), count_bytes(texts)
        base = measure(block_packing("", shipped_dictionary()), groups).saved
        dictionary, stored_bytes, saved = try_dictionary(texts, size // archive.TEXT_BYTES_PER_DICTIONARY_BYTE, groups)
        others = [
            f"{gross - 100 * own / size:.1f} %"
            for _, own, gross in (try_dictionary(texts, size // n, groups) for n in OTHER_RATIOS)
        ]
        net = f"{saved - 100 * stored_bytes / size:.1f} %"
        table.add_row(
            f"{size:,}", f"{dictionary:,}", f"{stored_bytes:,}", f"{base:.1f} %", f"{saved:.1f} %", net, *others
        )
    return table


def try_dictionary(texts: Texts, size: int, groups: Sequence[Texts]) -> tuple[int, int, float]:
    """Learn a dictionary of `size` bytes. Return its bytes, the bytes it is stored in, and the percent it saves."""
    dictionary = learned_dictionary(archive.FIRST_LEARNED_ID, archive.train(texts, size))
    packed = archive.pack_dictionary(dictionary.body, shipped_dictionary())
    return len(dictionary.body), len(packed), measure(block_packing("", dictionary), groups).saved


def take_first(texts: Texts, goal: int) -> list[str]:
    """Return the first texts, until they have `goal` bytes."""
    taken: list[str] = []
    size = 0
    for text in texts:
        if size >= goal:
            break
        taken.append(text)
        size += count_bytes([text])
    return taken


def measure_store(title: str, conversations: Sequence[data.Conversation], cache: Path) -> Table:
    """Return the bytes of a store before and after its topics are folded: table of texts, archive, file."""
    table = Table("bytes", "before folding", "after", "saved %", title=f"{title}: one person's store")
    embedder = CachedEmbedder(cache)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with Memory(path, worker=False, embedder=embedder) as memory:
            for conversation in conversations:
                memory.add_many(conversation.id, [_to_stored(message) for message in conversation.messages])
            worker = memory._engine._work.summarising
            all_jobs = worker._jobs
            worker._jobs = [job for job in all_jobs if job.name != "folded"]
            memory.drain()
            before = _table_sizes(path)
            worker._jobs = all_jobs
            memory.drain()
            archived, messages = memory.stats()["archived"], memory.stats()["messages"]
            after = _table_sizes(path, vacuum=True)
    embedder.save()
    for name in before:
        table.add_row(name, f"{before[name]:,}", f"{after[name]:,}", f"{100 * (1 - after[name] / before[name]):.1f}")
    table.caption = f"{archived:,} of {messages:,} messages are archived; the summaries of topics are new in the file"
    return table


def _to_stored(message: data.Message) -> dict[str, Any]:
    role = message["role"] if message["role"] in ("user", "assistant") else "user"
    name = message.get("speaker") if message.get("speaker") != role else None
    return {"role": role, "content": message["content"], "name": name, "at": message["timestamp"]}


def _table_sizes(path: Path, *, vacuum: bool = False) -> dict[str, int]:
    connection = apsw.Connection(str(path))
    if vacuum:  # frees all at once what the worker frees bit by bit
        connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    connection.close()
    tables = {str(name): int(size or 0) for name, size in rows}
    archive_size = sum(tables.get(name, 0) for name in ARCHIVE_TABLES)
    return {
        "table of texts": tables["texts"],
        "texts and archive": tables["texts"] + archive_size,
        "file": path.stat().st_size,
    }


def main() -> int:
    """Run all measurements. Return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 130)
    missed = []
    for name, title, bars in (("locomo", "LoCoMo", True), ("beam_100k", "BEAM", False)):
        conversations = [
            [message["content"] for message in conversation.messages] for conversation in data.load(options.data, name)
        ]
        report = compare(title, conversations, bars=bars)
        report.show(console)
        missed += report.missed
        if bars:
            console.print(measure_growth(conversations))
        console.print(measure_store(title, data.load(options.data, name), options.cache))
    for bar in missed:
        console.print(f"missed: {bar}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
