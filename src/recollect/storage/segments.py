"""Stores segments: the words and vectors of many messages of one conversation, packed, so that a scope is read quickly.

A segment is a copy of rows of `entries` and `vectors`. These rows never change, so it is used as long as it stands.
Whatever deletes or replaces one of them deletes the segment in the same transaction. `recall/segment_form.py` writes
and reads the bodies; this module does not look into them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from recollect.core import word_index
from recollect.core.json_text import to_json
from recollect.core.models import Principal
from recollect.storage.driver import Row, RunInTransaction, Transaction
from recollect.storage.jobs import Cursor, RewindTarget
from recollect.storage.rows import MadeOf, read_if_unchanged

_FORM: Final = 1  # of a body; raise it when `recall/segment_form.py` writes another one
SEGMENT_VERSION: Final = word_index.VERSION * 100 + _FORM
SEGMENT_SEQS: Final = 4096  # at most, from one multiple of it to the next; `sql/segments.sql` knows the number too
UNBOUNDED: Final = 2**62  # above every seq


class Stretch(NamedTuple):
    """The seqs above `after`, up to `through`."""

    after: int
    through: int


class StoredSegment(NamedTuple):
    """A segment whose checksum is right."""

    key: int  # of its conversation
    stretch: Stretch
    embedder: int
    body: bytes


@dataclass(frozen=True, slots=True)
class PackedState:
    """A conversation as it was when its rows were read for packing."""

    row: Row

    def is_same(self, row: Row) -> bool:
        """Say whether the rows that segments are made of are still those of this state."""
        return all(self.row[name] == row[name] for name in ("embedder_key", "words_version")) and _count_erased(
            self.row
        ) == _count_erased(row)


def _count_erased(row: Row) -> int:
    return int(row["last_seq"] - row["messages"])


def segment_start(after: int) -> int:
    """Return where the segment begins that holds the message after `after`, or will hold it."""
    return after // SEGMENT_SEQS * SEGMENT_SEQS


def drop_segments(tx: Transaction, key: int) -> None:
    """Delete the segments of a conversation, so that the worker packs them again."""
    tx.run("delete_segments_between", key=key, first_seq=0, last_seq=UNBOUNDED)
    tx.run("reopen_segments", key=key, first_seq=1)


def _rewind(tx: Transaction, target: RewindTarget) -> None:
    target.run(tx, "delete_segments", everybody="delete_all_segments")
    target.run(tx, "rewind_segments", everybody="rewind_all_segments")


CURSOR: Final = Cursor("unpacked_conversations", None, _rewind, {"words_version": word_index.VERSION})


def checksum_of(key: int, stretch: Stretch, embedder: int, body: bytes) -> int:
    """Return the checksum of a segment, over its body and what its row says of it."""
    return zlib.crc32(body, zlib.crc32(repr((key, *stretch, embedder, SEGMENT_VERSION)).encode()))


def read_segments(
    tx: Transaction, embedders: Sequence[tuple[int, int]]
) -> tuple[list[StoredSegment], list[tuple[int, Stretch]]]:
    """Return the segments of conversations, given by key and embedder, in the order of conversation and seq.

    Also return the conversation and stretch of damaged ones.
    """
    segments, damaged = [], []
    rows = tx.all("segments_of", cursors=to_json(embedders), version=SEGMENT_VERSION) if embedders else []
    for row in rows:
        key, stretch = row["conversation_key"], Stretch(row["first_seq"] - 1, row["last_seq"])
        body = row["body"]
        if row["checksum"] == checksum_of(key, stretch, row["embedder_key"], body):
            segments.append(StoredSegment(key, stretch, row["embedder_key"], body))
        else:
            damaged.append((key, stretch))
    return segments, damaged


def find_gaps(stretches: Sequence[Stretch], after: int, through: int) -> Iterator[Stretch]:
    """Yield the stretches above `after`, up to `through`, that lie between these, which are in order."""
    for stretch in stretches:
        if stretch.after > after:
            yield Stretch(after, stretch.after)
        after = stretch.through
    if through > after:
        yield Stretch(after, through)


def _skip(borders: Sequence[Row], end: int) -> int:
    """Return the end of the segments that follow each other from `end` on; `end` itself if there are none."""
    ends = {row["first_seq"] - 1: row["last_seq"] for row in borders}
    while ends.get(end, end) > end:
        end = ends[end]
    return end


class SegmentStore:
    """The segments of the store."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction) -> None:
        self._read, self._write = read, write

    async def state(self, principal: Principal, conversation: str, made_of: MadeOf) -> PackedState | None:
        """Return how a conversation is packed; None if it was erased, restored or rewound, or cannot be packed now."""

        def read_state(tx: Transaction) -> PackedState | None:
            row = read_if_unchanged(tx, {"person": principal.person, "conversation": conversation}, made_of)
            if row is None or row["embedder_key"] is None or row["words_version"] != word_index.VERSION:
                return None
            return PackedState(row)

        return await self._read(read_state)

    async def rows(self, principal: Principal, state: PackedState, stretch: Stretch) -> tuple[list[Row], list[Row]]:
        """Return the rows of words and of vectors of a stretch, each in the order of their seqs."""
        key, embedder = state.row["key"], state.row["embedder_key"]

        def read_rows(tx: Transaction) -> tuple[list[Row], list[Row]]:
            words = tx.all("entries_between", cursors=to_json([(key, *stretch)]))
            return words, tx.all("vectors_between", cursors=to_json([(key, *stretch, embedder)]))

        return await self._read(read_rows)

    async def save(
        self,
        principal: Principal,
        conversation: str,
        state: PackedState,
        stretch: Stretch,
        body: bytes | None,
        *,
        after: int,
    ) -> bool:
        """Store a segment in place of those that overlap it, and move the cursor from `after` to its end.

        Without a body only the cursor moves: the stretch stays without a segment.
        The cursor also passes the segments that follow, which stand where an erase has deleted an earlier one. Return
        False, and store nothing, if the rows that the segment was made of may be others by now.
        """
        where = {"person": principal.person, "conversation": conversation}
        key, generation, embedder = (state.row[name] for name in ("key", "generation", "embedder_key"))

        def store_segments(tx: Transaction) -> bool:
            tx.run("lock_conversation_key", key=key)
            row = read_if_unchanged(tx, where, (key, generation))
            if row is None or not state.is_same(row):
                return False
            place = {"key": key, "first_seq": stretch.after + 1, "last_seq": stretch.through}
            tx.run("delete_segments_between", **place)
            made_by = {"version": SEGMENT_VERSION, "embedder": embedder}
            if body is not None:
                checksum = checksum_of(key, stretch, embedder, body)
                tx.run("save_segment", **place, **made_by, checksum=checksum, body=body)
            through = _skip(tx.all("segment_borders", key=key, **made_by), stretch.through)
            tx.run("mark_packed", key=key, after=after, through=through, generation=generation)
            return True

        return await self._write(store_segments)

    async def drop(self, principal: Principal, damaged: Sequence[tuple[int, Stretch]]) -> None:
        """Delete damaged segments, found under the person by conversation key, so that the worker packs them again."""

        def delete_segments(tx: Transaction) -> None:
            for key, (after, through) in damaged:
                tx.run("delete_segments_between", key=key, first_seq=after + 1, last_seq=through)
                tx.run("reopen_segments", key=key, first_seq=after + 1)

        await self._write(delete_segments)
