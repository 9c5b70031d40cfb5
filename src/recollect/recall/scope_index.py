"""A scope in memory: the messages of a conversation, or of a person, as arrays that the arms of recall compare.

A scope index is never changed: an update makes a new one that shares the arrays that stayed. Its contents depend on the
rows alone, not on when they were read, so two processes (and two databases) rank alike.
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
from recollect.recall.message_run import SYSTEM, MessageRun, find_usable_vectors
from recollect.recall.message_texts import MessageTexts
from recollect.recall.postings import Postings
from recollect.recall.segment_form import arrange_runs, collect_vectors
from recollect.recall.vectors import SCALE_BYTES, VectorPart, VectorRun, append_part, join_runs, pack, unpack
from recollect.storage.scope_updates import ConversationMark, ScopeState, ScopeUpdate

USER: Final = word_index.ROLE_NUMBERS["user"]
SUBSTANTIAL_WORDS: Final = 22  # words of a message of full substance; "Wow, thanks!" is rarely what was asked for
MAX_BREVITY: Final = 1.5  # a speaker with a fifth of the words of the others is as brief as it gets
MAX_TALK_SHARE: Final = 0.8  # of the messages, by one speaker; with more it becomes a monologue
PRIOR_WORDS: Final = 20  # words of one more message that every speaker is taken to have said
SESSION_GAP_MICROS: Final = 3600 * 1_000_000  # a longer silence ends a session
RECENCY_HALF_LIFE_DAYS: Final = 30
MICROS_PER_DAY: Final = 86_400e6
BYTES_PER_MESSAGE: Final = 86  # in the arrays with one value for each message, and in arrays derived from them
BYTES_PER_PASSAGE: Final = 8

Row = dict[str, Any]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ScopeIndex:
    """The messages of a scope by their index, in the order of conversation and seq, and their passages and vectors."""

    state: ScopeState = ()  # changes whenever the scope changes
    # How far each conversation was read, by conversation key.
    marks: Mapping[int, ConversationMark] = field(default_factory=dict)
    conversations: Mapping[int, Row] = field(default_factory=dict)  # rows by conversation key
    # One value for each message:
    conversation_keys: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    seqs: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    at: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # microseconds
    roles: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    speaker_ids: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # equal for messages of one speaker
    flags: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))  # see `message_flags`
    word_counts: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    previous: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # index of the message before it, or -1
    sessions: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # number of its session
    newest: Mapping[int, int] = field(default_factory=dict)  # index of the last message, by conversation key
    # One value for each passage:
    passage_message: Ints = field(default_factory=lambda: np.empty(0, np.int32))  # index of its message
    lengths: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # words
    words: tuple[Postings, ...] = ()  # words of passages
    speakers: tuple[Postings, ...] = ()  # words of speakers' names, by message
    vectors: Mapping[int, tuple[VectorPart, ...]] = field(default_factory=dict)  # by embedder key
    texts: MessageTexts = field(default_factory=MessageTexts)  # messages read lately; a fresh scope begins with none

    def __len__(self) -> int:
        return len(self.conversation_keys)

    @property
    def lacks_messages(self) -> bool:
        """Return whether the word index is damaged: messages of the log are missing in it."""
        return len(self) != sum(int(row["messages"]) for row in self.conversations.values())

    @cached_property
    def has_words(self) -> NDArray[np.bool_]:
        """Return which messages have words. Recall ranks no others; they appear as neighbours."""
        mask: NDArray[np.bool_] = self.word_counts > 0
        return mask

    @cached_property
    def worded_count(self) -> int:
        """Return the number of messages that have words."""
        return int(self.has_words.sum())

    @cached_property
    def _without_vectors(self) -> Longs:
        """Return the indices of messages that the worker has not embedded yet, of those that can be recalled."""
        lacking = self.has_words & (self.roles != SYSTEM)
        keys = np.array(sorted(self.marks), np.int64)
        marks = [self.marks[key] for key in keys.tolist()]
        embedded = np.array([mark.vectors_through for mark in marks], np.int64)
        if len(keys):
            lacking &= self.seqs > embedded[np.searchsorted(keys, self.conversation_keys)]
        for parts in self.vectors.values():
            for part in parts:
                lacking[part.messages] = False
        return np.flatnonzero(lacking)

    def lacks_vectors(self, *, but: int = 0) -> bool:
        """Return whether most messages have no vectors yet, even if so many more had them.

        The newest does not count: in a chat it is the question itself, stored a moment ago.
        """
        embedded = sum(len(part.messages) for parts in self.vectors.values() for part in parts)
        return 2 * (embedded + but) < self.worded_count - 1

    def newest_without_vectors(self, limit: int) -> Longs:
        """Return the indices of the newest messages that have no vectors, newest first.

        Of messages from one moment, as in an import, those added last are the newest.
        """
        lacking = self._without_vectors[::-1]
        return lacking[np.argsort(-self.at[lacking], kind="stable")[:limit]] if len(lacking) else lacking

    def with_fresh_vectors(self, embedder: int, rows: Mapping[int, Floats]) -> ScopeIndex:
        """Return the scope with vectors of one embedder for some messages, by their index."""
        indices = sorted(rows)
        counts = [len(rows[index]) for index in indices]
        owners = np.repeat(np.array(indices, np.int32), counts)
        passages = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
        scales, bytes_ = unpack(pack(np.concatenate([rows[index] for index in indices])), rows[indices[0]].shape[1])
        part = VectorPart(owners, passages, scales, bytes_)
        return replace(self, vectors={**self.vectors, embedder: append_part(self.vectors.get(embedder, ()), part)})

    @cached_property
    def following(self) -> Ints:
        """Return the index of the message after each, or -1."""
        following = np.full(len(self), -1, np.int32)
        linked = np.flatnonzero(self.previous >= 0)
        following[self.previous[linked]] = linked
        return following

    @cached_property
    def links(self) -> tuple[Floats, Longs, Longs]:
        """Return which messages are neighbours within a session.

        Neighbours that are adjacent in the arrays are a mask: the first array has 1 where message i + 1 follows message
        i. Those further apart (conversations that were read in several batches) are two arrays of indices: the later
        message of each pair, and the earlier one.
        """
        later = np.flatnonzero(self.previous >= 0)
        earlier = self.previous[later].astype(np.int64)
        same = self.sessions[later] == self.sessions[earlier]
        later, earlier = later[same], earlier[same]
        adjacent = later == earlier + 1
        follows = np.zeros(max(len(self) - 1, 0), np.float32)
        follows[earlier[adjacent]] = 1
        return follows, later[~adjacent], earlier[~adjacent]

    @cached_property
    def brevity(self) -> Floats:
        """Return how much shorter each speaker's messages are than those of all others, from -1.5 to 1.5.

        It is the logarithm of the ratio; 0 if only one speaks. A person states a fact in few words, and an assistant
        answers at length. Roles and names cannot tell them apart: an assistant may have a name, and two people who
        talk to each other may have the roles of user and assistant.
        """
        _, speakers = np.unique(self.speaker_ids, return_inverse=True)
        if not len(speakers) or not speakers.any():
            return np.zeros(len(self), np.float32)
        counts, words = np.bincount(speakers), np.bincount(speakers, self.word_counts)
        own = (words + PRIOR_WORDS) / (counts + 1)
        others = (words.sum() - words + PRIOR_WORDS) / (counts.sum() - counts + 1)
        ratios: Floats = np.log(others / own).clip(-MAX_BREVITY, MAX_BREVITY).astype(np.float32)[speakers]
        return ratios

    @cached_property
    def solo(self) -> float:
        """Return from 0 to 1 how nearly one speaker says everything, as in notes: 0 if others say a fifth or more.

        In notes a message stands for itself. What comes before and after it says little about it.
        """
        if not len(self):
            return 0.0
        _, counts = np.unique(self.speaker_ids, return_counts=True)
        share = float(counts.max()) / len(self)
        return max(0.0, (share - MAX_TALK_SHARE) / (1 - MAX_TALK_SHARE))

    @cached_property
    def from_person(self) -> Floats:
        """Return from 0 to 1 how surely each message is a person's and not an assistant's, by its speaker's brevity."""
        shares: Floats = self.brevity.clip(0, 1)
        return shares

    @cached_property
    def substance(self) -> Floats:
        """Return from 0 to 1 how much each message says, by its number of words."""
        shares: Floats = np.minimum(self.word_counts / SUBSTANTIAL_WORDS, 1).astype(np.float32)
        return shares

    @cached_property
    def recency(self) -> Floats:
        """Return 1 for the newest message of the scope. The value halves with every 30 days of age."""
        if not len(self):
            return np.zeros(0, np.float32)
        days = (self.at.max() - self.at) / MICROS_PER_DAY
        recency: Floats = np.exp2(-days / RECENCY_HALF_LIFE_DAYS).astype(np.float32)
        return recency

    @cached_property
    def average_length(self) -> float:
        """Return the average number of words in a passage."""
        return float(self.lengths.mean()) if len(self.lengths) else 1.0

    @cached_property
    def firsts(self) -> Longs:
        """Return the index of each message's first passage. Every message has a passage, perhaps an empty one."""
        return np.searchsorted(self.passage_message, np.arange(len(self)))

    @cached_property
    def _by_position(self) -> tuple[Longs, Longs]:
        positions = _to_position(self.conversation_keys, self.seqs)
        order = np.argsort(positions, kind="stable")
        return positions[order], order

    def index(self, keys: Longs, seqs: Longs) -> Longs:
        """Return the indices of the messages with these conversation keys and seqs; -1 for those not in the scope."""
        positions, order = self._by_position
        wanted = _to_position(keys, seqs)
        slots = np.searchsorted(positions, wanted)
        slots[slots == len(positions)] = 0
        return np.where(positions[slots] == wanted, order[slots], -1) if len(positions) else np.full(len(wanted), -1)

    @property
    def nbytes(self) -> int:
        """Return the approximate number of bytes that the scope takes in memory."""
        words = sum(part.nbytes for part in (*self.words, *self.speakers))
        vectors = sum(part.nbytes for parts in self.vectors.values() for part in parts)
        arrays = BYTES_PER_MESSAGE * len(self) + BYTES_PER_PASSAGE * len(self.passage_message)
        return arrays + words + vectors + self.texts.nbytes

    def updated(self, update: ScopeUpdate, dimensions: Mapping[int, int]) -> ScopeIndex:
        """Return the scope with the rows and segments of an update, whose list of segments is empty afterwards.

        `dimensions` are those of the embedders, by key.
        """
        scope = ScopeIndex() if update.is_complete else self
        runs = arrange_runs(update)
        packed = collect_vectors(runs, len(scope))
        if runs:
            scope = scope._with_messages(runs)
        runs.clear()
        if update.vectors or packed:
            scope = scope._with_vectors(scope._row_vectors(update.vectors, update.marks, dimensions), packed)
        rows = {row["key"]: row for row in update.conversations}
        return replace(scope, state=update.state, marks=update.marks, conversations=rows)

    def _with_messages(self, runs: Sequence[MessageRun]) -> ScopeIndex:
        message_offset, passage_offset = len(self), len(self.passage_message)
        keys = np.concatenate([run.conversation_keys for run in runs])
        previous = _find_previous(keys, message_offset, self.newest)
        passage_counts = np.concatenate([run.passage_counts for run in runs])
        messages = np.arange(message_offset, message_offset + len(keys), dtype=np.int32)
        lasts = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
        at = np.concatenate([self.at, *(run.at for run in runs)])
        sessions = _number_sessions(keys, previous, at, self.sessions)
        return replace(
            self,
            conversation_keys=np.concatenate((self.conversation_keys, keys)),
            seqs=_join(self.seqs, [run.seqs for run in runs]),
            at=at,
            roles=_join(self.roles, [run.roles for run in runs]),
            speaker_ids=_join(self.speaker_ids, [run.speaker_ids for run in runs]),
            flags=_join(self.flags, [run.flags for run in runs]),
            word_counts=_join(self.word_counts, [run.word_counts for run in runs]),
            passage_message=np.concatenate((self.passage_message, np.repeat(messages, passage_counts))),
            lengths=_join(self.lengths, [run.lengths for run in runs]),
            previous=np.concatenate((self.previous, previous)),
            sessions=np.concatenate((self.sessions, sessions)),
            newest={**self.newest, **{int(keys[i]): message_offset + int(i) for i in lasts}},
            words=_append_postings(
                self.words, [run.words for run in runs], [len(run.lengths) for run in runs], passage_offset
            ),
            speakers=_append_postings(
                self.speakers, [run.speakers for run in runs], [len(run) for run in runs], message_offset
            ),
        )

    def _row_vectors(
        self, rows: Sequence[Row], marks: Mapping[int, ConversationMark], dimensions: Mapping[int, int]
    ) -> dict[int, VectorPart]:
        """Return the vectors of rows by embedder key."""
        embedders = [marks[row["conversation_key"]].embedder for row in rows]
        return {
            embedder: self._to_vector_part(
                [row for row, key in zip(rows, embedders, strict=True) if key == embedder], dimensions[embedder]
            )
            for embedder in dict.fromkeys(embedders)
            if embedder is not None
        }

    def _with_vectors(self, parts: Mapping[int, VectorPart], packed: Mapping[int, list[VectorRun]]) -> ScopeIndex:
        """Return the scope with vectors of rows and of segments, both by embedder key."""
        vectors = dict(self.vectors)
        for embedder in dict.fromkeys((*parts, *packed)):
            runs = packed.get(embedder)
            new = join_runs(runs, parts.get(embedder)) if runs else parts[embedder]
            if len(new):
                vectors[embedder] = append_part(vectors.get(embedder, ()), new)
        return replace(self, vectors=vectors)

    def _to_vector_part(self, rows: Sequence[Row], dimensions: int) -> VectorPart:
        """Return the vectors of these rows, without damaged ones and those of messages that are never recalled."""
        keys = np.fromiter((row["conversation_key"] for row in rows), np.int64, len(rows))
        seqs = np.fromiter((row["seq"] for row in rows), np.int64, len(rows))
        message_indices = self.index(keys, seqs)
        usable = list(find_usable_vectors(rows, self.roles, message_indices, dimensions))
        owners = np.fromiter((index for index, _ in usable), np.int32, len(usable))
        width = dimensions + SCALE_BYTES
        counts = np.fromiter((len(blob) // width for _, blob in usable), np.int64, len(usable))
        scales, bytes_ = unpack(b"".join(blob for _, blob in usable), dimensions)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        passages = (np.arange(len(first)) - first).astype(np.int32)
        return VectorPart(np.repeat(owners, counts), passages, scales, bytes_)


def _join(own: NDArray[Any], others: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return an array with others behind it, in its own type; those of segments are narrower."""
    return np.concatenate((own, *others), dtype=own.dtype, casting="unsafe")


def _append_postings(
    parts: tuple[Postings, ...], new: Sequence[Postings], sizes: Sequence[int], offset: int
) -> tuple[Postings, ...]:
    """Return the parts with a new one: postings of runs with so many documents each, of which the first is `offset`."""
    offsets = [offset, *(offset + np.cumsum(sizes)[:-1]).tolist()]
    return postings.append_part(parts, Postings.merge(new, offsets))


def _to_position(keys: Longs, seqs: Longs) -> Longs:
    """Return conversation key and seq as one number that sorts like the pair."""
    return (keys << 32) | seqs


def _find_previous(keys: Longs, message_offset: int, newest: Mapping[int, int]) -> Ints:
    """Return the index of the message before each of a batch: the row above, or the conversation's newest so far.

    `message_offset` is the number of messages that the scope has already.
    """
    previous = np.arange(message_offset - 1, message_offset - 1 + len(keys), dtype=np.int32)
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    previous[firsts] = [newest.get(int(keys[i]), -1) for i in firsts]
    return previous


def _number_sessions(keys: Longs, previous: Ints, at: Longs, earlier: Ints) -> Ints:
    """Return the session number of each message in a batch. `earlier` are the numbers of the messages before it."""
    offset = len(earlier)
    own = at[offset:]
    begins = (previous < 0) | (own - at[previous] > SESSION_GAP_MICROS)
    sessions = (np.cumsum(begins) + (int(earlier.max()) if offset else -1)).astype(np.int32)
    # A batch may continue a session that has begun before it.
    for i in np.flatnonzero((previous >= 0) & (previous < offset) & ~begins):
        stop = i + 1
        while stop < len(keys) and not begins[stop] and previous[stop] >= offset:
            stop += 1
        sessions[i:stop] = earlier[previous[i]]
    return sessions
