"""Reading through the archive: rows of messages whose text rests in a block get it from there.

Every query that reads text goes through here, so no caller knows where a text lies. What is damaged costs the messages
of its block alone: they come back without text, marked `damaged`.
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
from recollect.core.drafts import to_json
from recollect.storage.driver import Row, Transaction

log = logging.getLogger(__name__)

KEPT: Final = archive.KEPT  # learned dictionaries in memory,
UNPACKED: Final = 24 * 1024 * 1024  # bytes of blocks that were read lately: a question reads messages of many
KEY: Final = 32  # bytes of the key of a message
LARGE: Final = 1 << 16  # bytes of a packed block that is not kept


class Texts:
    def __init__(self) -> None:
        self._dictionaries: OrderedDict[int, Dictionary] = OrderedDict()
        self._unpacked: OrderedDict[bytes, tuple[dict[int, str], int]] = OrderedDict()  # by the packed block, with size
        self._size = 0
        self._lock = threading.Lock()
        self._told: set[int] = set()  # damaged blocks that were named in the log

    def fill(self, tx: Transaction, rows: list[Row]) -> list[Row]:
        """The same rows; where `content` is None, the text from the archive takes its place."""
        missing = {row["key"]: row for row in rows if row["content"] is None}
        if not missing:
            return rows
        places = {row["message_key"]: row["block_key"] for row in tx.all("places_of", rows=to_json(list(missing)))}
        unpacked = self.unpack(tx, set(places.values()))
        for key, row in missing.items():
            said = unpacked.get(places.get(key, 0)) or {}
            row["content"], row["damaged"] = said.get(key, ""), key not in said
        return rows

    def unpack(self, tx: Transaction, keys: Iterable[int]) -> dict[int, dict[int, str] | None]:
        """For each block its texts by the keys of their messages; None if it is damaged."""
        return {row["key"]: self._said(tx, row) for row in tx.all("get_blocks", rows=to_json(sorted(keys)))}

    def _said(self, tx: Transaction, block: Mapping[str, object]) -> dict[int, str] | None:
        def find(number: int) -> Dictionary:
            return self.dictionary(tx, number)

        key, body = block["key"], block["body"]
        assert isinstance(key, int) and isinstance(body, bytes)  # noqa: S101 - what the schema says
        known = self._unpacked.get(body)
        if known is not None:
            return known[0]
        try:
            return self._keep(body, said_in(archive.decode(body, find)))
        except Damaged as first:
            self.forget()  # a restore may have brought another dictionary under the same key
            try:
                return self._keep(body, said_in(archive.decode(body, find)))
            except Damaged:
                if key not in self._told:
                    self._told.add(key)
                    log.error("block %d of the archive is damaged (%s): its messages have no text", key, first)
                return None

    def _keep(self, body: bytes, said: dict[int, str]) -> dict[int, str]:
        if len(body) > LARGE:
            return said
        size = getsizeof(body) + getsizeof(said) + sum(KEY + getsizeof(text) for text in said.values())
        with self._lock:
            if body not in self._unpacked:
                self._unpacked[body] = said, size
                self._size += size
            while self._size > UNPACKED:
                self._size -= self._unpacked.popitem(last=False)[1][1]
        return said

    def dictionary(self, tx: Transaction, id: int) -> Dictionary:
        """Raises KeyError if there is none, Damaged if it is."""
        if id < archive.LEARNED:
            return archive.shipped()
        found = self._dictionaries.pop(id, None)
        if found is not None:
            self._dictionaries[id] = found  # the newest again
        else:
            row = tx.one("get_dictionary", key=id)
            if row is None:
                raise KeyError(id)
            found = self._dictionaries[id] = Dictionary(id, archive.unpack(row["body"]))
            while len(self._dictionaries) > KEPT:
                with suppress(KeyError):
                    archive.forget(self._dictionaries.popitem(last=False)[0])
        return found

    def forget(self) -> None:
        """What people said, and learned dictionaries, which hold pieces of it."""
        with self._lock:
            self._unpacked.clear()
            self._size = 0
        for number in list(self._dictionaries):
            archive.forget(number)
        self._dictionaries.clear()


def packed_keys(keys: Iterable[int]) -> str:
    """Keys of messages as a short text: each as its distance from the one before."""
    last, steps = 0, []
    for key in keys:
        steps.append(str(key - last))
        last = key
    return " ".join(steps)


def keys_in(packed: str) -> list[int]:
    """Raises ValueError for anything else."""
    return list(accumulate(map(int, packed.split())))


def said_in(unpacked: Sequence[str]) -> dict[int, str]:
    """The texts of a block by the keys of their messages, which are the first of them."""
    try:
        keys = keys_in(unpacked[0])
    except (ValueError, IndexError) as error:
        raise Damaged("The block does not say whose texts it holds.") from error
    if len(keys) != len(unpacked) - 1:
        raise Damaged("The block has more texts than messages, or fewer.")
    return dict(zip(keys, unpacked[1:], strict=True))
