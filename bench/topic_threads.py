"""Makes conversations whose topics are known, for `bench.topics`: threads of published sets, interleaved by chance.

A thread is a run of messages about one thing. Threads are cut into stretches of 2 to 8 messages, and the stretches of
several threads take turns. So threads are left and come back, and the true topic of a message is its thread.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench import data
from bench.cache import CachedEmbedder
from recollect.core.language.analyser import raw_words
from recollect.recall import vectors
from recollect.recall.vector_job import embedded_texts
from recollect.topics.matcher import MICROS_PER_MINUTE

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

MIN_THREAD_MESSAGES: Final = 4
_SPEAKER: Final = re.compile(r"#Person(\d)#:\s*(\S.*)")
# The chance of a pause where the thread changes, and at other messages of the user.
PAUSES: Final = {"some": (0.7, 0.1), "all": (1.0, 0.0), "none": (0.0, 0.0)}


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """A message as the matcher sees it."""

    role: str
    words: int
    vector: Floats


@dataclass(frozen=True, slots=True)
class Thread:
    """Messages about one thing. Threads of one family have the same subject, and never meet in a conversation."""

    half: int
    family: str
    pool: str  # only threads of one pool meet
    messages: Sequence[MatchedMessage]


@dataclass(frozen=True, slots=True)
class Talk:
    """An interleaved conversation: the thread and the stretch of each message, and its time for each kind of pauses."""

    messages: Sequence[MatchedMessage]
    threads: Labels
    stretches: Labels
    at: Mapping[str, Sequence[int]]


RawMessage = tuple[str, str]  # role, content
RawThread = tuple[int, str, str, list[RawMessage]]  # half, family, pool, messages


def load_threads(folder: Path, name: str, embedder: CachedEmbedder) -> list[Thread]:
    """Return the threads of a set, each message with its vector as it would be stored."""
    raw_threads = list(_read_dialogues(folder) if name == "dialogsum" else _read_sessions(folder, name))
    texts = [text for *_, messages in raw_threads for _, content in messages for text in embedded_texts(content)]
    rows = iter(embedder.encode(texts))
    return [
        Thread(half, family, pool, [to_message(*message, rows) for message in messages])
        for half, family, pool, messages in raw_threads
    ]


def to_message(role: str, content: str, rows: Iterator[Floats]) -> MatchedMessage:
    own = [next(rows) for _ in embedded_texts(content)]
    scales, bytes_ = vectors.unpack(vectors.pack(np.stack(own)), len(own[0]))
    return MatchedMessage(role, len(raw_words(content)), (bytes_ * scales[:, None]).mean(axis=0).astype(np.float32))


def _read_dialogues(folder: Path) -> Iterator[RawThread]:
    """Yield short dialogues of two people, one of whom stands in for the user."""
    with gzip.open(folder / "summaries" / "dialogsum_dev.jsonl.gz", "rt", encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            row = json.loads(line)
            lines = filter(None, map(_SPEAKER.match, row["dialogue"].split("\n")))
            messages = [("user" if match[1] == "1" else "assistant", match[2]) for match in lines]
            yield number % 2, row["topic"], "", list(messages)


def _read_sessions(folder: Path, name: str) -> Iterator[RawThread]:
    """Yield sessions with an assistant, from all conversations; of LoCoMo, sessions of the same two people.

    LongMemEval has several sessions on the same question, and the parts of a conversation of BEAM are about one
    project: these are families.
    """
    for number, conversation in enumerate(data.load(folder, name)):
        sessions: dict[str, list[RawMessage]] = {}
        for message in conversation.messages:
            if message["content"].strip():
                sessions.setdefault(message["session_id"], []).append((message["role"], message["content"]))
        for session_id, messages in sessions.items():
            family = {"lme_pool": session_id.rsplit("_", 1)[0], "beam_100k": conversation.id}.get(name, session_id)
            half = 1 if name == "lme_s_samples" else number % 2  # one conversation, never tuned on
            yield half, family, conversation.id if name == "locomo" else "", messages


# Interleaving


def interleave(threads: Sequence[Thread], sizes: tuple[int, int], rng: random.Random) -> Talk:
    """Make one conversation of several threads. Stretches come in random order; each thread keeps its own order.

    `sizes` are the smallest and the largest number of threads.
    """
    pool = rng.choice(sorted({thread.pool for thread in threads}))
    left = {
        number: list(_cut_stretches(messages, rng))
        for number, messages in enumerate(_choose([thread for thread in threads if thread.pool == pool], sizes, rng))
    }
    messages: list[MatchedMessage] = []
    thread_labels: list[int] = []
    stretch_labels: list[int] = []
    last, stretch_count = -1, 0
    while left:
        number = rng.choice([other for other in left if other != last] or list(left))
        stretch_count += number != last
        last = number
        stretch = left[number].pop(0)
        if not left[number]:
            del left[number]
        messages += stretch
        thread_labels += [number] * len(stretch)
        stretch_labels += [stretch_count] * len(stretch)
    stretches = np.array(stretch_labels)
    times = {name: _make_times(messages, stretches, *chances, rng) for name, chances in PAUSES.items()}
    return Talk(messages, np.array(thread_labels), stretches, times)


def _choose(
    threads: Sequence[Thread], sizes: tuple[int, int], rng: random.Random
) -> Iterator[Sequence[MatchedMessage]]:
    """Yield one thread of each family. They begin with the user; a very long one is cut to a piece."""
    max_threads, families = rng.randint(*sizes), set[str]()
    for thread in rng.sample(threads, len(threads)):
        starts = [index for index, message in enumerate(thread.messages) if message.role == "user"]
        if thread.family in families or len(families) == max_threads or not starts:
            continue
        length = len(thread.messages) if len(thread.messages) <= 40 else rng.randint(12, 40)
        start = rng.choice([index for index in starts if index + length <= len(thread.messages)] or starts[:1])
        piece = thread.messages[start : start + length]
        if len(piece) >= MIN_THREAD_MESSAGES:
            families.add(thread.family)
            yield piece


def _cut_stretches(messages: Sequence[MatchedMessage], rng: random.Random) -> Iterator[Sequence[MatchedMessage]]:
    """Yield pieces of 2 to 8 messages, each extended up to the next message of the user."""
    start = 0
    while start < len(messages):
        stop = start + rng.randint(2, 8)
        while stop < len(messages) and messages[stop].role != "user":
            stop += 1
        yield messages[start:stop]
        start = stop


def _make_times(
    messages: Sequence[MatchedMessage], stretches: Labels, at_borders: float, elsewhere: float, rng: random.Random
) -> list[int]:
    """Return a time for each message: about a minute after the one before, or hours after it at a pause."""
    now, times = 0, list[int]()
    for index, message in enumerate(messages):
        is_border = index > 0 and stretches[index] != stretches[index - 1]
        pauses = message.role == "user" and rng.random() < (at_borders if is_border else elsewhere)
        now += int(MICROS_PER_MINUTE * (rng.uniform(60, 1200) if pauses else rng.uniform(0.2, 3)))
        times.append(now)
    return times
