"""Postings: which documents hold a word, and how often. Sorted arrays, built at once and never changed.

A document is whatever the caller numbers: a passage or a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

MAX_PARTS: Final = 8  # small parts that are searched one by one before they are merged
NO_MATCHES: Final[tuple[Ints, Floats]] = (np.empty(0, np.int32), np.empty(0, np.float32))


class Postings:
    """The words of some documents. `docs[starts[i]:starts[i+1]]` are the documents that hold `terms[i]`."""

    __slots__ = ("counts", "docs", "starts", "terms")

    def __init__(self, terms: NDArray[np.uint32], starts: NDArray[np.int64], docs: Ints, counts: Floats) -> None:
        self.terms, self.starts, self.docs, self.counts = terms, starts, docs, counts

    @classmethod
    def build(cls, words: NDArray[np.uint32], docs: Ints) -> Postings:
        """Build postings from words and the document of each."""
        pairs = (words.astype(np.uint64) << np.uint64(32)) | docs.astype(np.uint64)
        distinct, counts = np.unique(pairs, return_counts=True)
        terms, first = np.unique((distinct >> np.uint64(32)).astype(np.uint32), return_index=True)
        starts = np.append(first, len(distinct)).astype(np.int64)
        return cls(terms, starts, distinct.astype(np.uint32).astype(np.int32), counts.astype(np.float32))

    @classmethod
    def merge(cls, parts: Sequence[Postings], offsets: Sequence[int] | None = None) -> Postings:
        """Merge postings of different documents into one, with documents of a word in the order of the parts.

        `offsets` are added to the numbers of the documents of each part. Only words are sorted, not their documents:
        those of each part are copied as they are to the places of their words.
        """
        if len(parts) == 1:
            part, offset = parts[0], offsets[0] if offsets else 0
            terms, counts = part.terms.astype(np.uint32), part.counts.astype(np.float32)  # copies: a segment is large
            return cls(terms, part.starts, _move(part.docs, offset), counts)
        words = np.unique(np.concatenate([part.terms for part in parts]))
        slots = [np.searchsorted(words, part.terms) for part in parts]
        sizes = np.zeros(len(words), np.int64)
        for part, slot in zip(parts, slots, strict=True):
            sizes[slot] += np.diff(part.starts)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        docs, counts, free = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32), starts[:-1].copy()
        for part, slot, offset in zip(parts, slots, offsets or [0] * len(parts), strict=True):
            own = np.diff(part.starts)
            places = np.repeat(free[slot] - part.starts[:-1], own) + np.arange(len(part.docs))
            docs[places] = _move(part.docs, offset)
            counts[places] = part.counts
            free[slot] += own
        return cls(words, starts, docs, counts)

    def find(self, word: int) -> tuple[Ints, Floats]:
        """Return the documents that hold a word, and how often each does."""
        index = int(np.searchsorted(self.terms, np.uint32(word)))
        if index == len(self.terms) or self.terms[index] != word:
            return NO_MATCHES
        span = slice(self.starts[index], self.starts[index + 1])
        return self.docs[span], self.counts[span]

    @property
    def nbytes(self) -> int:
        """Return the memory that the arrays take, in bytes."""
        return int(self.terms.nbytes + self.starts.nbytes + self.docs.nbytes + self.counts.nbytes)


def _move(docs: NDArray[Any], offset: int) -> Ints:
    """Return documents whose numbers are larger by `offset`. Those of a segment are of a narrower type."""
    moved: Ints = np.add(docs, np.int32(offset), dtype=np.int32, casting="unsafe")
    return moved


def append_part(parts: tuple[Postings, ...], new: Postings) -> tuple[Postings, ...]:
    """Return the parts with a new one.

    Small parts are merged now and then. They are merged into the large first part when they reach a quarter of it.
    """
    if not len(new.terms):
        return parts
    parts = (*parts, new)
    if len(parts) <= MAX_PARTS:
        return parts
    large, small = parts[0], Postings.merge(parts[1:])
    return (large, small) if len(small.docs) < len(large.docs) // 4 else (Postings.merge((large, small)),)


def find_word(parts: Sequence[Postings], word: int) -> tuple[Ints, Floats]:
    """Return the documents of all parts that hold a word, and how often each does."""
    matches = [part.find(word) for part in parts]
    matches = [match for match in matches if len(match[0])]
    if len(matches) <= 1:
        return matches[0] if matches else NO_MATCHES
    return np.concatenate([docs for docs, _ in matches]), np.concatenate([counts for _, counts in matches])
