"""Tells the same conversations in several shapes of data, and measures what recall finds in each.

    python -m bench.shapes [--data PATH] [--sets lme_pool beam_100k] [--shapes unnamed named …] [--conversations N]

A shape says which role and name each message gets: chats come without names, with a name for the assistant, with names
instead of roles, with the roles the other way round. What is said stays as it is, so a memory that understands any
shape finds as much in each. A second run is quick: vectors are kept in the cache. Names are embedded with the texts,
so every new name costs as much as the first shape.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench import data
from bench.adapter import Adapter, to_stored
from bench.cache import CachedEmbedder
from bench.figures import RANKING_DEPTH, Figures, mean, score_ranking

CACHE: Final = Path("build/bench_vectors.npz")
SETS: Final = ("lme_pool", "beam_100k")
FIGURES: Final = ("any@10", "all@10")


@dataclass(frozen=True, slots=True)
class Speaker:
    """The role and the name that somebody's messages get."""

    role: str
    name: str | None = None

    def fields(self) -> dict[str, str]:
        """Return the fields of a message."""
        return {"role": self.role} | ({} if self.name is None else {"name": self.name})


@dataclass(frozen=True, slots=True)
class Shape:
    """How a talk of a person and an assistant is told."""

    person: Speaker
    assistant: Speaker

    def tell(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages with the roles and names of this shape. Who said them is told by their own role."""
        told = []
        for message in messages:
            speaker = self.assistant if message["role"] == "assistant" else self.person
            fields = {key: value for key, value in message.items() if key not in ("role", "name")}
            told.append(fields | speaker.fields())
        return told


# The first is what the others are compared with.
SHAPES: Final[Mapping[str, Shape]] = {
    "unnamed": Shape(Speaker("user"), Speaker("assistant")),
    "roles reversed": Shape(Speaker("assistant"), Speaker("user")),
    "person named": Shape(Speaker("user", "Sara"), Speaker("assistant")),
    "assistant called assistant": Shape(Speaker("user"), Speaker("assistant", "assistant")),
    "assistant named": Shape(Speaker("user"), Speaker("assistant", "Nova")),
    "both named": Shape(Speaker("user", "Sara"), Speaker("assistant", "Nova")),
    "both named, roles reversed": Shape(Speaker("assistant", "Sara"), Speaker("user", "Nova")),
    "names without roles": Shape(Speaker("user", "Sara"), Speaker("user", "Nova")),
    "imported": Shape(Speaker("user", "User 1"), Speaker("assistant", "ChatGPT")),
}


def measure(conversations: Iterable[data.Conversation], shape: Shape, embedder: CachedEmbedder) -> list[Figures]:
    """Return the figures of each question that counts, with the conversations told in this shape."""
    conversations = list(conversations)
    adapter = Adapter(embedder)
    for conversation in conversations:
        adapter.memory.add_many(conversation.id, shape.tell(to_stored(conversation.messages)))
        if not adapter.memory.drain().complete:
            raise RuntimeError(f"not everything of {conversation.id} could be indexed")
    found = [
        score_ranking(adapter.search(conversation.id, question.text, RANKING_DEPTH), question.evidence)
        for conversation in conversations
        for question in conversation.questions
        if not question.is_excluded
    ]
    adapter.close()
    return found


def to_row(name: str, found: list[Figures], first: list[Figures]) -> list[str]:
    """Return a row of the table: each figure, and its difference from the first shape in points."""
    row = [name]
    for metric in FIGURES:
        value = mean(found, metric)
        row += [f"{value:.3f}", f"{(value - mean(first, metric)) * 100:+.1f}"]
    return row


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    reader.add_argument("--sets", nargs="+", default=list(SETS), metavar="SET")
    reader.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES), metavar="SHAPE")
    reader.add_argument("--conversations", type=int, help="only so many of each set, for a quick look")
    reader.add_argument("--cache", type=Path, default=CACHE, help=f"vectors of texts seen before ({CACHE})")
    given = reader.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    embedder = CachedEmbedder(given.cache)
    for name in given.sets:
        start = time.perf_counter()
        conversations = data.load(given.data, name, max_conversations=given.conversations)
        table = Table(title_justify="left")
        for column in ("shape", *(title for metric in FIGURES for title in (metric, "points"))):
            table.add_column(column, justify="left" if column == "shape" else "right")
        first: list[Figures] = []
        for shape in given.shapes:
            found = measure(conversations, SHAPES[shape], embedder)
            first = first or found
            table.add_row(*to_row(shape, found, first))
            console.print(f"[dim]{name}: {' '.join(to_row(shape, found, first))}[/]")
            embedder.save()
        table.title = f"{name}: {len(first)} questions"
        console.print(table, f"[dim]{time.perf_counter() - start:.0f} s[/]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
