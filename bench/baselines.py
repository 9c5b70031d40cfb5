"""Simpler ways to search, to compare recall with: FTS5 alone, MiniLM alone, and two ways to combine them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import apsw
import numpy as np
from numpy.typing import NDArray

from bench.data import Message, text_with_speaker

Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Floats]

RRF_K: Final = 60
FORMULA_WEIGHTS: Final = (0.6, 0.3, 0.1)  # of dense, BM25, code
_CODE: Final = re.compile(
    r"`(?P<quoted>[^`]+)`|\b(?P<name>[a-z]+[A-Z]\w*|\w+_\w+|[A-Za-z_]\w*(?=\(\))"
    r"|\w+\.(?:py|js|ts|html|css|json|sql|md|java|cpp|go|rs))\b"
)


class Lexical:
    """SQLite's FTS5 with the porter stemmer over one conversation. Query words are optional and in any order."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        self._db = apsw.Connection(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'porter unicode61')")
        self._db.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", list(enumerate(texts)))

    def scores(self, query: str) -> Floats:
        """Return the BM25 score of every message; 0 for a message that has none of the words."""
        scores = np.zeros(self._size, np.float32)
        if expression := match_expression(query):
            for row, score in self._db.execute(
                "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?", (expression,)
            ):
                scores[row] = -score
        return scores


def match_expression(text: str) -> str:
    """Turn any text into a valid FTS5 query: its words in quotes, joined by OR."""
    words = dict.fromkeys(re.findall(r"\w+", text.lower()))
    return " OR ".join(f'"{word}"' for word in words)


def code_terms(text: str) -> set[str]:
    """Return names that look like code: in backticks, with underscores or camel case, called, or file names."""
    return {(match["quoted"] or match["name"]).lower() for match in _CODE.finditer(text)}


def code_match(query: str, texts: Sequence[str]) -> Floats:
    """Return for each text the share of the query's code names that it holds."""
    names = code_terms(query)
    if not names:
        return np.zeros(len(texts), np.float32)
    return np.array([len(names & code_terms(text)) / len(names) for text in texts], np.float32)


def reciprocal_ranks(*arms: Floats, k: int = RRF_K) -> Floats:
    """Return the reciprocal rank fusion of several arms. A message without a score in an arm gets nothing from it."""
    fused = np.zeros(len(arms[0]), np.float32)
    for scores in arms:
        ranks = np.empty(len(scores), np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        fused += np.where(scores > 0, 1 / (k + ranks), 0).astype(np.float32)
    return fused


def weighted_sum(near: Floats, lexical: Floats, code: Floats, weights: Sequence[float] = FORMULA_WEIGHTS) -> Floats:
    """Return the weighted sum of three scores. BM25 counts as a share of the best one."""
    best = float(lexical.max(initial=0.0))
    share = lexical / best if best > 0 else lexical
    total: Floats = (weights[0] * near + weights[1] * share + weights[2] * code).astype(np.float32)
    return total


class Baselines:
    """All baselines over the messages of one conversation. They search whole messages, not passages."""

    def __init__(self, messages: Sequence[Message], encode: Encode) -> None:
        self._texts = [text_with_speaker(message) for message in messages]
        self._ids: list[str] = [message["id"] for message in messages]
        self._encode = encode
        self._lexical = Lexical(self._texts)
        self._vectors = encode(self._texts)

    def rankings(self, query: str, names: Sequence[str], depth: int) -> dict[str, list[str]]:
        """Return the message ids by each method, best first."""
        words = self._lexical.scores(query)
        near: Floats = self._vectors @ self._encode([query])[0]
        methods: dict[str, Callable[[], Floats]] = {
            "fts5": lambda: words,
            "dense": lambda: near,
            "rrf": lambda: reciprocal_ranks(words, near + 2),  # every vector has a rank, however far
            "formula": lambda: weighted_sum(near, words, code_match(query, self._texts)),
        }
        return {name: self._rank(methods[name](), depth, drop_zero=name == "fts5") for name in names}

    def _rank(self, scores: Floats, depth: int, *, drop_zero: bool) -> list[str]:
        order = np.argsort(-scores, kind="stable")[:depth]
        return [self._ids[index] for index in order if scores[index] > 0 or not drop_zero]
