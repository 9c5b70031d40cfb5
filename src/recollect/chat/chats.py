"""Chats: stores the question, builds the prompt, lets the model answer, stores the answer.

Each answer is written by a task of its own. It goes on when its listeners have gone, and ends early only when it is
stopped. The worker is woken when the answer is stored, so that derived work does not slow down the first words of the
answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from recollect.admin.server_state import SharedServerState
from recollect.chat import answers
from recollect.chat.answers import Prompt
from recollect.chat.erasure_watch import ErasureWatch
from recollect.chat.run import ChatRequest, ChatRun, error_to_json
from recollect.core import assistant
from recollect.core.answer_pieces import StreamedAnswer
from recollect.core.errors import Conflict, InvalidInput, NotFound, RecollectError, question_erased
from recollect.core.history_match import FOLLOWS_KEY
from recollect.core.message import Anchor, Message
from recollect.core.models import JsonObject
from recollect.core.text import check_identity
from recollect.memory import AsyncMemory
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)

STOP_POLL_SECONDS: Final = 0.5  # between reads of the stop marks that other processes set
RETRY_SEARCH_MESSAGES: Final = 100  # newest messages that are searched for the last question


@dataclass(slots=True)
class _AnswerState:
    """One answer in progress: the question, the prompt, what the model wrote so far, and times for the figures."""

    question_text: str
    model: str
    question: Message | None = None  # as stored; None if nothing is stored
    anchor: Anchor | None = None  # where the answer belongs; None if nothing is stored
    prompt: Prompt | None = None
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    started: float = field(default_factory=time.perf_counter)
    first_piece_at: float | None = None
    error: RecollectError | None = None

    def times(self) -> JsonObject:
        """Return milliseconds: to build the prompt, to the first piece, in total."""
        total = (time.perf_counter() - self.started) * 1000
        first = None if self.first_piece_at is None else round((self.first_piece_at - self.started) * 1000, 1)
        return {"context": round(self.prompt.ms, 1) if self.prompt else None, "first": first, "total": round(total, 1)}


class Chats:
    """Starts, tracks and stops the answers that are being written in this process."""

    def __init__(self, memory: AsyncMemory, *, observe: Callable[[JsonObject], None] = lambda _: None) -> None:
        """Call `observe` for every answer that ends, without content.

        It gets model, finish reason, times, whether the answer was stopped, error code and length in characters.
        `memory` is used for what concerns all people: the chat model and stop marks.
        """
        self._upstream, self._observe = memory.upstream, observe
        self._memory = memory
        self._running: dict[tuple[str, str], set[ChatRun]] = {}  # by person and conversation
        self._stop_watcher: asyncio.Task[None] | None = None
        self._erasures = ErasureWatch()

    def count_running(self, person: str) -> int:
        """Return how many answers are being written for a person."""
        return sum(len(runs) for (owner, _), runs in self._running.items() if owner == person)

    async def start(self, memory: AsyncMemory, request: ChatRequest) -> ChatRun:
        """Start an answer. When this returns, the question is stored; later failures are events of the run.

        `memory` is that of the person who asks. A question is answered once: a second request with the same id gets
        the events of the first.
        """
        check_identity(request.conversation, "conversation")
        key = (memory.principal.person, request.conversation)
        for running in self._running.get(key, ()):
            if request.id is not None and running.id == request.id:
                return running
        if not request.retry and not request.content.strip():
            raise InvalidInput("empty_content", "The message is empty: there is nothing to answer.")
        if request.retry and request.memory != "on":
            raise InvalidInput("nothing_to_retry", "Only a stored question can be retried: set memory to 'on'.")
        state, run = _AnswerState(request.content, self._model_for(request)), ChatRun(memory.clock.now(), request.id)
        # The run is registered before the first await, so that a repeated request finds it.
        self._running.setdefault(key, set()).add(run)
        try:
            earlier_answer = await self._store_question(memory, request, state) if request.memory == "on" else None
            if earlier_answer is None and state.question is not None:
                state.anchor = await memory.anchor(request.conversation, [state.question])
        except BaseException as error:
            self._remove(key, run)
            run.fail(error)
            raise
        if earlier_answer is not None:
            self._remove(key, run)
            _replay(earlier_answer, state, run)
            return run
        if self._stop_watcher is None or self._stop_watcher.done():
            self._stop_watcher = asyncio.create_task(self._watch_stop_marks(), name="recollect-stops")
        run.task = asyncio.create_task(self._run_to_end(run, memory, request, state), name="recollect-chat")
        return run

    def _model_for(self, request: ChatRequest) -> str:
        if self._upstream is None or answers.is_built_in(self._upstream, request.model):
            return assistant.NAME
        return request.model or self._upstream.default

    async def stop(self, memory: AsyncMemory, conversation: str) -> int:
        """Stop the answers of a conversation: here at once, in other processes after `STOP_POLL_SECONDS`.

        Returns how many were stopped here.
        """
        check_identity(conversation, "conversation")
        runs = list(self._running.get((memory.principal.person, conversation), ()))
        for run in runs:
            run.stop()
        await SharedServerState(memory).mark_stopped(conversation)
        return len(runs)

    async def close(self, grace_seconds: float) -> None:
        """Wait up to `grace_seconds`, stop the rest, and wait once more while they store partial answers."""
        runs = [run for conversation_runs in self._running.values() for run in conversation_runs]
        tasks = [run.task for run in runs if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
            for run in runs:
                run.stop()
            await asyncio.wait(tasks, timeout=grace_seconds)
        if self._stop_watcher is not None:
            self._stop_watcher.cancel()

    # The question

    async def _store_question(self, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> Message | None:
        """Store the question, or find the one to retry. Return its answer if it was answered before."""
        await memory.open()
        if request.retry:
            newest = await memory.history(request.conversation, limit=RETRY_SEARCH_MESSAGES)
            questions = [message for message in newest if message.role == "user"]
            if not questions:
                raise NotFound("nothing_to_retry", "This conversation has no question that could be answered again.")
            state.question, state.question_text = questions[-1], questions[-1].content
            if request.id is None:
                return None
            return await memory.find_message(request.conversation, answer_id(request.id))
        fields = {"role": "user", "content": request.content, "id": request.id}
        (stored,) = await memory.put(request.conversation, [fields])
        state.question = stored.message
        if stored.created:
            return None
        if stored.message.role != "user" or stored.message.content != request.content:
            raise Conflict("id_taken", "Another message of this conversation has this id; send a new id.")
        return await memory.find_message(request.conversation, answer_id(stored.message.id))

    # The answer

    async def _run_to_end(self, run: ChatRun, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> None:
        """Write the answer in a task that can be stopped, then store it and end the run, whatever happened."""
        try:
            run.writing = asyncio.create_task(self._write(run, memory, request, state))
            if run.stopped:
                run.writing.cancel()
            try:
                with self._erasures.watch(memory, state.anchor, run.end_erased):
                    await run.writing
            except asyncio.CancelledError:
                if not run.stopped:
                    run.writing.cancel()
                    raise
            except Exception as error:  # noqa: BLE001 - nothing may escape the task: listeners get an event
                state.error = _to_recollect_error(error, "an answer")
            await self._finish(run, memory, request, state)
        finally:
            run.end()
            self._remove((memory.principal.person, request.conversation), run)
            memory.notice()

    def _remove(self, key: tuple[str, str], run: ChatRun) -> None:
        runs = self._running.get(key, set())
        runs.discard(run)
        if not runs:
            self._running.pop(key, None)

    async def _write(self, run: ChatRun, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> None:
        """Publish the sources, then the answer piece by piece."""
        if self._upstream is None or state.model == assistant.NAME:
            await self._write_quotes(run, memory, request, state)
            return
        state.prompt = await self._build_prompt(memory, request, state)
        self._publish_sources(run, state)
        model_request = {"model": state.model, "messages": state.prompt.messages}
        async for piece in answers.stream_answer(self._upstream, model_request, state.answer):
            self._publish_piece(run, state, piece)

    async def _write_quotes(self, run: ChatRun, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> None:
        """Publish the built-in assistant's answer. Its sources are what it quotes."""
        quoted = await answers.quote_memory(
            memory, request.conversation, state.question_text,
            recall=request.memory != "off", is_stored=state.question is not None,
        )  # fmt: skip
        state.prompt = quoted.to_prompt(state.question_text)
        is_first = self._upstream is None and await _is_first_answer(memory, request, state.question)
        self._publish_sources(run, state, assistant.notice(state.question_text) if is_first else None)
        for piece in assistant.split_for_streaming(quoted.text):
            self._publish_piece(run, state, piece)
            state.answer.add_text(piece)
        state.answer.finish_reason = "stop"

    @staticmethod
    def _publish_sources(run: ChatRun, state: _AnswerState, notice: str | None = None) -> None:
        question = state.question.to_dict() if state.question is not None else None
        prompt = state.prompt or Prompt("")
        data = {"message": question, "model": state.model, "context": prompt.figures(), "sources": prompt.sources}
        run.publish("sources", data | {"notice": notice})

    async def _build_prompt(self, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> Prompt:
        settings = await memory.settings()
        system = settings.chat_system_prompt if request.system_prompt is None else request.system_prompt
        if request.memory == "off":
            return answers.prompt_from_history(state.question_text, request.history, system or None)
        prompt = await answers.prompt_from_memory(
            memory,
            request.conversation,
            state.question_text,
            system_prompt=system or None,
            budget=request.budget,
            before=state.question.seq if state.question is not None else None,
        )
        if request.history and request.memory == "read":
            prompt.add_history(request.history)
        return prompt

    @staticmethod
    def _publish_piece(run: ChatRun, state: _AnswerState, piece: str) -> None:
        if state.first_piece_at is None:
            state.first_piece_at = time.perf_counter()
        run.publish("delta", {"content": piece})

    async def _watch_stop_marks(self) -> None:
        """Stop the answers here that a request to another process marked as stopped. One query serves all answers."""
        since, shared = self._memory.clock.now(), SharedServerState(self._memory)
        while self._running:
            await asyncio.sleep(STOP_POLL_SECONDS)
            with suppress(RecollectError):
                stop_times = await shared.stop_times(self._running, since=since)
                for key, stopped_at in stop_times.items():
                    for run in list(self._running.get(key, ())):
                        if run.started <= stopped_at:
                            run.stop()

    async def _finish(self, run: ChatRun, memory: AsyncMemory, request: ChatRequest, state: _AnswerState) -> None:
        """Store the answer as far as it was written, and publish `done`."""
        answer, error, message = state.answer, state.error, None
        if run.stopped:
            answer.finish_reason = "stopped"
        if run.erased:
            error = question_erased()
        content = answer.content or answer.refusal
        if request.memory == "on" and content and state.question is not None and not run.erased:
            try:
                message = await self._store_answer(memory, request, state, state.question, content, run.stopped)
            except Exception as failure:  # noqa: BLE001 - nothing may escape the task: listeners get an event
                error = error or _to_recollect_error(failure, "storing an answer")
        if error is not None:
            run.publish("error", error_to_json(error))
        done = {
            "message": None if message is None else message.to_dict(), "model": state.model,
            "finish_reason": "error" if error is not None else answer.finish_reason, "usage": answer.usage,
            "ms": state.times(), "stopped": run.stopped, "error": None if error is None else error_to_json(error),
        }  # fmt: skip
        run.publish("done", done)
        figures = {name: done[name] for name in ("model", "finish_reason", "ms", "stopped")}
        self._observe(figures | {"error": error.code if error is not None else None, "characters": len(content)})

    async def _store_answer(
        self,
        memory: AsyncMemory,
        request: ChatRequest,
        state: _AnswerState,
        question: Message,
        content: str,
        stopped: bool,
    ) -> Message:
        metadata: JsonObject = {"answers": question.id}
        if request.retry:
            metadata[FOLLOWS_KEY] = question.id
        if stopped:
            metadata["incomplete"] = "stopped"
        elif state.error is not None:
            metadata["incomplete"] = state.error.code
        elif state.answer.finish_reason == "length":
            metadata["incomplete"] = "length"
        request_id = request.id if request.retry else question.id
        fields = {
            "role": "assistant", "content": content, "id": None if request_id is None else answer_id(request_id),
            "model_variant": answers.name_model(state.answer, state.model), "metadata": metadata,
        }  # fmt: skip
        (stored,) = await memory.put(request.conversation, [fields], anchor=state.anchor)
        return stored.message


async def _is_first_answer(memory: AsyncMemory, request: ChatRequest, question: Message | None) -> bool:
    """Return whether no answer of the built-in assistant stands right before the question."""
    if question is None:
        return not request.history
    before = await memory.history(request.conversation, before=question.seq, limit=1)
    return not before or not before[-1].only_quotes


def answer_id(question_id: str) -> str:
    """Return the id of the answer to a question.

    It depends on the question's id alone, so a repeated request cannot store a second answer.
    """
    return "a-" + hashlib.sha256(question_id.encode()).hexdigest()[:40]


def _replay(answer: Message, state: _AnswerState, run: ChatRun) -> None:
    """Publish a stored answer as if it were written now, with empty sources."""
    question = state.question.to_dict() if state.question is not None else None
    context: JsonObject = {"tokens": 0, "budget": None, "ms": 0.0, "degraded": []}
    data: JsonObject = {"message": question, "model": answer.model_variant, "context": context, "sources": []}
    run.publish("sources", data | {"notice": None})
    run.publish("delta", {"content": answer.content})
    incomplete = (answer.metadata or {}).get("incomplete")
    reason = incomplete if incomplete in (None, "stopped", "length") else "error"
    done = {
        "message": answer.to_dict(),
        "model": answer.model_variant,
        "finish_reason": reason or "stop",
        "usage": None,
    }
    run.publish("done", done | {"ms": state.times(), "stopped": incomplete == "stopped", "error": None})
    run.end()


def _to_recollect_error(error: Exception, what: str) -> RecollectError:
    """Return our own errors as they are. Log any other one, and return an error without the original message."""
    if isinstance(error, RecollectError):
        return error
    log_unexpected(log, what, error)
    return RecollectError("unexpected", "Something unexpected failed; the log says where.")
