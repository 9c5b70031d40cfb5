"""Tombstones: keyed hashes of what was erased. They name nothing, and keep an older backup from bringing it back.

A tombstone belongs to one erase. A backup that has it was made after that erase, so whatever it holds under the same
name was said later and stays. Importing is an act of the person and is not checked against tombstones. A sync of
devices that send their messages again can ask `is_buried` for the ids of messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from recollect.storage.driver import Row, Transaction

HASH_BYTES: Final = 16
SALT_BYTES: Final = 16
Names = tuple[str, ...]  # "person", "conversation", "message" or "profile", then the names that lead to it


def hash_names(names: Names, salt: bytes) -> bytes:
    """Return the keyed hash of something that has these names. Names hold no NUL, so they cannot run together."""
    text = "\0".join(names).encode("utf-8", "replace")
    return hashlib.blake2b(text, key=salt, digest_size=HASH_BYTES).digest()


def bury(tx: Transaction, erased: Iterable[Names], *, erasure: str, new_salt: bytes, now: int) -> None:
    """Store a tombstone for each of the erased things. `new_salt` is used if there is none yet."""
    row = tx.one("tombstone_salt")
    salt = new_salt if row is None else bytes(row["salt"])
    hashes = dict.fromkeys(hash_names(names, salt) for names in erased)
    tx.many("insert_tombstone", [{"hash": one, "erasure": erasure, "salt": salt, "at": now} for one in hashes])


class Tombstones:
    """Tombstones that something can be compared with."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._hashes: dict[bytes, set[bytes]] = {}  # by salt
        for row in rows:
            self._hashes.setdefault(bytes(row["salt"]), set()).add(bytes(row["hash"]))

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def is_buried(self, *names: str) -> bool:
        """Say whether something with these names was erased."""
        return any(hash_names(names, salt) in hashes for salt, hashes in self._hashes.items())


def missing_in(rows: Sequence[Row], known: Collection[Row]) -> list[Row]:
    """Return the tombstones among `rows` that are not among `known`: those of erases that came later."""
    stored = {(bytes(row["hash"]), row["erasure"]) for row in known}
    return [row for row in rows if (bytes(row["hash"]), row["erasure"]) not in stored]
