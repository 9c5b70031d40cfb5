"""Deleting inside one transaction: what goes, how many rows of what, and samples to search the files for.

Entries, vectors and token counts go with their messages, by cascade; settings, metrics, profile and audit log by the
person's name. Every version of a brief that covers an erased message goes, and so does the summary of its topic; the
worker makes them anew from what is left. Blocks of the archive are packed without what was erased.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from recollect.core import times
from recollect.core.drafts import to_json
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.models import Principal
from recollect.core.text import digest
from recollect.core.topics import grouped
from recollect.storage.archive_blocks import retire_dictionaries, thin_blocks
from recollect.storage.briefs import drop_from
from recollect.storage.driver import Row, Transaction
from recollect.storage.profiles import pieces_of
from recollect.storage.texts import Texts
from recollect.storage.topics import close_ranks, find_placed, reopen_topic

SAMPLES: Final = 16
ALWAYS: Final = 2**62
COUNTED: Final = (
    "conversations", "messages", "entries", "vectors", "token_counts", "briefs", "brief_entries", "settings", "recalls",
    "archived", "dictionaries", "topics", "topic_messages", "feedback", "profiles", "consents", "audit",
)  # fmt: skip


def no_conversation(name: str) -> NotFound:
    return NotFound("conversation_not_found", f"There is no conversation {name!r}.")


class Erasing:
    """Deletes inside one transaction, counting rows and keeping samples of what was said."""

    def __init__(self, tx: Transaction, principal: Principal, texts: Texts) -> None:
        self._tx, self._person, self._texts = tx, principal.person, texts
        self.counts = dict.fromkeys(COUNTED, 0)
        self.samples: list[str] = []

    def message(self, id: str, conversation: str | None) -> None:
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
        self._count(key, first=seq, last=seq)
        self._drop_briefs(key, seq)
        self._tx.run("delete_message", key=rows[0]["key"])
        self._mend(key, deletions=1)

    def day(self, day: date, conversation: str | None) -> None:
        found = self._tx.all("describe_conversations", person=self._person, conversation=conversation)
        if conversation is not None and not found:
            raise no_conversation(conversation)
        for row in found:
            start, stop = (times.to_micros(moment) for moment in times.day_bounds(day, row["zone"]))
            self._between(row["key"], start, stop)

    def _between(self, key: int, start: int, stop: int) -> None:
        self._tx.run("lock_conversation_key", key=key)
        self._sample(key, start, stop)
        first = self._tx.one("first_between", key=key, start=start, stop=stop)
        if first is not None and first["seq"] is not None:
            self._drop_briefs(key, first["seq"])
        if self._tx.run("delete_between", key=key, start=start, stop=stop):
            self._mend(key)

    def topic(self, id: str) -> None:
        """All that was said of it."""
        standing, group = find_placed(self._tx, Principal(self._person), id)
        if group.root["id"] != id:
            told = f"This topic was merged into {group.root['id']}: unmerge it first, or erase that one."
            raise Conflict("topic_merged", told)
        key = standing.key
        rows = self._tx.all("members_of", key=key, rows=to_json(group.keys), after=0)
        longest = sorted(self._texts.fill(self._tx, rows), key=lambda row: -len(row["content"]))
        self.samples.extend(row["content"] for row in longest[:SAMPLES])
        for one in group.keys:
            self._count(key, topic=one)
        if rows:
            self._drop_briefs(key, rows[0]["seq"])
        for one in group.keys:
            self._tx.run("delete_said", key=one)
        self._mend(key)

    def _mend(self, key: int, *, deletions: int = 0) -> None:
        """What told of messages that are gone: blocks of the archive, topics, counts."""
        self._tx.run("recount_conversation", key=key)
        thin_blocks(self._tx, key, self._texts)
        self._thin_topics(key, deletions)
        self._tx.run("recount_topics", key=key)
        self.counts["topics"] += close_ranks(self._tx, key)
        self._tx.run("forget_active_topic", key=key)
        self._tx.run("topics_changed", key=key)
        self.counts["dictionaries"] += retire_dictionaries(self._tx, self._person, self._texts)

    def _thin_topics(self, key: int, deletions: int) -> None:
        """What is told of a topic tells of all that was merged into it, too."""
        thinned = {row["key"]: row for row in self._tx.all("thinned_topics", key=key)}
        for group in grouped(self._tx.all("topics_of", key=key)) if thinned else ():
            if not thinned.keys().isdisjoint(group.keys):
                self._tx.many("untell_topic", [{"key": one} for one in group.keys])
        for row in thinned.values():
            self._tx.run("count_deletions", key=row["key"], deletions=deletions)
            if not row["has_opening"]:
                reopen_topic(self._tx, row, self._texts)

    def conversation(self, name: str) -> None:
        row = self._tx.one("lock_conversation", person=self._person, conversation=name)
        if row is None:
            raise no_conversation(name)
        self._whole(row["key"])
        self._tx.run("delete_stops", person=self._person, conversation=digest(name))
        self.counts["dictionaries"] += retire_dictionaries(self._tx, self._person, self._texts)

    def everything(self) -> None:
        for row in self._tx.all("describe_conversations", person=self._person, conversation=None):
            self._tx.run("lock_conversation_key", key=row["key"])
            self._whole(row["key"])
        self.counts["settings"] += self._tx.run("delete_settings", person=self._person)
        self.counts["recalls"] += self._tx.run("delete_recalls", person=self._person)
        self._tx.run("delete_requests", person=self._person)
        self._tx.run("delete_stops", person=self._person, conversation=None)
        self.counts["dictionaries"] += self._tx.run("delete_dictionaries", person=self._person)
        self.profile()
        self.counts["consents"] += self._tx.run("delete_consent", person=self._person)
        self.counts["audit"] += self._tx.run("delete_audit", person=self._person)
        self._texts.forget()

    def profile(self) -> None:
        """What the person told of themselves; whether they consent stays."""
        row = self._tx.one("stored_profile", person=self._person)
        if row is not None:
            self.samples.extend(pieces_of(row["body"]))
            self.counts["profiles"] += self._tx.run("delete_profile", person=self._person)

    def _whole(self, key: int) -> None:
        self._sample(key, -ALWAYS, ALWAYS)
        self._drop_briefs(key, 0)
        self.counts["topics"] += len(self._tx.all("topics_of", key=key))
        self._tx.run("delete_conversation", key=key, person=self._person)
        self.counts["conversations"] += 1

    def _drop_briefs(self, key: int, seq: int) -> None:
        """All that may tell of a message, from its seq on."""
        self._add_up(self._tx.one("count_briefs", key=key, seq=seq))
        drop_from(self._tx, key, seq)

    def _sample(self, key: int, start: int, stop: int) -> None:
        self._count(key, start=start, stop=stop)
        if len(self.samples) < SAMPLES:
            between = {"key": key, "start": start, "stop": stop, "limit": SAMPLES}
            rows = self._tx.all("sample_content", **between)
            rows += self._texts.fill(self._tx, self._tx.all("sample_archived", **between))
            self.samples.extend(row["content"] for row in rows)

    def _count(
        self,
        key: int,
        *,
        first: int = 0,
        last: int = ALWAYS,
        start: int = -ALWAYS,
        stop: int = ALWAYS,
        topic: int | None = None,
    ) -> None:
        """What of a conversation lies between two places and two moments, and belongs to a topic, row by row."""
        between = {"first": first, "last": last, "start": start, "stop": stop, "topic": topic}
        self._add_up(self._tx.one("count_between", key=key, **between))

    def _add_up(self, counted: Row | None) -> None:
        for name, count in (counted or {}).items():
            self.counts[name] += int(count)
