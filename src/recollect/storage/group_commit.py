"""Stores items in groups, for a database whose driver has no writer thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from recollect.core.errors import StoreUnavailable
from recollect.storage.driver import Handler, I, T

MAX_GROUP_ITEMS: Final = 512  # at most so many items per transaction

_WaitingItem = tuple[Any, Future[Any]]


class GroupCommit:
    """Stores items in groups: while one group is being stored, new items wait and become the next group.

    `run` handles items in one transaction. `start` starts a function on another thread.
    """

    def __init__(
        self,
        run: Callable[[Handler[Any, Any], Sequence[Any]], Sequence[Any]],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        self._run, self._start = run, start
        self._lock = threading.Lock()
        self._waiting: dict[Handler[Any, Any], deque[_WaitingItem]] = {}
        self._active: set[Handler[Any, Any]] = set()

    def add(self, handler: Handler[I, T], item: I) -> Future[T]:
        """Store an item with the next group of its handler."""
        future: Future[T] = Future()
        with self._lock:
            self._waiting.setdefault(handler, deque()).append((item, future))
            if handler in self._active:
                return future
            self._active.add(handler)
        self._start(lambda: self._serve(handler))
        return future

    def _serve(self, handler: Handler[Any, Any]) -> None:
        while True:
            with self._lock:
                waiting = self._waiting[handler]
                group = [waiting.popleft() for _ in range(min(len(waiting), MAX_GROUP_ITEMS))]
                if not group:
                    self._active.discard(handler)
                    return
            self._store(handler, [(item, future) for item, future in group if future.set_running_or_notify_cancel()])

    def _store(self, handler: Handler[Any, Any], group: list[_WaitingItem]) -> None:
        """Store all items at once. If that fails, store them one by one, so that each failure is one item's."""
        if not group:
            return
        try:
            results = self._run(handler, [item for item, _ in group])
        except BaseException as error:  # noqa: BLE001 - handed to those who wait for the futures
            if len(group) == 1 or isinstance(error, StoreUnavailable):
                for _, future in group:
                    future.set_exception(error)
            else:
                for waiting_item in group:
                    self._store(handler, [waiting_item])
        else:
            for (_, future), result in zip(group, results, strict=True):
                future.set_result(result)
