"""Copies everything between databases, row by row: the way of a PostgreSQL store into an SQLite file and back.

Copied are rows that are not derived (the log, settings, profiles, consents, keys, the audit log), and derived rows that
cannot be made again as they were: briefs, which a model may have written, and topics, which people may have changed.
Words are made again at once, so that everything can be found. Vectors are copied with the embedders that made them,
since to make them again may take hours. Rows get new keys. Archived texts are copied unpacked;
the worker of the target packs them again. `storage/tables.py` says which tables are copied as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from recollect.core import word_index
from recollect.storage import tables
from recollect.storage.append import save_messages, save_word_rows
from recollect.storage.driver import Row, Transaction
from recollect.storage.tables import Table
from recollect.storage.texts import Texts

PAGE_ROWS: Final = 500
_NOT_INSERTED: Final = ("key", "merged_into", "merged_at")  # of a topic: merges are noted when all topics have keys


def copy_everything(source: Transaction, target: Transaction) -> None:
    """Copy everything from `source` to `target`, whose own rows are deleted first.

    Metrics of recall, idempotency keys and stop marks of the target go: they are of people whom `source` may not have.
    Its leases stay, since they are of its own processes.
    """
    current = target.one("newest_embedder")
    for table in tables.owned_by("person", "store"):
        if table.copied != "no":
            target.run(f"empty_{table.name}")  # the rows of conversations go with them, by cascade
    for table in tables.copied_as_rows("person", "store"):
        _insert(target, table, source.all(f"all_rows_in_{table.name}"))
    embedders = _copy_embedders(source, target, current)
    after, texts = 0, Texts()
    while rows := source.all("every_conversation", after=after, limit=PAGE_ROWS):
        for row in rows:
            key = _copy_conversation(source, target, row, texts)
            _copy_vectors(source, target, row, key, embedders)
        after = rows[-1]["key"]
    _copy_audit(source, target)


def _insert(target: Transaction, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows without their generated key, and without columns that the target does not have.

    A source may be a file that somebody changed, or a database that a newer version migrated meanwhile.
    """
    if rows:
        columns = {row["name"] for row in target.all("columns_of", table=table.name)} - {"key"}
        target.insert(table.name, [{name: row[name] for name in row if name in columns} for row in rows])


def _copy_audit(source: Transaction, target: Transaction) -> None:
    """Copy the audit log. Its conversations must have been copied before."""
    after = 0
    while rows := source.all("every_audit", after=after, limit=PAGE_ROWS):
        target.many("insert_audit", [{name: row[name] for name in row if name != "key"} for row in rows])
        after = rows[-1]["key"]


class _Embedders(NamedTuple):
    """The embedders of a copy."""

    keys: dict[int, int]  # the new key by the old one
    is_current: bool  # whether the current embedder of the source is that of the target


def _copy_embedders(source: Transaction, target: Transaction, current: Row | None) -> _Embedders:
    """Copy the embedders. The one that was `current` in the target stays so, because its processes work with it."""
    keys: dict[int, int] = {}
    rows = source.all("every_embedder")
    for row in rows:
        keys[row["key"]] = _insert_embedder(target, row)
    is_current = current is None or (bool(rows) and _describe(rows[-1]) == _describe(current))
    if current is not None and not is_current:
        _insert_embedder(target, current)
    return _Embedders(keys, is_current)


def _insert_embedder(target: Transaction, row: Row) -> int:
    target.run("insert_embedder", **_describe(row), now=0)
    inserted = target.one("newest_embedder")
    assert inserted is not None  # noqa: S101 - inserted just now
    return int(inserted["key"])


def _describe(row: Row) -> Row:
    return {name: row[name] for name in ("name", "dimensions", "passages")}


def _copy_vectors(source: Transaction, target: Transaction, row: Row, key: int, embedders: _Embedders) -> None:
    """Copy the vectors of a conversation, which has this key in the target. They serve there as they did."""
    vectors = source.all("conversation_rows_in_vectors", key=row["key"])
    copied = [one | {"conversation_key": key, "embedder_key": embedders.keys[one["embedder_key"]]} for one in vectors]
    target.insert("vectors", copied)
    serving = embedders.keys.get(row["embedder_key"] or 0)
    embedded = row["embedded_seq"] if embedders.is_current else 0
    target.run("copy_vector_state", key=key, embedder=serving, embedded=embedded)


def _copy_conversation(source: Transaction, target: Transaction, row: Row, texts: Texts) -> int:
    """Copy a conversation without its vectors. Return its key in the target."""
    where = {"person": row["person"], "conversation": row["name"]}
    about = {name: row[name] for name in ("title", "tags", "zone")}
    target.run("create_conversation", **where, **about, now=row["created_at"], words_version=word_index.VERSION)
    created = target.one("get_conversation", **where)
    assert created is not None  # noqa: S101 - created in this transaction
    key, after = created["key"], 0
    while page := texts.fill(source, source.all("page", **where, after=after, limit=PAGE_ROWS)):
        messages = [message | {"key": key} for message in page]
        save_messages(target, messages)  # a damaged one has no text and stays damaged
        pairs = [
            (row, word_index.encode_row(row["content"], row["name"], row["model_variant"], role=row["role"]))
            for row in messages
        ]
        save_word_rows(target, pairs)
        after = page[-1]["seq"]
    for table in tables.copied_as_rows("conversation", "position"):
        copied = source.all(f"conversation_rows_in_{table.name}", key=row["key"])
        _insert(target, table, [values | {"conversation_key": key} for values in copied])
    _copy_topics(source, target, row["key"], key)
    target.run("set_last_seq", key=key, last_seq=row["last_seq"])
    target.run("recount_conversation", key=key)
    return int(key)


def _copy_topics(source: Transaction, target: Transaction, old_key: int, new_key: int) -> None:
    """Copy the topics of a conversation that has these keys in the two databases."""
    rows = source.all("topics_of_conversation", key=old_key)
    keys: dict[int, int] = {}  # of topics: the new key by the old one
    for row in rows:
        values = {name: row[name] for name in row if name not in _NOT_INSERTED}
        inserted = target.one("copy_topic", key=new_key, **values)
        assert inserted is not None  # noqa: S101 - inserted just now
        keys[row["key"]] = inserted["key"]
    for row in rows:
        if row["merged_at"] is not None:  # merged, or taken apart again
            into = keys.get(row["merged_into"] or 0)
            target.run("merge_topic", key=keys[row["key"]], into=into, now=row["merged_at"])
    members = source.all("members_of_conversation", key=old_key)
    target.many("copy_member", [member | {"key": new_key, "topic": keys[member["topic"]]} for member in members])
    state = source.one("topics_state_of_conversation", key=old_key)
    assert state is not None  # noqa: S101 - its conversation is being copied
    target.run(
        "copy_topics_state",
        key=new_key,
        assigned=state["topiced_seq"],
        active=keys.get(state["active_topic"] or 0),
        by_hand=state["grouped_by_hand"],
        version=state["topics_version"],
    )
    target.run("recount_topics", key=new_key)
