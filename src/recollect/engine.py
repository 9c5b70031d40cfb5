"""AsyncMemory: the use cases. Each reads, decides in core, and makes one store write; `Memory` is its sync face."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recollect import transfer
from recollect.chores import CountTokens, FinishErasures, FreeLeases, IndexWords, TidyStore
from recollect.compose import compose
from recollect.core import drafts, times
from recollect.core.errors import InvalidInput, RecollectError, StoreUnavailable
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
from recollect.core.text import TITLE_LIMIT, identity, storable
from recollect.embedding import Embedders, EmbedMessages
from recollect.evidence import count_remaining
from recollect.holders import new_holder
from recollect.ids import new_id
from recollect.metrics import KEPT, RecallMetrics, summarise
from recollect.providers.tokenizer import tokenizer_for
from recollect.settings import Settings, checked_changes, layer
from recollect.sql.driver import Purged
from recollect.worker import Track, Worker

if TYPE_CHECKING:
    from recollect.recall.measuring import Labels, Measured
    from recollect.recall.recaller import Recaller
    from recollect.recall.tuning import Tuned

log = logging.getLogger(__name__)
COUNTER = "o200k_base"
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
        settings: Settings | None = None,
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
        self._layered = layer(self._parts.given, {}, self._parts.environment, self._parts.file)
        self._embedders = Embedders(self._parts.embedder, patience=2 * self._settings.provider_timeout_seconds)
        self._metrics = RecallMetrics(self._store, self._clock)
        self._recalling: Recaller | None = None
        self._embedding = EmbedMessages(
            self._store, self._clock, self._embedders, lambda: self._settings.backfill_chunks
        )
        self._worker = Worker(
            self._store,
            self._clock,
            holder=new_holder(self._clock.now()),
            tracks=[
                Track("worked", [IndexWords(self._store), CountTokens(self._store, lambda: tokenizer_for(COUNTER))]),
                Track("embedded", [self._embedding], slice=128, side_by_side=2, whole=False),
            ],
            upkeep=[
                FinishErasures(self._store),
                FreeLeases(self._store),
                TidyStore(self._store, self._clock),
                self._metrics,
                self._embedding,
            ],
            lease=lambda: timedelta(seconds=self._settings.worker_lease_seconds),
        )
        self._background = worker
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._state = "new"
        self._overridden: set[str] = set()  # settings changed here since the constructor spoke

    # Opening and closing

    async def open(self) -> Self:
        """Connect and bring the schema up to date. Called by whatever is used first."""
        async with self._opening:
            if self._state == "closed":
                raise self.closed_error()
            if self._state == "new":
                try:
                    await self._store.open(self._clock.now())
                    await self._refresh_settings()
                except BaseException:
                    await self._store.close()
                    self._state = "closed"
                    raise
                self._state = "open"
                if self._background:
                    self._task = asyncio.create_task(self._work(), name="recollect-worker")
        return self

    async def close(self) -> None:
        """Let running work come to a stop, then let go of the database."""
        async with self._opening:
            if self._state == "open":
                self._worker.stop()
                if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
                    await self._task  # that of an earlier loop ended with it
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

    async def _work(self) -> None:
        def poll() -> float:
            return self._settings.worker_poll_seconds

        await self._worker.run(poll, before=self._refresh_settings)

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
        self._worker.notify()

    def _draft(self, fields: Mapping[str, Any], now: datetime, place: int) -> Draft:
        if not isinstance(fields, Mapping):
            raise InvalidInput("invalid_message", f"Message {place} is not a mapping with role and content.")
        return drafts.make_draft(fields, now=now, new_id=new_id(now))

    async def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Every message ever, in the order of seq; or the newest `limit` of those below seq `before`."""
        identity(conversation, "conversation")
        _check_number(before, "before", least=0)
        _check_number(limit, "limit", least=0)
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
            changes["title"] = _title(title)
        if isinstance(tags, str):
            raise InvalidInput("invalid_tag", "`tags` takes a list of texts.")
        if tags is not None:
            changes["tags"] = [identity(tag, "tag") for tag in tags]
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
        asked = self._query(query)
        if conversation is not None:
            identity(conversation, "conversation")
        if banks is not None:
            raise InvalidInput("banks_unknown", "There are no banks yet.")
        _check_number(limit, "limit", least=0, needed=True)
        _check_number(budget, "budget", least=0)
        moments = [_moment(value, name) for name, value in (("at", at), ("since", since), ("until", until))]
        if moments[1] is not None and moments[2] is not None and moments[1] > moments[2]:
            raise InvalidInput("invalid_period", "`since` lies after `until`.")
        await self._ready()
        found = await self._recaller.recall(
            self._principal,
            asked,
            conversation=conversation,
            limit=limit,
            budget=budget,
            count=tokenizer_for(COUNTER).count if budget is not None else None,
            at=moments[0],
            since=moments[1],
            until=moments[2],
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
        asked = self._query(query)
        _check_number(budget, "budget", least=0)
        moment = _moment(at, "at")
        if not isinstance(model, str):
            raise InvalidInput("invalid_model", "`model` is the name of a model.")
        await self._ready()
        made = await self._recaller.context(
            self._principal,
            conversation,
            asked,
            system_prompt=None if system_prompt is None else self._query(system_prompt),
            budget=self._settings.memory_prompt_token_budget if budget is None else budget,
            tokenizer=tokenizer_for(model),
            at=moment,
        )
        context, metrics = made
        self._metrics.note(self._principal, metrics, self._clock.now())
        return context

    async def similar(self, conversation: str, query: str, *, limit: int = 3) -> list[Similar]:
        """Earlier questions of the person like this one, in other conversations, with their age."""
        identity(conversation, "conversation")
        asked = self._query(query)
        _check_number(limit, "limit", least=0, needed=True)
        await self._ready()
        return await self._recaller.similar(self._principal, conversation, asked, limit=limit, now=self._clock.now())

    async def metrics(self, *, since: datetime | str | None = None) -> JsonObject:
        """How recall fared in the last 30 days: counts, times by stage, hit rate, budget use."""
        start = _moment(since, "since") or self._clock.now() - KEPT
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
        tuner = tuning.Tuner(self._recaller, self._settings)
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

        _check_number(sample, "sample", least=1, needed=True)
        questions = None if labelled is None else await asyncio.to_thread(measuring.read_labels, labelled)
        await self.drain()
        if questions is None:
            return await measuring.measure_known_items(self._recaller, self._principal, sample)
        return await measuring.measure(self._recaller, self._principal, questions)

    def _query(self, text: str) -> str:
        if not isinstance(text, str):
            raise InvalidInput("invalid_query", "A query or a system prompt is a text.")
        return storable(text)[0]

    @property
    def _recaller(self) -> Recaller:
        """Made when first asked for: it brings numpy."""
        if self._recalling is None:
            from recollect.recall.recaller import Recaller

            self._recalling = Recaller(self._store, self._clock, self._embedders, lambda: self._settings)
        return self._recalling

    # Derived work

    async def drain(self, *, timeout: float | None = None) -> Done:
        """Do all derived work now, or for so many seconds. Returns what was done, and whether anything is left."""
        if timeout is not None and not _is_duration(timeout):
            raise InvalidInput("invalid_timeout", "`timeout` is a number of seconds from 0 on.")
        await self._ready()
        await self._refresh_settings()
        return await self._worker.drain(timeout)

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
        return await self._worker.drain()

    async def work_until(self, stop: asyncio.Event) -> None:
        """Do everyone's derived work until told to stop: what `recollect worker` runs."""
        await self._ready()
        task = self._task or asyncio.create_task(self._work(), name="recollect-worker")
        await stop.wait()
        self._worker.stop()
        await task

    # Settings

    @property
    def _settings(self) -> Settings:
        return self._layered.settings

    async def settings(self) -> Settings:
        """The settings in force."""
        await self._ready()
        await self._refresh_settings()
        return self._settings

    async def change_settings(self, **changes: Any) -> Settings:
        """Change settings now and for later; None takes a change back. Other processes follow by themselves."""
        await self._ready()
        await self._refresh_settings()
        texts = checked_changes(self._settings, changes)
        await self._store.change_settings(self._principal, texts, now=self._clock.now())
        self._overridden |= {name for name, text in texts.items() if text is not None}
        self._overridden -= {name for name, text in texts.items() if text is None}
        await self._refresh_settings()
        return self._settings

    async def _refresh_settings(self) -> None:
        stored = await self._store.settings(self._principal)
        given = self._parts.given
        if given is not None and self._overridden:  # a change made here counts more than what the constructor said
            given = Settings(**given.model_dump(include=given.model_fields_set - self._overridden))
        self._layered = layer(given, stored, self._parts.environment, self._parts.file)

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
        own = self._parts.database
        if own is not None and await asyncio.to_thread(_is_same_file, Path(source), own):
            raise InvalidInput("own_database", "This is the database itself; `restore` takes backups.")
        importer = transfer.Importer(self._store, self._principal, self._clock, dry_run=dry_run)
        result = await importer.run(
            Path(source), format=format, record_limit=self._settings.import_record_bytes, progress=progress
        )
        self._worker.notify()
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
        self._worker.notify()

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
        scope = self._scope(conversation=conversation, person=person, day=day, message=message)
        await self._ready()
        now = self._clock.now()
        receipt_id = new_id(now)
        await self._metrics.flush()  # so that nothing of the person is written after the erase
        counts, samples = await self._store.erase(
            self._principal,
            id=receipt_id,
            now=now,
            conversation=conversation,
            message=message,
            day=None if day is None else times.parse_day(day),
        )
        try:
            purged = await self._store.purge()
        except StoreUnavailable as error:  # the rows are gone all the same: say so, and let the worker finish
            log.warning("erased rows may still be in the files: %s", error.code)
            purged = Purged(pending=True)
        remaining = await count_remaining(self._store, purged.files, samples)
        pending = purged.pending or remaining > 0
        if not pending:
            await self._store.finish_erasures([receipt_id])
        return Receipt(
            id=receipt_id, scope=scope, counts=counts, at=now, files=purged.files,
            remaining=remaining, pending=pending, kept_elsewhere=purged.kept_elsewhere,
        )  # fmt: skip

    def _scope(self, **wanted: str | None) -> JsonObject:
        """Exactly one thing to erase: an empty scope would mean everything, so it is refused."""
        scope = {name: value for name, value in wanted.items() if value is not None}
        for name, value in scope.items():
            if name != "day":
                identity(value, name if name != "message" else "id")
        if not scope or ("person" in scope and len(scope) > 1) or {"day", "message"} <= scope.keys():
            raise InvalidInput("invalid_scope", "Name one thing to erase: a conversation, person, day or message.")
        if scope.get("person", self._principal.person) != self._principal.person:
            raise InvalidInput("invalid_scope", "A person is erased by a memory opened for that person.")
        return scope

    # Health

    async def stats(self) -> JsonObject:
        """Counts and sizes of what the person has."""
        await self._ready()
        return await self._store.stats(self._principal)

    async def check(self) -> list[Finding]:
        """Look for damage and for what is not as it should be; `recollect doctor` prints it."""
        await self._ready()
        await self._refresh_settings()
        found = await self._store.examine()
        tokenizer = await asyncio.to_thread(tokenizer_for, COUNTER)
        if tokenizer.exact:
            found.append(Finding("tokens", "ok", f"counted exactly with {tokenizer.name}"))
        else:
            found.append(Finding("tokens", "warning", "token counts are estimates", "reinstall recollect"))
        pending = len(await self._store.pending_erasures())
        if pending:
            detail = f"{pending} erasures wait for another process to let go of old pages"
            found.append(Finding("erasures", "warning", detail, "close other programs on the file, run the worker"))
        due = (await self._store.stats(self._principal))["due"]
        state = f"{due} conversations wait for derived work" if due else "nothing is missing"
        return [*found, Finding("work", "ok", state), await self._check_embedder()]

    async def _check_embedder(self) -> Finding:
        name, dimensions = self._embedders.identity
        try:
            await self._embedders.embed(self._embedders.current, ["hello"])
        except RecollectError as error:
            fix = "look at its address and key; until it answers, messages are found by words"
            return Finding("embedder", "warning", f"{name} does not answer: {error} [{error.code}]", fix)
        return Finding("embedder", "ok", f"{name} answers, {dimensions} dimensions")

    async def setting_origins(self) -> dict[str, str]:
        """For each setting where its value comes from: constructor, stored, environment, file or default."""
        await self._ready()
        await self._refresh_settings()
        return dict(self._layered.origins)


def _is_same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _moment(value: datetime | str | None, name: str) -> datetime | None:
    return None if value is None else times.in_zone(times.parse_moment(value, name), "UTC")


def _check_number(value: object, what: str, *, least: int, needed: bool = False) -> None:
    if (needed or value is not None) and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InvalidInput(f"invalid_{what}", f"`{what}` is a whole number from {least} on.")


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _title(title: object) -> str:
    if not isinstance(title, str) or len(title) > TITLE_LIMIT:
        raise InvalidInput("invalid_title", f"A title is text of at most {TITLE_LIMIT} characters.")
    return storable(title)[0]
