"""AsyncMemory: the use cases. Each reads, decides in core, and makes one store write; `Memory` is its sync face."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recollect import erasure, health, transfer
from recollect.background import COUNTER, Background
from recollect.compose import compose
from recollect.core import arguments, drafts, times
from recollect.core.brief import Brief
from recollect.core.errors import InvalidInput, StoreUnavailable
from recollect.core.models import (
    Appended,
    Context,
    Conversation,
    Done,
    Draft,
    Finding,
    Imported,
    JsonObject,
    Message,
    Principal,
    Recalled,
    Receipt,
    Similar,
)
from recollect.core.protocols import Clock, Embedder, Model
from recollect.core.text import identity
from recollect.current_settings import CurrentSettings
from recollect.embedding import Embedders, EmbedMessages
from recollect.ids import new_id
from recollect.metrics import KEPT, RecallMetrics, summarise
from recollect.providers.tokenizer import tokenizer_for
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.recall.measuring import Labels, Measured
    from recollect.recall.prompting import Prompting
    from recollect.recall.recaller import Recaller
    from recollect.recall.tuning import Tuned

LONG = 50_000  # characters whose words are found on a thread, so that others need not wait


class AsyncMemory:
    """A memory for one principal on one database.

    Use it as `async with AsyncMemory("chat.db") as memory`, or call `close()` at the end. It opens itself on first use.
    """

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
        self._principal = Principal(
            identity(person, "person"),
            None if department is None else identity(department, "department"),
            None if ministry is None else identity(ministry, "ministry"),
            tuple(identity(clearance, "clearance") for clearance in clearances),
        )
        self._parts = compose(location, settings=settings, model=model, embedder=embedder, clock=clock)
        self._store, self._clock = self._parts.store, self._parts.clock
        self._current = CurrentSettings(self._parts, self._principal)
        self._embedders = Embedders(self._parts.embedder, patience=2 * self._current.now.provider_timeout_seconds)
        self._metrics = RecallMetrics(self._store, self._clock)
        self._recalling: Recaller | None = None
        self._embedding = EmbedMessages(
            self._store, self._clock, self._embedders, lambda: self._current.now.backfill_chunks
        )
        self._background = Background(self._parts, self._current, self._embedding, self._metrics)
        self._has_worker = worker
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._state = "new"

    # Opening and closing

    async def open(self) -> Self:
        """Connect and bring the schema up to date. Called by whatever is used first."""
        async with self._opening:
            if self._state == "closed":
                raise self.closed_error()
            if self._state == "new":
                try:
                    await self._store.open(self._clock.now())
                    await self._current.refresh()
                except BaseException:
                    await self._store.close()
                    self._state = "closed"
                    raise
                self._state = "open"
                if self._has_worker:
                    self._task = asyncio.create_task(self._background.run(), name="recollect-worker")
        return self

    async def close(self) -> None:
        """Let running work come to a stop, then let go of the database."""
        async with self._opening:
            if self._state == "open":
                self._background.compressing.stop()
                self._background.stop()
                if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
                    await self._task  # that of an earlier loop ended with it
                await self._background.compressing.ended()
                await self._metrics.flush()
                await self._store.close()
                for part in self._parts.owned:
                    await part.close()
            self._state = "closed"

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @staticmethod
    def closed_error() -> StoreUnavailable:
        return StoreUnavailable("store_closed", "This memory is closed.", retryable=False)

    async def _ready(self) -> None:
        if self._state != "open":
            await self.open()

    # The log

    async def add(
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
        await self._ready()
        long = isinstance(content, str) and len(content) > LONG
        waiting = (
            await asyncio.to_thread(self.submit, conversation, [fields])
            if long
            else self.submit(conversation, [fields])
        )
        stored = await asyncio.wrap_future(waiting)
        self.notice()
        return stored[0].message

    async def add_many(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Store many messages in one transaction; known ids are skipped. All are returned as they are stored."""
        await self._ready()
        stored = await asyncio.wrap_future(self.submit(conversation, list(messages)))
        self.notice()
        return [item.message for item in stored]

    def submit(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> Future[list[Appended]]:
        """The write path of an open memory, from any thread: both faces wait for its future.

        The sync face would otherwise pay two more thread switches through the event loop for every message.
        """
        identity(conversation, "conversation")
        now = self._clock.now()
        checked = [self._draft(fields, now, place) for place, fields in enumerate(messages)]
        if not checked:
            nothing: Future[list[Appended]] = Future()
            nothing.set_result([])
            return nothing
        return self._store.submit(self._principal, conversation, checked, now=now)

    def notice(self) -> None:
        """Messages were stored here: the worker need not wait for its next look."""
        self._background.notify()

    def _draft(self, fields: Mapping[str, Any], now: datetime, place: int) -> Draft:
        if not isinstance(fields, Mapping):
            raise InvalidInput("invalid_message", f"Message {place} is not a mapping with role and content.")
        return drafts.make_draft(fields, now=now, new_id=new_id(now))

    async def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Every message ever, in the order of seq; or the newest `limit` of those below seq `before`."""
        identity(conversation, "conversation")
        arguments.number(before, "before", least=0)
        arguments.number(limit, "limit", least=0)
        await self._ready()
        return await self._store.history(self._principal, conversation, before=before, limit=limit)

    async def conversations(self) -> list[Conversation]:
        """The person's conversations, the latest first."""
        await self._ready()
        return await self._store.conversations(self._principal)

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        zone: str | None = None,
    ) -> Conversation:
        """Give a conversation a title, tags, or the time zone in which its times and days are read."""
        identity(conversation, "conversation")
        changes: dict[str, Any] = {}
        if title is not None:
            changes["title"] = arguments.title(title)
        if tags is not None:
            changes["tags"] = arguments.tags(tags)
        if zone is not None:
            changes["zone"] = times.load_zone(zone).key
        await self._ready()
        changed = await self._store.update_conversation(self._principal, conversation, **changes)
        if self._recalling is not None and zone is not None:
            self._recalling.scopes.forget()
        return changed

    # Recall

    async def recall(
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
        asked = arguments.query(query)
        if conversation is not None:
            identity(conversation, "conversation")
        if banks is not None:
            raise InvalidInput("banks_unknown", "There are no banks yet.")
        arguments.number(limit, "limit", least=0, needed=True)
        arguments.number(budget, "budget", least=0)
        moment, (start, stop) = arguments.moment(at, "at"), arguments.period(since, until)
        await self._ready()
        found = await self._recaller.recall(
            self._principal,
            asked,
            conversation=conversation,
            limit=limit,
            budget=budget,
            count=tokenizer_for(COUNTER).count if budget is not None else None,
            at=moment,
            since=start,
            until=stop,
        )
        self._metrics.note(self._principal, found.metrics, self._clock.now())
        return found

    async def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        model: str = "gpt-4o-mini",
        at: datetime | str | None = None,
    ) -> Context:
        """The smallest prompt that still holds what matters for the query, within a hard budget of tokens.

        `model` only names how tokens are counted. The query is not stored; it comes last even if it is stored already.
        """
        identity(conversation, "conversation")
        asked = arguments.query(query)
        arguments.number(budget, "budget", least=0)
        moment = arguments.moment(at, "at")
        if not isinstance(model, str):
            raise InvalidInput("invalid_model", "`model` is the name of a model.")
        await self._ready()
        system = None if system_prompt is None else arguments.query(system_prompt)
        if system is not None and self._current.now.compress_tokens_above:
            size = tokenizer_for(COUNTER).count(system)
            self._background.compressing.note_prompt(self._principal, conversation, size)
        context, metrics = await self._prompting.context(
            self._principal,
            conversation,
            asked,
            system_prompt=system,
            budget=self._current.now.memory_prompt_token_budget if budget is None else budget,
            tokenizer=tokenizer_for(model),
            at=moment,
        )
        self._metrics.note(self._principal, metrics, self._clock.now())
        return context

    async def similar(self, conversation: str, query: str, *, limit: int = 3) -> list[Similar]:
        """Earlier questions of the person like this one, in other conversations, with their age."""
        identity(conversation, "conversation")
        asked = arguments.query(query)
        arguments.number(limit, "limit", least=0, needed=True)
        await self._ready()
        return await self._recaller.similar(self._principal, conversation, asked, limit=limit, now=self._clock.now())

    # The brief

    async def brief(self, conversation: str, *, version: int | None = None) -> Brief | None:
        """The compressed memory of what is older than the tail: the newest version or another, or None."""
        identity(conversation, "conversation")
        arguments.number(version, "version", least=1)
        await self._ready()
        return await self._background.compressing.brief(self._principal, conversation, version)

    async def brief_versions(self, conversation: str) -> list[JsonObject]:
        """All versions of a brief, oldest first: version, through_seq, messages, created_at, model."""
        identity(conversation, "conversation")
        await self._ready()
        return await self._store.briefs.versions(self._principal, conversation)

    async def compress(self, conversation: str, *, force: bool = False) -> Brief | None:
        """Fold what is due into the brief now. The new brief, or None if nothing is due.

        With `force`, everything but the newest turns is folded, whatever the triggers say.
        """
        identity(conversation, "conversation")
        if not isinstance(force, bool):
            raise InvalidInput("invalid_force", "`force` is true or false.")
        await self._ready()
        await self._current.refresh()
        return await self._background.compressing.compress(self._principal, conversation, force=force)

    async def metrics(self, *, since: datetime | str | None = None) -> JsonObject:
        """How recall fared in the last 30 days: counts, times by stage, hit rate, budget use."""
        start = arguments.moment(since, "since") or self._clock.now() - KEPT
        await self._ready()
        await self._metrics.flush()
        rows = await self._store.recalls(self._principal, since=start)
        return summarise([json.loads(row["metrics"]) for row in rows])

    async def tune(self, labelled: Labels, *, apply: bool = False, step: float = 0.1) -> Tuned:
        """Look for weights that rank labelled questions better, by NDCG@5; `apply` puts better ones in force.

        `labelled` are mappings, or a file, with `query`, `relevant` (ids of messages) and perhaps `conversation`. The
        weights are alpha, beta and gamma of recall; all that add up to 1 in such a `step` are tried.
        """
        from recollect.recall import measuring, tuning

        questions = await asyncio.to_thread(measuring.read_labels, labelled)
        measuring.require_vectors(await self.drain())
        tuner = tuning.Tuner(self._recaller, self._current.now)
        tuned = await tuner.tune(self._principal, questions, step=step)
        if not (apply and tuned.improves):
            return tuned
        await self.change_settings(**tuned.settings)
        return replace(tuned, applied=True)

    async def bench(self, labelled: Labels | None = None, *, sample: int = 100) -> Measured:
        """How well recall finds what it should, beside plainer ways, and how long it takes.

        `labelled` is what `tune` takes. Without it, questions are made of rare words of up to `sample` own messages:
        that shows whether messages are found again by their words, not whether questions in other words are answered.
        """
        from recollect.recall import measuring

        arguments.number(sample, "sample", least=1, needed=True)
        questions = None if labelled is None else await asyncio.to_thread(measuring.read_labels, labelled)
        await self.drain()
        if questions is None:
            return await measuring.measure_known_items(self._recaller, self._principal, sample)
        return await measuring.measure(self._recaller, self._principal, questions)

    @property
    def _recaller(self) -> Recaller:
        """Made when first asked for: it brings numpy."""
        if self._recalling is None:
            from recollect.recall.recaller import Recaller

            self._recalling = Recaller(self._store, self._clock, self._embedders, lambda: self._current.now)
        return self._recalling

    @property
    def _prompting(self) -> Prompting:
        from recollect.recall.prompting import Prompting

        return Prompting(self._store, self._recaller, lambda: self._current.now)

    # Derived work

    async def drain(self, *, timeout: float | None = None, briefs: bool = True) -> Done:
        """Do all derived work now, or for so many seconds. Returns what was done, and whether anything is left.

        Without `briefs` only what recall needs is done: writing a brief may take a model's time.
        """
        arguments.timeout(timeout)
        await self._ready()
        await self._current.refresh()
        return await self._background.drain(timeout, briefs=briefs)

    async def rebuild(self, *, conversation: str | None = None, everyone: bool = False) -> Done:
        """Make derived rows anew from the log: of one conversation, of the person, or of the whole database."""
        if conversation is not None:
            identity(conversation, "conversation")
            if everyone:
                raise InvalidInput("invalid_scope", "Rebuild either one conversation or everyone's.")
        await self._ready()
        if everyone:
            await self._store.rewind_everything()
        else:
            await self._store.rewind(self._principal, conversation)
        return await self._background.drain()

    async def work_until(self, stop: asyncio.Event) -> None:
        """Do everyone's derived work until told to stop: what `recollect worker` runs."""
        await self._ready()
        task = self._task or asyncio.create_task(self._background.run(), name="recollect-worker")
        await stop.wait()
        self._background.stop()
        await task

    # Settings

    async def settings(self) -> Settings:
        """The settings in force."""
        await self._ready()
        return await self._current.refresh()

    async def setting_origins(self) -> dict[str, str]:
        """For each setting where its value comes from: constructor, stored, environment, file or default."""
        await self.settings()
        return self._current.origins

    async def change_settings(self, **changes: Any) -> Settings:
        """Change settings now and for later; None takes a change back. Other processes follow by themselves."""
        await self._ready()
        return await self._current.change(changes)

    # In and out

    async def export(self, target: str | os.PathLike[str]) -> int:
        """Write everything the person has to a file of NDJSON. Returns the number of messages."""
        await self._ready()
        return await transfer.export(self._store, self._principal, Path(target))

    async def import_file(
        self,
        source: str | os.PathLike[str],
        *,
        format: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Read a file of our own or of another program. The same file again adds nothing."""
        await self._ready()
        importer = transfer.Importer(
            self._store, self._principal, self._clock, database=self._parts.database, dry_run=dry_run
        )
        result = await importer.run(
            Path(source), format=format, record_limit=self._current.now.import_record_bytes, progress=progress
        )
        self._background.notify()
        return result

    async def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a consistent copy to a new SQLite file, which can be opened or restored; writers go on meanwhile."""
        await self._ready()
        await self._store.backup(Path(target))

    async def restore(self, source: str | os.PathLike[str], *, save_to: str | os.PathLike[str] | None = None) -> None:
        """Replace everything in the database, everyone's, by what a backup holds.

        With `save_to`, what is replaced is first written to a backup of its own; no message can slip in between.
        """
        await self._ready()
        saved = None if save_to is None else Path(save_to)
        await self._store.restore(Path(source), now=self._clock.now(), save_to=saved)
        self._embedding.reset()
        if self._recalling is not None:
            self._recalling.briefs.forget()
        self._background.notify()

    # Erasing

    async def erase(
        self,
        *,
        conversation: str | None = None,
        person: str | None = None,
        day: str | None = None,
        message: str | None = None,
    ) -> Receipt:
        """Delete a conversation, a message, a local day or everything of the person, down to the bytes.

        `conversation` may narrow `message` and `day`. Returns when the bytes are gone, or says what is pending.
        """
        scope = arguments.erase_scope(
            self._principal.person, conversation=conversation, person=person, day=day, message=message
        )
        await self._ready()
        await self._metrics.flush()  # so that nothing of the person is written after the erase
        return await erasure.erase(self._store, self._principal, scope, now=self._clock.now())

    # Health

    async def stats(self) -> JsonObject:
        """Counts and sizes of what the person has."""
        await self._ready()
        return await self._store.stats(self._principal)

    async def check(self) -> list[Finding]:
        """Look for damage and for what is not as it should be; `recollect doctor` prints it."""
        await self._ready()
        await self._current.refresh()
        return await health.examine(self._store, self._principal, self._embedders, counter=COUNTER)
