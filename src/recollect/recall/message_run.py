"""A run of messages as arrays: what a scope index is put together from, made of rows or read from a segment.

Within a run, messages and passages are counted from its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import word_index
from recollect.recall.postings import Postings
from recollect.recall.vectors import SCALE_BYTES, VectorRun, unpack
from recollect.storage.driver import Row

# A speaker's id is a number for the name times this, plus the role: it is above the number of any role.
SPEAKER_ROLES: Final = 8
SYSTEM: Final = word_index.ROLE_NUMBERS["system"]

Longs = NDArray[np.int64]
Array = NDArray[Any]  # of numbers, in the type of a scope index or (from a segment) in a narrower one


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages in the order of conversation and seq. A scope index has arrays of the same names."""

    # One value for each message:
    conversation_keys: Longs
    seqs: Array
    at: Array
    roles: Array
    speaker_ids: Array
    flags: Array
    word_counts: Array
    passage_counts: Array
    # One value for each passage:
    lengths: Array
    words: Postings  # by passage
    speakers: Postings  # by message
    vectors: VectorRun | None = None  # those of rows are read apart

    def __len__(self) -> int:
        return len(self.conversation_keys)

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> MessageRun:
        """Make a run of word index rows."""
        roles = np.fromiter((row["role"] for row in rows), np.int8, len(rows))
        words = _RowWords([row["words"] for row in rows])
        return cls(
            np.fromiter((row["conversation_key"] for row in rows), np.int64, len(rows)),
            np.fromiter((row["seq"] for row in rows), np.int64, len(rows)),
            np.fromiter((row["at"] for row in rows), np.int64, len(rows)),
            roles,
            words.names + roles,
            words.flags,
            words.word_counts,
            words.passage_counts,
            words.lengths,
            words.words,
            words.speakers,
        )


def find_usable_vectors(
    rows: Sequence[Row], roles: Array, indices: Longs, dimensions: int
) -> Iterator[tuple[int, bytes]]:
    """Yield message index and packed vectors of rows of vectors, without damaged ones and those of system messages.

    `roles` are those of all messages, `indices` those of the rows' messages; -1 for one that is not there.
    """
    width = dimensions + SCALE_BYTES
    for row, index in zip(rows, indices.tolist(), strict=True):
        blob = row["vectors"]
        # Earlier versions embedded system messages, which are never recalled.
        if index >= 0 and len(blob) and not len(blob) % width and roles[index] != SYSTEM:
            yield index, blob


def make_vector_run(run: MessageRun, rows: Sequence[Row], embedder: int, dimensions: int) -> VectorRun:
    """Return the vectors of a run of messages of one conversation, made of rows of vectors."""
    seqs = np.fromiter((row["seq"] for row in rows), np.int64, len(rows))
    slots = np.minimum(np.searchsorted(run.seqs, seqs), max(len(run) - 1, 0))
    indices = np.where(run.seqs[slots] == seqs, slots, -1) if len(run) else np.full(len(rows), -1)
    usable = list(find_usable_vectors(rows, run.roles, indices, dimensions))
    counts = np.zeros(len(run), np.int64)
    for index, blob in usable:
        counts[index] = len(blob) // (dimensions + SCALE_BYTES)
    scales, bytes_ = unpack(b"".join(blob for _, blob in usable), dimensions)
    return VectorRun(embedder, counts, scales, bytes_)


class _RowWords:
    """The words of some messages, by passage, and those of their speakers' names, by message.

    A word index row is a list of numbers. Numbers below `FIRST_WORD_NUMBER` are marks: those of passages, each at the
    beginning of one, and at the end those of flags. The words before the first mark are the speaker's name. They count
    for the first passage too.
    """

    def __init__(self, blobs: Sequence[bytes]) -> None:
        """Read word index rows. Messages and passages are counted from the first."""
        numbers = np.frombuffer(b"".join(blobs), "<u4").astype(np.uint32, copy=False)
        sizes = np.fromiter((len(blob) // 4 for blob in blobs), np.int64, len(blobs))
        docs = np.repeat(np.arange(len(blobs), dtype=np.int32), sizes)
        words = numbers >= word_index.FIRST_WORD_NUMBER
        marks = numbers < word_index.FIRST_FLAG_MARK
        has_flag = ~(words | marks)
        # Marks so far in the same message: 0 for the words of the speaker's name.
        marks_so_far: Longs = np.cumsum(marks) - np.repeat(_count_marks_before(marks, sizes), sizes)
        counts = np.maximum(np.bincount(docs[marks], minlength=len(blobs)), 1)
        of_speaker = (marks_so_far == 0) & words
        firsts = np.cumsum(counts) - counts
        passage_of_word = (firsts[docs] + np.maximum(marks_so_far - 1, 0)).astype(np.int32)
        self.passage_counts = counts
        self.lengths = np.bincount(passage_of_word[words], minlength=int(counts.sum())).astype(np.float32)
        self.word_counts = np.bincount(docs[words], minlength=len(blobs)).astype(np.float32)
        self.names = SPEAKER_ROLES * np.bincount(docs[of_speaker], numbers[of_speaker], len(blobs)).astype(np.int64)
        bits = np.left_shift(1, numbers[has_flag].astype(np.int64) - word_index.FIRST_FLAG_MARK)
        self.flags = np.bincount(docs[has_flag], bits, len(blobs)).astype(np.uint16)
        self.words = Postings.build(numbers[words], passage_of_word[words])
        self.speakers = Postings.build(numbers[of_speaker], docs[of_speaker])


def _count_marks_before(marks: NDArray[np.bool_], sizes: Longs) -> Longs:
    """Return the number of marks before the beginning of each message."""
    sums: Longs = np.concatenate(([0], np.cumsum(marks)))
    counts: Longs = sums[np.cumsum(sizes) - sizes]
    return counts
