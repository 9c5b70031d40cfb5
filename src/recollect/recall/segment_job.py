"""The job that packs segments: copies of words and vectors from which a scope is read quickly.

It follows the vectors. What is not packed yet is read row by row, so recall never waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from recollect.jobs.job import ConversationJob, ConversationWork, Interrupted, Pace, StopSignal
from recollect.storage import segments
from recollect.storage.driver import Row
from recollect.storage.segments import SEGMENT_SEQS, Stretch, segment_start

PARALLEL: Final = 4  # segments that are packed at once, mostly of a few megabytes
MAX_ROW_BYTES: Final = (
    64 * 1024 * 1024
)  # of words and vectors in one segment; with more, their rows are read as they are


class PackSegments(ConversationJob):
    """Packs the last segment of a conversation again as it grows, until it is full and the next one begins."""

    name = "segments"
    cursor = segments.CURSOR
    pace = Pace(messages=SEGMENT_SEQS, parallel=PARALLEL)

    async def due(self, *, after: int, limit: int) -> list[ConversationWork]:
        """Return slices that end where their first segment is full, or with the last message that has vectors."""
        works = await super().due(after=after, limit=limit)
        return [replace(work, through=min(work.last, segment_start(work.after) + SEGMENT_SEQS)) for work in works]

    async def do(self, work: ConversationWork, stop: StopSignal) -> int:
        """Pack the segment that ends with a slice. Return 1; 0 if it is too large, or cannot be packed now."""
        store, owner = self._store.segments, (work.principal, work.conversation)
        state = await store.state(*owner, work.made_of)
        if state is None:
            return 0
        stretch = Stretch(segment_start(work.after), work.through)
        rows = await store.rows(work.principal, state, stretch)
        stop.check()
        dimensions = {row["key"]: row["dimensions"] for row in await self._store.vectors.embedders()}
        embedder = state.row["embedder_key"]
        is_large = (
            sum(len(row["words"]) for row in rows[0]) + sum(len(row["vectors"]) for row in rows[1]) > MAX_ROW_BYTES
        )
        body = None if is_large else await asyncio.to_thread(_pack, *rows, embedder, dimensions[embedder])
        if not await store.save(*owner, state, stretch, body, after=work.after):
            raise Interrupted  # a message was erased meanwhile, or another embedder serves
        return int(body is not None)


def _pack(word_rows: Sequence[Row], vector_rows: Sequence[Row], embedder: int, dimensions: int) -> bytes:
    from recollect.recall.message_run import MessageRun, make_vector_run
    from recollect.recall.segment_form import pack_segment

    run = MessageRun.from_rows(word_rows)
    return pack_segment(replace(run, vectors=make_vector_run(run, vector_rows, embedder, dimensions)))
