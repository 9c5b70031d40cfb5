"""Compares three ways to store the words of messages, on the same text: the measurement behind our choice.

    python -m bench.lexical [--messages 100000] [--small] [--data PATH] [--folder DIR]

Ten people have a tenth of the messages each. All stores get the words of our own analyser. Rankings are compared with
exact BM25, whose statistics are those of the searched scope: a conversation, or all messages of a person.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import data
from bench.measures import Times, table_bytes, time_call, time_in_turn
from bench.word_stores import (
    BEST,
    Fts5Store,
    IndexedMessage,
    PostingsStore,
    SearchScope,
    WordRowsStore,
    WordStore,
    rarity,
    score,
)
from recollect.core.language import analyser

PEOPLE: Final = 10
CONVERSATION_MESSAGES: Final = 500
BATCH_MESSAGES: Final = 500  # inserted at once
SINGLE_MESSAGES: Final = 300  # inserted one by one


class Exact:
    """Exact BM25 over the messages of one scope."""

    def __init__(self, messages: Iterable[IndexedMessage]) -> None:
        self._word_counts = {message.number: Counter(analyser.words(message.text)) for message in messages}
        self._average = sum(counts.total() for counts in self._word_counts.values()) / len(self._word_counts)
        self._holding: Counter[str] = Counter(word for counts in self._word_counts.values() for word in counts)

    def scores(self, question: str) -> dict[int, float]:
        """Return the score of every message, by its number."""
        words = analyser.query_words(question)
        rarities = {word: rarity(len(self._word_counts), self._holding[word]) for word in words}
        return {
            number: sum(
                score(rarities[word], counts[word], counts.total(), self._average) for word in words if counts[word]
            )
            for number, counts in self._word_counts.items()
        }

    def agreement(self, question: str, ranked: Sequence[int]) -> float:
        """Return the share of the best messages that are in `ranked`. A message with the same score counts as well."""
        scores = self.scores(question)
        best = sorted((value for value in scores.values() if value > 0), reverse=True)[:BEST]
        if not best:
            return 1.0
        as_good = sum(scores[number] >= best[-1] - 1e-4 for number in ranked[: len(best)])
        return as_good / len(best)


def make_messages(texts: data.Texts, count: int) -> list[IndexedMessage]:
    """Return messages of ten people in the order of arrival: the conversations take turns."""
    conversations = max(1, count // CONVERSATION_MESSAGES)
    return [
        IndexedMessage(
            key, key % conversations % PEOPLE, key % conversations, key // conversations + 1, texts.text(120)
        )
        for key in range(count)
    ]


def measure_store(store: WordStore, messages: Sequence[IndexedMessage], questions: Sequence[str]) -> Iterator[str]:
    """Yield the cells of one store's column."""
    single = Times([time_call(partial(store.insert, [message])) for message in messages[:SINGLE_MESSAGES]])
    rest = messages[SINGLE_MESSAGES:]
    batches = [rest[start : start + BATCH_MESSAGES] for start in range(0, len(rest), BATCH_MESSAGES)]
    together = sum(time_call(partial(store.insert, batch)) for batch in batches) / len(rest)
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index = sum(size for name, size in table_bytes(store.db).items() if name not in ("messages", "sqlite_schema"))
    raw = sum(len(message.text.encode()) for message in messages)
    yield f"{index / raw:.2f}×"
    yield f"{single.ms(0.5):.2f} / {single.ms(0.95):.2f}"
    yield f"{together * 1000:.3f}"
    person = SearchScope(3)
    conversation = SearchScope(3, next(message.conversation for message in messages if message.person == 3))
    for scope in (conversation, person):
        store.forget()
        cold = time_call(partial(store.search, questions[-1], scope))
        times = time_in_turn(questions[:-1], {"search": partial(store.search, scope=scope)})["search"]
        exact = Exact(message for message in messages if scope.holds(message))
        agreed = [exact.agreement(question, store.search(question, scope)) for question in questions[:30]]
        yield f"{cold * 1000:.1f}"
        yield f"{times.ms(0.5):.2f} / {times.ms(0.95):.2f}"
        yield f"{sum(agreed) / len(agreed):.1%}"
    before = [store.trace(question, person) for question in questions[:10]]
    yield f"{time_call(partial(store.erase, 7)) * 1000:.0f}"
    after = [store.trace(question, person) for question in questions[:10]]
    yield "no" if before == after else "[red]yes[/]"


ROWS: Final = (
    "index / text, bytes", "insert one, ms p50 / p95", "insert 500 at once, ms each", "conversation: first query, ms",
    "  warm, ms p50 / p95", "  best ten as exact BM25", "person: first query, ms", "  warm, ms p50 / p95",
    "  best ten as exact BM25", "erase one person of ten, ms", "others' statistics show in it",
)  # fmt: skip


def main() -> int:
    """Measure all stores and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, help="in all (100,000)")
    parser.add_argument("--small", action="store_true", help="a tenth, for a quick look")
    parser.add_argument("--data", type=Path, default=data.DEFAULT_FOLDER, help="folder of the data (../shared/bench)")
    parser.add_argument("--folder", help="where to write: the disk that is measured")
    options = parser.parse_args()
    texts = data.Texts(options.data)
    messages = make_messages(texts, options.messages or (10_000 if options.small else 100_000))
    questions = texts.questions(101)
    table = Table(title=f"{len(messages):,} messages, {PEOPLE} people", title_justify="left")
    table.add_column("")
    columns = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in (Fts5Store, PostingsStore, WordRowsStore):
            store: WordStore = kind(Path(folder) / f"{kind.__name__}.db")
            columns.append(list(measure_store(store, messages, questions)))
            table.add_column(store.name, justify="right")
            store.db.close()
    for name, *cells in zip(ROWS, *columns, strict=True):
        table.add_row(name, *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
