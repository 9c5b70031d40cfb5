"""The write path: drafts become messages with the next `seq`, and get their word index rows, in one transaction.

Requests of many callers are stored together, with a handful of statements for all of them. The rows go to the database
as one JSON value: a statement for each row would cost more than the commit that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeVar

from recollect.core import times, word_index
from recollect.core.errors import question_erased
from recollect.core.json_text import to_json
from recollect.core.message import FIELDS, Anchor, Appended, Draft, Message
from recollect.core.models import About, Principal
from recollect.storage.driver import Row, Transaction
from recollect.storage.rows import message_row, stored_message, to_message
from recollect.storage.texts import Texts

T = TypeVar("T")

MAX_STATEMENT_BYTES: Final = 4 * 1024 * 1024  # text that one statement carries
_COLUMNS: Final = ("key", *(field.name for field in FIELDS if field.column is not None))


@dataclass(frozen=True, slots=True)
class Request:
    """Drafts for one conversation, and how to describe it if it must be created.

    `prepared` has each draft with its words, encoded for the word index. With `expected_seq`, nothing is stored unless
    the conversation exists and its newest message has this seq.
    """

    principal: Principal
    conversation: str
    about: About
    now: int
    prepared: Sequence[tuple[Draft, bytes]]
    expected_seq: int | None = None
    anchor: Anchor | None = None  # of an answer: it is stored only if these messages still are

    def lock(self, tx: Transaction) -> Row | None:
        """Find the conversation or create it. Others cannot append to it until the transaction ends.

        Return None if it must exist and does not.
        """
        while True:
            row = tx.one("lock_conversation", person=self.principal.person, conversation=self.conversation)
            if row is not None or self.expected_seq is not None:
                return row
            if self.anchor is not None:
                raise question_erased()
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
    """Store the drafts whose ids are new. Return for each request all of its messages as stored.

    The list of a request is empty if its conversation does not end with the message that it expected.
    """
    appends: dict[tuple[str, str], _ConversationAppend] = {}
    # Two groups that lock the same conversations take them in the same order, so that neither waits for the other.
    for request in sorted(requests, key=lambda request: (request.principal.person, request.conversation)):
        name = (request.principal.person, request.conversation)
        if name not in appends and (row := request.lock(tx)) is not None:
            appends[name] = _ConversationAppend(request, row, texts)
    results: list[list[Appended]] = []
    for request in requests:
        conversation_append = appends.get((request.principal.person, request.conversation))
        results.append([] if conversation_append is None else conversation_append.add(tx, request))
    new_rows = [pair for conversation in appends.values() for pair in conversation.new_rows]
    save_messages(tx, [row for row, _ in new_rows])
    save_word_rows(tx, new_rows)
    for conversation in appends.values():
        conversation.finish(tx)
    return results


class _ConversationAppend:
    """Collects the new messages of one conversation and gives them their `seq`."""

    def __init__(self, request: Request, row: Row, texts: Texts) -> None:
        self._texts = texts
        self._key, self._zone, self._seq = row["key"], row["zone"], row["last_seq"]
        self._name = request.conversation
        self._new_messages: dict[str, Message] = {}  # by id
        self.new_rows: list[tuple[Row, bytes]] = []  # each with its words

    def add(self, tx: Transaction, request: Request) -> list[Appended]:
        if request.expected_seq not in (None, self._seq):
            return []
        if request.anchor is not None and (
            request.anchor.conversation_key != self._key or find_erased(tx, [request.anchor])
        ):
            raise question_erased()
        stored = self._stored_messages(tx, [draft for draft, _ in request.prepared])
        result = []
        for draft, words in request.prepared:
            existing = stored.get(draft.id) or self._new_messages.get(draft.id)
            if existing is not None:
                result.append(Appended(existing, created=False))
                continue
            self._seq += 1
            at = times.to_utc(draft.at, self._zone)
            message = self._new_messages[draft.id] = stored_message(draft, self._name, self._seq, at)
            self.new_rows.append((message_row(message, self._key), words))
            result.append(Appended(message, created=True))
        return result

    def _stored_messages(self, tx: Transaction, drafts: Sequence[Draft]) -> dict[str, Message]:
        ids = [draft.id for draft in drafts if not draft.id_is_new]
        if not ids:
            return {}
        rows = self._texts.fill(tx, tx.all("known_messages", key=self._key, ids=to_json(ids)))
        return {row["id"]: to_message(row, self._name) for row in rows}

    def finish(self, tx: Transaction) -> None:
        """Bring the counts of the conversation up to date."""
        if self.new_rows:
            moments = [row["at"] for row, _ in self.new_rows]
            tx.run(
                "advance_conversation",
                key=self._key,
                last_seq=self._seq,
                added=len(self.new_rows),
                first_at=min(moments),
                last_at=max(moments),
            )


def find_erased(tx: Transaction, anchors: Sequence[Anchor]) -> set[Anchor]:
    """Return the anchors of which a message is not stored any more."""
    places = [
        (anchor, (anchor.conversation_key, seq, message_id))
        for anchor in anchors
        for message_id, seq in anchor.messages
    ]
    rows = tx.all("standing_messages", cursors=to_json([place for _, place in places]))
    standing = {(row["conversation_key"], row["seq"], row["id"]) for row in rows}
    return {anchor for anchor, place in places if place not in standing}


def save_messages(tx: Transaction, rows: Sequence[Row]) -> None:
    """Store messages and their texts. A damaged message gets no text, so that it stays damaged."""
    for portion in _portions(rows, [len(row["content"]) for row in rows]):
        tx.run("insert_messages", rows=to_json([{name: row[name] for name in _COLUMNS} for row in portion]))
        texts = [(row["key"], row["seq"], row["content"]) for row in portion if not row.get("damaged")]
        tx.run("insert_texts", rows=to_json(texts))


def save_word_rows(tx: Transaction, pairs: Sequence[tuple[Row, bytes]]) -> None:
    """Store the word index rows of messages. Each pair is a message and its encoded words.

    The words of all messages go to the database as one run of bytes, with the start and length of each.
    """
    for portion in _portions(pairs, [len(words) for _, words in pairs]):
        starts = accumulate((len(words) for _, words in portion), initial=0)
        rows = [
            (row["key"], row["seq"], row["at"], word_index.ROLE_NUMBERS[row["role"]], start, len(words))
            for (row, words), start in zip(portion, starts, strict=False)  # the last start is the end of all
        ]
        tx.run("insert_entries", rows=to_json(rows), words=b"".join(words for _, words in portion))


def _portions(items: Sequence[T], sizes: Sequence[int]) -> Iterator[Sequence[T]]:
    """Yield the items in order, in portions that fit into one statement."""
    if sum(sizes) <= MAX_STATEMENT_BYTES:
        yield from [items] if items else []
        return
    begin = total = 0
    for index, size in enumerate(sizes):
        if index > begin and total + size > MAX_STATEMENT_BYTES:
            yield items[begin:index]
            begin, total = index, 0
        total += size
    yield items[begin:]
