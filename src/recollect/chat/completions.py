"""Chat completions with memory, for any client of the OpenAI API.

The client sends its own history. New messages of it are stored; those that are stored already are recognised by their
text and order. The prompt for the model has the client's system messages, then the client's newest messages, as far
back as the tail of the context goes, with what memory holds at the head of the first one. Tool calls and all other
fields pass through. If memory fails, the request passes through as the client sent it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.chat import answers, client_tail
from recollect.chat.erasure_watch import ErasureWatch
from recollect.chat.run import MemoryMode
from recollect.core import assistant, history_match, task_prompts, unnamed_chat
from recollect.core.answer_pieces import StreamedAnswer
from recollect.core.errors import ProviderUnavailable, RecollectError, question_erased
from recollect.core.message import Anchor, Message, storable_calls, within_limit
from recollect.core.models import JsonObject
from recollect.core.task_prompts import INSTRUCTION_ROLES
from recollect.core.text import replace_unstorable
from recollect.memory import AsyncMemory
from recollect.providers.chat import Upstream
from recollect.providers.token_counts import count_tokens_for_messages
from recollect.recall.prompt.alternation import ASSISTANT_BEGINS, alternate, join, put_memory
from recollect.runtime.error_log import log_unexpected
from recollect.runtime.ids import new_id

log = logging.getLogger(__name__)

MAX_NAME_CHARACTERS: Final = 200
CLOSE_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """Tells whether a client may have sent the same request before."""

    key: str | None = None  # the same for every repetition of the request
    is_retry: bool = False


FIRST_ATTEMPT: Final = Attempt()


@dataclass(slots=True)
class Completion:
    """One request of a client: what goes to the model, what was stored of it, and the answer so far."""

    memory: AsyncMemory
    request: JsonObject
    conversation: str | None  # None: not named and not found yet, or nothing is stored
    mode: MemoryMode
    client_messages: Sequence[Mapping[str, Any]] = ()  # as the client sent them, without memory
    question: str = ""
    newest: Message | None = None  # the client's newest message, as stored
    anchor: Anchor | None = None  # where the answer belongs; None if nothing is stored
    degraded: list[str] = field(default_factory=list)
    memory_tokens: int = 0
    context_ms: float = 0.0
    left_out: int = 0  # messages of the client's history that had no room in the prompt
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    on_end: ExitStack = field(default_factory=ExitStack)  # closed when the answer has ended
    cut_by: str = "client_gone"  # why it is incomplete, if its stream is closed before the end
    is_task: bool = False  # asked by a front-end for itself: no part of a conversation

    @property
    def model(self) -> str:
        return str(self.request["model"])


class Completions:
    """Prepares, answers and stores the requests of clients of the OpenAI API, in this process."""

    def __init__(self, upstream: Upstream | None) -> None:
        self._upstream = upstream
        self._running: Counter[str] = Counter()  # by person
        self._storing: set[asyncio.Task[None]] = set()
        self._erasures = ErasureWatch()

    def count_running(self, person: str) -> int:
        """Return how many answers are being written for a person."""
        return self._running[person]

    @contextmanager
    def counted(self, person: str) -> Iterator[None]:
        """Count one more running answer of a person while the context lasts."""
        self._running[person] += 1
        try:
            yield
        finally:
            self._running[person] -= 1
            if not self._running[person]:
                del self._running[person]

    async def close(self, grace_seconds: float) -> None:
        """Wait until all answers are stored, at most `grace_seconds`. Open streams are ended by the server itself."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._running or self._storing:  # noqa: ASYNC110 - nothing signals their end
                    await asyncio.sleep(CLOSE_POLL_SECONDS)

    def is_built_in(self, completion: Completion) -> bool:
        """Return whether the built-in assistant answers this request."""
        return answers.is_built_in(self._upstream, completion.model)

    async def models(self) -> list[JsonObject]:
        """Return the built-in assistant and the models of the configured address, as OpenAI lists models."""
        built_in: JsonObject = {"id": assistant.NAME, "object": "model", "owned_by": "recollect"}
        others = await self._upstream.models() if self._upstream is not None else []
        return [{"created": 0, **model} for model in (built_in, *others)]

    async def prepare(
        self,
        memory: AsyncMemory,
        request: Mapping[str, Any],
        *,
        conversation: str | None,
        mode: MemoryMode | None,
        attempt: Attempt = FIRST_ATTEMPT,
    ) -> Completion:
        """Store the client's new messages, and put memory into the prompt. If memory fails, the prompt is unchanged.

        That the question was erased meanwhile is raised. Without a mode, memory is on, except for what front-ends ask
        for themselves.
        """
        is_task = mode is None and task_prompts.is_task(request["messages"])
        mode = mode or ("off" if is_task else "on")
        conversation = None if is_task else conversation or named_conversation(request)
        completion = Completion(memory, dict(request), conversation, mode, is_task=is_task)
        completion.client_messages = request["messages"]
        default = self._upstream.default if self._upstream is not None else assistant.NAME
        completion.request["model"] = completion.request.get("model") or default
        dialogue = [message for message in request["messages"] if message.get("role") not in INSTRUCTION_ROLES]
        user_indexes = [index for index, message in enumerate(dialogue) if message.get("role") == "user"]
        if user_indexes:
            text = history_match.read_content(dialogue[user_indexes[-1]].get("content"))
            completion.question = replace_unstorable(text)[0]
        if mode == "off" or not user_indexes:
            return completion
        try:
            await self._use_memory(completion, dialogue, user_indexes[-1], attempt)
        except RecollectError as error:
            if error.code == question_erased().code:
                raise
            log.warning("a completion passes through without memory: %s", error.code)
            completion.degraded.append("memory")
        except Exception as error:  # noqa: BLE001 - the request passes through
            log_unexpected(log, "the memory of a completion", error)
            completion.degraded.append("memory")
        return completion

    async def _use_memory(
        self, completion: Completion, dialogue: Sequence[Mapping[str, Any]], question_index: int, attempt: Attempt
    ) -> None:
        """Store the new messages of the dialogue, then replace the request's messages by a prompt with memory."""
        stored: Sequence[Message | None] = [None] * len(dialogue)
        if completion.mode == "on":
            messages = await completion.memory.merge_aligned(
                completion.conversation, dialogue, request_key=attempt.key, is_retry=attempt.is_retry
            )
            answered = [message for message in (messages[question_index], messages[-1]) if message is not None]
            completion.conversation = answered[-1].conversation
            anchor = await completion.memory.anchor(answered[-1].conversation, answered)
            completion.newest, completion.anchor = answered[-1], anchor  # only both together store an answer
            stored = messages
        elif completion.conversation is None:
            completion.conversation = await completion.memory.find_conversation(dialogue)
        if not completion.question.strip():
            return
        question = stored[question_index]
        start = time.perf_counter()
        system = [message for message in completion.request["messages"] if message.get("role") in INSTRUCTION_ROLES]
        settings = await completion.memory.settings()
        budget = max(0, settings.memory_prompt_token_budget - _count_tokens(system))
        name = completion.conversation or unnamed_chat.NAME_PREFIX + new_id(completion.memory.clock.now())
        path = client_tail.read_path(name, dialogue[:question_index], stored, completion.memory.clock.now())
        context = await completion.memory.context(
            name,
            completion.question,
            budget=max(budget, settings.memory_prompt_token_budget // 2),
            before=question.seq if question is not None else None,
            newest=path,
            everywhere=True,
        )
        completion.context_ms = (time.perf_counter() - start) * 1000
        completion.degraded += context.degraded
        completion.memory_tokens = _count_tokens([{"role": "user", "content": context.memory}]) if context.memory else 0
        if path is None:
            tail = alternate(context.tail, opening="" if context.memory else ASSISTANT_BEGINS)
        else:
            tail = client_tail.choose_sent(context, path, dialogue)
            completion.left_out = question_index - len(context.tail)
        talk = join(tail, dialogue[question_index:])
        completion.request["messages"] = [*system, *put_memory(context.memory, talk)]

    # Answers

    async def complete(self, completion: Completion) -> JsonObject:
        """Return the whole answer as the model gave it, and store it."""
        if self._upstream is None or self.is_built_in(completion):
            completion.answer.add_text(await self._quote_memory(completion))
            content = completion.answer.content + self._notice_after(completion)
            reply = _to_completion_json(completion, {"message": {"role": "assistant", "content": content}})
        else:
            with self._erasures.watch(completion.memory, completion.anchor) as watched:
                async with watched:
                    reply = await self._upstream.complete(completion.request)
            completion.answer.add_reply(reply)
        await self.store(completion)
        return reply

    async def stream(self, completion: Completion) -> AsyncGenerator[JsonObject, None]:
        """Yield the answer as chunks in OpenAI's form. It is stored when the stream ends, also if it ends early."""
        incomplete: str | None = None
        try:
            if self._upstream is None or self.is_built_in(completion):
                async for chunk in self._quote_in_chunks(completion):
                    yield chunk
            else:
                async with aclosing(self._stream_upstream(self._upstream, completion)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                if completion.answer.is_empty and completion.answer.finish_reason is None:
                    raise ProviderUnavailable("provider_bad_reply", f"{self._upstream.host} answered with nothing.")
        except RecollectError as error:
            incomplete = error.code
            raise
        except BaseException:  # the stream is closed or cancelled
            incomplete = completion.cut_by
            raise
        finally:
            completion.on_end.close()
            storing = asyncio.create_task(self.store(completion, incomplete=incomplete))
            self._storing.add(storing)
            storing.add_done_callback(self._storing.discard)
            await asyncio.shield(storing)

    async def _stream_upstream(self, upstream: Upstream, completion: Completion) -> AsyncGenerator[JsonObject, None]:
        """Yield the chunks of the model, until the question is erased."""
        with self._erasures.watch(completion.memory, completion.anchor) as watched:
            async with aclosing(upstream.stream(completion.request)) as chunks:
                while True:
                    async with watched:
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    completion.answer.add_chunk(chunk)
                    yield chunk

    async def _quote_in_chunks(self, completion: Completion) -> AsyncGenerator[JsonObject, None]:
        text = await self._quote_memory(completion)
        yield _to_chunk_json(completion, {"role": "assistant", "content": ""})
        for piece in assistant.split_for_streaming(text):
            completion.answer.add_text(piece)
            yield _to_chunk_json(completion, {"content": piece})
        if notice := self._notice_after(completion):
            yield _to_chunk_json(completion, {"content": notice})
        yield _to_chunk_json(completion, {}, finish_reason="stop")
        options = completion.request.get("stream_options")
        if isinstance(options, Mapping) and options.get("include_usage"):
            yield _to_chunk_json(completion, None) | {"usage": _count_usage(completion)}

    async def _quote_memory(self, completion: Completion) -> str:
        if completion.is_task:
            return task_prompts.build_answer(completion.request["messages"])
        quoted = await answers.quote_memory(
            completion.memory,
            None,
            completion.question,
            recall=completion.mode != "off",
            is_stored=completion.newest is not None,
        )
        return quoted.text

    def _notice_after(self, completion: Completion) -> str:
        """Return what is sent after the first answer of a chat if no model is set. It is not stored.

        Clients show nothing but the content. They send it back, so `to_client_message` takes the notice off again.
        """
        messages = completion.client_messages
        is_first = not any(message.get("role") == "assistant" for message in messages)
        is_due = self._upstream is None and is_first and not completion.is_task
        return f"\n\n{assistant.notice(completion.question)}" if is_due else ""

    async def store(self, completion: Completion, *, incomplete: str | None = None) -> None:
        """Store the answer after the message that it answers, then wake the worker. A failure is logged, not raised."""
        answer, newest = completion.answer, completion.newest
        if completion.mode == "on" and newest is not None and not answer.is_empty:
            text = answer.content or answer.refusal
            if text != (text := within_limit(text)):
                incomplete = "length"
            calls = tuple(answer.tool_calls or ()) or None
            message = history_match.ClientMessage("assistant", text, tool_calls=calls)
            metadata: JsonObject = {history_match.FOLLOWS_KEY: newest.id}
            stored_calls, has_all_calls = storable_calls(calls)
            if not has_all_calls:
                incomplete = incomplete or "tool_calls"
            if incomplete is not None:
                metadata["incomplete"] = incomplete
            variant = assistant.NAME if self.is_built_in(completion) else answers.name_model(answer, completion.model)
            fields = {
                "role": "assistant", "content": text, "id": history_match.derive_message_id(newest.id, message),
                "metadata": metadata, "tool_calls": stored_calls, "model_variant": variant,
            }  # fmt: skip
            try:
                await completion.memory.put(newest.conversation, [fields], anchor=completion.anchor)
            except RecollectError as error:
                log.warning("an answer cannot be stored: %s", error.code)
                completion.degraded.append("store")
            except Exception as error:  # noqa: BLE001 - the client has its answer all the same
                log_unexpected(log, "storing an answer", error)
                completion.degraded.append("store")
        completion.memory.notice()


def named_conversation(request: Mapping[str, Any]) -> str | None:
    """Return the conversation that the request names in its metadata, if any."""
    metadata = request.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    for name in (metadata.get("conversation"), metadata.get("conversation_id")):
        if (
            isinstance(name, str)
            and name.strip()
            and len(name) <= MAX_NAME_CHARACTERS
            and replace_unstorable(name)[1] == 0
        ):
            return name
    return None


def _count_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    texts = [
        {"role": str(message.get("role")), "content": history_match.read_content(message.get("content"))}
        for message in messages
    ]
    return count_tokens_for_messages(texts) if texts else 0


def _count_usage(completion: Completion) -> JsonObject:
    prompt = _count_tokens(completion.request["messages"])
    answer = count_tokens_for_messages([{"role": "assistant", "content": completion.answer.content}])
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


# The built-in assistant's answer in OpenAI's form


def _to_completion_json(completion: Completion, choice: JsonObject) -> JsonObject:
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None} | choice
    return _head(completion, "chat.completion") | {"choices": [choice], "usage": _count_usage(completion)}


def _to_chunk_json(completion: Completion, delta: JsonObject | None, *, finish_reason: str | None = None) -> JsonObject:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return _head(completion, "chat.completion.chunk") | {"choices": [] if delta is None else [choice]}


def _head(completion: Completion, kind: str) -> JsonObject:
    seed = completion.newest.id if completion.newest is not None else str(completion.conversation)
    digest = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:24]
    created = int(completion.memory.clock.now().timestamp())
    return {"id": f"chatcmpl-{digest}", "object": kind, "created": created, "model": assistant.NAME}
