"""Writes and repacks blocks of the archive, inside a transaction of the caller."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from recollect.core import archive
from recollect.core.archive import Damaged, Dictionary
from recollect.core.json_text import to_json
from recollect.storage.driver import Transaction
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.storage.texts import Texts, pack_keys, texts_by_key, unpack_keys

log = logging.getLogger(__name__)

TextsByKey = Mapping[int, str]  # texts by the keys of their messages


def pack(texts: TextsByKey, dictionary: Dictionary, *, quick: bool = False) -> bytes:
    """Return a block of these texts. It is read back before; raise Damaged if the texts are not the same then."""
    body = archive.encode([pack_keys(texts), *texts.values()], dictionary, quick=quick)
    if texts_by_key(archive.decode(body, lambda _: dictionary)) != texts:
        raise Damaged("what was packed does not come out again")
    return body


def save_block(tx: Transaction, conversation: int, texts: TextsByKey, body: bytes, dictionary: int) -> int:
    """Store a packed block, and note that it holds the texts of these messages from now on. Return its key."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    row = tx.one(
        "insert_block",
        key=conversation, dictionary=dictionary, messages=len(texts), text_bytes=size, body=body,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - inserted just now
    key = int(row["key"])
    tx.run("assign_block", key=key, rows=to_json(list(texts)))
    return key


def keys_in_block(tx: Transaction, messages: Iterable[int], block: int) -> list[int]:
    """Return which of these messages have their text in the block."""
    keys = list(messages)
    blocks = {row["message_key"]: row["block_key"] for row in tx.all("blocks_of", rows=to_json(keys))}
    return [key for key in keys if blocks.get(key) == block]


def remove_erased_texts(tx: Transaction, conversation: int, texts: Texts) -> None:
    """Repack the blocks of a conversation that hold texts of erased messages.

    A damaged block is deleted: the erased text cannot be taken out of it, and the rest of it cannot be read.
    """
    for row in tx.all("thinned_blocks", key=conversation):
        _repack(tx, conversation, row["key"], texts)


def delete_tainted_dictionaries(tx: Transaction, person: str, texts: Texts) -> int:
    """Delete dictionaries learned from erased messages; repack their blocks without them. Return how many."""
    tainted = find_tainted_dictionaries(tx, person)
    if tainted:
        # A fold that uses one of them finishes before its blocks are looked for.
        tx.all("lock_conversations", person=person)
    for dictionary in tainted:
        for block in tx.all("blocks_by", person=person, dictionary=dictionary):
            _repack(tx, block["conversation_key"], block["key"], texts)
        tx.run("delete_dictionary", key=dictionary, person=person)
    if tainted:
        texts.forget()
    return len(tainted)


def find_tainted_dictionaries(tx: Transaction, person: str) -> list[int]:
    """Return the dictionaries that were learned from a message which is gone, or whose sources cannot be read."""
    tainted = []
    for row in tx.all("dictionaries_of", person=person):
        try:
            sources = unpack_keys(row["learned_from"])
        except ValueError:
            sources = []
        stored = tx.one("count_messages_among", rows=to_json(sources)) or {"n": 0}
        if not sources or stored["n"] != len(sources):
            tainted.append(int(row["key"]))
    return tainted


def _repack(tx: Transaction, conversation: int, block: int, texts: Texts) -> None:
    """Replace a block by one without erased texts and without a learned dictionary. Quick, because writers wait."""
    packed = texts.unpack(tx, [block]).get(block)
    if packed is None:
        log.error("block %d of the archive is damaged and goes with what was erased", block)
    else:
        kept = {key: packed[key] for key in keys_in_block(tx, packed, block)}
        if kept:
            dictionary = shipped_dictionary()
            save_block(tx, conversation, kept, pack(kept, dictionary, quick=True), dictionary.id)
    tx.run("delete_block", key=block)
