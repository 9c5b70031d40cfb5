"""Reading through the archive: rows of messages whose text rests in a block get it from there.

Every query that reads text goes through here, so no caller knows where a text lies. What is damaged costs the messages
of its block alone: they come back without text, marked `damaged`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from recollect.core import archive
from recollect.core.archive import Damaged, Dictionary
from recollect.core.drafts import to_json
from recollect.sql.driver import Row, Transaction

log = logging.getLogger(__name__)

KEPT: Final = 8  # learned dictionaries in memory


class Texts:
    def __init__(self) -> None:
        self._dictionaries: OrderedDict[int, Dictionary] = OrderedDict()
        self._told: set[int] = set()  # damaged blocks that were named in the log

    def fill(self, tx: Transaction, rows: list[Row]) -> list[Row]:
        """The same rows; where `content` is None, the text from the archive takes its place."""
        missing = {row["key"]: row for row in rows if row["content"] is None}
        if not missing:
            return rows
        places = tx.all("places_of", rows=to_json(list(missing)))
        unpacked = self.unpack(tx, {place["block_key"] for place in places})
        for place in places:
            row, texts = missing.pop(place["message_key"]), unpacked.get(place["block_key"])
            found = texts is not None and place["place"] < len(texts)
            row["content"] = texts[place["place"]] if texts is not None and found else ""
            row["damaged"] = not found
        for row in missing.values():  # its text is nowhere
            row["content"], row["damaged"] = "", True
        return rows

    def unpack(self, tx: Transaction, keys: Iterable[int]) -> dict[int, list[str] | None]:
        """The texts of each block; None for one that is damaged."""
        return {row["key"]: self._texts(tx, row) for row in tx.all("get_blocks", rows=to_json(sorted(keys)))}

    def _texts(self, tx: Transaction, block: Mapping[str, object]) -> list[str] | None:
        def find(number: int) -> Dictionary:
            return self.dictionary(tx, number)

        key, body = block["key"], block["body"]
        assert isinstance(key, int) and isinstance(body, bytes)  # noqa: S101 - what the schema says
        try:
            return archive.decode(body, find)
        except Damaged as first:
            self.forget()  # a restore may have brought another dictionary under the same key
            try:
                return archive.decode(body, find)
            except Damaged:
                if key not in self._told:
                    self._told.add(key)
                    log.error("block %d of the archive is damaged (%s): its messages have no text", key, first)
                return None

    def dictionary(self, tx: Transaction, id: int) -> Dictionary:
        """Raises KeyError if there is none, Damaged if it is."""
        if id < archive.LEARNED:
            return archive.shipped()
        if id not in self._dictionaries:
            row = tx.one("get_dictionary", key=id)
            if row is None:
                raise KeyError(id)
            self._dictionaries[id] = Dictionary(id, archive.unpack(row["body"]))
            while len(self._dictionaries) > KEPT:
                archive.forget(self._dictionaries.popitem(last=False)[0])
        self._dictionaries.move_to_end(id)
        return self._dictionaries[id]

    def forget(self) -> None:
        """Learned dictionaries hold pieces of what people said."""
        for number in list(self._dictionaries):
            archive.forget(number)
        self._dictionaries.clear()
