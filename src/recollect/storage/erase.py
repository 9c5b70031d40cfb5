"""Deletes the rows of a scope inside one transaction, counts them, and keeps samples to search the files for.

`storage/tables.py` says with what the rows of each table go: with their message or conversation, by cascade, or by the
person's name. It also says which rows are outdated when messages they were made of are erased, such as briefs. These
are deleted, and so are the summaries of topics; the worker makes them again from what is left. Blocks of the archive
are packed again without the erased texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from recollect.core import times
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.json_text import to_json
from recollect.core.models import Principal
from recollect.core.scope import (
    ConversationScope,
    DayScope,
    MessageScope,
    PersonScope,
    ProfileScope,
    Scope,
    TopicScope,
)
from recollect.core.text import hash_name
from recollect.core.topics import group_rows
from recollect.storage import tables
from recollect.storage.archive_blocks import delete_tainted_dictionaries, remove_erased_texts
from recollect.storage.driver import Row, Transaction
from recollect.storage.profiles import stored_values
from recollect.storage.rows import no_conversation
from recollect.storage.server_state import prompt_size_id
from recollect.storage.tables import Table
from recollect.storage.texts import Texts
from recollect.storage.tombstones import Names, name_sent_messages
from recollect.storage.topics import find_assigned_topic, remove_empty_topics, reopen_topic

MAX_SAMPLES: Final = 16  # texts that one query samples; from so many on, no further conversation is sampled
UNBOUNDED: Final = 2**62  # above every seq and every moment
_EVERY_MESSAGE: Final[Mapping[str, Any]] = {
    "first": 0, "last": UNBOUNDED, "start": -UNBOUNDED, "stop": UNBOUNDED, "topic": None
}  # fmt: skip


class Eraser:
    """Deletes rows of one person. `counts` has the deleted rows per table, `samples` some of the deleted texts.

    `erased` has the names of what was erased, from the kind down: a conversation as a whole, or message by message.
    """

    def __init__(self, tx: Transaction, principal: Principal, texts: Texts) -> None:
        self._tx, self._person, self._texts = tx, principal.person, texts
        self.counts = dict.fromkeys(tables.COUNTED, 0)
        self.samples: list[str] = []
        self.erased: list[Names] = []  # what gets a tombstone

    # The scopes

    def message(self, id: str, conversation: str | None) -> None:
        """Erase one message. Without a conversation, its id must be unique among the person's messages."""
        found = self._tx.all("find_messages", person=self._person, id=id, conversation=conversation)
        rows = self._texts.fill(self._tx, found)
        if not rows:
            raise NotFound("message_not_found", f"There is no message {id!r}.")
        if len(rows) > 1:
            raise InvalidInput(
                "ambiguous_message",
                f"{len(rows)} conversations have a message {id!r}: name the conversation.",
            )
        key, seq = rows[0]["conversation_key"], rows[0]["seq"]
        self._tx.run("lock_conversation_key", key=key)
        self.samples.append(rows[0]["content"])
        self._bury_messages(key, first=seq, last=seq)
        self._count_and_drop_outdated(key, first=seq, last=seq)
        self._tx.run("delete_message", key=rows[0]["key"])
        self._repair_derived(key, deletions=1)

    def messages(self, key: int, rows: Sequence[Row]) -> None:
        """Erase some messages of the conversation with this key, given by key and seq."""
        for row in rows:
            self._count_and_drop_outdated(key, first=row["seq"], last=row["seq"])
            self._tx.run("delete_message", key=row["key"])
        self._repair_derived(key)

    def day(self, day: date, conversation: str | None) -> None:
        """Erase the messages of a local date, in one conversation or in all of them."""
        rows = self._tx.all("describe_conversations", person=self._person, conversation=conversation)
        if conversation is not None and not rows:
            raise no_conversation(conversation)
        for row in rows:
            start, stop = (times.to_micros(moment) for moment in times.day_bounds(day, row["zone"]))
            self._erase_between(row["key"], start, stop)

    def topic(self, id: str) -> None:
        """Erase all messages of a topic, and of those that were merged into it."""
        state, group = find_assigned_topic(self._tx, Principal(self._person), id)
        if group.root["id"] != id:
            message = f"This topic was merged into {group.root['id']}: unmerge it first, or erase that one."
            raise Conflict("topic_merged", message)
        key = state.key
        rows = self._tx.all("members_of", key=key, rows=to_json(group.keys), after=0)
        longest = sorted(self._texts.fill(self._tx, rows), key=lambda row: -len(row["content"]))
        self.samples.extend(row["content"] for row in longest[:MAX_SAMPLES])
        for topic_key in group.keys:
            self._bury_messages(key, topic=topic_key)
            self._count_and_drop_outdated(key, topic=topic_key)
            self._tx.run("delete_topic_messages", key=topic_key)
        self._repair_derived(key)

    def conversation(self, name: str) -> None:
        """Erase one conversation."""
        row = self._tx.one("lock_conversation", person=self._person, conversation=name)
        if row is None:
            raise no_conversation(name)
        self._delete_conversation(row["key"])
        self.erased.append(("conversation", self._person, name))
        self._tx.run("delete_stop", person=self._person, conversation=hash_name(name))
        self._tx.run("delete_prompt_size", person=self._person, id=prompt_size_id(name))
        self.counts["dictionaries"] += delete_tainted_dictionaries(self._tx, self._person, self._texts)

    def everything(self, *, now: int) -> None:
        """Erase everything of the person. API keys are revoked, and keep nothing but their id."""
        for row in self._tx.all("describe_conversations", person=self._person, conversation=None):
            self._tx.run("lock_conversation_key", key=row["key"])
            self._delete_conversation(row["key"])
        self._sample_profile()
        for table in tables.owned_by("person"):
            if table.name != "conversations":  # they are erased one by one; one that begins meanwhile stays
                self._erase_rows(table)
        self._tx.run("end_sessions_of_person", person=self._person)
        self._count(tables.API_KEYS, self._tx.run("empty_keys_of_person", person=self._person, now=now, no_hash=b""))
        self.erased.append(("person", self._person))
        self._texts.forget()

    def profile(self) -> None:
        """Erase the person's profile. The consent stays as it is."""
        self._sample_profile()
        self._erase_rows(tables.PROFILES)
        self.erased.append(("profile", self._person))

    # Their parts

    def _sample_profile(self) -> None:
        row = self._tx.one("stored_profile", person=self._person)
        if row is not None:
            self.samples.extend(stored_values(row["body"]))

    def _erase_rows(self, table: Table) -> None:
        """Delete and count all rows of the person in a table."""
        self._count(table, self._tx.run(f"erase_rows_in_{table.name}", person=self._person))

    def _erase_between(self, key: int, start: int, stop: int) -> None:
        self._tx.run("lock_conversation_key", key=key)
        self._bury_messages(key, start=start, stop=stop)
        if self._count_and_drop_outdated(key, start=start, stop=stop):
            self._sample(key, start, stop)
            self._tx.run("delete_between", key=key, start=start, stop=stop)
            self._repair_derived(key)

    def _bury_messages(self, key: int, **bounds: Any) -> None:
        """Note the ids of messages that are about to be erased, chosen as by `_count_and_drop_outdated`."""
        rows = self._tx.all("doomed_ids", **{**_EVERY_MESSAGE, **bounds, "key": key})
        self.erased.extend(("message", self._person, row["name"], row["id"]) for row in rows)
        self.erased.extend(name_sent_messages(self._person, [row["id"] for row in rows]))

    def _delete_conversation(self, key: int) -> None:
        rows = self._tx.all("doomed_ids", **_EVERY_MESSAGE, key=key)
        self.erased.extend(name_sent_messages(self._person, [row["id"] for row in rows]))
        if self._count_and_drop_outdated(key):
            self._sample(key, -UNBOUNDED, UNBOUNDED)
        for table in tables.owned_by("conversation"):
            if table.name != "messages":  # counted already
                self._count(table, self._count_rows(table, key=key))
        self._tx.run("delete_conversation", key=key, person=self._person)
        self.counts["conversations"] += 1

    def _repair_derived(self, key: int, *, deletions: int = 0) -> None:
        """Remove the deleted messages from blocks, topics and counts.

        `deletions` is 1 for a message that a person erased by itself: this counts against its topic, like feedback.
        """
        self._tx.run("recount_conversation", key=key)
        remove_erased_texts(self._tx, key, self._texts)
        self._clear_summaries(key, deletions)
        self._tx.run("recount_topics", key=key)
        self.counts["topics"] += remove_empty_topics(self._tx, key)
        self._tx.run("forget_active_topic", key=key)
        self._tx.run("topics_changed", key=key)
        self.counts["dictionaries"] += delete_tainted_dictionaries(self._tx, self._person, self._texts)

    def _clear_summaries(self, key: int, deletions: int) -> None:
        """Delete the summaries of topics that lost messages. A summary covers merged topics too, so all parts go."""
        thinned = {row["key"]: row for row in self._tx.all("thinned_topics", key=key)}
        for group in group_rows(self._tx.all("topics_of", key=key)) if thinned else ():
            if not thinned.keys().isdisjoint(group.keys):
                self._tx.many("clear_summary", [{"key": topic_key} for topic_key in group.keys])
        for row in thinned.values():
            self._tx.run("count_deletions", key=row["key"], deletions=deletions)
            if not row["has_opening"]:
                reopen_topic(self._tx, row, self._texts)

    def _count_and_drop_outdated(self, key: int, **limits: Any) -> bool:
        """Count the messages that will be erased and the rows that go with them, and delete rows made of them.

        They are the messages of a conversation within `limits`: from seq `first` to `last`, from `start` to before
        `stop`, and of the `topic`, if one is named. Return whether there are any. Call it before they are deleted.
        """
        bounds = {**_EVERY_MESSAGE, **limits, "key": key}
        erased = self._tx.one("describe_doomed", **bounds)
        if erased is None or not erased["messages"]:
            return False
        self.counts["messages"] += erased["messages"]
        bounds |= {"first": erased["first_seq"], "last": erased["last_seq"]}
        for table in tables.owned_by("message", "position"):
            self._count(table, self._count_rows(table, **bounds))
        where = erased | {"person": self._person, "key": key}
        for table in tables.TABLES:
            if table.outdated is not None:
                self._count(table, self._tx.run(table.outdated, **where))
            for query in table.repairs:
                self._tx.run(query, **where)
        return True

    def _count_rows(self, table: Table, **bounds: Any) -> int:
        if table.counted_as is None:
            return 0
        row = self._tx.one(f"count_rows_in_{table.name}", **bounds)
        return 0 if row is None else int(row["n"])

    def _count(self, table: Table, rows: int) -> None:
        if table.counted_as is not None:
            self.counts[table.counted_as] += rows

    def _sample(self, key: int, start: int, stop: int) -> None:
        if len(self.samples) < MAX_SAMPLES:
            between = {"key": key, "start": start, "stop": stop, "limit": MAX_SAMPLES}
            rows = self._tx.all("sample_content", **between)
            rows += self._texts.fill(self._tx, self._tx.all("sample_archived", **between))
            self.samples.extend(row["content"] for row in rows)


# Each takes the scope and the moment of the erase, in microseconds.
ERASERS: Final[Mapping[type[Scope], Callable[[Eraser, Any, int], None]]] = {
    MessageScope: lambda eraser, scope, now: eraser.message(scope.message, scope.conversation),
    TopicScope: lambda eraser, scope, now: eraser.topic(scope.topic),
    DayScope: lambda eraser, scope, now: eraser.day(scope.day, scope.conversation),
    ConversationScope: lambda eraser, scope, now: eraser.conversation(scope.conversation),
    ProfileScope: lambda eraser, scope, now: eraser.profile(),
    PersonScope: lambda eraser, scope, now: eraser.everything(now=now),
}
