"""Three ways to keep the words of messages, on the same text: the measurement behind the choice.

    python -m bench.lexical [--messages 100000] [--small] [--data PATH] [--folder DIR]

Ten people have a tenth of the messages each. All designs get the words of our own analyser. Exact is BM25 with the
statistics of what is searched: a conversation, or all of a person's messages.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import apsw
import numpy as np
from rich.console import Console
from rich.table import Table

from bench import data
from bench.measuring import Times, clock, in_turn, table_bytes
from recollect.core import word_index
from recollect.core.language import analyser
from recollect.recall.scope_index import Scope
from recollect.recall.scoring import K1, B, bm25
from recollect.storage.scope_updates import News

PEOPLE: Final = 10
TALK: Final = 500  # messages of a conversation
CANDIDATES: Final = 200
BEST: Final = 10
BATCH: Final = 500
ALONE: Final = 300  # messages that are inserted one by one
SHIFT: Final = 20  # a message's number is its conversation and, in the lowest bits, its place there


@dataclass(frozen=True, slots=True)
class Written:
    """A message to be indexed."""

    key: int  # in the order in which they come
    person: int
    conversation: int
    place: int
    text: str

    @property
    def number(self) -> int:
        return self.conversation << SHIFT | self.place


@dataclass(frozen=True, slots=True)
class Where:
    """What is searched: all of a person's messages, or one conversation."""

    person: int
    conversation: int | None = None

    def holds(self, message: Written) -> bool:
        return message.person == self.person and self.conversation in (None, message.conversation)


class Design(Protocol):
    """One way to store words and to find messages by them."""

    name: str
    db: apsw.Connection

    def insert(self, messages: Sequence[Written]) -> None: ...

    def search(self, question: str, where: Where) -> list[int]:
        """The numbers of the best messages."""
        ...

    def forget(self) -> None:
        """Drop what is kept in memory."""
        ...

    def erase(self, person: int) -> None: ...

    def trace(self, question: str, where: Where) -> object:
        """What a search sees of statistics; if an erase of somebody else changes it, they leak."""
        ...


def opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE messages (key INTEGER PRIMARY KEY, number INTEGER, person INTEGER, content TEXT) STRICT"
    )
    return connection


def insert_messages(db: apsw.Connection, messages: Iterable[Written]) -> None:
    rows = [(one.key, one.number, one.person, one.text) for one in messages]
    db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)


def score(rarity: float, count: float, length: float, average: float) -> float:
    return rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * length / average))


def rarity(size: int, holding: int) -> float:
    return math.log(1 + (size - holding + 0.5) / (holding + 0.5))


class FullText:
    """(a) FTS5 with a word for the scope finds candidates; Python scores them anew with the scope's statistics."""

    name = "a: FTS5, re-scored"

    def __init__(self, path: Path) -> None:
        self.db = opened(path)
        self.db.execute(
            "CREATE VIRTUAL TABLE words USING fts5 "
            "(scope, body, content = '', contentless_delete = 1, tokenize = 'ascii')"
        )
        self.db.execute(
            "CREATE TABLE counts (scope TEXT PRIMARY KEY, messages INTEGER, words INTEGER) STRICT, WITHOUT ROWID"
        )

    def insert(self, messages: Sequence[Written]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        rows = []
        for one in messages:
            words = analyser.words(one.text)
            scopes = (f"p{one.person}", f"c{one.conversation}")
            rows.append((one.key, " ".join(scopes), " ".join(words)))
            for scope in scopes:
                self.db.execute(
                    "INSERT INTO counts VALUES (?, 1, ?) ON CONFLICT DO UPDATE "
                    "SET messages = messages + 1, words = words + excluded.words",
                    (scope, len(words)),
                )
        self.db.executemany("INSERT INTO words (rowid, scope, body) VALUES (?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def _candidates(self, words: Sequence[str], scope: str) -> list[tuple[int, float]]:
        asked = f'scope : "{scope}" AND body : ({" OR ".join(_quoted(word) for word in words)})'
        return list(
            self.db.execute(
                "SELECT rowid, bm25(words, 0, 1) FROM words WHERE words MATCH ? ORDER BY 2 LIMIT ?", (asked, CANDIDATES)
            )
        )

    def search(self, question: str, where: Where) -> list[int]:
        words, scope = analyser.query_words(question), _scope(where)
        size, total = next(iter(self.db.execute("SELECT messages, words FROM counts WHERE scope = ?", (scope,))))
        rare = {}
        for word in words:
            asked = f'scope : "{scope}" AND body : {_quoted(word)}'
            found = self.db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (asked,))
            rare[word] = rarity(size, next(iter(found))[0])
        scored = []
        for key, _ in self._candidates(words, scope):
            stored = self.db.execute("SELECT number, content FROM messages WHERE key = ?", (key,))
            number, content = next(iter(stored))
            held = Counter(analyser.words(content))
            length = held.total()
            scored.append((sum(score(rare[w], held[w], length, total / size) for w in words if held[w]), number))
        return [number for _, number in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:BEST]]

    def forget(self) -> None:
        self.db.execute("PRAGMA shrink_memory")

    def erase(self, person: int) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("DELETE FROM words WHERE rowid IN (SELECT key FROM messages WHERE person = ?)", (person,))
        erase_messages(self.db, person)
        self.db.execute("COMMIT")

    def trace(self, question: str, where: Where) -> object:
        return [
            (key, round(found, 6)) for key, found in self._candidates(analyser.query_words(question), _scope(where))
        ]


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _scope(where: Where) -> str:
    return f"p{where.person}" if where.conversation is None else f"c{where.conversation}"


def erase_messages(db: apsw.Connection, person: int) -> None:
    db.execute("DELETE FROM messages WHERE person = ?", (person,))


class Rows:
    """(b) One row for each word of each message, in plain SQL; a conversation is a range of numbers."""

    name = "b: postings in SQL"

    def __init__(self, path: Path) -> None:
        self.db = opened(path)
        self.db.execute(
            "CREATE TABLE postings (person INTEGER, word INTEGER, number INTEGER, count INTEGER, "
            "PRIMARY KEY (person, word, number)) STRICT, WITHOUT ROWID"
        )
        self.db.execute(
            "CREATE TABLE lengths (person INTEGER, number INTEGER, length INTEGER, "
            "PRIMARY KEY (person, number)) STRICT, WITHOUT ROWID"
        )

    def insert(self, messages: Sequence[Written]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        rows, lengths = [], []
        for one in messages:
            held = Counter(map(word_index.number, analyser.words(one.text)))
            rows += [(one.person, word, one.number, count) for word, count in held.items()]
            lengths.append((one.person, one.number, held.total()))
        self.db.executemany("INSERT INTO postings VALUES (?, ?, ?, ?)", rows)
        self.db.executemany("INSERT INTO lengths VALUES (?, ?, ?)", lengths)
        self.db.execute("COMMIT")

    def _scores(self, question: str, where: Where) -> dict[int, float]:
        low, high = _range(where)
        known = "SELECT count(*), avg(length) FROM lengths WHERE person = ? AND number BETWEEN ? AND ?"
        size, average = next(iter(self.db.execute(known, (where.person, low, high))))
        found: defaultdict[int, float] = defaultdict(float)
        for word in word_index.query_numbers(analyser.query_words(question)):
            rows = list(
                self.db.execute(
                    "SELECT p.number, p.count, l.length FROM postings p CROSS JOIN lengths l USING (person, number) "
                    "WHERE p.person = ? AND p.word = ? AND p.number BETWEEN ? AND ?",
                    (where.person, word, low, high),
                )
            )
            rare = rarity(size, len(rows))
            for number, count, length in rows:
                found[number] += score(rare, count, length, average)
        return found

    def search(self, question: str, where: Where) -> list[int]:
        found = self._scores(question, where)
        return sorted(found, key=lambda number: (-found[number], number))[:BEST]

    def forget(self) -> None:
        self.db.execute("PRAGMA shrink_memory")

    def erase(self, person: int) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("DELETE FROM postings WHERE person = ?", (person,))
        self.db.execute("DELETE FROM lengths WHERE person = ?", (person,))
        erase_messages(self.db, person)
        self.db.execute("COMMIT")

    def trace(self, question: str, where: Where) -> object:
        return {number: round(found, 6) for number, found in self._scores(question, where).items()}


def _range(where: Where) -> tuple[int, int]:
    if where.conversation is None:
        return 0, 1 << 62
    return where.conversation << SHIFT, (where.conversation + 1 << SHIFT) - 1


class Entries:
    """(c) Ours: the words of a message as one value, read per conversation and inverted in memory."""

    name = "c: entries, in memory"

    def __init__(self, path: Path) -> None:
        self.db = opened(path)
        self.db.execute(
            "CREATE TABLE entries (conversation_key INTEGER, seq INTEGER, at INTEGER, role TEXT, words BLOB, "
            "PRIMARY KEY (conversation_key, seq)) STRICT, WITHOUT ROWID"
        )
        self.db.execute("CREATE TABLE conversations (conversation INTEGER PRIMARY KEY, person INTEGER) STRICT")
        self._scopes: dict[Where, Scope] = {}

    def insert(self, messages: Sequence[Written]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        self.db.executemany(
            "INSERT INTO conversations VALUES (?, ?) ON CONFLICT DO NOTHING",
            {(one.conversation, one.person) for one in messages},
        )
        rows = [(one.conversation, one.place, 0, "user", word_index.encode(one.text, None)) for one in messages]
        self.db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def _scope(self, where: Where) -> Scope:
        if where not in self._scopes:
            names = ("conversation_key", "seq", "at", "role", "words")
            found = self.db.execute(
                "SELECT e.* FROM conversations c JOIN entries e ON e.conversation_key = c.conversation "
                "WHERE c.person = ? AND (? IS NULL OR c.conversation = ?) ORDER BY e.conversation_key, e.seq",
                (where.person, where.conversation, where.conversation),
            )
            rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in found]
            self._scopes[where] = Scope().grown(News((), True, (), {}, rows, ()), {})
        return self._scopes[where]

    def search(self, question: str, where: Where) -> list[int]:
        scope = self._scope(where)
        found, _ = bm25(scope, word_index.query_numbers(analyser.query_words(question)))
        best = np.argpartition(-found, min(BEST, len(found) - 1))[:BEST]
        best = best[np.argsort(-found[best], kind="stable")]
        return [int(scope.keys[i]) << SHIFT | int(scope.seqs[i]) for i in best if found[i] > 0]

    def forget(self) -> None:
        self._scopes.clear()
        self.db.execute("PRAGMA shrink_memory")

    def erase(self, person: int) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        own = "SELECT conversation FROM conversations WHERE person = ?"
        self.db.execute(f"DELETE FROM entries WHERE conversation_key IN ({own})", (person,))  # noqa: S608
        self.db.execute("DELETE FROM conversations WHERE person = ?", (person,))
        erase_messages(self.db, person)
        self.db.execute("COMMIT")
        self._scopes = {where: scope for where, scope in self._scopes.items() if where.person != person}

    def trace(self, question: str, where: Where) -> object:
        self.forget()
        words = word_index.query_numbers(analyser.query_words(question))
        return bm25(self._scope(where), words)[0].round(6).tolist()


class Exact:
    """BM25 by the book, over the messages of one scope."""

    def __init__(self, messages: Iterable[Written]) -> None:
        self._held = {one.number: Counter(analyser.words(one.text)) for one in messages}
        self._average = sum(held.total() for held in self._held.values()) / len(self._held)
        self._holding: Counter[str] = Counter(word for held in self._held.values() for word in held)

    def scores(self, question: str) -> dict[int, float]:
        words = analyser.query_words(question)
        rare = {word: rarity(len(self._held), self._holding[word]) for word in words}
        return {
            number: sum(score(rare[w], held[w], held.total(), self._average) for w in words if held[w])
            for number, held in self._held.items()
        }

    def agreement(self, question: str, found: Sequence[int]) -> float:
        """The share of the best that was found; one with the same score will do as well."""
        scores = self.scores(question)
        best = sorted((value for value in scores.values() if value > 0), reverse=True)[:BEST]
        if not best:
            return 1.0
        good = sum(scores[number] >= best[-1] - 1e-4 for number in found[: len(best)])
        return good / len(best)


def written(texts: data.Texts, count: int) -> list[Written]:
    """Conversations of ten people, in the order in which they would come: everyone's mixed."""
    talks = max(1, count // TALK)
    return [Written(key, key % talks % PEOPLE, key % talks, key // talks + 1, texts.text(120)) for key in range(count)]


def measured(design: Design, messages: Sequence[Written], asked: Sequence[str]) -> Iterator[str]:
    """The cells of one design's column."""
    single = Times([clock(partial(design.insert, [one])) for one in messages[:ALONE]])
    rest = messages[ALONE:]
    batches = [rest[start : start + BATCH] for start in range(0, len(rest), BATCH)]
    together = sum(clock(partial(design.insert, some)) for some in batches) / len(rest)
    design.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index = sum(size for name, size in table_bytes(design.db).items() if name not in ("messages", "sqlite_schema"))
    raw = sum(len(one.text.encode()) for one in messages)
    yield f"{index / raw:.2f}×"
    yield f"{single.ms(0.5):.2f} / {single.ms(0.95):.2f}"
    yield f"{together * 1000:.3f}"
    person = Where(3)
    conversation = Where(3, next(one.conversation for one in messages if one.person == 3))
    for where in (conversation, person):
        design.forget()
        cold = clock(partial(design.search, asked[-1], where))
        times = in_turn(asked[:-1], {"search": partial(design.search, where=where)})["search"]
        exact = Exact(one for one in messages if where.holds(one))
        agreed = [exact.agreement(question, design.search(question, where)) for question in asked[:30]]
        yield f"{cold * 1000:.1f}"
        yield f"{times.ms(0.5):.2f} / {times.ms(0.95):.2f}"
        yield f"{sum(agreed) / len(agreed):.1%}"
    before = [design.trace(question, person) for question in asked[:10]]
    yield f"{clock(partial(design.erase, 7)) * 1000:.0f}"
    after = [design.trace(question, person) for question in asked[:10]]
    yield "no" if before == after else "[red]yes[/]"


ROWS: Final = (
    "index / text, bytes", "insert one, ms p50 / p95", "insert 500 at once, ms each", "conversation: first query, ms",
    "  warm, ms p50 / p95", "  best ten as exact BM25", "person: first query, ms", "  warm, ms p50 / p95",
    "  best ten as exact BM25", "erase one person of ten, ms", "others' statistics show in it",
)  # fmt: skip


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--messages", type=int, help="in all (100,000)")
    reader.add_argument("--small", action="store_true", help="a tenth, for a quick look")
    reader.add_argument("--data", type=Path, default=data.DEFAULT, help="folder of the data (../shared/bench)")
    reader.add_argument("--folder", help="where to write: the disk that is measured")
    given = reader.parse_args()
    texts = data.Texts(given.data)
    messages = written(texts, given.messages or (10_000 if given.small else 100_000))
    asked = texts.questions(101)
    table = Table(title=f"{len(messages):,} messages, {PEOPLE} people", title_justify="left")
    table.add_column("")
    columns = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for kind in (FullText, Rows, Entries):
            design: Design = kind(Path(folder) / f"{kind.__name__}.db")
            columns.append(list(measured(design, messages, asked)))
            table.add_column(design.name, justify="right")
            design.db.close()
    for name, *cells in zip(ROWS, *columns, strict=True):
        table.add_row(name, *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
