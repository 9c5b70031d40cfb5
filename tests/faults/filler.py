"""A process whose files may not grow beyond a limit. It adds until a message is refused, and again when there is room.

Run as `python filler.py FOLDER POSITION…`: one database for each position, the bytes a file may still grow by. For
each it prints a line of JSON with what happened; the parent judges.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
import threading
from pathlib import Path

from recollect import Memory, RecollectError, Settings
from recollect.testing import FakeEmbedder

MAX_ADDS = 4000  # of one thread
LARGE = 1_000_000  # bytes that a file may still grow by, from which messages are long
TEXT = "Words that fill the disk, page after page, until there is no room left for any of them. "


def set_limit(size: int) -> None:
    """Set only the soft limit, so that it can be lifted again."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def fill(path: Path, position: int) -> dict[str, object]:
    acknowledged: dict[str, int] = {}
    refused: list[tuple[str, bool, str]] = []
    length = (1 if position < LARGE else 60) + position % 97

    def add(memory: Memory, id: str) -> bool:
        try:
            acknowledged[id] = memory.add("c", "user", f"{id} {TEXT * length}", id=id).seq
        except RecollectError as error:
            refused.append((error.code, error.retryable, type(error).__name__))
            return False
        return True

    def add_until_refused(memory: Memory, thread: int) -> None:
        for number in range(MAX_ADDS):
            if not add(memory, f"{thread}-{number}"):
                return

    # Megabytes of the same words would keep the compressor busy for longer than the disk is full: no conversation is
    # folded, and topics only where the disk is full soon.
    foldable = 12 if position < LARGE else 1_000_000
    quick = Settings(memory_chunk_summarize_threshold=0, max_messages_per_topic=foldable)
    with Memory(path, worker=position % 2 == 0, embedder=FakeEmbedder(16), settings=quick) as memory:
        if position % 3:
            memory.history("c")  # otherwise the first reader connects when the disk is full
        largest = max(file.stat().st_size for file in path.parent.glob(path.name + "*"))
        set_limit(largest + position)
        try:
            threads = [threading.Thread(target=add_until_refused, args=(memory, one)) for one in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            during = {message.id: message.seq for message in memory.history("c")}
            promised = dict(acknowledged)
        finally:
            set_limit(resource.RLIM_INFINITY)
        again = add(memory, "again")
        drained = memory.drain(timeout=100).complete
        after = {message.id: message.seq for message in memory.history("c")}
    return {
        "refused": refused, "promised": promised, "during": during, "again": again,
        "acknowledged": acknowledged, "after": after, "drained": drained,
    }  # fmt: skip


if __name__ == "__main__":
    logging.disable()  # the worker's warnings about the full disk are expected
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number, position in enumerate(sys.argv[2:]):
        database = Path(sys.argv[1]) / f"{number}-{position}.db"
        print(json.dumps({"path": str(database)} | fill(database, int(position))), flush=True)
