"""What recall is compared with: FTS5 alone, MiniLM alone, and two ways to put them together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import apsw
import numpy as np
from numpy.typing import NDArray

from bench.data import Message, spoken

Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Floats]

RRF: Final = 60
WEIGHTS: Final = (0.6, 0.3, 0.1)  # document E: dense, BM25, code
_CODE: Final = re.compile(
    r"`(?P<quoted>[^`]+)`|\b(?P<name>[a-z]+[A-Z]\w*|\w+_\w+|[A-Za-z_]\w*(?=\(\))"
    r"|\w+\.(?:py|js|ts|html|css|json|sql|md|java|cpp|go|rs))\b"
)


class Lexical:
    """SQLite's FTS5 with the porter stemmer, over one conversation; its words in any order, each optional."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        self._db = apsw.Connection(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'porter unicode61')")
        self._db.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", list(enumerate(texts)))

    def scores(self, query: str) -> Floats:
        """BM25 of every message; what has none of the words gets nothing."""
        found = np.zeros(self._size, np.float32)
        if asked := match_expression(query):
            for row, score in self._db.execute("SELECT rowid, bm25(words) FROM words WHERE words MATCH ?", (asked,)):
                found[row] = -score
        return found


def match_expression(text: str) -> str:
    """Any text as a valid FTS5 query: its words in quotes, joined by OR."""
    words = dict.fromkeys(re.findall(r"\w+", text.lower()))
    return " OR ".join(f'"{word}"' for word in words)


def code_terms(text: str) -> set[str]:
    """What looks like a name of a program: quoted in ticks, with underscores or humps, called, or a file."""
    return {(one["quoted"] or one["name"]).lower() for one in _CODE.finditer(text)}


def code_match(query: str, texts: Sequence[str]) -> Floats:
    """The share of the query's names that each text holds too."""
    asked = code_terms(query)
    if not asked:
        return np.zeros(len(texts), np.float32)
    return np.array([len(asked & code_terms(text)) / len(asked) for text in texts], np.float32)


def reciprocal_ranks(*arms: Floats, k: int = RRF) -> Floats:
    """Each message by its rank in every arm that gave it a score above nothing."""
    found = np.zeros(len(arms[0]), np.float32)
    for scores in arms:
        ranks = np.empty(len(scores), np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        found += np.where(scores > 0, 1 / (k + ranks), 0).astype(np.float32)
    return found


def weighted(near: Floats, lexical: Floats, code: Floats, weights: Sequence[float] = WEIGHTS) -> Floats:
    """Document E's formula; BM25 as a share of the best."""
    best = float(lexical.max(initial=0.0))
    share = lexical / best if best > 0 else lexical
    found: Floats = (weights[0] * near + weights[1] * share + weights[2] * code).astype(np.float32)
    return found


class Baselines:
    """All of them over the messages of one conversation, one whole message each."""

    def __init__(self, messages: Sequence[Message], encode: Encode) -> None:
        self._texts = [spoken(message) for message in messages]
        self._ids: list[str] = [message["id"] for message in messages]
        self._encode = encode
        self._lexical = Lexical(self._texts)
        self._vectors = encode(self._texts)

    def rankings(self, query: str, names: Sequence[str], depth: int) -> dict[str, list[str]]:
        """Message ids by the scores of each method, best first."""
        words = self._lexical.scores(query)
        near: Floats = self._vectors @ self._encode([query])[0]
        made: dict[str, Callable[[], Floats]] = {
            "fts5": lambda: words,
            "dense": lambda: near,
            "rrf": lambda: reciprocal_ranks(words, near + 2),  # a vector is always ranked, however far
            "formula": lambda: weighted(near, words, code_match(query, self._texts)),
        }
        return {name: self._ranked(made[name](), depth, name == "fts5") for name in names}

    def _ranked(self, scores: Floats, depth: int, found_only: bool) -> list[str]:
        order = np.argsort(-scores, kind="stable")[:depth]
        return [self._ids[i] for i in order if scores[i] > 0 or not found_only]
