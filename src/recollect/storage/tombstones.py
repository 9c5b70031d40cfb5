"""Tombstones: keyed hashes of what was erased. They name nothing, and keep an older backup from bringing it back.

A tombstone belongs to one erase. A backup that has it was made after that erase, so whatever it holds under the same
name was said later and stays. Importing is an act of the person and is not checked against tombstones.

Clients of the OpenAI API send their whole history again with each question. The ids of such messages are made of what
they say and follow. So these ids get tombstones too, whatever is erased, and `find_sent_again` knows them.

Each tombstone has the salt of its hash beside it. A database has one salt, and those of the databases whose backups
were restored into it. A row without a hash notes each salt, so that all of them are found without reading the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from recollect.core.history_match import ID_PREFIX
from recollect.core.json_text import to_json
from recollect.storage.driver import Row, Transaction

HASH_BYTES: Final = 16
SALT_BYTES: Final = 16
MAX_SALTS: Final = 64  # that are looked at: each database whose backup was restored here brings one
NO_HASH: Final = b""  # of a row that notes a salt. The index has such rows first
Names = tuple[str, ...]  # a kind, such as "person" or "message", then the names that lead to it


def hash_names(names: Names, salt: bytes) -> bytes:
    """Return the keyed hash of something that has these names. Names hold no NUL, so they cannot run together."""
    text = "\0".join(names).encode("utf-8", "replace")
    return hashlib.blake2b(text, key=salt, digest_size=HASH_BYTES).digest()


def bury(tx: Transaction, erased: Iterable[Names], *, erasure: str, new_salt: bytes, now: int) -> None:
    """Store a tombstone for each of the erased things.

    The salt is one of those in use, `new_salt` if there is none yet. Few salts make comparing cheap.
    """
    salt = next(iter(_read_salts(tx)), new_salt)
    hashes = dict.fromkeys(hash_names(names, salt) for names in erased)
    insert_tombstones(tx, [{"hash": one, "erasure": erasure, "salt": salt, "at": now} for one in hashes])


def insert_tombstones(tx: Transaction, rows: Sequence[Row]) -> None:
    """Store tombstones that are not there yet, and note their salts."""
    salts = {bytes(row["salt"]): row["at"] for row in rows}
    notes = [{"hash": NO_HASH, "erasure": salt.hex(), "salt": salt, "at": at} for salt, at in salts.items()]
    tx.many("insert_tombstone", [*notes, *rows])


def _read_salts(tx: Transaction) -> list[bytes]:
    """Return the salts in use. Where older versions noted none, those of a few tombstones."""
    return list(dict.fromkeys(bytes(row["salt"]) for row in tx.all("tombstone_salts", limit=MAX_SALTS)))


def name_sent_messages(person: str, ids: Iterable[str]) -> list[Names]:
    """Return the names by which messages that a client sends again are known as erased."""
    return [("sent", person, message_id) for message_id in ids if message_id.startswith(ID_PREFIX)]


def find_sent_again(tx: Transaction, person: str, ids: Sequence[str]) -> set[str]:
    """Return which of these messages of a client were erased."""
    hashes = {
        hash_names(("sent", person, message_id), salt).hex(): message_id
        for salt in _read_salts(tx)
        for message_id in ids
    }
    if not hashes:
        return set()
    return {hashes[bytes(found["hash"]).hex()] for found in tx.all("known_tombstones", hashes=to_json(list(hashes)))}


class Tombstones:
    """Tombstones that something can be compared with."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._hashes: dict[bytes, set[bytes]] = {}  # by salt
        for row in (row for row in rows if bytes(row["hash"]) != NO_HASH):
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
