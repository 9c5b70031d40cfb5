"""Vectors as they are stored and compared: signed bytes with a scale each, and one bit per dimension to look first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

EXACT: Final = 20_000  # vectors of a scope that are compared one by one; beyond, one bit per dimension goes ahead
SHORTLIST: Final = 4_000  # vectors that the bits leave over, at least
AT_ONCE: Final = 2048  # vectors that are made floats at a time: more would leave the caches
PARTS: Final = 8
_LARGEST: Final = 127


def pack(vectors: Floats) -> bytes:
    """The vectors of one message's passages, each as its scale (float32) and signed bytes."""
    vectors = np.asarray(vectors, np.float32)
    scales = np.abs(vectors).max(axis=1, initial=0.0) / _LARGEST
    safe = np.where(scales > 0, scales, 1)[:, None]
    bytes_ = np.rint(vectors / safe).astype(np.int8)
    return b"".join(
        np.float32(s).astype("<f4").tobytes() + row.tobytes() for s, row in zip(scales, bytes_, strict=True)
    )


def unpack(blob: bytes, dimensions: int) -> tuple[Floats, NDArray[np.int8]]:
    """Scales and vectors. What does not fit the dimensions is damaged, and left out whole; a damaged scale is 0."""
    width = dimensions + 4
    if not blob or len(blob) % width:
        return np.empty(0, np.float32), np.empty((0, dimensions), np.int8)
    rows = np.frombuffer(blob, np.uint8).reshape(-1, width)
    scales = np.ascontiguousarray(rows[:, :4]).view("<f4").reshape(-1).astype(np.float32)
    scales[~np.isfinite(scales)] = 0
    return scales, np.ascontiguousarray(rows[:, 4:]).view(np.int8)  # what lies together is read at once


class Part:
    """Some vectors of one embedder: which message and passage each belongs to. Never changed.

    They stand in the order of messages and passages, so that what belongs to one message lies together.
    """

    def __init__(
        self, owners: NDArray[np.int32], places: NDArray[np.int32], scales: Floats, bytes_: NDArray[np.int8]
    ) -> None:
        if len(owners) > 1 and (np.diff(owners) < 0).any():
            order = np.lexsort((places, owners))
            owners, places, scales, bytes_ = owners[order], places[order], scales[order], bytes_[order]
        self.owners, self.places, self.scales, self.bytes = owners, places, scales, bytes_
        self.firsts = np.flatnonzero(np.append(True, np.diff(owners) > 0)) if len(owners) else np.empty(0, np.int64)
        self.messages = self.owners[self.firsts].astype(np.int64)  # those that have vectors here, each once
        self.longer = np.flatnonzero(np.diff(self.firsts, append=len(owners)) > 1)  # of them, those with several
        self._floats: Floats | None = None
        self._bits: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.owners)

    @classmethod
    def merge(cls, parts: Sequence[Part]) -> Part:
        return cls(
            np.concatenate([part.owners for part in parts]),
            np.concatenate([part.places for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate([part.bytes for part in parts]),
        )

    def scores(self, query: Floats) -> Floats:
        """How near each vector is."""
        if self._floats is None:
            self._floats = self.bytes.astype(np.float32) * self.scales[:, None]
        found: Floats = self._floats @ query
        return found

    def scores_of(self, rows: NDArray[np.int64], query: Floats) -> Floats:
        found = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            found[start : start + AT_ONCE] = (self.bytes.take(some, axis=0).astype(np.float32) @ query) * self.scales[
                some
            ]
        return found

    def estimated(self, query: Floats) -> Floats:
        """The same at a fraction of the cost: by the signs alone, and exactly for those that come out best."""
        if len(self) <= SHORTLIST:
            return self.scores_of(np.arange(len(self)), query)
        dimensions = self.bytes.shape[1]
        if self._bits is None:
            self._bits = np.ascontiguousarray(signs(self.bytes).T)  # by column: adding up long rows is quick
        different = np.zeros(len(self), np.int16)
        for column, word in zip(self._bits, signs(query)[0], strict=True):
            different += np.bitwise_count(column ^ word)
        found: Floats = np.cos(np.arange(dimensions + 1) * (np.pi / dimensions)).astype(np.float32)[different]
        upto = np.searchsorted(np.cumsum(np.bincount(different)), SHORTLIST)  # with all that differ as much
        rows = np.flatnonzero(different <= upto)
        found[rows] = self.scores_of(rows, query)
        return found

    @property
    def nbytes(self) -> int:
        floats = 0 if self._floats is None else self._floats.nbytes
        bits = 0 if self._bits is None else self._bits.nbytes
        own = self.owners.nbytes + self.places.nbytes + self.scales.nbytes + self.bytes.nbytes
        own += self.firsts.nbytes + self.messages.nbytes + self.longer.nbytes
        return int(own + floats + bits)


def signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """One bit per dimension, in words of 64."""
    packed = np.packbits(np.atleast_2d(vectors) > 0, axis=1)
    spare = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, spare)))).view(np.uint64)


def with_part(parts: tuple[Part, ...], new: Part) -> tuple[Part, ...]:
    """The parts and a new one; small ones are put together now and then."""
    parts = (*parts, new)
    if len(parts) <= PARTS:
        return parts
    big, small = parts[0], Part.merge(parts[1:])
    return (big, small) if len(small) < len(big) // 4 else (Part.merge((big, small)),)
