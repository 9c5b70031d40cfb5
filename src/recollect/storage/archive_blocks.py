"""Into the archive and about it, inside a transaction: blocks that are written, thinned by an erase, packed anew."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from recollect.core import archive
from recollect.core.archive import Damaged, Dictionary
from recollect.core.drafts import to_json
from recollect.storage.driver import Transaction
from recollect.storage.texts import Texts, keys_in, packed_keys, said_in

log = logging.getLogger(__name__)

Said = Mapping[int, str]  # texts by the keys of their messages


def pack(said: Said, dictionary: Dictionary, *, quick: bool = False) -> bytes:
    """A block of these texts, which were read back from it. Raises Damaged if they were not."""
    body = archive.encode([packed_keys(said), *said.values()], dictionary, quick=quick)
    if said_in(archive.decode(body, lambda _: dictionary)) != said:
        raise Damaged("what was packed does not come out again")
    return body


def save_block(tx: Transaction, conversation: int, said: Said, body: bytes, dictionary: int) -> int:
    """A new block, which holds the texts of these messages from now on. Its key."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in said.values())
    row = tx.one(
        "insert_block",
        key=conversation, dictionary=dictionary, messages=len(said), text_bytes=size, body=body,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - inserted just now
    key = int(row["key"])
    tx.run("save_places", key=key, rows=to_json(list(said)))
    return key


def are_in(tx: Transaction, messages: Iterable[int], block: int) -> list[int]:
    """Which of these messages have their text in the block."""
    asked = list(messages)
    places = {row["message_key"]: row["block_key"] for row in tx.all("places_of", rows=to_json(asked))}
    return [message for message in asked if places.get(message) == block]


def thin_blocks(tx: Transaction, conversation: int, texts: Texts) -> None:
    """After an erase: no block holds a text whose message is gone.

    One that is damaged goes whole, since what was erased cannot be taken out of it; nobody can read the rest.
    """
    for row in tx.all("thinned_blocks", key=conversation):
        _replace(tx, conversation, row["key"], texts)


def retire_dictionaries(tx: Transaction, person: str, texts: Texts) -> int:
    """Dictionaries that were learned from a message which is gone go too; their blocks are packed without them."""
    tainted = tainted_dictionaries(tx, person)
    if tainted:
        # Whoever packs with one of them now is through before we look for its blocks.
        tx.all("lock_conversations", person=person)
    for dictionary in tainted:
        for block in tx.all("blocks_by", person=person, dictionary=dictionary):
            _replace(tx, block["conversation_key"], block["key"], texts)
        tx.run("delete_dictionary", key=dictionary, person=person)
    if tainted:
        texts.forget()
    return len(tainted)


def tainted_dictionaries(tx: Transaction, person: str) -> list[int]:
    """Those that were learned from a message which is gone, or nobody knows from which."""
    found = []
    for row in tx.all("dictionaries_of", person=person):
        try:
            keys = keys_in(row["learned_from"])
        except ValueError:
            keys = []
        there = tx.one("count_messages_among", rows=to_json(keys)) or {"n": 0}
        if not keys or there["n"] != len(keys):
            found.append(int(row["key"]))
    return found


def _replace(tx: Transaction, conversation: int, block: int, texts: Texts) -> None:
    """The block is packed anew, without what is gone and without a learned dictionary; quickly, for others wait."""
    said = texts.unpack(tx, [block]).get(block)
    if said is None:
        log.error("block %d of the archive is damaged and goes with what was erased", block)
    else:
        left = {message: said[message] for message in are_in(tx, said, block)}
        if left:
            dictionary = archive.shipped()
            save_block(tx, conversation, left, pack(left, dictionary, quick=True), dictionary.id)
    tx.run("delete_block", key=block)
