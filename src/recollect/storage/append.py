"""The write path: drafts become messages with the next `seq`, and their entries, inside one transaction.

Requests of many callers are stored together, with a handful of statements for all of them: the rows go to the
database as one JSON value, because a statement per row would cost more than the commit they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeVar

from recollect.core import times, word_index
from recollect.core.drafts import to_json
from recollect.core.models import About, Appended, Draft, Message, Principal
from recollect.storage.driver import Row, Transaction
from recollect.storage.rows import message_row, stored_message, to_message
from recollect.storage.texts import Texts

T = TypeVar("T")

STATEMENT_BYTES: Final = 4 * 1024 * 1024  # of text that one statement carries
_APART: Final = (
    "key", "seq", "id", "role", "at", "source", "name", "model_variant", "tool_calls", "tool_call_id", "metadata",
    "importance", "replaced",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """Drafts (each with its entry) for one conversation, and how to describe it if it must be created."""

    principal: Principal
    conversation: str
    about: About
    now: int
    prepared: Sequence[tuple[Draft, bytes]]

    def lock(self, tx: Transaction) -> Row:
        """Find the conversation or create it; others cannot append to it until the transaction ends."""
        while True:
            row = tx.one("lock_conversation", person=self.principal.person, conversation=self.conversation)
            if row is not None:
                return row
            tx.run(
                "create_conversation",
                person=self.principal.person,
                conversation=self.conversation,
                title=self.about.title,
                tags=to_json(self.about.tags),
                zone=self.about.zone,
                now=self.now,
                words_version=word_index.VERSION,
            )


def append(tx: Transaction, requests: Sequence[Request], texts: Texts) -> list[list[Appended]]:
    """Store the drafts whose ids are not known yet; return for each request all of its messages as stored."""
    pages: dict[tuple[str, str], _Page] = {}
    # Two groups that lock the same conversations take them in the same order, so that neither waits for the other.
    for request in sorted(requests, key=lambda one: (one.principal.person, one.conversation)):
        name = (request.principal.person, request.conversation)
        if name not in pages:
            pages[name] = _Page(request, request.lock(tx), texts)
    results = [pages[one.principal.person, one.conversation].add(tx, one) for one in requests]
    new = [one for page in pages.values() for one in page.new]
    save_messages(tx, [row for row, _ in new])
    save_entries(tx, new)
    for page in pages.values():
        page.close(tx)
    return results


class _Page:
    """What is being appended to one conversation."""

    def __init__(self, request: Request, row: Row, texts: Texts) -> None:
        self._texts = texts
        self._key, self._zone, self._seq = row["key"], row["zone"], row["last_seq"]
        self._name = request.conversation
        self._fresh: dict[str, Message] = {}
        self.new: list[tuple[Row, bytes]] = []

    def add(self, tx: Transaction, request: Request) -> list[Appended]:
        known = self._known(tx, [draft for draft, _ in request.prepared])
        result = []
        for draft, entry in request.prepared:
            there = known.get(draft.id) or self._fresh.get(draft.id)
            if there is not None:
                result.append(Appended(there, created=False))
                continue
            self._seq += 1
            at = times.in_zone(draft.at, self._zone)
            message = self._fresh[draft.id] = stored_message(draft, self._name, self._seq, at)
            self.new.append((message_row(message, self._key), entry))
            result.append(Appended(message, created=True))
        return result

    def _known(self, tx: Transaction, drafts: Sequence[Draft]) -> dict[str, Message]:
        ids = [draft.id for draft in drafts if not draft.id_is_new]
        if not ids:
            return {}
        rows = self._texts.fill(tx, tx.all("known_messages", key=self._key, ids=to_json(ids)))
        return {row["id"]: to_message(row, self._name) for row in rows}

    def close(self, tx: Transaction) -> None:
        if self.new:
            moments = [row["at"] for row, _ in self.new]
            tx.run(
                "advance_conversation",
                key=self._key,
                last_seq=self._seq,
                added=len(self.new),
                first_at=min(moments),
                last_at=max(moments),
            )


def save_messages(tx: Transaction, rows: Sequence[Row]) -> None:
    for part in _portions(rows, [len(row["content"]) for row in rows]):
        tx.run("insert_messages", rows=to_json([{name: row[name] for name in _APART} for row in part]))
        texts = [(row["key"], row["seq"], row["content"]) for row in part if not row.get("damaged")]
        tx.run("insert_texts", rows=to_json(texts))


def save_entries(tx: Transaction, pairs: Sequence[tuple[Row, bytes]]) -> None:
    """What recall reads of each message. The entries travel as one run of bytes, and where each of them lies in it."""
    for part in _portions(pairs, [len(entry) for _, entry in pairs]):
        starts = accumulate((len(entry) for _, entry in part), initial=0)
        places = [
            (row["key"], row["seq"], row["at"], word_index.ROLE_NUMBERS[row["role"]], start, len(entry))
            for (row, entry), start in zip(part, starts, strict=False)  # the last one is the end
        ]
        tx.run("insert_entries", rows=to_json(places), words=b"".join(entry for _, entry in part))


def _portions(items: Sequence[T], sizes: Sequence[int]) -> Iterator[Sequence[T]]:
    """In order, so many at a time that each portion fits into a statement."""
    if sum(sizes) <= STATEMENT_BYTES:
        yield from [items] if items else []
        return
    begin = size = 0
    for place, more in enumerate(sizes):
        if place > begin and size + more > STATEMENT_BYTES:
            yield items[begin:place]
            begin, size = place, 0
        size += more
    yield items[begin:]
