"""Keeps, in a restore, what is the database's own. A backup brings back what was said, not who may ask.

- What was erased since the backup was made stays erased: its tombstones are applied to the backup first.
- API keys are the operator's. If the database has any, they stay as they are, with their sessions: a revoked one stays
  revoked, a new one stays good. A key that only the backup has is taken if both are known to have the same secret. A
  database without keys takes those of the backup. If valid keys are there in the end, requests need one.
- A consent that was refused since the backup was made stays refused.
- The rows that prove erasures stay.

Sessions, idempotency keys, stop marks and leases of the backup are left out: they belong to processes of then.
Segments are left out too: the worker packs them again, so that no array of a foreign file is ever read as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from recollect.core.models import Principal
from recollect.storage.driver import Row, Transaction
from recollect.storage.erase import Eraser
from recollect.storage.server_state import KEYS_REQUIRED_NAME, SECRET_DIGEST_NAME, SECRET_NAME, count_valid_keys
from recollect.storage.texts import Texts
from recollect.storage.tombstones import Tombstones, insert_tombstones, missing_in

PAGE_ROWS: Final = 500
OF_PROCESSES: Final = ("requests", "stops", "leases")
OF_SECRET: Final = (SECRET_NAME, SECRET_DIGEST_NAME)  # they belong to the keys that were hashed with the secret


@dataclass(frozen=True, slots=True)
class KeptState:
    """Rows of a database that survive a restore into it. Two of them are equal if nothing changed in between."""

    tombstones: list[Row]
    keys: list[Row]
    sessions: list[Row]
    facts: list[Row]  # about keys: their secret, and whether requests need one
    refused: list[Row]
    erasures: list[Row]


def read_kept(tx: Transaction) -> KeptState:
    """Return what a restore into this database must keep."""
    return KeptState(
        tx.all("all_rows_in_tombstones"),
        tx.all("all_rows_in_api_keys"),
        tx.all("every_session"),
        tx.all("facts_of_keys"),
        tx.all("refused_consents"),
        tx.all("all_rows_in_erasures"),
    )


def apply_kept(copy: Transaction, kept: KeptState, texts: Texts, *, now: int) -> dict[str, int]:
    """Bring the private copy of a backup in line with what is kept. Doing it twice changes nothing more.

    Return how many rows of each table were left out because they were erased since the backup was made. `now`, in
    microseconds, decides which keys are valid.
    """
    left_out = _leave_out_erased(copy, kept.tombstones, texts)
    _keep_keys(copy, kept, now)
    copy.many("refuse_consent", kept.refused)
    copy.many("keep_erasure", kept.erasures)
    for table in OF_PROCESSES:
        copy.run(f"empty_{table}")
    for query in ("delete_all_segments", "rewind_all_segments"):
        copy.run(query)
    return left_out


def _leave_out_erased(copy: Transaction, rows: list[Row], texts: Texts) -> dict[str, int]:
    """Erase from a copy what has a tombstone that the copy does not have, then give it these tombstones."""
    new_rows = missing_in(rows, copy.all("all_rows_in_tombstones"))
    tombstones, counts = Tombstones(new_rows), dict[str, int]()
    for person in [row["person"] for row in copy.all("every_person")] if tombstones else ():
        eraser = Eraser(copy, Principal(person), texts)
        if tombstones.is_buried("person", person):
            eraser.everything(now=max(row["at"] for row in new_rows))
        elif tombstones.is_buried("profile", person):
            eraser.profile()
        for name, count in eraser.counts.items():
            counts[name] = counts.get(name, 0) + count
    after = 0
    while conversations := copy.all("every_conversation", after=after, limit=PAGE_ROWS) if tombstones else []:
        for row in conversations:
            for name, count in _leave_out_of_conversation(copy, row, tombstones, texts).items():
                counts[name] = counts.get(name, 0) + count
        after = conversations[-1]["key"]
    insert_tombstones(copy, new_rows)
    return {name: count for name, count in counts.items() if count}


def _leave_out_of_conversation(copy: Transaction, row: Row, tombstones: Tombstones, texts: Texts) -> dict[str, int]:
    """Erase a conversation of a copy, or those of its messages, that have a tombstone."""
    names = (row["person"], row["name"])
    eraser = Eraser(copy, Principal(row["person"]), texts)
    if tombstones.is_buried("conversation", *names):
        eraser.conversation(row["name"])
        return eraser.counts
    ids = copy.all("message_ids", key=row["key"])
    erased = [message for message in ids if tombstones.is_buried("message", *names, message["id"])]
    if erased:
        eraser.messages(row["key"], erased)
    return eraser.counts


def _keep_keys(copy: Transaction, kept: KeptState, now: int) -> None:
    """Give a copy the keys that are kept, or leave it its own if there are none to keep."""
    own_keys, own_facts = copy.all("all_rows_in_api_keys"), copy.all("facts_of_keys")
    copy.run("empty_api_keys")  # their sessions go with them
    if kept.keys:
        known = {row["id"] for row in kept.keys}
        is_own_secret = _have_same_secret(own_facts, kept.facts)
        own_keys = [row for row in own_keys if row["id"] not in known and is_own_secret]
        for name in OF_SECRET:
            copy.run("drop_setting", person="", name=name)
    copy.insert("api_keys", [*kept.keys, *own_keys])
    copy.insert("sessions", kept.sessions)
    takes_secret = bool(kept.keys) or not any(_value(own_facts, name) for name in OF_SECRET)
    for row in kept.facts:
        if takes_secret or row["name"] not in OF_SECRET:
            copy.run("put_setting", person="", name=row["name"], value=row["value"], now=row["changed_at"])
    if _value(copy.all("facts_of_keys"), KEYS_REQUIRED_NAME) == "false" and count_valid_keys(copy, now):
        # The operator allowed requests without a key when there were no valid ones.
        copy.run("put_setting", person="", name=KEYS_REQUIRED_NAME, value="true", now=now)


def _have_same_secret(facts: list[Row], others: list[Row]) -> bool:
    """Say whether the keys of two databases are known to have been made with the same secret.

    A secret of the environment is stored nowhere, only its digest. Older versions noted no digest.
    """
    digests = [_value(rows, SECRET_DIGEST_NAME) for rows in (facts, others)]
    secrets = [_value(rows, SECRET_NAME) for rows in (facts, others)]
    first, second = digests if all(digests) else secrets
    return first is not None and first == second


def _value(facts: list[Row], name: str) -> str | None:
    return next((row["value"] for row in facts if row["name"] == name), None)
