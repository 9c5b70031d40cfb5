"""Deleting inside one transaction: what goes, how many rows of what, and samples to search the files for.

Full text, token counts and everything else derived go with their messages, by cascade or trigger.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from recollect.core import times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Principal
from recollect.sql.driver import Transaction

SAMPLES: Final = 16
ALWAYS: Final = 2**62


def no_conversation(name: str) -> NotFound:
    return NotFound("conversation_not_found", f"There is no conversation {name!r}.")


class Erasing:
    """Deletes inside one transaction, counting rows and keeping samples of what was said."""

    def __init__(self, tx: Transaction, principal: Principal) -> None:
        self._tx, self._person = tx, principal.person
        self.counts = dict.fromkeys(("conversations", "messages", "full_text", "token_counts", "settings"), 0)
        self.samples: list[str] = []

    def message(self, id: str, conversation: str | None) -> None:
        rows = self._tx.all("find_messages", person=self._person, id=id, conversation=conversation)
        if not rows:
            raise NotFound("message_not_found", f"There is no message {id!r}.")
        if len(rows) > 1:
            raise InvalidInput(
                "ambiguous_message",
                f"{len(rows)} conversations have a message {id!r}: name the conversation.",
            )
        self._tx.run("lock_conversation_key", key=rows[0]["conversation_key"])
        self.samples.append(rows[0]["content"])
        self.counts["token_counts"] += len(self._tx.all("tokens_of", key=rows[0]["key"]))
        self._tx.run("delete_message", key=rows[0]["key"])
        self.counts["messages"] += 1
        self.counts["full_text"] += 1
        self._tx.run("recount_conversation", key=rows[0]["conversation_key"])

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
        if self._tx.run("delete_between", key=key, start=start, stop=stop):
            self._tx.run("recount_conversation", key=key)

    def conversation(self, name: str) -> None:
        row = self._tx.one("lock_conversation", person=self._person, conversation=name)
        if row is None:
            raise no_conversation(name)
        self._whole(row["key"])

    def everything(self) -> None:
        for row in self._tx.all("describe_conversations", person=self._person, conversation=None):
            self._tx.run("lock_conversation_key", key=row["key"])
            self._whole(row["key"])
        self.counts["settings"] += self._tx.run("delete_settings", person=self._person)

    def _whole(self, key: int) -> None:
        self._sample(key, -ALWAYS, ALWAYS)
        self._tx.run("delete_conversation", key=key, person=self._person)
        self.counts["conversations"] += 1

    def _sample(self, key: int, start: int, stop: int) -> None:
        counted = self._tx.one("count_between", key=key, start=start, stop=stop)
        if counted is not None:
            self.counts["messages"] += counted["messages"]
            self.counts["full_text"] += counted["messages"]
            self.counts["token_counts"] += counted["tokens"]
        if len(self.samples) < SAMPLES:
            rows = self._tx.all("sample_content", key=key, start=start, stop=stop, limit=SAMPLES)
            self.samples.extend(row["content"] for row in rows)
