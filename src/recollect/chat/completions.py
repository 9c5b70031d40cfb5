"""Chat completions with memory: what any client of the OpenAI API sends, remembered and made smaller.

The client's own history is merged into the log by what it says. The prompt that goes on has the client's system
messages, what memory holds, and the client's newest messages untouched, as far back as the tail of the context goes;
calls of tools and all other fields pass through. If memory fails, the request passes through as it came.
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

from recollect.chat import answers
from recollect.chat.chats import Mode
from recollect.core import assistant, history_match
from recollect.core.answer_pieces import Answer
from recollect.core.drafts import within_limit
from recollect.core.errors import ProviderUnavailable, RecollectError
from recollect.core.models import Context, JsonObject, Message
from recollect.core.text import storable
from recollect.memory import AsyncMemory
from recollect.providers.chat import Upstream
from recollect.providers.tokenizer import count_tokens_for_messages
from recollect.recall.prompt.fence import OPEN
from recollect.runtime.error_log import log_unexpected

log = logging.getLogger(__name__)

INSTRUCTIONS: Final = ("system", "developer")
NAME_LIMIT: Final = 200
LOOK: Final = 0.05  # seconds


@dataclass(slots=True)
class Completion:
    """One request on its way: what goes on to the model, and what is remembered of it."""

    memory: AsyncMemory
    request: JsonObject
    conversation: str
    mode: Mode
    question: str = ""
    asked: Message | None = None  # the newest message of the client, as stored
    degraded: list[str] = field(default_factory=list)
    memory_tokens: int = 0
    context_ms: float = 0.0
    answer: Answer = field(default_factory=Answer)
    held: ExitStack = field(default_factory=ExitStack)  # closed when the answer has ended

    @property
    def model(self) -> str:
        return str(self.request["model"])


class Completions:
    def __init__(self, upstream: Upstream | None) -> None:
        self._upstream = upstream
        self._running: Counter[str] = Counter()
        self._storing: set[asyncio.Task[None]] = set()

    def running(self, person: str) -> int:
        """How many answers are being written for somebody."""
        return self._running[person]

    @contextmanager
    def counted(self, person: str) -> Iterator[None]:
        """One more of them, for as long as it takes."""
        self._running[person] += 1
        try:
            yield
        finally:
            self._running[person] -= 1
            if not self._running[person]:
                del self._running[person]

    async def close(self, patience: float) -> None:
        """Wait until what was answered is stored; streams that go on have been told to end by whoever closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._running or self._storing:  # noqa: ASYNC110 - they tell nobody
                    await asyncio.sleep(LOOK)

    def is_built_in(self, completion: Completion) -> bool:
        return answers.is_built_in(self._upstream, completion.model)

    async def models(self) -> list[JsonObject]:
        own: JsonObject = {"id": assistant.NAME, "object": "model", "owned_by": "recollect"}
        others = await self._upstream.models() if self._upstream is not None else []
        return [{"created": 0, **one} for one in (own, *others)]

    async def prepare(
        self, memory: AsyncMemory, request: Mapping[str, Any], *, conversation: str | None, mode: Mode
    ) -> Completion:
        """Remember what is new in the client's messages, and put memory into the prompt."""
        made = Completion(memory, dict(request), conversation or conversation_of(request), mode)
        default = self._upstream.default if self._upstream is not None else assistant.NAME
        made.request["model"] = made.request.get("model") or default
        talk = [message for message in request["messages"] if message.get("role") not in INSTRUCTIONS]
        places = [place for place, message in enumerate(talk) if message.get("role") == "user"]
        made.question = storable(history_match.text_of(talk[places[-1]].get("content")))[0] if places else ""
        if mode == "off" or not places:
            return made
        try:
            await self._remember(made, talk, places[-1])
        except RecollectError as error:
            log.warning("a completion passes through without memory: %s", error.code)
            made.degraded.append("memory")
        except Exception as error:  # noqa: BLE001 - the request passes through
            log_unexpected(log, "the memory of a completion", error)
            made.degraded.append("memory")
        return made

    async def _remember(self, made: Completion, talk: Sequence[Mapping[str, Any]], question: int) -> None:
        stored: Sequence[Message | None] = [None] * len(talk)
        if made.mode == "on":
            stored = await made.memory.merge(made.conversation, talk)
            made.asked = stored[-1]
        if not made.question.strip():
            return
        asked = stored[question]
        began = time.perf_counter()
        system = [message for message in made.request["messages"] if message.get("role") in INSTRUCTIONS]
        settings = await made.memory.settings()
        budget = max(0, settings.memory_prompt_token_budget - _tokens(system))
        context = await made.memory.context(
            made.conversation,
            made.question,
            budget=max(budget, settings.memory_prompt_token_budget // 2),
            before=asked.seq if asked is not None else None,
            everywhere=True,
        )
        made.context_ms = (time.perf_counter() - began) * 1000
        made.degraded += context.degraded
        block, older, begins = _parts(context, stored, question)
        made.memory_tokens = _tokens(block)
        made.request["messages"] = [*system, *block, *older, *talk[begins:]]

    # Answers

    async def complete(self, made: Completion) -> JsonObject:
        """The whole answer, as the model gave it."""
        if self._upstream is None or self.is_built_in(made):
            made.answer.content = await self._quotes(made)
            reply = _completion(made, {"message": {"role": "assistant", "content": made.answer.content}})
        else:
            reply = await self._upstream.complete(made.request)
            made.answer.take_whole(reply)
        await self.store(made)
        return reply

    async def stream(self, made: Completion) -> AsyncGenerator[JsonObject, None]:
        """The answer in pieces, as they come. It is stored when it ends, also when it ends too early."""
        reason: str | None = "client_gone"
        try:
            if self._upstream is None or self.is_built_in(made):
                async for piece in self._quoted_pieces(made):
                    yield piece
            else:
                async with aclosing(self._upstream.stream(made.request)) as pieces:
                    async for piece in pieces:
                        made.answer.take(piece)
                        yield piece
                if made.answer.is_empty and made.answer.finish_reason is None:
                    raise ProviderUnavailable("provider_bad_reply", f"{self._upstream.host} answered with nothing.")
            reason = None
        except RecollectError as error:
            reason = error.code
            raise
        finally:
            made.held.close()
            storing = asyncio.create_task(self.store(made, incomplete=reason))
            self._storing.add(storing)
            storing.add_done_callback(self._storing.discard)
            await asyncio.shield(storing)

    async def _quoted_pieces(self, made: Completion) -> AsyncGenerator[JsonObject, None]:
        text = await self._quotes(made)
        yield _chunk(made, {"role": "assistant", "content": ""})
        for piece in assistant.pieces(text):
            made.answer.content += piece
            yield _chunk(made, {"content": piece})
        yield _chunk(made, {}, finish="stop")
        options = made.request.get("stream_options")
        if isinstance(options, Mapping) and options.get("include_usage"):
            yield _chunk(made, None) | {"usage": _usage(made)}

    async def _quotes(self, made: Completion) -> str:
        if not made.question.strip():
            return f"{assistant.NOTHING}\n\n{assistant.HOW}"
        return await answers.quotes(made.memory, None, made.question, recall=made.mode != "off")

    async def store(self, made: Completion, *, incomplete: str | None = None) -> None:
        """Keep the answer behind the message it answers. The worker is told now that the answer has ended."""
        answer, asked = made.answer, made.asked
        if made.mode == "on" and asked is not None and not answer.is_empty:
            text = answer.content or answer.refusal
            if text != (text := within_limit(text)):
                incomplete = "length"
            said = history_match.Said("assistant", text, tool_calls=tuple(answer.tool_calls or ()) or None)
            told: JsonObject = {history_match.FOLLOWS: asked.id}
            if incomplete is not None:
                told["incomplete"] = incomplete
            variant = assistant.NAME if self.is_built_in(made) else (answer.model or made.model)[:NAME_LIMIT]
            fields = {
                "role": "assistant", "content": text, "id": history_match.new_id(asked.id, said), "metadata": told,
                "tool_calls": answer.tool_calls, "model_variant": variant,
            }  # fmt: skip
            try:
                await made.memory.put(made.conversation, [fields])
            except RecollectError as error:
                log.warning("an answer cannot be stored: %s", error.code)
                made.degraded.append("store")
            except Exception as error:  # noqa: BLE001 - whoever asked has the answer
                log_unexpected(log, "storing an answer", error)
                made.degraded.append("store")
        made.memory.notice()


def conversation_of(request: Mapping[str, Any]) -> str:
    """What the request names, or else a name made of what the talk began with."""
    metadata = request.get("metadata")
    given = metadata if isinstance(metadata, Mapping) else {}
    for name in (given.get("conversation"), given.get("conversation_id"), request.get("user")):
        if isinstance(name, str) and name.strip() and len(name) <= NAME_LIMIT and storable(name)[1] == 0:
            return name
    first: Mapping[str, Any] = next((message for message in request["messages"] if message.get("role") == "user"), {})
    digest = hashlib.sha256(history_match.text_of(first.get("content")).strip().encode("utf-8", "replace")).hexdigest()
    return f"chat-{digest[:16]}"


def _parts(
    context: Context, stored: Sequence[Message | None], question: int
) -> tuple[list[JsonObject], list[JsonObject], int]:
    """What memory holds; stored turns that the client did not send; and where the client's own messages begin."""
    parts = {part["name"]: part["items"] for part in context.explain["parts"]}
    tail: list[JsonObject] = parts.get("tail", [])
    held = list(context.messages[:-1])  # without the question, which the client's own messages end with
    block = held[:1] if held and str(held[0]["content"]).startswith(OPEN) else []
    if len(held) - len(block) != len(tail):
        tail, held = [], block  # excerpts of what the client has whole
    ours = {message.id: place for place, message in enumerate(stored) if message is not None}
    older = [dict(one) for item, one in zip(tail, held[len(block) :], strict=True) if item["message_id"] not in ours]
    places = [ours[item["message_id"]] for item in tail if item["message_id"] in ours]
    return [dict(one) for one in block], older, min([question, *places])


def _tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    texts = [{"role": str(one.get("role")), "content": history_match.text_of(one.get("content"))} for one in messages]
    return count_tokens_for_messages(texts) if texts else 0


def _usage(made: Completion) -> JsonObject:
    asked = _tokens(made.request["messages"])
    said = count_tokens_for_messages([{"role": "assistant", "content": made.answer.content}])
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _completion(made: Completion, choice: JsonObject) -> JsonObject:
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None} | choice
    return _head(made, "chat.completion") | {"choices": [choice], "usage": _usage(made)}


def _chunk(made: Completion, delta: JsonObject | None, *, finish: str | None = None) -> JsonObject:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    return _head(made, "chat.completion.chunk") | {"choices": choices}


def _head(made: Completion, kind: str) -> JsonObject:
    asked = made.asked.id if made.asked is not None else made.conversation
    digest = hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()[:24]
    created = int(made.memory.clock.now().timestamp())
    return {"id": f"chatcmpl-{digest}", "object": kind, "created": created, "model": assistant.NAME}
