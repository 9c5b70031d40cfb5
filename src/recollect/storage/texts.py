"""Reads texts through the archive: a message whose text is archived gets it from its block.

Every query that reads text goes through here, so no caller knows where a text is stored. A damaged block affects only
its own messages: they come back without text, marked `damaged`.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from sys import getsizeof
from typing import Final

from recollect.core import archive
from recollect.core.archive import Damaged, Dictionary
from recollect.core.json_text import to_json
from recollect.storage.driver import Row, Transaction
from recollect.storage.shipped_dictionary import learned_dictionary, shipped_dictionary

log = logging.getLogger(__name__)

CACHED_DICTIONARIES: Final = archive.MAX_COMPILED_DICTIONARIES
CACHE_BYTES: Final = 24 * 1024 * 1024  # unpacked blocks that are kept; one question may need many
MAX_CACHED_BLOCK_BYTES: Final = 1 << 16  # packed; larger blocks are not cached
KEY_BYTES: Final = 32  # estimated memory of one message key


class Texts:
    """Unpacks blocks of the archive. Keeps unpacked blocks and dictionaries in memory.

    When the memory is full, the block that was unpacked first is dropped first, and the dictionary that was not used
    for the longest time.
    """

    def __init__(self) -> None:
        self._dictionaries: OrderedDict[int, Dictionary] = OrderedDict()
        self._unpacked: OrderedDict[bytes, tuple[dict[int, str], int]] = OrderedDict()  # by the packed block, with size
        self._size = 0
        self._lock = threading.Lock()
        self._reported: set[int] = set()  # damaged blocks that were logged

    def fill(self, tx: Transaction, rows: list[Row]) -> list[Row]:
        """Replace each `content` that is None by the archived text, in place. Return the rows.

        Only these rows get the key `damaged`. It is True if the text cannot be read; `content` is then empty.
        """
        missing = {row["key"]: row for row in rows if row["content"] is None}
        if not missing:
            return rows
        blocks = {row["message_key"]: row["block_key"] for row in tx.all("blocks_of", rows=to_json(list(missing)))}
        unpacked = self.unpack(tx, set(blocks.values()))
        for key, row in missing.items():
            texts = unpacked.get(blocks.get(key, 0)) or {}
            row["content"], row["damaged"] = texts.get(key, ""), key not in texts
        return rows

    def unpack(self, tx: Transaction, keys: Iterable[int]) -> dict[int, dict[int, str] | None]:
        """Return for each block its texts by message key; None for a damaged block."""
        return {row["key"]: self._unpack_block(tx, row) for row in tx.all("get_blocks", rows=to_json(sorted(keys)))}

    def _unpack_block(self, tx: Transaction, block: Mapping[str, object]) -> dict[int, str] | None:
        def find_dictionary(id: int) -> Dictionary:
            return self.dictionary(tx, id)

        key, body = block["key"], block["body"]
        assert isinstance(key, int) and isinstance(body, bytes)  # noqa: S101 - by the schema
        cached = self._unpacked.get(body)
        if cached is not None:
            return cached[0]
        try:
            return self._keep(body, texts_by_key(archive.decode(body, find_dictionary)))
        except Damaged as first_error:
            self.forget()  # a cached dictionary may be stale after a restore: drop it and try once more
            try:
                return self._keep(body, texts_by_key(archive.decode(body, find_dictionary)))
            except Damaged:
                if key not in self._reported:
                    self._reported.add(key)
                    log.error("block %d of the archive is damaged (%s): its messages have no text", key, first_error)
                return None

    def _keep(self, body: bytes, texts: dict[int, str]) -> dict[int, str]:
        if len(body) > MAX_CACHED_BLOCK_BYTES:
            return texts
        size = getsizeof(body) + getsizeof(texts) + sum(KEY_BYTES + getsizeof(text) for text in texts.values())
        with self._lock:
            if body not in self._unpacked:
                self._unpacked[body] = texts, size
                self._size += size
            while self._size > CACHE_BYTES:
                self._size -= self._unpacked.popitem(last=False)[1][1]
        return texts

    def dictionary(self, tx: Transaction, id: int) -> Dictionary:
        """Return a dictionary. Raise KeyError if there is none with this id, Damaged if it cannot be unpacked."""
        if id < archive.FIRST_LEARNED_ID:
            return shipped_dictionary()
        dictionary = self._dictionaries.pop(id, None)
        if dictionary is not None:
            self._dictionaries[id] = dictionary  # now the one used last
        else:
            row = tx.one("get_dictionary", key=id)
            if row is None:
                raise KeyError(id)
            unpacked = archive.unpack_dictionary(row["body"], shipped_dictionary())
            dictionary = self._dictionaries[id] = learned_dictionary(id, unpacked)
            while len(self._dictionaries) > CACHED_DICTIONARIES:
                with suppress(KeyError):
                    archive.forget(self._dictionaries.popitem(last=False)[0])
        return dictionary

    def forget(self) -> None:
        """Drop cached texts, and learned dictionaries, which contain pieces of texts."""
        with self._lock:
            self._unpacked.clear()
            self._size = 0
        for dictionary_id in list(self._dictionaries):
            archive.forget(dictionary_id)
        self._dictionaries.clear()


def pack_keys(keys: Iterable[int]) -> str:
    """Return keys of messages as a short text: each as its distance from the one before."""
    last, steps = 0, []
    for key in keys:
        steps.append(str(key - last))
        last = key
    return " ".join(steps)


def unpack_keys(packed: str) -> list[int]:
    """Return the keys that `pack_keys` packed. Raise ValueError for any other text."""
    return list(accumulate(map(int, packed.split())))


def texts_by_key(unpacked: Sequence[str]) -> dict[int, str]:
    """Return the texts of an unpacked block by message key. The first string of a block lists the keys."""
    try:
        keys = unpack_keys(unpacked[0])
    except (ValueError, IndexError) as error:
        raise Damaged("The block has no readable list of message keys.") from error
    if len(keys) != len(unpacked) - 1:
        raise Damaged("The block has more texts than messages, or fewer.")
    return dict(zip(keys, unpacked[1:], strict=True))
