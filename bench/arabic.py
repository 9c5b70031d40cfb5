"""Measures the built-in embedder in Arabic: translations, recall within and across languages, and topics.

    python -m bench.arabic [--data ../shared/arabic] [--half test]

Translations: the share of a thousand sentences whose translation is the nearest of all (Tatoeba, never trained on).
Recall: 130 questions about 280 statements that share no telling word with them, through `recall()`; beside it vectors
alone. Topics: V-measure of talks in which Arabic threads are interleaved.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.order import CASES, load_bilingual
from bench.topic_groupings import match_topics, measure, threshold_rule
from bench.topic_threads import Thread, interleave, to_message
from recollect import Memory
from recollect.providers.minilm import MiniLM
from recollect.recall.vector_job import embedded_texts
from recollect.topics.matcher import calibrated_rules

DEFAULT_FOLDER: Final = Path("../shared/arabic")
DIRECTIONS: Final = (("arabic", "arabic"), ("arabic", "english"), ("english", "arabic"), ("english", "english"))
DEPTHS: Final = (1, 5, 10)
TALKS: Final = 40
THREADS: Final = (4, 8)  # in one talk
SEED: Final = 12


def measure_translations(folder: Path, embedder: MiniLM) -> tuple[float, float]:
    """Return the accuracy from Arabic to English and back."""
    pairs = json.loads((folder / "laser_tatoeba.json").read_text("utf-8"))
    similarities = embedder.encode(pairs["ar"]) @ embedder.encode(pairs["en"]).T
    expected = np.arange(len(pairs["ar"]))
    return float(np.mean(similarities.argmax(1) == expected)), float(np.mean(similarities.argmax(0) == expected))


def measure_recall(told: str, asked: str, half: str, embedder: MiniLM) -> tuple[list[float], list[float]]:
    """Return the shares of questions whose statement is among the first hits: ours, and by vectors alone."""
    (conversation,) = load_bilingual(told, asked, half)
    texts = {message["id"]: message["content"] for message in conversation.messages}
    vectors = embedder.encode(list(texts.values()))
    ours, alone = [], []
    with Memory(":memory:", worker=False, embedder=embedder) as memory:
        memory.add_many("talk", [{"role": "user", "id": key, "content": text} for key, text in texts.items()])
        memory.drain(briefs=False)
        for question in conversation.questions:
            hits = [hit.message_id for hit in memory.recall(question.text, conversation="talk", limit=max(DEPTHS))]
            nearest = np.argsort(-(vectors @ embedder.encode([question.text])[0]))[: max(DEPTHS)]
            keys = [list(texts)[index] for index in nearest]
            ours.append([question.evidence[0] in hits[:depth] for depth in DEPTHS])
            alone.append([question.evidence[0] in keys[:depth] for depth in DEPTHS])
    return np.mean(ours, axis=0).tolist(), np.mean(alone, axis=0).tolist()


def load_threads(half: str, embedder: MiniLM) -> Iterator[Thread]:
    """Yield the Arabic threads of a half, each message with its vector."""
    for row in json.loads((CASES / "arabic_threads.json").read_text("utf-8"))[half]:
        messages = [(message["role"], message["content"]) for message in row["messages"]]
        rows = iter(embedder.encode([text for _, content in messages for text in embedded_texts(content)]))
        yield Thread(1, row["id"], "", [to_message(*message, rows) for message in messages])


def shares(values: Sequence[float]) -> str:
    """Return figures as a table shows them."""
    return " / ".join(f"{value:.2f}" for value in values)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="folder of the sentence pairs")
    reader.add_argument("--half", choices=("dev", "test"), default="test")
    given = reader.parse_args()
    console, embedder = Console(width=None if sys.stdout.isatty() else 120), MiniLM()
    if given.data.exists():
        console.print(f"translations, Arabic to English and back: {shares(measure_translations(given.data, embedder))}")
    table = Table(title=f"recall@{', @'.join(map(str, DEPTHS))}, {given.half} half", title_justify="left")
    for column in ("told in", "asked in", "recall", "vectors alone"):
        table.add_column(column)
    for told, asked in DIRECTIONS:
        ours, alone = measure_recall(told, asked, given.half, embedder)
        table.add_row(told, asked, shares(ours), shares(alone))
    console.print(table)
    threads, rng = list(load_threads(given.half, embedder)), random.Random(SEED)
    talks = [interleave(threads, THREADS, rng) for _ in range(TALKS)]
    rules = calibrated_rules(embedder.name)
    for name, method in (("ours", match_topics(rules)), ("plain rule at 0.35", threshold_rule(0.35))):
        console.print(f"V-measure of interleaved threads, {name}: {measure(talks, method).v:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
