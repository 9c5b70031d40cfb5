"""Chat: store what the person says, build the context, let the model answer, store the answer.

An answer is written by a task of its own: it goes on when nobody listens any more, and ends when it is stopped. The
worker is told only when the answer is stored, so that nothing it does competes with the first words.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from recollect.chat import answers
from recollect.chat.answers import Prompt
from recollect.core import assistant
from recollect.core.answer_pieces import Answer
from recollect.core.errors import Conflict, InvalidInput, NotFound, RecollectError
from recollect.core.history_match import FOLLOWS
from recollect.core.models import JsonObject, Message, Record
from recollect.core.text import digest, identity
from recollect.memory import AsyncMemory
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)

Mode = Literal["on", "read", "off"]
LOOK: Final = 0.5  # seconds between looks whether another process was told to stop
RECENT: Final = 100  # messages among which the last question is looked for


@dataclass(frozen=True, slots=True)
class Ask(Record):
    """What somebody wants answered. `memory` is on, read (use it, store nothing) or off (neither: temporary).

    With `retry` the last question is answered once more. `history` are turns that the caller keeps himself where
    nothing is stored.
    """

    conversation: str
    content: str = ""
    model: str | None = None
    id: str | None = None
    system_prompt: str | None = None
    budget: int | None = None
    retry: bool = False
    memory: Mode = "on"
    history: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Event(Record):
    """`sources`, then `delta`s, perhaps an `error`, at last `done`."""

    name: str
    data: JsonObject


@dataclass(slots=True)
class _Writing:
    """What is known of an answer while it is written."""

    text: str
    model: str
    question: Message | None = None
    prompt: Prompt | None = None
    answer: Answer = field(default_factory=Answer)
    began: float = field(default_factory=time.perf_counter)
    first: float | None = None
    error: RecollectError | None = None

    def ms(self) -> JsonObject:
        total = (time.perf_counter() - self.began) * 1000
        first = None if self.first is None else round((self.first - self.began) * 1000, 1)
        return {"context": round(self.prompt.ms, 1) if self.prompt else None, "first": first, "total": round(total, 1)}


class Run:
    """One answer that is being written. Any number of listeners hear all of it, from the beginning."""

    def __init__(self, began: datetime, id: str | None = None) -> None:
        self.began, self.id = began, id  # the id of the question, if the caller gave it
        self.stopped = False
        self.task: asyncio.Task[None] | None = None  # all of it,
        self.writing: asyncio.Task[None] | None = None  # and the part that can be stopped
        self._events: list[Event] = []
        self._news = asyncio.Event()
        self._ended = False

    def tell(self, name: str, data: JsonObject) -> None:
        self._events.append(Event(name, data))
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def fail(self, error: BaseException) -> None:
        """It never began: who listens already is told so."""
        known = error if isinstance(error, RecollectError) else RecollectError("unexpected", "It could not begin.")
        self.tell("error", _problem(known))
        self.end()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def events(self) -> AsyncIterator[Event]:
        heard = 0
        while True:
            news = self._news
            while heard < len(self._events):
                yield self._events[heard]
                heard += 1
            if self._ended:
                return
            if news is self._news:
                await news.wait()

    def stop(self) -> None:
        """What was written so far is kept."""
        if self._ended or (self.writing is not None and self.writing.done()):
            return  # it is being stored, and told
        self.stopped = True
        if self.writing is not None:
            self.writing.cancel()


class Chats:
    """The answers that are being written on one database, in this process."""

    def __init__(self, memory: AsyncMemory, *, observe: Callable[[JsonObject], None] = lambda _: None) -> None:
        """Every answer that ends is `observe`d: figures and names, no content."""
        self._upstream, self._observe = memory.upstream, observe
        self._memory = memory
        self._running: dict[tuple[str, str], set[Run]] = {}
        self._watching: asyncio.Task[None] | None = None

    def running(self, person: str) -> int:
        return sum(len(runs) for (owner, _), runs in self._running.items() if owner == person)

    async def start(self, memory: AsyncMemory, ask: Ask) -> Run:
        """Begin an answer. The question is stored when this returns; what fails later is told by events.

        The same question, by its id, is not answered twice: whoever asks again hears what is or was written.
        """
        identity(ask.conversation, "conversation")
        place = (memory.principal.person, ask.conversation)
        for known in self._running.get(place, ()):
            if ask.id is not None and known.id == ask.id:
                return known
        if not ask.retry and not ask.content.strip():
            raise InvalidInput("empty_content", "There is nothing to answer.")
        model = assistant.NAME if answers.is_built_in(self._upstream, ask.model) else ask.model or self._default
        if ask.retry and ask.memory != "on":
            raise InvalidInput("nothing_to_retry", "Where nothing is stored there is nothing to retry.")
        writing, run = _Writing(ask.content, model), Run(memory.clock.now(), ask.id)
        self._running.setdefault(place, set()).add(run)  # before anything is waited for: who asks again hears this one
        try:
            answered = await self._question(memory, ask, writing) if ask.memory == "on" else None
        except BaseException as error:
            self._forget(place, run)
            run.fail(error)
            raise
        if answered is not None:
            self._forget(place, run)
            return _told_again(answered, writing, run)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="recollect-stops")
        run.task = asyncio.create_task(self._write(run, memory, ask, writing), name="recollect-chat")
        return run

    async def stop(self, memory: AsyncMemory, conversation: str) -> int:
        """Stop the answers of a conversation: here at once, in other processes within a moment."""
        identity(conversation, "conversation")
        runs = list(self._running.get((memory.principal.person, conversation), ()))
        for run in runs:
            run.stop()
        await memory.store.serving.stop(memory.principal, digest(conversation), now=memory.clock.now())
        return len(runs)

    async def close(self, patience: float) -> None:
        """Let answers come to an end; those that take longer are stopped, and what they have is stored."""
        runs = [run for some in self._running.values() for run in some]
        tasks = [run.task for run in runs if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
            for run in runs:
                run.stop()
            await asyncio.wait(tasks, timeout=patience)
        if self._watching is not None:
            self._watching.cancel()

    @property
    def _default(self) -> str:
        return self._upstream.default if self._upstream is not None else assistant.NAME

    # The question

    async def _question(self, memory: AsyncMemory, ask: Ask, writing: _Writing) -> Message | None:
        """Store it, or find the one that is tried again. Returns the answer, if it was answered before."""
        await memory.open()
        if ask.retry:
            newest = await memory.history(ask.conversation, limit=RECENT)
            asked = [message for message in newest if message.role == "user"]
            if not asked:
                raise NotFound("nothing_to_retry", "There is no question here that could be answered again.")
            writing.question, writing.text = asked[-1], asked[-1].content
            return None if ask.id is None else await memory.find_message(ask.conversation, answer_id(ask.id))
        fields = {"role": "user", "content": ask.content, "id": ask.id}
        (stored,) = await memory.put(ask.conversation, [fields])
        writing.question = stored.message
        if stored.created:
            return None
        if stored.message.role != "user" or stored.message.content != ask.content:
            raise Conflict("id_taken", "Another message has this id.")
        return await memory.find_message(ask.conversation, answer_id(stored.message.id))

    # The answer

    async def _write(self, run: Run, memory: AsyncMemory, ask: Ask, writing: _Writing) -> None:
        try:
            run.writing = asyncio.create_task(self._answer(run, memory, ask, writing))
            if run.stopped:
                run.writing.cancel()
            try:
                await run.writing
            except asyncio.CancelledError:
                if not run.stopped:
                    run.writing.cancel()
                    raise
            except Exception as error:  # noqa: BLE001 - the border of a task: it is told to who listens
                writing.error = _known(error, "an answer")
            await self._finish(run, memory, ask, writing)
        finally:
            run.end()
            self._forget((memory.principal.person, ask.conversation), run)
            memory.notice()

    def _forget(self, place: tuple[str, str], run: Run) -> None:
        runs = self._running.get(place, set())
        runs.discard(run)
        if not runs:
            self._running.pop(place, None)

    async def _answer(self, run: Run, memory: AsyncMemory, ask: Ask, writing: _Writing) -> None:
        writing.prompt = prompt = await self._prompt(memory, ask, writing)
        question = writing.question.to_dict() if writing.question is not None else None
        run.tell(
            "sources",
            {"message": question, "model": writing.model, "context": prompt.summary(), "sources": prompt.sources},
        )
        if self._upstream is None or writing.model == assistant.NAME:
            text = await answers.quotes(memory, ask.conversation, writing.text, recall=ask.memory != "off")
            for piece in assistant.pieces(text):
                self._say(run, writing, piece)
                writing.answer.content += piece
            writing.answer.finish_reason = "stop"
            return
        request = {"model": writing.model, "messages": prompt.messages}
        async for piece in answers.pieces(self._upstream, request, writing.answer):
            self._say(run, writing, piece)

    async def _prompt(self, memory: AsyncMemory, ask: Ask, writing: _Writing) -> Prompt:
        settings = await memory.settings()
        system = settings.chat_system_prompt if ask.system_prompt is None else ask.system_prompt
        if ask.memory == "off":
            return answers.prompt_of_history(writing.text, ask.history, system or None)
        before = writing.question.seq if writing.question is not None else None
        prompt = await answers.prompt_from_memory(
            memory, ask.conversation, writing.text, system_prompt=system or None, budget=ask.budget, before=before
        )
        if ask.history and ask.memory == "read":
            prompt.add_history(ask.history)
        return prompt

    @staticmethod
    def _say(run: Run, writing: _Writing, piece: str) -> None:
        if writing.first is None:
            writing.first = time.perf_counter()
        run.tell("delta", {"content": piece})

    async def _watch(self) -> None:
        """Whether somebody asked another process to stop what is written here; one look for all answers."""
        since = self._memory.clock.now()
        while self._running:
            await asyncio.sleep(LOOK)
            with suppress(RecollectError):
                stops = await self._memory.store.serving.stops(since=since)
                wanted = {(person, name): at for person, name, at in stops}
                for (person, conversation), runs in list(self._running.items()) if wanted else ():
                    at = wanted.get((person, digest(conversation)))
                    for run in list(runs):
                        if at is not None and run.began <= at:
                            run.stop()

    async def _finish(self, run: Run, memory: AsyncMemory, ask: Ask, writing: _Writing) -> None:
        """Store what there is, and say how it went."""
        answer, error, message = writing.answer, writing.error, None
        if run.stopped:
            answer.finish_reason = "stopped"
        content = answer.content or answer.refusal
        if ask.memory == "on" and content and writing.question is not None:
            try:
                message = await self._store(memory, ask, writing, content, stopped=run.stopped)
            except Exception as failure:  # noqa: BLE001 - as above
                error = error or _known(failure, "storing an answer")
        if error is not None:
            run.tell("error", _problem(error))
        done = {
            "message": None if message is None else message.to_dict(), "model": writing.model,
            "finish_reason": "error" if error is not None else answer.finish_reason, "usage": answer.usage,
            "ms": writing.ms(), "stopped": run.stopped, "error": None if error is None else _problem(error),
        }  # fmt: skip
        run.tell("done", done)
        figures = {name: done[name] for name in ("model", "finish_reason", "ms", "stopped")}
        self._observe(figures | {"error": error.code if error is not None else None, "characters": len(content)})

    async def _store(self, memory: AsyncMemory, ask: Ask, writing: _Writing, content: str, *, stopped: bool) -> Message:
        question = writing.question
        assert question is not None  # noqa: S101 - asked for by the caller
        told: JsonObject = {"answers": question.id}
        if ask.retry:
            told[FOLLOWS] = question.id
        if stopped:
            told["incomplete"] = "stopped"
        elif writing.error is not None:
            told["incomplete"] = writing.error.code
        elif writing.answer.finish_reason == "length":
            told["incomplete"] = "length"
        asked = ask.id if ask.retry else question.id
        fields = {
            "role": "assistant", "content": content, "id": None if asked is None else answer_id(asked),
            "model_variant": writing.answer.model or writing.model, "metadata": told,
        }  # fmt: skip
        (stored,) = await memory.put(ask.conversation, [fields])
        return stored.message


def answer_id(question: str) -> str:
    """Of the first answer to a question: so that it is stored once, whatever happens in between."""
    return "a-" + hashlib.sha256(question.encode()).hexdigest()[:40]


def _told_again(answer: Message, writing: _Writing, run: Run) -> Run:
    """A question that was answered before, heard once more."""
    question = writing.question
    shown = question.to_dict() if question is not None else None
    context: JsonObject = {"tokens": 0, "budget": None, "ms": 0.0, "degraded": []}
    run.tell("sources", {"message": shown, "model": answer.model_variant, "context": context, "sources": []})
    run.tell("delta", {"content": answer.content})
    missing = (answer.metadata or {}).get("incomplete")
    reason = missing if missing in (None, "stopped", "length") else "error"
    done = {
        "message": answer.to_dict(),
        "model": answer.model_variant,
        "finish_reason": reason or "stop",
        "usage": None,
    }
    run.tell("done", done | {"ms": writing.ms(), "stopped": missing == "stopped", "error": None})
    run.end()
    return run


def _known(error: Exception, what: str) -> RecollectError:
    """Ours as they are; of others only that there was one."""
    if isinstance(error, RecollectError):
        return error
    log_unexpected(log, what, error)
    return RecollectError("unexpected", "Something unexpected failed; the log says where.")


def _problem(error: RecollectError) -> JsonObject:
    return {"code": error.code, "message": error.message, "retryable": error.retryable}
