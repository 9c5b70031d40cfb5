"""Vectors as they are stored and compared: signed bytes with one scale each, and one bit per dimension to look first.

Knows nothing of messages but their index in a scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MAX_EXACT_VECTORS: Final = 20_000  # in a larger scope, bits choose which vectors are compared exactly
SHORTLIST_VECTORS: Final = 4_000  # vectors that the bits choose, at least
FLOAT_BATCH_VECTORS: Final = 2048  # vectors converted to floats at a time; more would not fit into the CPU's caches
SIGN_BATCH_VECTORS: Final = 8192  # whose signs are packed at a time
SIGNS_PER_WORD: Final = 64
MAX_PARTS: Final = 8  # small parts before they are merged
SCALE_BYTES: Final = 4
_LARGEST_INT8: Final = 127


def pack(vectors: Floats) -> bytes:
    """Return the vectors of one message's passages as bytes: for each its scale (float32), then its signed bytes."""
    vectors = np.asarray(vectors, np.float32)
    scales = np.abs(vectors).max(axis=1, initial=0.0) / _LARGEST_INT8
    divisors = np.where(scales > 0, scales, 1)[:, None]
    bytes_ = np.rint(vectors / divisors).astype(np.int8)
    return b"".join(
        np.float32(scale).astype("<f4").tobytes() + row.tobytes() for scale, row in zip(scales, bytes_, strict=True)
    )


def unpack(blob: bytes, dimensions: int) -> tuple[Floats, NDArray[np.int8]]:
    """Return the scales and vectors that `pack` was given.

    A blob whose length does not fit the dimensions is damaged: there are no vectors then. A damaged scale becomes 0.
    """
    width = dimensions + SCALE_BYTES
    if not blob or len(blob) % width:
        return np.empty(0, np.float32), np.empty((0, dimensions), np.int8)
    rows = np.frombuffer(blob, np.uint8).reshape(-1, width)
    scales = np.ascontiguousarray(rows[:, :SCALE_BYTES]).view("<f4").reshape(-1).astype(np.float32)
    scales[~np.isfinite(scales)] = 0
    return scales, np.ascontiguousarray(rows[:, SCALE_BYTES:]).view(np.int8)  # contiguous rows are read faster


class VectorPart:
    """Some vectors of one embedder, with the message and passage of each. Never changed.

    They are sorted by message and passage, so that the vectors of one message are neighbours.
    """

    def __init__(
        self, owners: NDArray[np.int32], passages: NDArray[np.int32], scales: Floats, bytes_: NDArray[np.int8]
    ) -> None:
        """Take the vectors. `owners` are indices of messages, `passages` count from 0 within each message."""
        if len(owners) > 1 and (np.diff(owners) < 0).any():
            order = np.lexsort((passages, owners))
            owners, passages, scales, bytes_ = owners[order], passages[order], scales[order], bytes_[order]
        self.owners, self.passages, self.scales, self.bytes = owners, passages, scales, bytes_
        self.firsts = np.flatnonzero(np.append(True, np.diff(owners) > 0)) if len(owners) else np.empty(0, np.int64)
        self.messages = self.owners[self.firsts].astype(np.int64)  # messages with vectors in this part, each once
        self.with_several = np.flatnonzero(np.diff(self.firsts, append=len(owners)) > 1)  # indices into `messages`
        self.blank_count = len(scales) - int(np.count_nonzero(scales))  # of texts that the embedder could not read
        self._floats: Floats | None = None
        self._bits: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.owners)

    @classmethod
    def merge(cls, parts: Sequence[VectorPart]) -> VectorPart:
        """Merge the vectors of several parts into one."""
        return cls(
            np.concatenate([part.owners for part in parts]),
            np.concatenate([part.passages for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate([part.bytes for part in parts]),
        )

    def score_all(self, query: Floats) -> Floats:
        """Return the cosine of every vector with the query's. Keeps the vectors as floats for the next query."""
        if self._floats is None:
            self._floats = self.bytes.astype(np.float32) * self.scales[:, None]
        scores: Floats = self._floats @ query
        return scores

    def score_rows(self, rows: NDArray[np.int64], query: Floats) -> Floats:
        """Return the cosine of some vectors, in batches, without keeping floats."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), FLOAT_BATCH_VECTORS):
            batch = rows[start : start + FLOAT_BATCH_VECTORS]
            floats = self.bytes.take(batch, axis=0).astype(np.float32)
            scores[start : start + FLOAT_BATCH_VECTORS] = (floats @ query) * self.scales[batch]
        return scores

    def estimate_scores(self, query: Floats) -> Floats:
        """Return the cosine of every vector: exact for those that share most signs, estimated by signs for the rest.

        This costs a fraction of `score_all`.
        """
        if len(self) <= SHORTLIST_VECTORS:
            return self.score_rows(np.arange(len(self)), query)
        dimensions = self.bytes.shape[1]
        if self._bits is None:
            self._bits = self._pack_columns()
        differing = np.zeros(len(self), np.int16)  # signs that differ from the query's
        for column, word in zip(self._bits, pack_signs(query)[0], strict=True):
            differing += np.bitwise_count(column ^ word)
        scores: Floats = np.cos(np.arange(dimensions + 1) * (np.pi / dimensions)).astype(np.float32)[differing]
        # The shortlist takes all vectors that differ as much as its last one.
        max_differing = np.searchsorted(np.cumsum(np.bincount(differing)), SHORTLIST_VECTORS)
        rows = np.flatnonzero(differing <= max_differing)
        scores[rows] = self.score_rows(rows, query)
        return scores

    def _pack_columns(self) -> NDArray[np.uint64]:
        """Return the signs of all vectors by column: adding up long rows is quick. Batches reuse their memory."""
        columns = np.empty((-(-self.bytes.shape[1] // SIGNS_PER_WORD), len(self)), np.uint64)
        for start in range(0, len(self), SIGN_BATCH_VECTORS):
            batch = slice(start, start + SIGN_BATCH_VECTORS)
            columns[:, batch] = pack_signs(self.bytes[batch]).T
        return columns

    @property
    def nbytes(self) -> int:
        """Return the memory that the arrays take, in bytes."""
        floats = 0 if self._floats is None else self._floats.nbytes
        bits = 0 if self._bits is None else self._bits.nbytes
        own = self.owners.nbytes + self.passages.nbytes + self.scales.nbytes + self.bytes.nbytes
        own += self.firsts.nbytes + self.messages.nbytes + self.with_several.nbytes
        return int(own + floats + bits)


class VectorRun(NamedTuple):
    """The vectors of messages that follow each other in a scope, of which the first has the index `offset`."""

    embedder: int
    counts: NDArray[Any]  # vectors of each message
    scales: Floats
    bytes: NDArray[np.int8]
    offset: int = 0


def join_runs(runs: list[VectorRun], others: VectorPart | None) -> VectorPart:
    """Join runs, in order, and vectors of other messages in between. The list is empty afterwards.

    Each run is dropped when it is copied, so that few vectors are in memory twice.
    """
    size = sum(len(run.scales) for run in runs) + (0 if others is None else len(others))
    owners, passages = np.empty(size, np.int32), np.empty(size, np.int32)
    scales, bytes_ = np.empty(size, np.float32), np.empty((size, runs[0].bytes.shape[1]), np.int8)
    end = taken = 0
    runs.reverse()
    while runs or others is not None:
        run = runs.pop() if runs else None
        if others is not None:
            stop = len(others) if run is None else int(np.searchsorted(others.owners, run.offset))
            place, rows = slice(end, end + stop - taken), slice(taken, stop)
            owners[place], passages[place] = others.owners[rows], others.passages[rows]
            scales[place], bytes_[place] = others.scales[rows], others.bytes[rows]
            end, taken = place.stop, stop
        if run is None:
            break
        place = slice(end, end + len(run.scales))
        counts = run.counts.astype(np.int64)
        owners[place] = np.repeat(np.arange(run.offset, run.offset + len(counts)), counts)
        passages[place] = np.arange(len(run.scales)) - np.repeat(np.cumsum(counts) - counts, counts)
        scales[place], bytes_[place] = run.scales, run.bytes
        end = place.stop
    return VectorPart(owners, passages, scales, bytes_)


def pack_signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one bit per dimension, in words of 64 bits. A bit is set where the value is positive."""
    packed = np.packbits(np.atleast_2d(vectors) > 0, axis=1)
    padding = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, padding)))).view(np.uint64)


def append_part(parts: tuple[VectorPart, ...], new: VectorPart) -> tuple[VectorPart, ...]:
    """Return the parts with a new one.

    Small parts are merged now and then. They are merged into the large first part when they reach a quarter of it.
    """
    parts = (*parts, new)
    if len(parts) <= MAX_PARTS:
        return parts
    large, small = parts[0], VectorPart.merge(parts[1:])
    return (large, small) if len(small) < len(large) // 4 else (VectorPart.merge((large, small)),)
