"""Which messages hold a word, and how often: sorted arrays, built at once and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

PARTS: Final = 8  # so many small parts are looked through before they are put together
NOTHING: Final[tuple[Ints, Floats]] = (np.empty(0, np.int32), np.empty(0, np.float32))


class Postings:
    """The words of some messages. `docs[starts[i]:starts[i+1]]` are the messages that hold `terms[i]`."""

    __slots__ = ("counts", "docs", "starts", "terms")

    def __init__(self, terms: NDArray[np.uint32], starts: NDArray[np.int64], docs: Ints, counts: Floats) -> None:
        self.terms, self.starts, self.docs, self.counts = terms, starts, docs, counts

    @classmethod
    def build(cls, words: NDArray[np.uint32], docs: Ints) -> Postings:
        """From words and the message that each stands in."""
        pairs = (words.astype(np.uint64) << np.uint64(32)) | docs.astype(np.uint64)
        distinct, counts = np.unique(pairs, return_counts=True)
        return cls._sorted((distinct >> np.uint64(32)).astype(np.uint32), distinct.astype(np.uint32), counts)

    @classmethod
    def _sorted(cls, words: NDArray[np.uint32], docs: NDArray[np.uint32], counts: NDArray[np.int64]) -> Postings:
        terms, first = np.unique(words, return_index=True)
        starts = np.append(first, len(words)).astype(np.int64)
        return cls(terms, starts, docs.astype(np.int32), counts.astype(np.float32))

    @classmethod
    def merge(cls, parts: Sequence[Postings]) -> Postings:
        words = np.concatenate([np.repeat(part.terms, np.diff(part.starts)) for part in parts])
        docs = np.concatenate([part.docs for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = np.argsort(words, kind="stable")
        return cls._sorted(words[order], docs[order].astype(np.uint32), counts[order].astype(np.int64))

    def find(self, word: int) -> tuple[Ints, Floats]:
        """The messages that hold a word, and how often each does."""
        place = int(np.searchsorted(self.terms, np.uint32(word)))
        if place == len(self.terms) or self.terms[place] != word:
            return NOTHING
        span = slice(self.starts[place], self.starts[place + 1])
        return self.docs[span], self.counts[span]

    @property
    def nbytes(self) -> int:
        return int(self.terms.nbytes + self.starts.nbytes + self.docs.nbytes + self.counts.nbytes)


def grown(parts: tuple[Postings, ...], new: Postings) -> tuple[Postings, ...]:
    """The parts with a new one; small ones are put together now and then, all of them when they weigh as much."""
    if not len(new.terms):
        return parts
    parts = (*parts, new)
    if len(parts) <= PARTS:
        return parts
    big, small = parts[0], Postings.merge(parts[1:])
    return (big, small) if len(small.docs) < len(big.docs) // 4 else (Postings.merge((big, small)),)


def find(parts: Sequence[Postings], word: int) -> tuple[Ints, Floats]:
    found = [part.find(word) for part in parts]
    found = [one for one in found if len(one[0])]
    if len(found) <= 1:
        return found[0] if found else NOTHING
    return np.concatenate([docs for docs, _ in found]), np.concatenate([counts for _, counts in found])
