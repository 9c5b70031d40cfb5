"""The body of a segment: the arrays of a run of messages behind each other, each in the narrowest type that holds it.

A body begins with the number of arrays, and for each the number of its type and how many values it has. Each array
begins at a multiple of eight bytes, so that it is used where it lies. Whoever changes the order or the meaning of
arrays raises the form in `storage/segments.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recollect.recall.message_run import MessageRun
from recollect.recall.postings import Postings
from recollect.recall.vectors import VectorRun
from recollect.storage.driver import Row
from recollect.storage.scope_updates import ScopeUpdate
from recollect.storage.segments import StoredSegment

TYPES: Final = tuple(np.dtype(name) for name in ("<u1", "<u2", "<u4", "<i8", "<f4", "<i1"))
UNSIGNED: Final = TYPES[:3]
ALIGNMENT: Final = 8
MESSAGE_ARRAYS: Final = (
    "seqs", "at", "roles", "speaker_ids", "flags", "word_counts", "passage_counts", "lengths"
)  # fmt: skip

Array = NDArray[Any]


def pack_segment(run: MessageRun) -> bytes:
    """Return the body of a segment: a run of messages of one conversation with their vectors."""
    vectors = run.vectors
    assert vectors is not None  # noqa: S101 - the job has read them
    return _pack_arrays(
        (
            *(_narrow(getattr(run, name)) for name in MESSAGE_ARRAYS),
            *_postings_arrays(run.words),
            *_postings_arrays(run.speakers),
            _narrow(vectors.counts),
            vectors.scales.astype(TYPES[4]),
            vectors.bytes,
        )
    )


def unpack_segment(segment: StoredSegment) -> MessageRun:
    """Return the run of messages of a segment. Its arrays lie in the body."""
    arrays = iter(_unpack_arrays(segment.body))
    by_name = {name: next(arrays) for name in MESSAGE_ARRAYS}
    words, speakers = _to_postings(arrays), _to_postings(arrays)
    counts, scales, bytes_ = arrays
    vectors = None
    if len(scales):
        vectors = VectorRun(segment.embedder, counts, scales, bytes_.reshape(len(scales), -1))
    keys = np.full(len(counts), segment.key, np.int64)
    return MessageRun(conversation_keys=keys, words=words, speakers=speakers, vectors=vectors, **by_name)


def _postings_arrays(postings: Postings) -> tuple[Array, Array, Array, Array]:
    sizes = np.diff(postings.starts)
    return postings.terms.astype(TYPES[2]), _narrow(sizes), _narrow(postings.docs), _narrow(postings.counts)


def _to_postings(arrays: Iterator[Array]) -> Postings:
    terms, sizes, docs, counts = islice(arrays, 4)
    return Postings(terms, np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))), docs, counts)


def _narrow(array: Array) -> Array:
    """Return whole numbers in the narrowest type that holds them."""
    low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
    fitting = (kind for kind in UNSIGNED if low >= 0 and high <= np.iinfo(kind).max)
    return array.astype(next(fitting, TYPES[3]))


def _pack_arrays(arrays: Sequence[Array]) -> bytes:
    table = np.array([(TYPES.index(array.dtype), array.size) for array in arrays], "<u4")
    pieces = [np.array([len(arrays), 0], "<u4").tobytes(), table.tobytes()]
    for array in arrays:
        pieces += (bytes(-len(pieces[-1]) % ALIGNMENT), array.tobytes())
    return b"".join(pieces)


def _unpack_arrays(body: bytes) -> list[Array]:
    (count,) = np.frombuffer(body, "<u4", 1).tolist()
    table = np.frombuffer(body, "<u4", 2 * count, ALIGNMENT).reshape(-1, 2)
    arrays, start = [], ALIGNMENT + table.nbytes
    for number, size in table.tolist():
        start += -start % ALIGNMENT
        array = np.frombuffer(body, TYPES[number], size, start)
        arrays.append(array)
        start += array.nbytes
    return arrays


def arrange_runs(update: ScopeUpdate) -> list[MessageRun]:
    """Return the messages of an update as runs, in the order of conversation and seq: its segments and rows in turn.

    The update's list of segments is empty afterwards.
    """
    runs: list[MessageRun] = []
    start = 0
    for segment in update.segments:
        stop = bisect_left(update.word_rows, (segment.key, segment.stretch.through), lo=start, key=_position)
        if stop > start:
            runs.append(MessageRun.from_rows(update.word_rows[start:stop]))
        run = unpack_segment(segment)
        if len(run):  # else all of its messages were erased before it was packed
            runs.append(run)
        start = stop
    if start < len(update.word_rows):
        runs.append(MessageRun.from_rows(update.word_rows[start:]))
    update.segments.clear()
    return runs


def _position(row: Row) -> tuple[int, int]:
    return row["conversation_key"], row["seq"]


def collect_vectors(runs: Sequence[MessageRun], offset: int) -> dict[int, list[VectorRun]]:
    """Return the vectors of runs, by embedder key. The first message of the runs has the index `offset`."""
    vectors: dict[int, list[VectorRun]] = {}
    for run in runs:
        if run.vectors is not None:
            vectors.setdefault(run.vectors.embedder, []).append(run.vectors._replace(offset=offset))
        offset += len(run)
    return vectors
