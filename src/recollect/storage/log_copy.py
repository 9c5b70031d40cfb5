"""Copying the log between databases, row by row: how a PostgreSQL store is backed up to an SQLite file and back.

What is copied is not derived, or too dear to make anew: the words by which everything can be found at once, briefs,
which a model may have written, topics, with which people did something, and what people told of themselves, with the
log of its use. Keys are given anew. The texts of archived messages come unpacked, and are packed again where they
arrive.
"""

from __future__ import annotations

from typing import Final

from recollect.core import word_index
from recollect.storage.append import save_entries, save_messages
from recollect.storage.driver import Row, Transaction
from recollect.storage.texts import Texts

PAGE: Final = 500
_ANEW: Final = ("key", "merged_into", "merged_at")


def copy_log(source: Transaction, target: Transaction) -> None:
    """Everything in `source` goes to `target`, whose own log is deleted first."""
    target.run("delete_everything")
    target.run("delete_every_dictionary")
    target.run("delete_every_setting")
    for setting in source.all("every_setting"):
        target.run("put_setting", **setting)
    _copy_profiles(source, target)
    target.run("delete_every_key")
    target.many("insert_key", source.all("every_whole_key"))  # what their hashes are keyed with came with the settings
    after, texts = 0, Texts()
    while rows := source.all("every_conversation", after=after, limit=PAGE):
        for row in rows:
            _copy_conversation(source, target, row, texts)
        after = rows[-1]["key"]
    _copy_audit(source, target)


def _copy_profiles(source: Transaction, target: Transaction) -> None:
    target.run("delete_every_profile")
    target.many("put_profile", source.all("every_profile"))
    target.run("delete_every_consent")
    target.many("put_consent", source.all("every_consent"))


def _copy_audit(source: Transaction, target: Transaction) -> None:
    """After the conversations that it names."""
    target.run("delete_every_audit")
    after = 0
    while rows := source.all("every_audit", after=after, limit=PAGE):
        target.many("insert_audit", [{name: row[name] for name in row if name != "key"} for row in rows])
        after = rows[-1]["key"]


def _copy_conversation(source: Transaction, target: Transaction, row: Row, texts: Texts) -> None:
    scope = {"person": row["person"], "conversation": row["name"]}
    described = {name: row[name] for name in ("title", "tags", "zone")}
    target.run("create_conversation", **scope, **described, now=row["created_at"], words_version=word_index.VERSION)
    there = target.one("get_conversation", **scope)
    assert there is not None  # noqa: S101 - created in this transaction
    key, after = there["key"], 0
    while page := texts.fill(source, source.all("page", **scope, after=after, limit=PAGE)):
        rows = [message | {"key": key} for message in page]
        save_messages(target, rows)  # one that is damaged stays so: it has no text
        save_entries(
            target, [(row, word_index.encode(row["content"], row["name"], row["model_variant"])) for row in rows]
        )
        after = page[-1]["seq"]
    for query, insert in (
        ("briefs_of_conversation", "insert_brief"),
        ("brief_entries_of_conversation", "insert_brief_entry"),
    ):
        target.many(insert, [one | {"key": key} for one in source.all(query, key=row["key"])])
    _copy_topics(source, target, row["key"], key)
    target.run("set_last_seq", key=key, last_seq=row["last_seq"])
    target.run("recount_conversation", key=key)


def _copy_topics(source: Transaction, target: Transaction, old: int, new: int) -> None:
    rows = source.all("topics_of_conversation", key=old)
    keys: dict[int, int] = {}
    for row in rows:
        made = target.one("copy_topic", key=new, **{name: row[name] for name in row if name not in _ANEW})
        assert made is not None  # noqa: S101 - inserted just now
        keys[row["key"]] = made["key"]
    for row in rows:
        if row["merged_into"] in keys:
            target.run("merge_topic", key=keys[row["key"]], into=keys[row["merged_into"]], now=row["merged_at"])
    members = source.all("members_of_conversation", key=old)
    target.many("copy_member", [one | {"key": new, "topic": keys[one["topic"]]} for one in members])
    target.many("put_feedback", [one | {"key": new} for one in source.all("feedback_of_conversation", key=old)])
    standing = source.one("topics_standing", key=old)
    assert standing is not None  # noqa: S101 - we are in its conversation
    copied = {"placed": standing["topiced_seq"], "active": keys.get(standing["active_topic"] or 0)}
    target.run(
        "copy_standing", key=new, **copied, by_hand=standing["grouped_by_hand"], version=standing["topics_version"]
    )
    target.run("recount_topics", key=new)
