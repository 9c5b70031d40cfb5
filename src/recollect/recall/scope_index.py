"""A scope in memory: the messages of a conversation, or of a person, as arrays that arms of recall compare.

A scope is never changed: news make a new one that shares what stayed. What it answers depends on the rows alone, not
on when they were read, so two processes (and two databases) rank alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recollect.core import word_index
from recollect.recall import postings
from recollect.recall.postings import Postings
from recollect.recall.prompt.pack import Said
from recollect.recall.vectors import Part, unpack, with_part
from recollect.storage.scope_updates import News, Seen, State

USER: Final = word_index.ROLE_NUMBERS["user"]
MUCH: Final = 22  # telling words of a message that says something; "Wow, thanks!" is rarely what was asked for
SESSION_GAP: Final = 3600 * 1_000_000  # microseconds of silence that end a session

Row = dict[str, Any]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Scope:
    state: State = ()
    seen: Mapping[int, Seen] = field(default_factory=dict)
    conversations: Mapping[int, Row] = field(default_factory=dict)
    keys: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # of each message: its conversation,
    seqs: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # its place there,
    at: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # its time,
    roles: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    named: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # whether its speaker is,
    words_in: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # how many words,
    before: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # the message before it, or -1,
    sessions: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    ends: Mapping[int, int] = field(default_factory=dict)  # the newest message of each conversation
    owners: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # of each passage: its message,
    lengths: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # and how many words it has
    words: tuple[Postings, ...] = ()  # by passage
    speakers: tuple[Postings, ...] = ()  # by message
    vectors: Mapping[int, tuple[Part, ...]] = field(default_factory=dict)  # by embedder
    said: Said = field(default_factory=Said)  # messages that were read lately; those of a fresh scope are read anew

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def has_words(self) -> NDArray[np.bool_]:
        """Which messages can be found by themselves; others are read beside them."""
        found: NDArray[np.bool_] = self.words_in > 0
        return found

    @cached_property
    def worded(self) -> int:
        """How many they are."""
        return int(self.has_words.sum())

    @cached_property
    def after(self) -> Ints:
        """The message after each, or -1."""
        found = np.full(len(self), -1, np.int32)
        linked = np.flatnonzero(self.before >= 0)
        found[self.before[linked]] = linked
        return found

    @cached_property
    def links(self) -> tuple[Floats, Longs, Longs]:
        """Who stands beside whom in a session: 1 where a message follows the one above it in these arrays, and the
        pairs (later, earlier) of all the others that follow one."""
        later = np.flatnonzero(self.before >= 0)
        earlier = self.before[later].astype(np.int64)
        same = self.sessions[later] == self.sessions[earlier]
        later, earlier = later[same], earlier[same]
        adjacent = later == earlier + 1
        follows = np.zeros(max(len(self) - 1, 0), np.float32)
        follows[earlier[adjacent]] = 1
        return follows, later[~adjacent], earlier[~adjacent]

    @cached_property
    def people(self) -> Floats:
        """1 for what people said: what a user says about themselves is told once, an assistant's answers are long."""
        found: Floats = ((self.roles == USER) | self.named).astype(np.float32)
        return found

    @cached_property
    def substance(self) -> Floats:
        """From 0 to 1: how much a message says."""
        found: Floats = np.minimum(self.words_in / MUCH, 1).astype(np.float32)
        return found

    @cached_property
    def recency(self) -> Floats:
        """1 for the newest message of the scope, half of it for one a month older, and so on."""
        if not len(self):
            return np.zeros(0, np.float32)
        days = (self.at.max() - self.at) / 86_400e6
        found: Floats = np.exp2(-days / 30).astype(np.float32)
        return found

    @cached_property
    def average_length(self) -> float:
        return float(self.lengths.mean()) if len(self.lengths) else 1.0

    @cached_property
    def firsts(self) -> Longs:
        """The first passage of each message. Every message has one, if only an empty one."""
        return np.searchsorted(self.owners, np.arange(len(self)))

    @cached_property
    def _by_place(self) -> tuple[Longs, Longs]:
        places = _place(self.keys, self.seqs)
        order = np.argsort(places, kind="stable")
        return places[order], order

    def index(self, keys: Longs, seqs: Longs) -> Longs:
        """Where messages stand in the arrays; -1 for those that are not there."""
        places, order = self._by_place
        asked = _place(keys, seqs)
        spots = np.searchsorted(places, asked)
        spots[spots == len(places)] = 0
        return np.where(places[spots] == asked, order[spots], -1) if len(places) else np.full(len(asked), -1)

    @property
    def nbytes(self) -> int:
        words = sum(part.nbytes for part in (*self.words, *self.speakers))
        vectors = sum(part.nbytes for parts in self.vectors.values() for part in parts)
        return 72 * len(self) + 8 * len(self.owners) + words + vectors + self.said.nbytes

    def grown(self, news: News, dimensions: Mapping[int, int]) -> Scope:
        """With the news. `dimensions` of the embedders by key."""
        scope = Scope() if news.fresh else self
        if news.entries:
            scope = scope._with_entries(news.entries)
        if news.vectors:
            scope = scope._with_vectors(news.vectors, news.seen, dimensions)
        rows = {row["key"]: row for row in news.conversations}
        return replace(scope, state=news.state, seen=news.seen, conversations=rows)

    def _with_entries(self, rows: Sequence[Row]) -> Scope:
        base = len(self)
        keys = np.fromiter((row["conversation_key"] for row in rows), np.int64, len(rows))
        at = np.fromiter((row["at"] for row in rows), np.int64, len(rows))
        before = _linked(keys, base, self.ends)
        text = _Text([row["words"] for row in rows], base, len(self.owners))
        lasts = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
        seqs = np.fromiter((row["seq"] for row in rows), np.int64, len(rows))
        roles = np.fromiter((row["role"] for row in rows), np.int8, len(rows))
        all_at = np.concatenate((self.at, at))
        return replace(
            self,
            keys=np.concatenate((self.keys, keys)),
            seqs=np.concatenate((self.seqs, seqs)),
            at=all_at,
            roles=np.concatenate((self.roles, roles)),
            named=np.concatenate((self.named, text.named)),
            words_in=np.concatenate((self.words_in, text.words_in)),
            owners=np.concatenate((self.owners, text.owners)),
            lengths=np.concatenate((self.lengths, text.lengths)),
            before=np.concatenate((self.before, before)),
            sessions=np.concatenate((self.sessions, _sessions(keys, before, all_at, self.sessions))),
            ends={**self.ends, **{int(keys[i]): base + int(i) for i in lasts}},
            words=postings.grown(self.words, text.words),
            speakers=postings.grown(self.speakers, text.speakers),
        )

    def _with_vectors(self, rows: Sequence[Row], seen: Mapping[int, Seen], dimensions: Mapping[int, int]) -> Scope:
        made = dict(self.vectors)
        embedders = [seen[row["conversation_key"]].embedder for row in rows]
        for embedder in dict.fromkeys(embedders):
            if embedder is not None:
                own = [row for row, of in zip(rows, embedders, strict=True) if of == embedder]
                made[embedder] = with_part(made.get(embedder, ()), self._part(own, dimensions[embedder]))
        return replace(self, vectors=made)

    def _part(self, rows: Sequence[Row], dimensions: int) -> Part:
        keys = np.fromiter((row["conversation_key"] for row in rows), np.int64, len(rows))
        seqs = np.fromiter((row["seq"] for row in rows), np.int64, len(rows))
        owners = self.index(keys, seqs)
        whole = [bytes(row["vectors"]) for row in rows]
        width = dimensions + 4
        kept = [i for i, blob in enumerate(whole) if owners[i] >= 0 and blob and not len(blob) % width]
        counts = np.fromiter((len(whole[i]) // width for i in kept), np.int64, len(kept))
        scales, bytes_ = unpack(b"".join(whole[i] for i in kept), dimensions)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        places = (np.arange(len(first)) - first).astype(np.int32)
        return Part(np.repeat(owners[kept], counts).astype(np.int32), places, scales, bytes_)


def _place(keys: Longs, seqs: Longs) -> Longs:
    return (keys << 32) | seqs


def _linked(keys: Longs, base: int, ends: Mapping[int, int]) -> Ints:
    """The message before each of a batch: the row above, or the newest one known of the conversation."""
    before = np.arange(base - 1, base - 1 + len(keys), dtype=np.int32)
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    before[firsts] = [ends.get(int(keys[i]), -1) for i in firsts]
    return before


def _sessions(keys: Longs, before: Ints, at: Longs, known: Ints) -> Ints:
    """A number for each message of a batch; a long silence begins a new session."""
    base = len(known)
    own = at[base:]
    begins = (before < 0) | (own - at[before] > SESSION_GAP)
    found = (np.cumsum(begins) + (int(known.max()) if base else -1)).astype(np.int32)
    # A batch may go on with a session that is known already.
    for i in np.flatnonzero((before >= 0) & (before < base) & ~begins):
        stop = i + 1
        while stop < len(keys) and not begins[stop] and before[stop] >= base:
            stop += 1
        found[i:stop] = known[before[i]]
    return found


class _Text:
    """The words of a batch of entries, by passage, and those of the speakers, by message.

    A speaker's words count for the first passage too.
    """

    def __init__(self, blobs: Sequence[bytes], base: int, passages: int) -> None:
        numbers = np.frombuffer(b"".join(blobs), "<u4").astype(np.uint32, copy=False)
        sizes = np.fromiter((len(blob) // 4 for blob in blobs), np.int64, len(blobs))
        docs = np.repeat(np.arange(len(blobs), dtype=np.int32), sizes)
        marks = numbers < word_index.RESERVED
        places: Longs = np.cumsum(marks) - np.repeat(
            _sums_before(marks, sizes), sizes
        )  # marks so far in the same message
        counts = np.maximum(np.bincount(docs[marks], minlength=len(blobs)), 1)
        words, speaks = ~marks, (places == 0) & ~marks
        firsts = np.cumsum(counts) - counts
        units = (firsts[docs] + np.maximum(places - 1, 0)).astype(np.int32)
        self.owners = np.repeat(np.arange(base, base + len(blobs), dtype=np.int32), counts)
        self.lengths = np.bincount(units[words], minlength=int(counts.sum())).astype(np.float32)
        self.words_in = np.bincount(docs[words], minlength=len(blobs)).astype(np.float32)
        self.named = np.bincount(docs[speaks], minlength=len(blobs)) > 0
        self.words = Postings.build(numbers[words], units[words] + np.int32(passages))
        self.speakers = Postings.build(numbers[speaks], docs[speaks] + np.int32(base))


def _sums_before(marks: NDArray[np.bool_], sizes: Longs) -> Longs:
    """How many marks stand before each message of a batch."""
    sums: Longs = np.concatenate(([0], np.cumsum(marks)))
    found: Longs = sums[np.cumsum(sizes) - sizes]
    return found
