"""Copying the log between databases, row by row: how a PostgreSQL store is backed up to an SQLite file and back.

Only what is not derived is copied, and the words, so that everything can be found at once. Keys are given anew.
"""

from __future__ import annotations

from typing import Final

from recollect.core import analysis
from recollect.core.models import Principal
from recollect.sql.appending import index_scope, save_messages, save_words, word_rows
from recollect.sql.driver import Driver, Row, Transaction

PAGE: Final = 500


def copy_log(source: Transaction, target: Transaction, driver: Driver) -> None:
    """Everything in `source` goes to `target` (of `driver`), whose own log is deleted first."""
    target.run("delete_everything")
    target.run("delete_every_setting")
    for setting in source.all("every_setting"):
        target.run("put_setting", **setting)
    after = 0
    while rows := source.all("every_conversation", after=after, limit=PAGE):
        for row in rows:
            _copy_conversation(source, target, driver, row)
        after = rows[-1]["key"]


def _copy_conversation(source: Transaction, target: Transaction, driver: Driver, row: Row) -> None:
    scope = {"person": row["person"], "conversation": row["name"]}
    described = {name: row[name] for name in ("title", "tags", "zone")}
    target.run("create_conversation", **scope, **described, now=row["created_at"], words_version=analysis.VERSION)
    there = target.one("get_conversation", **scope)
    assert there is not None  # noqa: S101 - created in this transaction
    key, after = there["key"], 0
    words_scope = index_scope(Principal(row["person"]), key)
    while page := source.all("page", **scope, after=after, limit=PAGE):
        save_messages(target, [message | {"key": key} for message in page])
        words = (
            word_rows(driver, analysis.words(message["content"]), scope=words_scope, key=key, seq=message["seq"])
            for message in page
        )
        save_words(target, [row for rows in words for row in rows])
        after = page[-1]["seq"]
    target.run("set_last_seq", key=key, last_seq=row["last_seq"])
    target.run("recount_conversation", key=key)
