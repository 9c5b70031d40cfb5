"""Memory: the sync face of AsyncMemory. It forwards every call to one event loop on a background thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from recollect.core.compression.brief import Brief
from recollect.core.models import (
    Appended,
    AuditEntry,
    Context,
    Conversation,
    Done,
    Finding,
    Imported,
    JsonObject,
    Message,
    Recalled,
    Receipt,
    Similar,
)
from recollect.core.profile import Profile
from recollect.core.protocols import Clock, Embedder, Model
from recollect.core.topics import Related, Topic, TopicHit, TopicStats
from recollect.memory import AsyncMemory
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.recall.evaluation import Labels, Measured
    from recollect.recall.tuner import Tuned

T = TypeVar("T")
LATE = 1.0  # seconds that calls of other threads have to end, once the memory is closed


class Memory:
    """A memory for one principal on one database: `Memory("chat.db")`. Safe to use from many threads."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        person: str = "local",
        department: str | None = None,
        ministry: str | None = None,
        clearances: Sequence[str] = (),
        settings: Settings | str | None = None,
        model: Model | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        worker: bool = True,
    ) -> None:
        self._engine = AsyncMemory(
            location, person=person, department=department, ministry=ministry, clearances=clearances,
            settings=settings, model=model, embedder=embedder, clock=clock, worker=worker,
        )  # fmt: skip
        self._closing = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recollect-loop", daemon=True)
        self._thread.start()
        try:
            self._wait(self._engine.open())
        except BaseException:
            self._end_loop()
            raise

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            call.close()
            raise self._engine.closed_error()
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except CancelledError:
            raise self._engine.closed_error() from None

    def _end_loop(self) -> None:
        # On its own thread: the caller may stand inside another event loop.
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _settle(self) -> None:
        """Calls of other threads come to an end, by themselves or now: nobody waits for a loop that has ended."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, late = await asyncio.wait(others, timeout=LATE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def close(self) -> None:
        """Let running work come to a stop, then let go of the database."""
        with self._closing:
            if not self._loop.is_closed():
                self._wait(self._engine.close())
                self._end_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The log

    def add(
        self,
        conversation: str,
        role: str,
        content: str | None,
        *,
        id: str | None = None,
        at: datetime | str | None = None,
        name: str | None = None,
        source: str | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
        model_variant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
    ) -> Message:
        """Store one message, durably. The same id again changes nothing and returns what is stored."""
        fields = {
            "role": role, "content": content, "id": id, "at": at, "name": name, "source": source,
            "tool_calls": tool_calls, "tool_call_id": tool_call_id, "model_variant": model_variant,
            "metadata": metadata, "importance": importance,
        }  # fmt: skip
        return self._stored(conversation, [fields])[0]

    def add_many(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Store many messages in one transaction; known ids are skipped. All are returned as they are stored."""
        return self._stored(conversation, list(messages))

    def append(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Appended]:
        """As `add_many`, and says of each message whether it is new."""
        return self._wait(self._engine.append(conversation, messages))

    def merge(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Store what is new in a client's own history: messages as chat APIs take them, without ids.

        What is stored already is told by what it says and what it follows. Returns all of them as they are stored.
        """
        merged = self._wait(self._engine.merge(conversation, messages))
        self._engine.notice()
        return merged

    def _stored(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Straight to the writer, past the event loop: half the latency of an add."""
        stored = self._engine.submit(conversation, messages).result()
        self._engine.notice()
        return [item.message for item in stored]

    def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Every message ever, in the order of seq; or the newest `limit` of those below seq `before`."""
        return self._wait(self._engine.history(conversation, before=before, limit=limit))

    def find_message(self, conversation: str, message: str) -> Message | None:
        """A message by its id, if it is stored."""
        return self._wait(self._engine.find_message(conversation, message))

    def conversations(self) -> list[Conversation]:
        """The person's conversations, the latest first."""
        return self._wait(self._engine.conversations())

    def conversation(self, conversation: str) -> Conversation:
        """One conversation: its title, counts, first and last time, tags."""
        return self._wait(self._engine.conversation(conversation))

    def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        zone: str | None = None,
    ) -> Conversation:
        """Give a conversation a title, tags, or the time zone in which its times and days are read."""
        return self._wait(self._engine.update_conversation(conversation, title=title, tags=tags, zone=zone))

    # Recall

    def recall(
        self,
        query: str,
        *,
        conversation: str | None = None,
        limit: int = 10,
        budget: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        banks: Sequence[str] | None = None,
        at: datetime | str | None = None,
    ) -> Recalled:
        """What was said that bears on the query, best first: by words, by meaning, by names, by dates.

        At most `limit` messages, and with `budget` at most so many tokens of text, neighbours included. Without
        `conversation`, in all of the person's; with it, in others only where it has little to say. `at` is the moment
        of asking.
        """
        asked = self._engine.recall(
            query, conversation=conversation, limit=limit, budget=budget, since=since, until=until, banks=banks, at=at
        )
        return self._wait(asked)

    def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        model: str = "gpt-4o-mini",
        at: datetime | str | None = None,
        before: int | None = None,
        everywhere: bool = False,
    ) -> Context:
        """The smallest prompt that still holds what matters for the query, within a hard budget of tokens.

        `model` only names how tokens are counted. The query is not stored; it comes last even if it is stored already.
        `before` leaves out what was said there from this seq on, as for an answer that is tried again. `everywhere`
        recalls from all of the person's conversations, not only where this one has little to say.
        """
        asked = self._engine.context(
            conversation, query, system_prompt=system_prompt, budget=budget, model=model, at=at, before=before,
            everywhere=everywhere,
        )  # fmt: skip
        return self._wait(asked)

    def similar(self, conversation: str, query: str, *, limit: int = 3) -> list[Similar]:
        """Earlier questions of the person like this one, in other conversations, with their age."""
        return self._wait(self._engine.similar(conversation, query, limit=limit))

    # Topics

    def topics(self, conversation: str) -> list[Topic]:
        """What a conversation speaks of, in all states: the active one first, then by priority."""
        return self._wait(self._engine.topics(conversation))

    def topic(self, topic: str) -> Topic:
        """One topic by its id; by that of a topic which was merged, the one it belongs to."""
        return self._wait(self._engine.topic(topic))

    def topic_context(self, conversation: str, *, topic: str | None = None) -> list[JsonObject]:
        """Messages for a model: what is told of the active topic (or another) as data, then its messages at hand.

        A topic that came back has its whole history at hand for as long as it is the active one.
        """
        return self._wait(self._engine.topic_context(conversation, topic=topic))

    def topic_history(
        self, conversation: str, *, topic: str | None = None, include_archived: bool = True
    ) -> list[Message]:
        """Every message of the active topic, or of another, in the order of the log."""
        return self._wait(self._engine.topic_history(conversation, topic=topic, include_archived=include_archived))

    def topic_stats(self, conversation: str, *, topic: str | None = None) -> TopicStats | None:
        """Document C's figures of the active topic, or of another."""
        return self._wait(self._engine.topic_stats(conversation, topic=topic))

    def topic_decay(self, topic: str, *, days: float | None = None, points: int = 60) -> list[tuple[datetime, float]]:
        """How its priority falls from when it was last spoken of, if nobody speaks of it again: moments and values."""
        return self._wait(self._engine.topic_decay(topic, days=days, points=points))

    def search_topics(self, query: str, *, conversation: str | None = None, limit: int = 5) -> list[TopicHit]:
        """Topics that speak of something, best first, in one conversation or in all of the person's."""
        return self._wait(self._engine.search_topics(query, conversation=conversation, limit=limit))

    def related_topics(self, conversation: str) -> list[Related]:
        """Pairs of topics that may be one, the nearest first: proposals for `merge_topics`."""
        return self._wait(self._engine.related_topics(conversation))

    def merge_topics(self, into: str, topic: str) -> Topic:
        """The second topic becomes part of the first. `unmerge_topic` takes it back."""
        return self._wait(self._engine.merge_topics(into, topic))

    def unmerge_topic(self, topic: str) -> Topic:
        """A topic that was merged into another stands by itself again, with the messages it had."""
        return self._wait(self._engine.unmerge_topic(topic))

    def split_topic(self, topic: str, messages: Sequence[str], *, title: str | None = None) -> Topic:
        """Messages of a topic, by their ids, become a topic of their own."""
        return self._wait(self._engine.split_topic(topic, messages, title=title))

    def tag_topic(self, topic: str, tags: Sequence[str]) -> Topic:
        """Give a topic these tags, in place of those it has."""
        return self._wait(self._engine.tag_topic(topic, tags))

    def pin_topic(self, topic: str, *, pinned: bool = True) -> Topic:
        """A topic that is pinned never leaves, however long nobody speaks of it."""
        return self._wait(self._engine.pin_topic(topic, pinned=pinned))

    def rename_topic(self, topic: str, title: str) -> Topic:
        """Give a topic a title."""
        return self._wait(self._engine.rename_topic(topic, title))

    def weigh_topic(self, topic: str, importance: float) -> Topic:
        """How important a topic is, from 0 to 1; it fades sooner if it is less."""
        return self._wait(self._engine.weigh_topic(topic, importance))

    def change_topic(
        self,
        topic: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        importance: float | None = None,
        state: str | None = None,
    ) -> Topic:
        """Several of these at once: title, tags, pin, importance; `cold` lets it rest, `warm` brings it back."""
        changed = self._engine.change_topic(
            topic, title=title, tags=tags, pinned=pinned, importance=importance, state=state
        )
        return self._wait(changed)

    def archive_topic(self, topic: str) -> Topic:
        """Let a topic rest now, whatever its priority: it leaves into the archive until it is spoken of again."""
        return self._wait(self._engine.archive_topic(topic))

    def restore_topic(self, topic: str) -> Topic:
        """Bring a topic back, with all its messages at hand, as if it had been spoken of now."""
        return self._wait(self._engine.restore_topic(topic))

    def feedback(self, message: str, value: float, *, kind: str = "thumb", conversation: str | None = None) -> None:
        """What became of a message: +1 or -1 (0 takes it back), by a thumb, or because it was used in an answer,
        edited or deleted. Its topic's importance follows; what is praised also lasts longer."""
        self._wait(self._engine.feedback(message, value, kind=kind, conversation=conversation))

    # The brief

    def brief(self, conversation: str, *, version: int | None = None) -> Brief | None:
        """The compressed memory of what is older than the tail: the newest version or another, or None."""
        return self._wait(self._engine.brief(conversation, version=version))

    def brief_versions(self, conversation: str) -> list[JsonObject]:
        """All versions of a brief, oldest first: version, through_seq, messages, created_at, model."""
        return self._wait(self._engine.brief_versions(conversation))

    def compress(self, conversation: str, *, force: bool = False) -> Brief | None:
        """Fold what is due into the brief now. The new brief, or None if nothing is due.

        With `force`, everything but the newest turns is folded, whatever the triggers say.
        """
        return self._wait(self._engine.compress(conversation, force=force))

    def metrics(self, *, since: datetime | str | None = None) -> JsonObject:
        """How recall fared in the last 30 days: counts, times by stage, hit rate, budget use."""
        return self._wait(self._engine.metrics(since=since))

    def tune(self, labelled: Labels, *, apply: bool = False, step: float = 0.1) -> Tuned:
        """Look for weights that rank labelled questions better, by NDCG@5; `apply` puts better ones in force.

        `labelled` are mappings, or a file, with `query`, `relevant` (ids of messages) and perhaps `conversation`. The
        weights are alpha, beta and gamma of recall; all that add up to 1 in such a `step` are tried.
        """
        return self._wait(self._engine.tune(labelled, apply=apply, step=step))

    def bench(self, labelled: Labels | None = None, *, sample: int = 100) -> Measured:
        """How well recall finds what it should, beside plainer ways, and how long it takes.

        `labelled` is what `tune` takes. Without it, questions are made of rare words of up to `sample` own messages:
        that shows whether messages are found again by their words, not whether questions in other words are answered.
        """
        return self._wait(self._engine.bench(labelled, sample=sample))

    # Profile and consent

    def profile(self) -> Profile:
        """What the person told of themselves. Without consent it is empty, and says only whether one is stored."""
        return self._wait(self._engine.profile())

    def set_profile(self, fields: Mapping[str, Any]) -> Profile:
        """Change the profile: `preferences` (coding_style, languages, frameworks), `context` (goals, domain,
        constraints) and `notes`. Fields that are not named stay as they are; None empties one.

        It may be written without consent, but then it is not used, and what comes back is empty.
        """
        return self._wait(self._engine.set_profile(fields))

    def consent(self) -> bool:
        """Whether the person lets the profile be used. Nobody does who was never asked."""
        return self._wait(self._engine.consent())

    def set_consent(self, granted: bool) -> bool:
        """Let the profile be used, or not. False is `revoke_consent` without the receipt: the profile is erased."""
        return self._wait(self._engine.set_consent(granted))

    def revoke_consent(self) -> Receipt:
        """Switch the use of the profile off, durably, then erase it down to the bytes.

        Nothing uses it from the first step on, even if the second fails: then call this again. The receipt says what
        was erased, and what is pending.
        """
        return self._wait(self._engine.revoke_consent())

    def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Who did what with this memory, the newest first; `before` is the id of an entry, for the next page.

        Uses of the profile, consent given and taken back, changes, erasing, exports. Names and counts, never content.
        """
        return self._wait(self._engine.audit(limit=limit, before=before))

    # Derived work

    def drain(self, *, timeout: float | None = None, briefs: bool = True) -> Done:
        """Do all derived work now, or for so many seconds. Returns what was done, and whether anything is left.

        Without `briefs` only what recall needs is done: writing a brief may take a model's time.
        """
        return self._wait(self._engine.drain(timeout=timeout, briefs=briefs))

    def rebuild(self, *, conversation: str | None = None, everyone: bool = False) -> Done:
        """Make derived rows anew from the log: of one conversation, of the person, or of the whole database."""
        return self._wait(self._engine.rebuild(conversation=conversation, everyone=everyone))

    # Settings

    def settings(self) -> Settings:
        """The settings in force."""
        return self._wait(self._engine.settings())

    def change_settings(self, **changes: Any) -> Settings:
        """Change settings now and for later; None takes a change back. Other processes follow by themselves."""
        return self._wait(self._engine.change_settings(**changes))

    def setting_origins(self) -> dict[str, str]:
        """For each setting where its value comes from: constructor, stored, environment, file or default."""
        return self._wait(self._engine.setting_origins())

    # In and out

    def export(self, target: str | os.PathLike[str]) -> int:
        """Write everything the person has to a file of NDJSON. Returns the number of messages.

        The profile is in it with consent alone.
        """
        return self._wait(self._engine.export(target))

    def import_file(
        self,
        source: str | os.PathLike[str],
        *,
        format: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Read a file of our own or of another program. The same file again adds nothing."""
        return self._wait(self._engine.import_file(source, format=format, dry_run=dry_run, progress=progress))

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a consistent copy to a new SQLite file, which can be opened or restored; writers go on meanwhile."""
        self._wait(self._engine.backup(target))

    def restore(self, source: str | os.PathLike[str], *, save_to: str | os.PathLike[str] | None = None) -> None:
        """Replace everything in the database, everyone's, by what a backup holds.

        With `save_to`, what is replaced is first written to a backup of its own; no message can slip in between.
        """
        self._wait(self._engine.restore(source, save_to=save_to))

    # Erasing

    def erase(
        self,
        *,
        conversation: str | None = None,
        person: str | None = None,
        day: str | None = None,
        topic: str | None = None,
        message: str | None = None,
    ) -> Receipt:
        """Delete a conversation, a topic, a message, a local day or everything of the person, down to the bytes.

        `conversation` may narrow `message` and `day`. Returns when the bytes are gone, or says what is pending.
        """
        return self._wait(
            self._engine.erase(conversation=conversation, person=person, day=day, topic=topic, message=message)
        )

    # Health

    def stats(self) -> JsonObject:
        """Counts and sizes of what the person has."""
        return self._wait(self._engine.stats())

    def check(self) -> list[Finding]:
        """Look for damage and for what is not as it should be; `recollect doctor` prints it."""
        return self._wait(self._engine.check())
