"""Memory: the synchronous face of AsyncMemory.

Every call runs on one event loop in a background thread, and the caller waits for its result. Signatures, types and
docstrings are those of AsyncMemory: see the modules of `recollect.memory`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from copy import copy
from datetime import datetime
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from recollect.core.message import Message
from recollect.core.models import Principal
from recollect.core.protocols import Clock, Embedder, Model
from recollect.memory import AsyncMemory
from recollect.runtime.forks import HomeProcess, keep_in_children
from recollect.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

CLOSE_GRACE_SECONDS: Final = 1.0  # calls of other threads may take so long to end when the memory is closed


def _waits_for(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Memory, P], T]:
    """Return a method of Memory that calls this method of AsyncMemory and waits for its result."""

    def call_and_wait(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self._engine, *args, **kwargs))

    update_wrapper(call_and_wait, method, assigned=("__name__", "__doc__", "__annotations__"))
    call_and_wait.__qualname__ = f"Memory.{method.__name__}"
    return call_and_wait


def _documented_by(original: Callable[..., Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that copies the docstring of `original`."""

    def copy_docstring(method: Callable[P, T]) -> Callable[P, T]:
        method.__doc__ = original.__doc__
        return method

    return copy_docstring


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
        """Open the database at `location`, and create it if it is missing."""
        self._engine = AsyncMemory(
            location, person=person, department=department, ministry=ministry, clearances=clearances,
            settings=settings, model=model, embedder=embedder, clock=clock, worker=worker,
        )  # fmt: skip
        self._closing, self._is_view = threading.Lock(), False
        self._home = HomeProcess()  # the loop's thread runs in this process alone
        self._loop = asyncio.new_event_loop()
        keep_in_children(self._loop)  # closing a copy would take it from the parent
        self._thread = threading.Thread(target=self._loop.run_forever, name="recollect-loop", daemon=True)
        self._thread.start()
        try:
            self._wait(self._engine.open())
        except BaseException:
            self._end_loop()
            raise

    # Opening and closing

    @_documented_by(AsyncMemory.close)
    def close(self) -> None:
        if self._home.is_elsewhere:
            return
        with self._closing:
            if not self._is_view and not self._loop.is_closed():
                self._wait(self._engine.close())
                self._end_loop()

    @_documented_by(AsyncMemory.of)
    def of(
        self,
        person: str | Principal,
        *,
        department: str | None = None,
        ministry: str | None = None,
        clearances: Sequence[str] = (),
        actor: str | None = None,
    ) -> Self:
        async def view_engine() -> AsyncMemory:
            return self._engine.of(person, department=department, ministry=ministry, clearances=clearances, actor=actor)

        view = copy(self)
        view._engine, view._is_view = self._wait(view_engine()), True  # on the loop, which owns the settings of all
        return view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the background loop and return its result."""
        if self._home.is_elsewhere:
            call.close()
            self._home.check()
        if self._loop.is_closed():
            call.close()
            raise self._engine.closed_error()
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except CancelledError:
            raise self._engine.closed_error() from None

    def _end_loop(self) -> None:
        # On the loop's own thread: the caller may be inside another event loop.
        asyncio.run_coroutine_threadsafe(self._end_other_calls(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_other_calls(self) -> None:
        """Give calls of other threads a moment to end, then cancel them: no thread may wait for a loop that ended."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, unfinished = await asyncio.wait(others, timeout=CLOSE_GRACE_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    # The log

    @_documented_by(AsyncMemory.add)
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
        fields = {
            "role": role, "content": content, "id": id, "at": at, "name": name, "source": source,
            "tool_calls": tool_calls, "tool_call_id": tool_call_id, "model_variant": model_variant,
            "metadata": metadata, "importance": importance,
        }  # fmt: skip
        return self._store(conversation, [fields])[0]

    @_documented_by(AsyncMemory.add_many)
    def add_many(self, conversation: str, messages: Iterable[Mapping[str, Any]]) -> list[Message]:
        return self._store(conversation, list(messages))

    def _store(self, conversation: str, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Store messages through the writer, past the event loop: this halves the latency of an add."""
        stored = self._engine.submit(conversation, messages).result()
        self._engine.notice()
        return [appended.message for appended in stored]

    @_documented_by(AsyncMemory.merge)
    def merge(
        self,
        conversation: str | None,
        messages: Sequence[Mapping[str, Any]],
        *,
        request_key: str | None = None,
        is_retry: bool = False,
    ) -> list[Message]:
        merging = self._engine.merge(conversation, messages, request_key=request_key, is_retry=is_retry)
        merged = self._wait(merging)
        self._engine.notice()
        return merged

    find_conversation = _waits_for(AsyncMemory.find_conversation)
    append = _waits_for(AsyncMemory.append)
    history = _waits_for(AsyncMemory.history)
    find_message = _waits_for(AsyncMemory.find_message)
    conversations = _waits_for(AsyncMemory.conversations)
    conversation = _waits_for(AsyncMemory.conversation)
    update_conversation = _waits_for(AsyncMemory.update_conversation)

    # Questions

    recall = _waits_for(AsyncMemory.recall)
    context = _waits_for(AsyncMemory.context)
    similar = _waits_for(AsyncMemory.similar)
    embed = _waits_for(AsyncMemory.embed)

    # Topics

    topics = _waits_for(AsyncMemory.topics)
    topic = _waits_for(AsyncMemory.topic)
    topic_context = _waits_for(AsyncMemory.topic_context)
    topic_history = _waits_for(AsyncMemory.topic_history)
    topic_stats = _waits_for(AsyncMemory.topic_stats)
    topic_decay = _waits_for(AsyncMemory.topic_decay)
    search_topics = _waits_for(AsyncMemory.search_topics)
    related_topics = _waits_for(AsyncMemory.related_topics)
    merge_topics = _waits_for(AsyncMemory.merge_topics)
    unmerge_topic = _waits_for(AsyncMemory.unmerge_topic)
    split_topic = _waits_for(AsyncMemory.split_topic)
    tag_topic = _waits_for(AsyncMemory.tag_topic)
    pin_topic = _waits_for(AsyncMemory.pin_topic)
    rename_topic = _waits_for(AsyncMemory.rename_topic)
    weigh_topic = _waits_for(AsyncMemory.weigh_topic)
    change_topic = _waits_for(AsyncMemory.change_topic)
    archive_topic = _waits_for(AsyncMemory.archive_topic)
    restore_topic = _waits_for(AsyncMemory.restore_topic)
    feedback = _waits_for(AsyncMemory.feedback)

    # The brief

    brief = _waits_for(AsyncMemory.brief)
    brief_versions = _waits_for(AsyncMemory.brief_versions)
    compress = _waits_for(AsyncMemory.compress)

    # Profile, consent and audit

    profile = _waits_for(AsyncMemory.profile)
    set_profile = _waits_for(AsyncMemory.set_profile)
    consent = _waits_for(AsyncMemory.consent)
    set_consent = _waits_for(AsyncMemory.set_consent)
    revoke_consent = _waits_for(AsyncMemory.revoke_consent)
    audit = _waits_for(AsyncMemory.audit)

    # How well recall does

    metrics = _waits_for(AsyncMemory.metrics)
    tune = _waits_for(AsyncMemory.tune)
    bench = _waits_for(AsyncMemory.bench)

    # Settings

    settings = _waits_for(AsyncMemory.settings)
    setting_origins = _waits_for(AsyncMemory.setting_origins)

    @_documented_by(AsyncMemory.change_settings)  # written out: with **changes, mypy takes `self` for one of them
    def change_settings(self, **changes: Any) -> Settings:
        return self._wait(self._engine.change_settings(**changes))

    # Derived work, files, erasing, health

    drain = _waits_for(AsyncMemory.drain)
    rebuild = _waits_for(AsyncMemory.rebuild)
    export = _waits_for(AsyncMemory.export)
    import_file = _waits_for(AsyncMemory.import_file)
    backup = _waits_for(AsyncMemory.backup)
    restore = _waits_for(AsyncMemory.restore)
    erase = _waits_for(AsyncMemory.erase)
    stats = _waits_for(AsyncMemory.stats)
    check = _waits_for(AsyncMemory.check)
