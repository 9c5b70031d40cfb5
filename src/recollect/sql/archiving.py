"""Into the archive and about it, inside a transaction: blocks that are written, thinned by an erase, packed anew."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from recollect.core import archive
from recollect.core.archive import Damaged, Dictionary
from recollect.core.drafts import to_json
from recollect.sql.driver import Transaction
from recollect.sql.texts import Texts

log = logging.getLogger(__name__)


def pack(texts: Sequence[str], dictionary: Dictionary) -> bytes:
    """A block of these texts, which were read back from it. Raises Damaged if they were not."""
    body = archive.encode(texts, dictionary)
    if archive.decode(body, lambda _: dictionary) != list(texts):
        raise Damaged("what was packed does not come out again")
    return body


def save_block(
    tx: Transaction, conversation: int, messages: Sequence[int], texts: Sequence[str], body: bytes, dictionary: int
) -> int:
    """A new block, which holds the texts of these messages from now on. Its key."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    row = tx.one(
        "insert_block",
        key=conversation, dictionary=dictionary, messages=len(messages), text_bytes=size, body=body,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - inserted just now
    key = int(row["key"])
    tx.run("save_places", rows=to_json([(message, key, place) for place, message in enumerate(messages)]))
    return key


def thin_blocks(tx: Transaction, conversation: int, texts: Texts) -> None:
    """After an erase: no block holds a text whose message is gone.

    One that is damaged goes whole, since what was erased cannot be taken out of it; nobody can read the rest.
    """
    for row in tx.all("thinned_blocks", key=conversation):
        unpacked = texts.unpack(tx, [row["key"]]).get(row["key"])
        _replace(tx, conversation, row["key"], unpacked, archive.shipped())


def retire_dictionaries(tx: Transaction, person: str, texts: Texts) -> int:
    """Dictionaries that were learned from a message which is gone go too; their blocks are packed without them."""
    tainted = [row["key"] for row in tx.all("tainted_dictionaries", person=person)]
    for dictionary in tainted:
        for block in tx.all("blocks_by", person=person, dictionary=dictionary):
            unpacked = texts.unpack(tx, [block["key"]]).get(block["key"])
            _replace(tx, block["conversation_key"], block["key"], unpacked, archive.shipped())
        tx.run("delete_dictionary", key=dictionary, person=person)
    if tainted:
        texts.forget()
    return len(tainted)


def _replace(
    tx: Transaction, conversation: int, block: int, unpacked: Sequence[str] | None, dictionary: Dictionary
) -> None:
    members = tx.all("block_members", key=block, conversation=conversation)
    if unpacked is None:
        log.error("block %d of the archive is damaged and goes with what was erased", block)
    elif members:
        left = [unpacked[row["place"]] for row in members]
        keys = [row["message_key"] for row in members]
        save_block(tx, conversation, keys, left, pack(left, dictionary), dictionary.id)
    tx.run("delete_block", key=block)
