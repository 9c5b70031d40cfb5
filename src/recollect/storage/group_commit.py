"""Storing together what waits together, for a database whose driver has no writer thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from recollect.core.errors import StoreUnavailable
from recollect.storage.driver import Handler, I, T

GROUP_LIMIT: Final = 512

_Waiting = tuple[Any, Future[Any]]


class Together:
    """While one group of items is being stored, new ones wait and become the next group.

    `run` handles items in one transaction; `start` begins a piece of work on some other thread.
    """

    def __init__(
        self,
        run: Callable[[Handler[Any, Any], Sequence[Any]], Sequence[Any]],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        self._run, self._start = run, start
        self._lock = threading.Lock()
        self._waiting: dict[Handler[Any, Any], deque[_Waiting]] = {}
        self._served: set[Handler[Any, Any]] = set()

    def add(self, handler: Handler[I, T], item: I) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            self._waiting.setdefault(handler, deque()).append((item, future))
            if handler in self._served:
                return future
            self._served.add(handler)
        self._start(lambda: self._serve(handler))
        return future

    def _serve(self, handler: Handler[Any, Any]) -> None:
        while True:
            with self._lock:
                waiting = self._waiting[handler]
                group = [waiting.popleft() for _ in range(min(len(waiting), GROUP_LIMIT))]
                if not group:
                    self._served.discard(handler)
                    return
            self._store(handler, [one for one in group if one[1].set_running_or_notify_cancel()])

    def _store(self, handler: Handler[Any, Any], group: list[_Waiting]) -> None:
        """All at once; if that fails, one by one, so that a failure stays with the item that caused it."""
        if not group:
            return
        try:
            results = self._run(handler, [item for item, _ in group])
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the futures
            if len(group) == 1 or isinstance(error, StoreUnavailable):
                for _, future in group:
                    future.set_exception(error)
            else:
                for one in group:
                    self._store(handler, [one])
        else:
            for (_, future), result in zip(group, results, strict=True):
                future.set_result(result)
