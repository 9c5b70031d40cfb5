"""Reads what recall needs of a scope (one conversation, or all of a person's), or only what is new in it.

Recall keeps scopes in memory. Nothing tells it that another process added or erased something, so each read compares
the conversations with the marks of the last read. Appended messages are read. If anything was removed or made again,
the whole scope is read. Of a conversation that is read from its beginning, segments are read as far as there are any,
and rows for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from recollect.core import word_index
from recollect.core.json_text import to_json
from recollect.core.models import Principal
from recollect.storage.briefs import BriefState, read_brief_state
from recollect.storage.driver import Row, Transaction
from recollect.storage.segments import StoredSegment, Stretch, find_gaps, read_segments
from recollect.storage.texts import Texts
from recollect.storage.topics import ActiveTopic, read_active_topic

ALL_VECTORS: Final = 2**62
MAX_TOPIC_MESSAGES: Final = 500  # newest messages of the active topic that recall leans to


@dataclass(frozen=True, slots=True)
class ConversationMark:
    """The point up to which one conversation was read, and numbers that change when something of it is removed."""

    created_at: int
    generation: int
    last_seq: int
    erased: int
    embedder: int | None
    vectors_through: int

    def is_invalidated_by(self, row: Row) -> bool:
        """Say whether something that was read is gone, so that reading only what is new is not enough."""
        return (
            self.created_at != row["created_at"]
            or self.generation != row["generation"]
            or row["last_seq"] < self.last_seq
            or _count_erased(row) != self.erased
            or (self.embedder is not None and row["embedder_key"] != self.embedder)
        )


Marks = Mapping[int, ConversationMark]  # by conversation key
ScopeState = tuple[str, ...]  # differs after every change in the scope


@dataclass(frozen=True, slots=True)
class ScopeUpdate:
    """New rows of a scope, in the order of conversation and seq. If `is_complete`, they replace all older ones."""

    state: ScopeState
    is_complete: bool
    conversations: Sequence[Row]
    marks: dict[int, ConversationMark]  # how far each conversation is read now, by conversation key
    word_rows: Sequence[Row]
    vectors: Sequence[Row]
    # Whoever takes the segments in empties the list, so that they are not in memory twice.
    segments: list[StoredSegment] = field(default_factory=list)
    damaged_segments: Sequence[tuple[int, Stretch]] = ()  # conversation key and stretch

    @property
    def row_count(self) -> int:
        """Return how much there is to take in. A segment counts like its messages and their vectors."""
        packed = sum(stretch.through - stretch.after for _, stretch, _, _ in self.segments)
        return len(self.word_rows) + len(self.vectors) + 2 * packed


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The active topic and the state of the brief of a conversation, read in the same moment as its scope."""

    active_topic: ActiveTopic | None = None
    brief_state: BriefState | None = None


def load_conversation_state(tx: Transaction, principal: Principal, conversation: str | None) -> ConversationState:
    """Return the state of a conversation. It is empty for the scope of all conversations."""
    if conversation is None:
        return ConversationState()
    active_topic = read_active_topic(tx, principal, conversation, limit=MAX_TOPIC_MESSAGES)
    return ConversationState(active_topic, read_brief_state(tx, principal, conversation))


def has_state(tx: Transaction, principal: Principal, conversation: str | None, state: ScopeState) -> bool:
    """Say whether a scope still has this state: nothing in it changed."""
    return _read_state(tx, principal, conversation) == state


def _read_state(tx: Transaction, principal: Principal, conversation: str | None) -> ScopeState:
    row = tx.one("scope_state", person=principal.person, conversation=conversation) or {}
    return tuple(str(value) for value in row.values())


def load_scope(
    tx: Transaction, principal: Principal, conversation: str | None, known: Marks, state: ScopeState, texts: Texts
) -> ScopeUpdate | None:
    """Return what is new in a scope that was read up to the marks `known` and had this state; None if nothing is."""
    new_state = _read_state(tx, principal, conversation)
    if new_state == state:
        return None
    rows = tx.all("scope_conversations", person=principal.person, conversation=conversation)
    newest = tx.one("newest_embedder")
    current_embedder = None if newest is None else newest["key"]
    present = {row["key"] for row in rows}
    is_new_epoch = state[-1:] != new_state[-1:]  # after a restore
    is_complete = not known or not known.keys() <= present or is_new_epoch
    is_complete = is_complete or any(row["key"] in known and known[row["key"]].is_invalidated_by(row) for row in rows)
    base: Marks = {} if is_complete else known
    marks = {row["key"]: _to_mark(row, current_embedder) for row in rows}
    segments, damaged = read_segments(tx, _find_packed(rows, base, marks))
    packed: dict[int, list[Stretch]] = {}
    for segment in segments:
        packed.setdefault(segment.key, []).append(segment.stretch)
    word_rows = _read_word_rows(tx, rows, base, packed, texts)
    vectors = _read_vectors(tx, base, marks, packed)
    return ScopeUpdate(new_state, is_complete, rows, marks, word_rows, vectors, segments, damaged)


def _find_packed(rows: Sequence[Row], known: Marks, marks: Marks) -> list[tuple[int, int]]:
    """Return key and embedder of the conversations of which segments can be used: those that are read as a whole."""
    embedders = [(row["key"], marks[row["key"]].embedder) for row in rows if row["key"] not in known]
    current = {row["key"] for row in rows if row["words_version"] == word_index.VERSION}
    return [(key, embedder) for key, embedder in embedders if embedder is not None and key in current]


def _to_mark(row: Row, current_embedder: int | None) -> ConversationMark:
    # While a new embedder's vectors are made, those of the old one are complete and still in use.
    is_growing = row["embedder_key"] is None or row["embedder_key"] == current_embedder
    through = row["embedded_seq"] if is_growing else ALL_VECTORS
    return ConversationMark(
        row["created_at"], row["generation"], row["last_seq"], _count_erased(row), row["embedder_key"], through
    )


def _count_erased(row: Row) -> int:
    return int(row["last_seq"] - row["messages"])


def _read_word_rows(
    tx: Transaction, rows: Sequence[Row], known: Marks, packed: Mapping[int, Sequence[Stretch]], texts: Texts
) -> list[Row]:
    cursors: list[tuple[int, int, int]] = []
    outdated: list[tuple[int, int]] = []
    for row in rows:
        key, last = row["key"], row["last_seq"]
        after = known[key].last_seq if key in known else 0
        if last > after and row["words_version"] != word_index.VERSION:
            outdated.append((key, after))
        elif last > after:
            cursors += [(key, *gap) for gap in find_gaps(packed.get(key, ()), after, last)]
    word_rows = tx.all("entries_between", cursors=to_json(cursors)) if cursors else []
    if outdated:  # words of an older version; the worker will store new ones
        word_rows += [row for key, after in outdated for row in _make_word_rows(tx, key, after, texts)]
        word_rows.sort(key=lambda row: (row["conversation_key"], row["seq"]))
    return word_rows


def _make_word_rows(tx: Transaction, key: int, after: int, texts: Texts) -> list[Row]:
    return [
        {
            "conversation_key": key,
            "seq": row["seq"],
            "at": row["at"],
            "role": word_index.ROLE_NUMBERS[row["role"]],
            "words": word_index.encode_row(row["content"], row["name"], row["model_variant"], role=row["role"]),
        }
        for row in texts.fill(tx, tx.all("messages_after", key=key, after=after))
    ]


def _read_vectors(tx: Transaction, known: Marks, marks: Marks, packed: Mapping[int, Sequence[Stretch]]) -> list[Row]:
    cursors = []
    for key, mark in marks.items():
        before = known.get(key)
        after = before.vectors_through if before is not None and before.embedder is not None else 0
        if mark.embedder is not None and mark.vectors_through > after:
            gaps = find_gaps(packed.get(key, ()), after, mark.vectors_through)
            cursors += [(key, *gap, mark.embedder) for gap in gaps]
    return tx.all("vectors_between", cursors=to_json(cursors)) if cursors else []
