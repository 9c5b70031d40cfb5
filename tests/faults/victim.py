"""A process that works on a memory and says through its standard output what was acknowledged.

Forked by `nurse`, which is run as `python victim.py SOCKET`. It writes `ready`, waits for a line on its standard
input, and works until it is done or killed. Every line leaves by one unbuffered write after the call returned, so what
the parent reads was promised to a caller. Texts follow from ids: the parent knows what each message must say.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - victims need it, and are forked when it is there

from recollect import Memory
from recollect.core.models import OPERATOR
from recollect.core.scope import StoreScope
from recollect.settings import Settings
from recollect.storage import migrations, segments
from recollect.storage.sqlite import SqliteDriver
from recollect.testing import FakeClock, FakeEmbedder

MAX_SECONDS = 20.0  # that a victim works if it is not killed
FOLDING = Settings(similarity_threshold=-1.0, max_messages_per_topic=4, recent_message_keep=1)  # one topic, soon folded
VOCABULARY = (
    "a", "the", "of", "memory", "Riyadh", "report", "budget", "meeting", "tomorrow", "café", "naïve", "STRASSE",
    "straße", "2026", "12.5", "x_y", "id=7", "السلام", "عليكم", "التَّقرير", "الميزانيّة", "إلى", "أحمد", "مدرسة",
    "١٢٣", "مـــرحبا", "東京", "記憶", "コード", "안녕", "emoji😀", "ﬁne", "№",
)  # fmt: skip


def text_of(id: str) -> str:
    """Return the text of the message with this id: mostly short, sometimes several pages of the file."""
    dice = random.Random(id)
    length = dice.choices((0, 6, 25, 120, 2000), weights=(4, 130, 50, 15, 1))[0]
    return " ".join([canary_of(id.rsplit(".", 1)[0]), *dice.choices(VOCABULARY, k=length)])


def canary_of(name: str) -> str:
    """Return a word that only the messages of one batch have.

    It looks random, since an index keeps only the ends of words that begin alike.
    """
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def size_of(batch: str) -> int:
    return random.Random(batch).randint(1, 60)


def ids_of(batch: str) -> list[str]:
    return [f"{batch}.{place}" for place in range(size_of(batch))]


def fields_of(id: str) -> dict[str, Any]:
    return {"role": "user", "content": text_of(id), "id": id, "metadata": {"said": id}}


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def add(path: str, run: str, threads: int, conversations: int, worker: bool) -> None:
    """Add single messages from several threads."""
    with Memory(path, worker=worker, embedder=FakeEmbedder()) as memory:

        def work(number: int) -> None:
            for count in range(20_000):
                name = f"{run}-{number}-{count}"
                conversation = f"c{(number + count) % conversations}"
                say("added", conversation, name, memory.add(conversation, **fields_of(name)).seq)

        in_threads(threads, work)


def add_many(path: str, run: str, threads: int, conversations: int, worker: bool) -> None:
    with Memory(path, worker=worker, embedder=FakeEmbedder()) as memory:

        def work(number: int) -> None:
            for count in range(20_000):
                batch = f"{run}-{number}-{count}"
                conversation = f"c{(number + count) % conversations}"
                stored = memory.add_many(conversation, [fields_of(name) for name in ids_of(batch)])
                say("added_many", conversation, batch, stored[0].seq)

        in_threads(threads, work)


def import_files(path: str, files: list[str], worker: bool) -> None:
    with Memory(path, worker=worker, embedder=FakeEmbedder()) as memory:
        for file in files:
            result = memory.import_file(file)
            say("imported", Path(file).name, result.messages, result.added)


def erase(path: str, run: str, threads: int, worker: bool) -> None:
    """Erase two of three conversations while the next ones are added."""
    doomed: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Memory(path, worker=worker, embedder=FakeEmbedder()) as memory:

        def work(number: int) -> None:
            if number == 0:
                while True:
                    conversation = doomed.get()
                    say("erasing", conversation)
                    receipt = memory.erase(conversation=conversation)
                    say("erased", conversation, receipt.counts["messages"], int(receipt.pending), receipt.id)
            for count in range(20_000):
                conversation = f"{run}-{number}-{count}"
                stored = memory.add_many(conversation, [fields_of(name) for name in ids_of(conversation)])
                say("added_many", conversation, conversation, stored[0].seq)
                if count % 3:
                    doomed.put(conversation)

        in_threads(1 + threads, work)


def embed(path: str, run: str, hours: int) -> None:
    """Add a few hundred messages and embed them, again and again. Leases of killed victims have run out by then."""
    clock = FakeClock(datetime.now(UTC) + timedelta(hours=hours))
    with Memory(path, worker=False, clock=clock, embedder=FakeEmbedder()) as memory:
        for count in range(20_000):
            for part in range(8):
                batch = f"{run}-{count}-{part}"
                stored = memory.add_many("long", [fields_of(name) for name in ids_of(batch)])
                say("added_many", "long", batch, stored[0].seq)
            done = memory.drain()
            say("drained", int(done.complete), done.counts["vectors"])


def fold(path: str, run: str, hours: int) -> None:
    """Add to one topic and fold it, again and again, until a dictionary is learned and blocks are repacked."""
    clock = FakeClock(datetime.now(UTC) + timedelta(hours=hours))
    with Memory(path, worker=False, clock=clock, embedder=FakeEmbedder(), settings=FOLDING) as memory:
        for count in range(20_000):
            batch = f"{run}-{count}"
            stored = memory.add_many("long", [fields_of(name) for name in ids_of(batch)])
            say("added_many", "long", batch, stored[0].seq)
            done = memory.drain()
            say("drained", int(done.complete), done.counts["folded"])


def pack(path: str, hours: int) -> None:
    """Drop all segments and pack them again, again and again."""
    clock = FakeClock(datetime.now(UTC) + timedelta(hours=hours))
    with Memory(path, worker=False, clock=clock, embedder=FakeEmbedder()) as memory:
        for _ in range(20_000):
            memory._wait(memory._engine._store.jobs.rewind(OPERATOR, StoreScope(), [segments.CURSOR.rewind]))
            say("packed", memory.drain(briefs=False).counts["segments"])


def migrate(path: str, folder: str) -> None:
    driver = SqliteDriver(path, migrations=migrations.load("sqlite", Path(folder)))
    driver.open(1)
    say("migrated")
    driver.close()


def open_only(location: str) -> None:
    """Open the memory, which migrates it."""
    with Memory(location, worker=False) as memory:
        say("opened", len(memory.conversations()))


def write(location: str, conversation: str, run: str, count: int) -> None:
    with Memory(location, worker=False) as memory:
        for number in range(count):
            name = f"{run}-{number}"
            say("added", conversation, name, memory.add(conversation, **fields_of(name)).seq)


def repeat(location: str, conversation: str, id: str, run: str, threads: int) -> None:
    """Add one id from several threads at once, each with words of its own. Only one may win."""
    start = threading.Barrier(threads)
    with Memory(location, worker=False) as memory:

        def work(number: int) -> None:
            start.wait(MAX_SECONDS)
            reply = memory.add(conversation, "user", f"said by {run} {number}", id=id)
            say("reply", json.dumps(reply.to_dict(), sort_keys=True))

        in_threads(threads, work)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            say("error", repr(error))
            raise

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    deadline = time.monotonic() + MAX_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


MODES: dict[str, Callable[..., None]] = {
    work.__name__: work
    for work in (add, add_many, import_files, erase, embed, fold, pack, migrate, open_only, write, repeat)
}


def live(mode: str, arguments: dict[str, Any]) -> None:
    say("ready")
    sys.stdin.readline()
    try:
        MODES[mode](**arguments)
    except BaseException as failure:
        say("error", repr(failure))
        raise
    say("done")


def nurse(server: socket.socket) -> None:
    """Start victims and wait for them, as the parent asks, until it closes the socket.

    They are forked from this process, which has imported everything: importing takes longer than most of them live.
    """
    while True:
        data, ends, _, _ = socket.recv_fds(server, 1 << 16, 2)
        while data and not data.endswith(b"\n"):
            data += server.recv(1 << 16)
        if not data:
            return
        request = json.loads(data)
        if "bury" in request:
            server.sendall(b"%d\n" % os.waitpid(request["bury"], 0)[1])
        elif child := os.fork():
            for end in ends:
                os.close(end)
            server.sendall(b"%d\n" % child)
        else:
            server.close()
            for number, end in enumerate(ends):
                os.dup2(end, number)
                os.close(end)
            try:
                live(request["mode"], request["arguments"])
            finally:
                os._exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        nurse(asked)
