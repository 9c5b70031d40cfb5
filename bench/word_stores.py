"""Three ways to store the words of messages in SQLite and to search them, for `bench.lexical`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import apsw
import numpy as np

from recollect.core import word_index
from recollect.core.language import analyser
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import BM25_B, BM25_K1, score_words
from recollect.storage.scope_updates import ScopeUpdate

BEST: Final = 10  # messages that a search returns
CANDIDATES: Final = 200  # messages that FTS5 finds, to be scored again
SEQ_BITS: Final = 20  # the lowest bits of a message's number, which hold its position in the conversation


@dataclass(frozen=True, slots=True)
class IndexedMessage:
    """A message to be indexed. Keys follow the order of arrival."""

    key: int
    person: int
    conversation: int
    seq: int
    text: str

    @property
    def number(self) -> int:
        """Return a number that holds conversation and seq."""
        return self.conversation << SEQ_BITS | self.seq


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The messages that a search looks at: all of a person's, or one conversation."""

    person: int
    conversation: int | None = None

    def holds(self, message: IndexedMessage) -> bool:
        """Return True if the message belongs to this scope."""
        return message.person == self.person and self.conversation in (None, message.conversation)


class WordStore(Protocol):
    """A way to store the words of messages and to find messages by them."""

    name: str
    db: apsw.Connection

    def insert(self, messages: Sequence[IndexedMessage]) -> None: ...

    def search(self, question: str, scope: SearchScope) -> list[int]:
        """Return the numbers of the best messages."""
        ...

    def forget(self) -> None:
        """Drop what is kept in memory."""
        ...

    def erase(self, person: int) -> None: ...

    def trace(self, question: str, scope: SearchScope) -> object:
        """Return the scores that a search sees. If an erase of another person changes them, statistics leak."""
        ...


def open_database(path: Path) -> apsw.Connection:
    """Open a durable database with a table of messages."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE messages (key INTEGER PRIMARY KEY, number INTEGER, person INTEGER, content TEXT) STRICT"
    )
    return connection


def insert_messages(db: apsw.Connection, messages: Iterable[IndexedMessage]) -> None:
    """Insert the messages themselves, which every store keeps."""
    rows = [(message.key, message.number, message.person, message.text) for message in messages]
    db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)


def score(rarity: float, count: float, length: float, average: float) -> float:
    """Return the BM25 score of one word in one message."""
    return rarity * count * (BM25_K1 + 1) / (count + BM25_K1 * (1 - BM25_B + BM25_B * length / average))


def rarity(size: int, holding: int) -> float:
    """Return the BM25 weight of a word that `holding` of `size` messages have."""
    return math.log(1 + (size - holding + 0.5) / (holding + 0.5))


class Fts5Store:
    """Store (a): FTS5 finds candidates by a word for the scope; Python scores them with the scope's statistics."""

    name = "a: FTS5, re-scored"

    def __init__(self, path: Path) -> None:
        self.db = open_database(path)
        self.db.execute(
            "CREATE VIRTUAL TABLE words USING fts5 "
            "(scope, body, content = '', contentless_delete = 1, tokenize = 'ascii')"
        )
        self.db.execute(
            "CREATE TABLE counts (scope TEXT PRIMARY KEY, messages INTEGER, words INTEGER) STRICT, WITHOUT ROWID"
        )

    def insert(self, messages: Sequence[IndexedMessage]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        rows = []
        for message in messages:
            words = analyser.words(message.text)
            scopes = (f"p{message.person}", f"c{message.conversation}")
            rows.append((message.key, " ".join(scopes), " ".join(words)))
            for scope in scopes:
                self.db.execute(
                    "INSERT INTO counts VALUES (?, 1, ?) ON CONFLICT DO UPDATE "
                    "SET messages = messages + 1, words = words + excluded.words",
                    (scope, len(words)),
                )
        self.db.executemany("INSERT INTO words (rowid, scope, body) VALUES (?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def _candidates(self, words: Sequence[str], scope: str) -> list[tuple[int, float]]:
        expression = f'scope : "{scope}" AND body : ({" OR ".join(_quote(word) for word in words)})'
        return list(
            self.db.execute(
                "SELECT rowid, bm25(words, 0, 1) FROM words WHERE words MATCH ? ORDER BY 2 LIMIT ?",
                (expression, CANDIDATES),
            )
        )

    def search(self, question: str, scope: SearchScope) -> list[int]:
        words, scope_word = analyser.query_words(question), _scope_word(scope)
        size, total = next(iter(self.db.execute("SELECT messages, words FROM counts WHERE scope = ?", (scope_word,))))
        rarities = {}
        for word in words:
            expression = f'scope : "{scope_word}" AND body : {_quote(word)}'
            holding = self.db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (expression,))
            rarities[word] = rarity(size, next(iter(holding))[0])
        scored = []
        for key, _ in self._candidates(words, scope_word):
            stored = self.db.execute("SELECT number, content FROM messages WHERE key = ?", (key,))
            number, content = next(iter(stored))
            counts = Counter(analyser.words(content))
            length = counts.total()
            scored.append(
                (
                    sum(score(rarities[word], counts[word], length, total / size) for word in words if counts[word]),
                    number,
                )
            )
        return [number for _, number in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:BEST]]

    def forget(self) -> None:
        self.db.execute("PRAGMA shrink_memory")

    def erase(self, person: int) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("DELETE FROM words WHERE rowid IN (SELECT key FROM messages WHERE person = ?)", (person,))
        erase_messages(self.db, person)
        self.db.execute("COMMIT")

    def trace(self, question: str, scope: SearchScope) -> object:
        return [
            (key, round(bm25, 6)) for key, bm25 in self._candidates(analyser.query_words(question), _scope_word(scope))
        ]


def _quote(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _scope_word(scope: SearchScope) -> str:
    return f"p{scope.person}" if scope.conversation is None else f"c{scope.conversation}"


def erase_messages(db: apsw.Connection, person: int) -> None:
    """Delete the messages of a person."""
    db.execute("DELETE FROM messages WHERE person = ?", (person,))


class PostingsStore:
    """Store (b): one row for each word of each message, in plain SQL. A conversation is a range of numbers."""

    name = "b: postings in SQL"

    def __init__(self, path: Path) -> None:
        self.db = open_database(path)
        self.db.execute(
            "CREATE TABLE postings (person INTEGER, word INTEGER, number INTEGER, count INTEGER, "
            "PRIMARY KEY (person, word, number)) STRICT, WITHOUT ROWID"
        )
        self.db.execute(
            "CREATE TABLE lengths (person INTEGER, number INTEGER, length INTEGER, "
            "PRIMARY KEY (person, number)) STRICT, WITHOUT ROWID"
        )

    def insert(self, messages: Sequence[IndexedMessage]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        rows, lengths = [], []
        for message in messages:
            counts = Counter(map(word_index.hash_word, analyser.words(message.text)))
            rows += [(message.person, word, message.number, count) for word, count in counts.items()]
            lengths.append((message.person, message.number, counts.total()))
        self.db.executemany("INSERT INTO postings VALUES (?, ?, ?, ?)", rows)
        self.db.executemany("INSERT INTO lengths VALUES (?, ?, ?)", lengths)
        self.db.execute("COMMIT")

    def _scores(self, question: str, scope: SearchScope) -> dict[int, float]:
        low, high = _range(scope)
        statistics = "SELECT count(*), avg(length) FROM lengths WHERE person = ? AND number BETWEEN ? AND ?"
        size, average = next(iter(self.db.execute(statistics, (scope.person, low, high))))
        scores: defaultdict[int, float] = defaultdict(float)
        for word in word_index.hash_words(analyser.query_words(question)):
            rows = list(
                self.db.execute(
                    "SELECT p.number, p.count, l.length FROM postings p CROSS JOIN lengths l USING (person, number) "
                    "WHERE p.person = ? AND p.word = ? AND p.number BETWEEN ? AND ?",
                    (scope.person, word, low, high),
                )
            )
            word_rarity = rarity(size, len(rows))
            for number, count, length in rows:
                scores[number] += score(word_rarity, count, length, average)
        return scores

    def search(self, question: str, scope: SearchScope) -> list[int]:
        scores = self._scores(question, scope)
        return sorted(scores, key=lambda number: (-scores[number], number))[:BEST]

    def forget(self) -> None:
        self.db.execute("PRAGMA shrink_memory")

    def erase(self, person: int) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("DELETE FROM postings WHERE person = ?", (person,))
        self.db.execute("DELETE FROM lengths WHERE person = ?", (person,))
        erase_messages(self.db, person)
        self.db.execute("COMMIT")

    def trace(self, question: str, scope: SearchScope) -> object:
        return {number: round(value, 6) for number, value in self._scores(question, scope).items()}


def _range(scope: SearchScope) -> tuple[int, int]:
    if scope.conversation is None:
        return 0, 1 << 62
    return scope.conversation << SEQ_BITS, (scope.conversation + 1 << SEQ_BITS) - 1


class WordRowsStore:
    """Store (c), ours: a row for each message holds its words. Rows are read by scope and inverted in memory."""

    name = "c: entries, in memory"

    def __init__(self, path: Path) -> None:
        self.db = open_database(path)
        self.db.execute(
            "CREATE TABLE entries (conversation_key INTEGER, seq INTEGER, at INTEGER, role INTEGER, words BLOB, "
            "PRIMARY KEY (conversation_key, seq)) STRICT, WITHOUT ROWID"
        )
        self.db.execute("CREATE TABLE conversations (conversation INTEGER PRIMARY KEY, person INTEGER) STRICT")
        self._scopes: dict[SearchScope, ScopeIndex] = {}

    def insert(self, messages: Sequence[IndexedMessage]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        insert_messages(self.db, messages)
        self.db.executemany(
            "INSERT INTO conversations VALUES (?, ?) ON CONFLICT DO NOTHING",
            {(message.conversation, message.person) for message in messages},
        )
        role = word_index.ROLE_NUMBERS["user"]
        rows = [
            (message.conversation, message.seq, 0, role, word_index.encode_row(message.text, None))
            for message in messages
        ]
        self.db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def _load(self, scope: SearchScope) -> ScopeIndex:
        if scope not in self._scopes:
            names = ("conversation_key", "seq", "at", "role", "words")
            stored = self.db.execute(
                "SELECT e.* FROM conversations c JOIN entries e ON e.conversation_key = c.conversation "
                "WHERE c.person = ? AND (? IS NULL OR c.conversation = ?) ORDER BY e.conversation_key, e.seq",
                (scope.person, scope.conversation, scope.conversation),
            )
            rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in stored]
            self._scopes[scope] = ScopeIndex().updated(ScopeUpdate((), True, (), {}, rows, ()), {})
        return self._scopes[scope]

    def search(self, question: str, scope: SearchScope) -> list[int]:
        index = self._load(scope)
        scores, _ = score_words(index, word_index.hash_words(analyser.query_words(question)))
        best = np.argpartition(-scores, min(BEST, len(scores) - 1))[:BEST]
        best = best[np.argsort(-scores[best], kind="stable")]
        return [int(index.conversation_keys[i]) << SEQ_BITS | int(index.seqs[i]) for i in best if scores[i] > 0]

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
        self._scopes = {scope: index for scope, index in self._scopes.items() if scope.person != person}

    def trace(self, question: str, scope: SearchScope) -> object:
        self.forget()
        words = word_index.hash_words(analyser.query_words(question))
        return score_words(self._load(scope), words)[0].round(6).tolist()
