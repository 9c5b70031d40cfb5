"""Reading what recall needs of a scope (a conversation, or all of a person's), or only what is new in it.

Recall keeps scopes in memory. Nothing tells it that another process added or erased something, so each reading compares
the conversations as they are with what was known of them: appended messages are read, and if anything went or was made
anew, the whole scope is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core import word_index
from recollect.core.drafts import to_json
from recollect.core.models import Principal
from recollect.storage.briefs import Standing, standing_of
from recollect.storage.driver import Row, Transaction
from recollect.storage.texts import Texts
from recollect.storage.topics import Active, active_of

EVERYTHING: Final = 2**62
MEMBERS: Final = 500  # messages of the active topic that are leaned to


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one conversation: how far its entries and vectors were read, and signs of what was erased."""

    created_at: int
    generation: int
    last_seq: int
    erased: int
    embedder: int | None
    vectors_through: int

    def is_outdone_by(self, row: Row) -> bool:
        """Whether something known is gone, so that reading what is new would not do."""
        return (
            self.created_at != row["created_at"]
            or self.generation != row["generation"]
            or row["last_seq"] < self.last_seq
            or _erased(row) != self.erased
            or (self.embedder is not None and row["embedder_key"] != self.embedder)
        )


Known = Mapping[int, Seen]  # by conversation key
State = tuple[str, ...]  # changes with the scope


@dataclass(frozen=True, slots=True)
class News:
    """New rows of a scope, in the order of conversation and seq. With `fresh` they are all there is."""

    state: State
    fresh: bool
    conversations: Sequence[Row]
    seen: dict[int, Seen]
    entries: Sequence[Row]
    vectors: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the scope of a conversation, in the same moment: its active topic, and where its brief is."""

    active: Active | None = None
    standing: Standing | None = None


def load_beside(tx: Transaction, principal: Principal, conversation: str | None) -> Beside:
    if conversation is None:
        return Beside()
    active = active_of(tx, principal, conversation, most=MEMBERS)
    return Beside(active, standing_of(tx, principal, conversation))


def is_as_it_was(tx: Transaction, principal: Principal, conversation: str | None, state: State) -> bool:
    """Whether nothing is new in a scope since `state`."""
    return _state(tx, principal, conversation) == state


def _state(tx: Transaction, principal: Principal, conversation: str | None) -> State:
    found = tx.one("scope_state", person=principal.person, conversation=conversation) or {}
    return tuple(str(value) for value in found.values())


def load_scope(
    tx: Transaction, principal: Principal, conversation: str | None, known: Known, state: State, texts: Texts
) -> News | None:
    """What is new since `state`, when the scope was as `known` says; None if nothing is."""
    now = _state(tx, principal, conversation)
    if now == state:
        return None
    rows = tx.all("scope_conversations", person=principal.person, conversation=conversation)
    newest = tx.one("newest_embedder")
    in_force = None if newest is None else newest["key"]
    present = {row["key"] for row in rows}
    fresh = not known or not known.keys() <= present or state[-1:] != now[-1:]  # another epoch, after a restore
    fresh = fresh or any(row["key"] in known and known[row["key"]].is_outdone_by(row) for row in rows)
    before: Known = {} if fresh else known
    seen = {row["key"]: _seen(row, in_force) for row in rows}
    return News(now, fresh, rows, seen, _entries(tx, rows, before, texts), _vectors(tx, before, seen))


def _seen(row: Row, in_force: int | None) -> Seen:
    # While another embedder's vectors are being made, those that serve are complete as they are.
    growing = row["embedder_key"] is not None and row["embedder_key"] == in_force
    through = row["embedded_seq"] if growing else EVERYTHING
    return Seen(row["created_at"], row["generation"], row["last_seq"], _erased(row), row["embedder_key"], through)


def _erased(row: Row) -> int:
    return int(row["last_seq"] - row["messages"])


def _entries(tx: Transaction, rows: Sequence[Row], known: Known, texts: Texts) -> list[Row]:
    cursors: list[tuple[int, int]] = []
    unmade: list[tuple[int, int]] = []
    for row in rows:
        after = known[row["key"]].last_seq if row["key"] in known else 0
        if row["last_seq"] > after:
            (cursors if row["words_version"] == word_index.VERSION else unmade).append((row["key"], after))
    found = tx.all("entries_after", cursors=to_json(cursors)) if cursors else []
    if unmade:  # by an older version; the worker will store them
        found += [entry for key, after in unmade for entry in _made_now(tx, key, after, texts)]
        found.sort(key=lambda entry: (entry["conversation_key"], entry["seq"]))
    return found


def _made_now(tx: Transaction, key: int, after: int, texts: Texts) -> list[Row]:
    return [
        {
            "conversation_key": key,
            "seq": row["seq"],
            "at": row["at"],
            "role": word_index.ROLE_NUMBERS[row["role"]],
            "words": word_index.encode(row["content"], row["name"], row["model_variant"]),
        }
        for row in texts.fill(tx, tx.all("messages_after", key=key, after=after))
    ]


def _vectors(tx: Transaction, known: Known, seen: Mapping[int, Seen]) -> list[Row]:
    cursors = []
    for key, now in seen.items():
        before = known.get(key)
        after = before.vectors_through if before is not None and before.embedder is not None else 0
        if now.embedder is not None and now.vectors_through > after:
            cursors.append((key, after, now.vectors_through, now.embedder))
    return tx.all("vectors_between", cursors=to_json(cursors)) if cursors else []
